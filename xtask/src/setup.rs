//! Installs what is missing, and only that.
//!
//! Debian's compiler lives in /usr/bin beside the rustup toolchain in ~/.cargo/bin; it is used
//! for the kernel object alone.

pub mod linker;

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

/// What a command needs from the system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The compiler pair and the linker that make the kernel object.
    Build,
    /// Linters, real peers, network namespaces, and what judges the packets.
    Test,
}

impl Group {
    const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Build => &[
                "rustc-web",
                "rust-web-src",
                "llvm-22-dev",
                "libpolly-22-dev",
                "zlib1g-dev",
                "libzstd-dev",
                "libxml2-dev",
                "gcc",
                "libc6-dev",
            ],
            Self::Test => &[
                "rust-web-clippy",
                "sip-tester",
                "kamailio",
                "tshark",
                "bpftool",
                "iproute2",
                "nftables",
                "ethtool",
                "tcpdump",
                "util-linux",
                "patch",
            ],
        }
    }
}

/// Makes sure that everything of these groups is there. Installing packages needs root.
pub fn ensure(groups: &[Group]) -> Result<()> {
    let wanted: Vec<&str> = groups
        .iter()
        .flat_map(|group| group.packages())
        .copied()
        .collect();
    let missing = missing(&wanted)?;
    if !missing.is_empty() {
        install(&missing)?;
    }
    if groups.contains(&Group::Build) {
        linker::ensure()?;
    }
    if groups.contains(&Group::Test) {
        ensure_component("fmt", "rustfmt")?;
        ensure_component("clippy", "clippy")?;
    }
    Ok(())
}

/// Whether every package of this group is installed.
pub fn has_packages(group: Group) -> bool {
    missing(group.packages()).is_ok_and(|missing| missing.is_empty())
}

fn missing<'a>(wanted: &[&'a str]) -> Result<Vec<&'a str>> {
    // It fails when one package is unknown, and prints the others all the same.
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${Package} ${db:Status-Status}\n"])
        .args(wanted)
        .output()
        .with_context(|| {
            format!(
                "dpkg-query, which tells what is installed on Debian; \
                 on another system install yourself what these hold: {}",
                wanted.join(" ")
            )
        })?;
    Ok(absent(&String::from_utf8_lossy(&output.stdout), wanted))
}

/// The wanted packages that dpkg-query's listing does not call installed.
fn absent<'a>(listing: &str, wanted: &[&'a str]) -> Vec<&'a str> {
    let is_installed = |package: &&str| {
        listing
            .lines()
            .any(|line| line == format!("{package} installed"))
    };
    wanted
        .iter()
        .filter(|package| !is_installed(package))
        .copied()
        .collect()
}

fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !shell::is_root()? {
        bail!(
            "packages are missing and only root can install them: \
             sudo apt-get install --no-install-recommends {list}"
        );
    }
    update()?;
    println!("setup: apt-get install {list}");
    shell::run(
        apt_get()
            // Another Rust of Debian's would have to go: that is not ours to decide.
            .args([
                "--quiet=2",
                "install",
                "--yes",
                "--no-install-recommends",
                "--no-remove",
            ])
            .args(packages),
    )?;
    if packages.contains(&"kamailio") && std::path::Path::new("/run/systemd/system").exists() {
        println!("setup: systemctl disable --now kamailio (tests start their own)");
        shell::run(Command::new("systemctl").args(["disable", "--now", "--quiet", "kamailio"]))?;
    }
    Ok(())
}

/// Fetches fresh lists of packages; needs root.
pub fn update() -> Result<()> {
    println!("setup: apt-get update");
    shell::run(apt_get().args(["--quiet=2", "update"]))
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").args([
        "-o",
        "DPkg::Lock::Timeout=300",
        "-o",
        "Dpkg::Use-Pty=0",
    ]);
    command
}

fn ensure_component(subcommand: &str, component: &str) -> Result<()> {
    if shell::read(shell::cargo()?.args([subcommand, "--version"])).is_ok() {
        return Ok(());
    }
    println!("setup: rustup component add {component}");
    shell::run(Command::new("rustup").args(["component", "add", component]))
}

#[cfg(test)]
mod tests {
    use super::{Group, absent};

    #[test]
    fn absent_is_unknown_or_removed() {
        let listing = "gcc installed\ntshark config-files\nkamailio installed\n";
        assert_eq!(
            absent(listing, &["gcc", "tshark", "bpftool"]),
            ["tshark", "bpftool"]
        );
    }

    #[test]
    fn absent_compares_whole_names() {
        assert_eq!(absent("gcc-12 installed\n", &["gcc"]), ["gcc"]);
        assert_eq!(absent("", Group::Test.packages()), Group::Test.packages());
    }
}
