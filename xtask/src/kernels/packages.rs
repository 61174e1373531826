//! Kernels and the emulator: Debian's packages, downloaded and unpacked, never installed.

use std::{
    error::Error,
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{setup, shell};

/// The archive does not give these packages here.
#[derive(Debug)]
pub struct Unavailable(String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Debian's packages cannot be had: {}", self.0)
    }
}

impl Error for Unavailable {}

/// A kernel, unpacked.
pub struct Kernel {
    /// What `uname -r` says on it.
    pub release: String,
    /// The compressed kernel.
    pub image: PathBuf,
    /// The driver of virtual pairs, compressed or not.
    pub veth: PathBuf,
}

/// The newest build of a kernel, by the package that depends on it.
pub fn fetch_kernel(name: &str) -> Result<Kernel> {
    let listing = ask(|| shell::read(Command::new("apt-cache").args(["depends", name])))?;
    let package = dependency(&listing).with_context(|| format!("{name} depends on no kernel"))?;
    let release = package
        .strip_prefix(IMAGE)
        .with_context(|| format!("{package} names no release"))?
        .to_owned();
    let root = unpack(package, &[package.to_owned()])?;
    let drivers = root
        .join("lib/modules")
        .join(&release)
        .join("kernel/drivers/net");
    let veth = ["veth.ko", "veth.ko.xz"]
        .map(|name| drivers.join(name))
        .into_iter()
        .find(|file| file.is_file())
        .with_context(|| format!("no veth in {}", drivers.display()))?;
    Ok(Kernel {
        image: root.join(format!("boot/vmlinuz-{release}")),
        release,
        veth,
    })
}

/// The emulator, and what the guest has beside the kernel.
pub struct Emulator {
    root: PathBuf,
}

impl Emulator {
    /// Unpacks those packages of the emulator that are not installed.
    pub fn fetch() -> Result<Self> {
        let list = ask(|| {
            shell::read(Command::new("apt-get").args([
                "--simulate",
                "--no-install-recommends",
                "install",
                "qemu-system-x86",
                "busybox-static",
            ]))
        })?;
        Ok(Self {
            root: unpack("emulator", &to_install(&list))?,
        })
    }

    /// The program that emulates, told where its libraries and firmware are.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.program("usr/bin/qemu-system-x86_64"));
        command.env(
            "LD_LIBRARY_PATH",
            self.root.join("usr/lib/x86_64-linux-gnu"),
        );
        // Directories of an installed one are searched after these.
        for directory in ["usr/share/qemu", "usr/share/seabios"] {
            command.arg("-L").arg(self.root.join(directory));
        }
        command
    }

    /// Many small programs in one static file.
    pub fn busybox(&self) -> PathBuf {
        self.program("bin/busybox")
    }

    fn program(&self, path: &str) -> PathBuf {
        let unpacked = self.root.join(path);
        if unpacked.is_file() {
            unpacked
        } else {
            Path::new("/").join(path)
        }
    }
}

const IMAGE: &str = "linux-image-";

/// The image that `apt-cache depends` names.
fn dependency(listing: &str) -> Option<&str> {
    listing
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("Depends: "))
        .find(|package| package.starts_with(IMAGE))
}

/// The packages that a simulated installation would add.
fn to_install(listing: &str) -> Vec<String> {
    listing
        .lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// Unpacks packages into a directory of this name, unless that was done before.
fn unpack(name: &str, packages: &[String]) -> Result<PathBuf> {
    let parent = directory()?;
    let done = parent.join(name);
    if done.is_dir() {
        return Ok(done);
    }
    println!("kernels: downloading {}", packages.join(" "));
    let partial = parent.join(format!("{name}.partial"));
    let archives = parent.join(format!("{name}.archives"));
    for dir in [&partial, &archives] {
        if dir.exists() {
            fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
        }
        fs::create_dir_all(dir).with_context(|| format!("make {}", dir.display()))?;
    }
    if !packages.is_empty() {
        ask(|| {
            shell::read(
                Command::new("apt-get")
                    // Its own user need not be able to write where we build.
                    .args(["--quiet=2", "-o", "APT::Sandbox::User=root", "download"])
                    .args(packages)
                    .current_dir(&archives),
            )
        })?;
    }
    for archive in fs::read_dir(&archives).context("list what was downloaded")? {
        let archive = archive.context("list what was downloaded")?.path();
        shell::run(
            Command::new("dpkg-deb")
                .arg("--extract")
                .arg(archive)
                .arg(&partial),
        )?;
    }
    fs::remove_dir_all(&archives).with_context(|| format!("remove {}", archives.display()))?;
    fs::rename(&partial, &done).with_context(|| format!("name {}", done.display()))?;
    Ok(done)
}

/// Where everything of this is kept.
pub fn directory() -> Result<PathBuf> {
    Ok(shell::target_dir()?.join("kernels"))
}

/// Asks the archive, and once more with fresh lists.
fn ask(question: impl Fn() -> Result<String>) -> Result<String> {
    question()
        .or_else(|_| {
            setup::update()?;
            question()
        })
        .map_err(|error| {
            // apt-get repeats itself for each package.
            let text = format!("{error:#}");
            let lines: Vec<&str> = text.lines().take(2).collect();
            Unavailable(lines.join(": ")).into()
        })
}

#[cfg(test)]
mod tests {
    use super::{dependency, to_install};

    #[test]
    fn kernel_out_of_the_dependencies_of_its_name() {
        let listing = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-57-cloud-amd64\n";
        assert_eq!(
            dependency(listing),
            Some("linux-image-6.1.0-57-cloud-amd64")
        );
        assert_eq!(dependency("linux-image-cloud-amd64\n"), None);
    }

    #[test]
    fn packages_out_of_a_simulation() {
        let listing = "Remv qemu-utils [1:10]\nInst seabios (1.16 Debian:12 [all])\n\
                       Inst busybox-static (1:1.35)\nConf seabios (1.16)\n";
        assert_eq!(to_install(listing), ["seabios", "busybox-static"]);
    }
}
