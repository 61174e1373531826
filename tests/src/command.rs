//! Commands that must succeed.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs a command to its end and gives what it wrote to standard output. Fails with its standard
/// error when the exit code is not 0.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
