//! bpf-linker: found where it fits, else built into the target directory, so that one of the
//! user's own is never replaced.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::shell;

/// The version that the committed object was linked with.
const VERSION: &str = "0.13.0";
/// The LLVM of Debian's compiler; the linker reads that compiler's bitcode.
pub const LLVM_MAJOR: u32 = 22;

/// Makes sure that a fitting linker is there, and says where.
pub fn ensure() -> Result<PathBuf> {
    let root = root()?;
    let ours = root.join("bin/bpf-linker");
    for candidate in [Some(ours.clone()), shell::find("bpf-linker")]
        .into_iter()
        .flatten()
    {
        if fits(&candidate) {
            return Ok(candidate);
        }
    }
    println!("setup: cargo install bpf-linker {VERSION} with LLVM {LLVM_MAJOR} (about a minute)");
    let prefix = format!("/usr/lib/llvm-{LLVM_MAJOR}");
    let path = env::var("PATH").context("PATH")?;
    shell::run(
        shell::cargo()?
            .args([
                "install",
                "bpf-linker",
                "--version",
                VERSION,
                "--locked",
                "--force",
                "--quiet",
            ])
            .args([
                "--no-default-features",
                "--features",
                &format!("llvm-{LLVM_MAJOR}"),
            ])
            .arg("--root")
            .arg(&root)
            .env("PATH", format!("{prefix}/bin:{path}"))
            .env("LLVM_PREFIX", &prefix),
    )?;
    if !fits(&ours) {
        bail!(
            "{} is not bpf-linker {VERSION} with LLVM {LLVM_MAJOR}",
            ours.display()
        );
    }
    Ok(ours)
}

/// The version a linker prints.
pub fn version(linker: &Path) -> Result<String> {
    let line = shell::read(Command::new(linker).arg("--version"))?;
    parse_version(&line).with_context(|| format!("{}: {line}", linker.display()))
}

fn root() -> Result<PathBuf> {
    Ok(shell::target_dir()?.join("tools"))
}

/// That it starts proves its LLVM is there; the name of that library stands in the file.
fn fits(linker: &Path) -> bool {
    version(linker).is_ok_and(|version| version == VERSION)
        && fs::read(linker).is_ok_and(|file| llvm_major(&file) == Some(LLVM_MAJOR))
}

fn parse_version(line: &str) -> Option<String> {
    let version = line
        .strip_prefix("bpf-linker ")?
        .split_whitespace()
        .next()?;
    version
        .starts_with(|first: char| first.is_ascii_digit())
        .then(|| version.to_owned())
}

/// Major version of the shared LLVM a program is linked with: `libLLVM.so.22.1` and
/// `libLLVM-22.so` are the names in use. None where LLVM is linked in statically.
fn llvm_major(program: &[u8]) -> Option<u32> {
    const NAMES: [&[u8]; 2] = [b"libLLVM.so.", b"libLLVM-"];
    (0..program.len()).find_map(|at| {
        let rest = &program[at..];
        let number = NAMES.iter().find_map(|name| rest.strip_prefix(*name))?;
        let end = number.iter().position(|byte| !byte.is_ascii_digit())?;
        str::from_utf8(&number[..end]).ok()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::{llvm_major, parse_version};

    #[test]
    fn version_of_the_linker() {
        assert_eq!(
            parse_version("bpf-linker 0.13.0").as_deref(),
            Some("0.13.0")
        );
        assert_eq!(
            parse_version("bpf-linker 0.13.0 (LLVM 22)").as_deref(),
            Some("0.13.0")
        );
        assert_eq!(parse_version("ld 2.40"), None);
        assert_eq!(parse_version("bpf-linker"), None);
    }

    #[test]
    fn llvm_of_the_linker() {
        assert_eq!(llvm_major(b"\0libc.so.6\0libLLVM.so.22.1\0"), Some(22));
        assert_eq!(llvm_major(b"\0libLLVM-19.so.1\0"), Some(19));
        assert_eq!(llvm_major(b"\0libLLVM-C.so\0libLLVM.so.21.1\0"), Some(21));
        assert_eq!(llvm_major(b"\0libc.so.6\0"), None);
        assert_eq!(llvm_major(b""), None);
    }
}
