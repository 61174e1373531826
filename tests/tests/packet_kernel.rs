//! The program that `cargo xtask kernels` runs on other kernels, on this one.

use std::{collections::HashMap, process::Command};

use anyhow::{Context, Result, ensure};
use overload_ctl::datapath::object::{INGRESS, PASS};
use overload_tests::packet::fixture;

#[test]
fn c32_every_program_loads_attaches_and_runs() -> Result<()> {
    let output = Command::new(env!("CARGO_BIN_EXE_kernel-fixtures")).output()?;
    let report = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{report}");
    let count = fixture::all().len();
    assert!(count > 300, "{count}");
    let summary = format!("summary {count} fixtures, 0 failed");
    assert_eq!(report.lines().last(), Some(&summary[..]));
    for mode in ["attached native", "attached generic"] {
        assert!(report.lines().any(|line| line == mode), "{report}");
    }
    let verified: HashMap<&str, u32> = report
        .lines()
        .filter_map(|line| line.strip_prefix("verified ")?.split_once(' '))
        .map(|(name, count)| Ok((name, count.parse()?)))
        .collect::<Result<_>>()?;
    for name in [INGRESS, PASS] {
        let count = verified
            .get(name)
            .with_context(|| format!("no count of {name}"))?;
        assert!((1..=400_000).contains(count), "{name}: {count}");
    }
    Ok(())
}
