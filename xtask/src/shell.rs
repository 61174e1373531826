//! Other programs: run them, read what they say, and name them in errors.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, Result, bail};

/// Root of the workspace, free of symbolic links, as the compiler sees it.
pub fn workspace() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .context("the workspace this xtask was built in is gone: run it as `cargo xtask`")
}

/// Where cargo puts what it builds.
pub fn target_dir() -> Result<PathBuf> {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => std::path::absolute(&dir).context("CARGO_TARGET_DIR"),
        None => Ok(workspace()?.join("target")),
    }
}

/// The cargo that runs us, to be started at the workspace's root.
pub fn cargo() -> Result<Command> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace()?);
    Ok(command)
}

/// Whether we may install packages, make namespaces and load programs.
pub fn is_root() -> Result<bool> {
    Ok(read(Command::new("id").arg("-u"))? == "0")
}

/// Runs a command with its output shown.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("start {}", line(command)))?;
    if !status.success() {
        bail!("{status}: {}", line(command));
    }
    Ok(())
}

/// What a command prints on its standard output, trimmed.
pub fn read(command: &mut Command) -> Result<String> {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .with_context(|| format!("start {}", line(command)))?;
    if !status.success() {
        bail!(
            "{status}: {}\n{}",
            line(command),
            String::from_utf8_lossy(&stderr)
        );
    }
    let text = String::from_utf8(stdout).with_context(|| format!("output of {}", line(command)))?;
    Ok(text.trim().to_owned())
}

/// First executable of this name on PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// SHA-256 of a file, in hexadecimal.
pub fn sha256(file: &Path) -> Result<String> {
    let sums = read(Command::new("sha256sum").arg("--").arg(file))?;
    let sum = sums
        .split_whitespace()
        .next()
        .context("sha256sum printed nothing")?;
    // A leading backslash marks a name that had to be escaped.
    Ok(sum.trim_start_matches('\\').to_owned())
}

fn line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().replace('\u{1f}', " "))
        .collect::<Vec<_>>()
        .join(" ")
}
