//! Every check there is, in the order in which a failure is cheapest to find.

mod count;
mod stages;

use std::{
    io::{self, BufRead, BufReader, Write},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    bench,
    ebpf::{self, Checked},
    faults,
    kernels::{self, Unavailable},
    setup::{self, Group},
    shell,
};
use count::Counts;
use stages::{Skipped, Stages};

/// Members that plain cargo commands leave out: the kernel program builds for BPF only, and the
/// end-to-end tests have a stage of their own.
const WITHOUT_KERNEL: [&str; 3] = ["--workspace", "--exclude", "overload-ebpf"];
const END_TO_END: &str = "overload-tests";

/// Runs all stages; the first failure ends it, under that stage's name.
pub fn run() -> Result<()> {
    if !shell::is_root()? {
        bail!("namespaces and XDP programs need root: run `cargo xtask test` as root");
    }
    let mut stages = Stages::default();
    let outcome = run_stages(&mut stages);
    print!("\n{stages}");
    outcome
}

fn run_stages(stages: &mut Stages) -> Result<()> {
    stages.run("setup", || setup::ensure(&[Group::Build, Group::Test]))?;
    stages.run("fmt", || {
        shell::run(shell::cargo()?.args(["fmt", "--all", "--check"]))
    })?;
    stages.run("build-ebpf", build_ebpf)?;
    stages.run("clippy", clippy)?;
    stages.run("clippy-ebpf", ebpf::clippy)?;
    stages.run("unit", unit)?;
    stages.run("controller", controller)?;
    stages.run("e2e", end_to_end)?;
    stages.run("faults", faults::run)?;
    stages.run("kernels", other_kernels)?;
    // Proves that every path can still be measured; asserts no time.
    stages.run("bench", || bench::run(true, None))?;
    stages.run("docs", docs)
}

fn build_ebpf() -> Result<()> {
    if ebpf::check()? == Checked::OtherTools {
        println!(
            "build-ebpf: the tests judge the object built here; it now stands in overload-ctl/bpf"
        );
        ebpf::install_checked()?;
    }
    Ok(())
}

fn clippy() -> Result<()> {
    shell::run(
        shell::cargo()?
            .args(["clippy", "--locked"])
            .args(WITHOUT_KERNEL)
            .args(["--all-targets", "--", "-D", "warnings"]),
    )
}

fn unit() -> Result<()> {
    let counts = cargo_test(
        shell::cargo()?
            .args(["test", "--locked"])
            .args(WITHOUT_KERNEL)
            .args(["--exclude", END_TO_END]),
    )?;
    counts.require_unit()
}

/// The end-to-end tests start the controller as its users do.
fn controller() -> Result<()> {
    shell::run(shell::cargo()?.args([
        "build",
        "--locked",
        "--release",
        "--package",
        "overload-ctl",
    ]))
}

fn end_to_end() -> Result<()> {
    let counts = cargo_test(shell::cargo()?.args([
        "test",
        "--locked",
        "--package",
        END_TO_END,
        "--",
        // Each has the machine to itself.
        "--test-threads=1",
    ]))?;
    counts.require_end_to_end()
}

fn other_kernels() -> Result<()> {
    kernels::run().map_err(|error| match error.downcast::<Unavailable>() {
        Ok(unavailable) => Skipped(unavailable.to_string()).into(),
        Err(error) => error,
    })
}

fn docs() -> Result<()> {
    shell::run(
        shell::cargo()?
            .args(["doc", "--locked", "--no-deps"])
            .args(WITHOUT_KERNEL)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

/// Runs `cargo test` with its output shown and counted. Cargo names a target on one stream and
/// the target reports on the other, so both go through one pipe.
fn cargo_test(command: &mut Command) -> Result<Counts> {
    let (reader, writer) = io::pipe().context("pipe")?;
    let mut child = command
        .stdout(writer.try_clone().context("pipe")?)
        .stderr(writer)
        .spawn()
        .context("start cargo test")?;
    // The command would keep our copies of the pipe's end open, and the reading would not end.
    command.stdout(io::stdout()).stderr(io::stderr());
    let mut counts = Counts::default();
    let mut out = io::stdout().lock();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("read from cargo test")?;
        out.write_all(&line)
            .and_then(|()| out.write_all(b"\n"))
            .context("write output")?;
        counts.read(&String::from_utf8_lossy(&line));
    }
    let status = child.wait().context("wait for cargo test")?;
    if !status.success() {
        bail!("cargo test: {status}");
    }
    Ok(counts)
}
