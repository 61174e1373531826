//! Known faults, seeded into the kernel program: each has to turn a test red.
//!
//! A test that stays green whatever the program does shows nothing. Each file of `tests/faults` is a patch of the
//! kernel program's sources that makes one mistake; it is applied to a copy of them, and the test it names runs
//! against what the copy builds to.

mod fault;

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};
use overload_tests::packet::{Filter, OBJECT_VARIABLE};

use crate::{ebpf, shell};
use fault::Fault;

/// What the copy is made of: the workspace's files, since cargo wants all its members.
const COPIED: [&str; 7] = [
    "Cargo.toml",
    "Cargo.lock",
    "overload-common",
    "overload-ctl",
    "overload-ebpf",
    "tests",
    "xtask",
];

/// Names in the directory of this: the copy of the sources, and the target directory it is built in.
const SOURCES: &str = "sources";
const BUILT: &str = "bpf";

/// Builds every fault and runs its test.
pub fn run() -> Result<()> {
    let faults = Fault::all()?;
    ensure!(
        !faults.is_empty(),
        "there is no fault in {}",
        fault::DIRECTORY
    );
    for fault in &faults {
        let text = test(fault, None)?;
        ensure!(
            fault.passed(&text),
            "{} does not pass as the program is:\n{text}",
            fault.test
        );
    }
    ebpf::check()?;
    let directory = shell::target_dir()?.join("faults");
    clear(&directory)?;
    shell::run(
        Command::new("cp")
            .arg("--archive")
            .arg(ebpf::own_target_dir()?)
            .arg(directory.join(BUILT)),
    )?;
    for fault in &faults {
        check(fault, &directory).with_context(|| fault.file.display().to_string())?;
        println!("faults: found by {}: {}", fault.test, fault.description);
    }
    Ok(())
}

fn check(fault: &Fault, directory: &Path) -> Result<()> {
    let sources = directory.join(SOURCES);
    copy(&sources)?;
    shell::run(
        Command::new("patch")
            .args(["--quiet", "--strip=1", "--forward"])
            // By default two lines of context may differ, which is all there is.
            .args(["--fuzz=1", "--no-backup-if-mismatch"])
            .arg("--input")
            .arg(&fault.file)
            .current_dir(&sources),
    )
    .context("the patch does not apply any more")?;
    let object = ebpf::build_copy(&sources, &directory.join(BUILT))?;
    Filter::of_object(&object).context("the kernel refuses the program with the fault")?;
    let text = test(fault, Some(&object))?;
    if !fault.failed(&text) {
        bail!("{} does not see: {}\n{text}", fault.test, fault.description);
    }
    Ok(())
}

/// Runs the fault's test, against another object if there is one, and gives what it prints.
fn test(fault: &Fault, object: Option<&Path>) -> Result<String> {
    let mut cargo = shell::cargo()?;
    cargo
        .args(["test", "--locked", "--quiet", "--package", "overload-tests"])
        .args(["--test", &fault.target, "--"])
        .args(["--format=pretty", "--exact", &fault.test])
        .env_remove(OBJECT_VARIABLE);
    if let Some(object) = object {
        cargo.env(OBJECT_VARIABLE, object);
    }
    let output = cargo.output().context("start cargo test")?;
    Ok(format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// Makes a fresh copy. Its files are new, so that cargo builds all of them: by the times of the originals it would
/// take what the last fault left for up to date.
fn copy(to: &Path) -> Result<()> {
    clear(to)?;
    shell::run(
        Command::new("cp")
            .arg("--recursive")
            .args(COPIED)
            .arg(to)
            .current_dir(shell::workspace()?),
    )
}

/// Makes an empty directory.
fn clear(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("remove {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))
}
