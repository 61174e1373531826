//! Loads, attaches and runs the filter on the kernel it is started on, and reports line by line.
//!
//! Built as one static file, it needs a kernel with veth and BTF, root, and a program `ip`: it is run on
//! kernels in an emulator by `cargo xtask kernels`, which reads the report. Without the last line, which begins
//! with `summary`, the report is not whole.

mod exchange;
mod wire;

use std::{fs, process::ExitCode, time::Instant};

use anyhow::{Context, Result, ensure};
use aya::programs::{TestRun, TestRunOptions};
use overload_ctl::datapath::{
    interface::AttachMode,
    object::{INGRESS, PASS},
};
use overload_tests::packet::{Datagram, Filter, base, fixture};

const XDP_PASS: u32 = 2;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("fault {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Gives how many fixtures failed.
fn run() -> Result<usize> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").context("kernel release")?;
    println!("kernel {}", release.trim());
    let start = Instant::now();
    let mut filter = Filter::new().context("load")?;
    println!("loaded {} ms", start.elapsed().as_millis());
    for name in [INGRESS, PASS] {
        let verified = filter
            .sandbox
            .program(name)?
            .info()?
            .verified_instruction_count()
            .context("the kernel does not count what it verifies")?;
        println!("verified {name} {verified}");
    }
    let mut pair = exchange::Pair::create()?;
    for mode in [AttachMode::Native, AttachMode::Generic] {
        pair.exchange(&mut filter, mode)
            .with_context(|| format!("{} mode", mode.name()))?;
        println!("attached {}", mode.name());
    }
    pass_passes(&mut filter)?;

    let fixtures = fixture::all();
    let mut failed = 0;
    for fixture in &fixtures {
        match fixture.run(&mut filter) {
            Ok(judged) => println!("fixture {}: {judged}", fixture.name()),
            Err(error) => {
                failed += 1;
                println!("fault {error:#}");
            }
        }
    }
    println!("summary {} fixtures, {failed} failed", fixtures.len());
    Ok(failed)
}

/// The program for the other end of a veth leaves a request alone.
fn pass_passes(filter: &mut Filter) -> Result<()> {
    let frame = Datagram::new(5062, base("pass").as_bytes()).frame();
    let mut out = vec![0; frame.len()];
    let result = filter.sandbox.program(PASS)?.test_run(TestRunOptions {
        data_in: Some(&frame),
        data_out: Some(&mut out),
        ..TestRunOptions::new()
    })?;
    ensure!(
        result.return_value == XDP_PASS && out == frame,
        "{PASS}: {}",
        result.return_value
    );
    Ok(())
}
