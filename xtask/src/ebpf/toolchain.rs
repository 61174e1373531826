//! The compiler, its LLVM and the linker that make the kernel object.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::record::Tools;
use crate::{
    setup::{self, Group, linker},
    shell,
};

const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// A compiler pair that can build `core` for BPF.
pub struct Toolchain {
    kind: Kind,
    tools: Tools,
    linker: PathBuf,
    sysroot: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Debian's compiler, its library sources and its LLVM. The only one whose bytes are committed.
    Canonical,
    /// rustup's nightly with rust-src, and whatever bpf-linker and llvm-objcopy are on PATH.
    Nightly,
}

impl Kind {
    fn rustc(self) -> Command {
        let mut rustc = match self {
            Self::Canonical => Command::new(DEBIAN_RUSTC),
            Self::Nightly => rustup_nightly("rustc"),
        };
        without_cargo_environment(&mut rustc);
        rustc
    }
}

impl Toolchain {
    /// The canonical pair where it is installed, else a complete nightly, else the canonical pair
    /// after installing it.
    pub fn ensure() -> Result<Self> {
        if !setup::has_packages(Group::Build)
            && let Some(nightly) = Self::nightly()
        {
            return Ok(nightly);
        }
        setup::ensure(&[Group::Build])?;
        let llvm = shell::read(Command::new(llvm_bin().join("llvm-config")).arg("--version"))?;
        Self::new(Kind::Canonical, Some(llvm), linker::ensure()?)
    }

    /// A nightly toolchain, if every part of it is there.
    fn nightly() -> Option<Self> {
        let linker = shell::find("bpf-linker")?;
        shell::find("llvm-objcopy")?;
        shell::find("llvm-readelf")?;
        let nightly = Self::new(Kind::Nightly, None, linker).ok()?;
        nightly
            .sysroot
            .join("lib/rustlib/src/rust/library")
            .is_dir()
            .then_some(nightly)
    }

    /// `llvm` is the version of the library that compiler and linker share, where they do.
    fn new(kind: Kind, llvm: Option<String>, linker: PathBuf) -> Result<Self> {
        let verbose = shell::read(kind.rustc().arg("-vV"))?;
        let sysroot = shell::read(kind.rustc().args(["--print", "sysroot"]))?;
        let (version, own_llvm) = parse_rustc(&verbose)
            .with_context(|| format!("no version in what rustc prints:\n{verbose}"))?;
        if kind == Kind::Canonical && major(&own_llvm) != Some(linker::LLVM_MAJOR) {
            bail!(
                "{DEBIAN_RUSTC} has LLVM {own_llvm}, its linker has LLVM {}: \
                 is Debian's security archive among the sources of apt?",
                linker::LLVM_MAJOR
            );
        }
        let tools = Tools {
            rustc: version,
            llvm: llvm.unwrap_or(own_llvm),
            bpf_linker: linker::version(&linker)?,
        };
        Ok(Self {
            kind,
            tools,
            linker,
            sysroot: sysroot.into(),
        })
    }

    /// The versions in use.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Where the compiler keeps the sources of `core`.
    pub fn library_sources(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib/src/rust")
    }

    /// `cargo build` or `cargo clippy` with this pair, at the workspace's root.
    pub fn cargo(&self, subcommand: &str) -> Result<Command> {
        let mut cargo = match (self.kind, subcommand) {
            // A linter of another version could not read what this compiler writes.
            (Kind::Canonical, "clippy") => Command::new("/usr/bin/cargo-clippy"),
            (Kind::Canonical, _) => Command::new(shell::cargo()?.get_program()),
            (Kind::Nightly, _) => rustup_nightly("cargo"),
        };
        without_cargo_environment(&mut cargo);
        cargo.arg(subcommand).current_dir(shell::workspace()?);
        if self.kind == Kind::Canonical {
            // A stable compiler builds `core` from source only when told that it is wanted.
            cargo.env("RUSTC", DEBIAN_RUSTC).env("RUSTC_BOOTSTRAP", "1");
            cargo.env("CARGO", shell::cargo()?.get_program());
        }
        cargo.env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &self.linker);
        Ok(cargo)
    }

    /// A program of LLVM's binary utilities.
    pub fn llvm(&self, name: &str) -> Command {
        match self.kind {
            Kind::Canonical => Command::new(llvm_bin().join(name)),
            Kind::Nightly => Command::new(name),
        }
    }
}

fn rustup_nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", program]);
    command
}

fn llvm_bin() -> PathBuf {
    Path::new("/usr/lib").join(format!("llvm-{}/bin", linker::LLVM_MAJOR))
}

/// Takes away what the cargo that runs us, or a user's habit, would impose on the compiler:
/// above all the library path, which holds another compiler's LLVM.
fn without_cargo_environment(command: &mut Command) {
    const NAMES: [&str; 9] = [
        "LD_LIBRARY_PATH",
        "CARGO",
        "RUSTC",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTFLAGS",
        "RUSTUP_TOOLCHAIN",
        "CARGO_BUILD_TARGET",
        "CARGO_INCREMENTAL",
    ];
    for name in NAMES {
        command.env_remove(name);
    }
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PROFILE_"))
        {
            command.env_remove(name);
        }
    }
}

/// Version and LLVM version out of `rustc -vV`.
fn parse_rustc(verbose: &str) -> Option<(String, String)> {
    let mut lines = verbose.lines();
    let rustc = lines.next()?.strip_prefix("rustc ")?;
    let llvm = lines.find_map(|line| line.strip_prefix("LLVM version: "))?;
    Some((rustc.to_owned(), llvm.to_owned()))
}

fn major(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{major, parse_rustc};

    #[test]
    fn versions_of_the_compiler() {
        let verbose = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)\n\
                       binary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.96.0\n\
                       LLVM version: 22.1.8\n";
        let (rustc, llvm) = parse_rustc(verbose).expect("both are there");
        assert_eq!(
            rustc,
            "1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)"
        );
        assert_eq!(llvm, "22.1.8");
        assert_eq!(major(&llvm), Some(22));
    }

    #[test]
    fn compiler_without_llvm_is_none() {
        assert_eq!(parse_rustc("rustc 1.96.0\nbinary: rustc\n"), None);
        assert_eq!(parse_rustc(""), None);
    }
}
