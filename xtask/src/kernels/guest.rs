//! One boot: a kernel, a file system in memory with one program, and what it prints.

use std::{
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use super::packages::{self, Emulator, Kernel};
use crate::shell;

/// Twenty times what a guest takes on two cores: a bound on one that hangs, not on a slow one.
const HANGS_AFTER: &str = "600";

/// What the kernel starts.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox insmod /veth.ko
PATH=/bin /kernel-fixtures
/bin/busybox poweroff -f
";

/// Boots the kernel with the program and gives what appears on the console. The emulator's exit status says
/// nothing of the program's.
pub fn boot(emulator: &Emulator, kernel: &Kernel, program: &Path) -> Result<String> {
    let initramfs = initramfs(emulator, kernel, program)?;
    let mut command = emulator.command();
    command
        .args(["-accel", "tcg", "-m", "1G", "-nodefaults", "-nographic"])
        .args(["-serial", "stdio", "-no-reboot"])
        .args(["-append", "console=ttyS0 panic=-1 quiet"])
        .arg("-kernel")
        .arg(&kernel.image)
        .arg("-initrd")
        .arg(&initramfs);
    let output = bounded(&command)
        .stdin(Stdio::null())
        .output()
        .context("start the emulator")?;
    let console = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!(
            "the emulator ended with {}: {errors}\n{console}",
            output.status
        );
    }
    Ok(console)
}

/// The same command, killed when it hangs.
fn bounded(command: &Command) -> Command {
    let mut timeout = Command::new("timeout");
    timeout
        .args(["--kill-after=5", HANGS_AFTER])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            timeout.env(name, value);
        }
    }
    timeout
}

/// Packs the file system in memory.
fn initramfs(emulator: &Emulator, kernel: &Kernel, program: &Path) -> Result<PathBuf> {
    let dir = packages::directory()?.join("guest");
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", dir.display()));
        }
        _ => {}
    }
    let root = dir.join("root");
    for name in ["bin", "proc", "sys", "dev"] {
        let name = root.join(name);
        fs::create_dir_all(&name).with_context(|| format!("make {}", name.display()))?;
    }
    let copy = |from: &Path, to: &str| -> Result<()> {
        fs::copy(from, root.join(to)).with_context(|| format!("copy {}", from.display()))?;
        Ok(())
    };
    copy(&emulator.busybox(), "bin/busybox")?;
    copy(program, "kernel-fixtures")?;
    symlink("busybox", root.join("bin/ip")).context("link ip")?;
    let init = root.join("init");
    fs::write(&init, INIT)
        .and_then(|()| fs::set_permissions(&init, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("write {}", init.display()))?;
    if kernel.veth.extension().is_some_and(|kind| kind == "xz") {
        shell::run(
            Command::new(emulator.busybox())
                .args(["unxz", "-c"])
                .arg(&kernel.veth)
                .stdout(create(&root.join("veth.ko"))?),
        )?;
    } else {
        copy(&kernel.veth, "veth.ko")?;
    }

    let names = dir.join("names");
    fs::write(
        &names,
        "bin\nproc\nsys\ndev\nbin/busybox\nbin/ip\ninit\nkernel-fixtures\nveth.ko\n",
    )
    .with_context(|| format!("write {}", names.display()))?;
    let archive = dir.join("initramfs");
    shell::run(
        Command::new(emulator.busybox())
            .args(["cpio", "-o", "-H", "newc"])
            .current_dir(&root)
            .stdin(File::open(&names).with_context(|| format!("read {}", names.display()))?)
            .stdout(create(&archive)?)
            .stderr(Stdio::null()),
    )?;
    Ok(archive)
}

fn create(file: &Path) -> Result<File> {
    File::create(file).with_context(|| format!("write {}", file.display()))
}
