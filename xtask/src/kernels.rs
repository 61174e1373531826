//! The filter on kernels other than this machine's.
//!
//! What the verifier accepts differs from kernel to kernel, and so do drivers and helpers. So one static
//! program loads, attaches and runs the filter here and, in an emulator, on the oldest supported kernel and a
//! newer one of Debian's. Nothing is installed: packages are unpacked under the target directory.

mod guest;
mod packages;
mod report;

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result};

use crate::shell;
use packages::Emulator;
use report::Report;

pub use packages::Unavailable;

/// Debian's packages that depend on the newest build of a kernel: that of Debian 12, the oldest supported, and
/// that of its backports.
const KERNELS: [&str; 2] = ["linux-image-cloud-amd64", "linux-image-6.12-cloud-amd64"];

/// Runs the fixtures on every kernel and prints what each made of them. The error is [`Unavailable`] where the
/// other kernels cannot be had.
pub fn run() -> Result<()> {
    let program = build()?;
    let here = Report::read(&String::from_utf8_lossy(
        &Command::new(&program)
            .output()
            .with_context(|| format!("start {}", program.display()))?
            .stdout,
    ));
    here.check(None).context("on this machine's kernel")?;

    let emulator = Emulator::fetch()?;
    let mut reports = vec![here];
    for name in KERNELS {
        let kernel = packages::fetch_kernel(name)?;
        println!("kernels: {}", kernel.release);
        let report = Report::read(&guest::boot(&emulator, &kernel, &program)?);
        report
            .check(reports.first())
            .with_context(|| format!("on kernel {}", kernel.release))?;
        reports.push(report);
    }
    print!("{}", report::Table(&reports));
    Ok(())
}

/// Builds the program that runs on every kernel. Only its own crate and the last link have to know that it is
/// static, so that everything it depends on is what the other tests were built from.
fn build() -> Result<PathBuf> {
    const NAME: &str = "kernel-fixtures";
    shell::run(shell::cargo()?.args([
        "rustc",
        "--locked",
        "--quiet",
        "--package",
        "overload-tests",
        "--bin",
        NAME,
        "--",
        "-C",
        "target-feature=+crt-static",
        "-C",
        "strip=symbols",
    ]))?;
    Ok(shell::target_dir()?.join("debug").join(NAME))
}
