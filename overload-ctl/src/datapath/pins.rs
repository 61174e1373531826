//! Where an instance lives in the BPF file system:
//!
//! ```text
//! /sys/fs/bpf/overload/<instance>/maps/<MAP>   every map
//! /sys/fs/bpf/overload/<instance>/links/<IF>   the program on an interface, for `.` in its name `:`
//! /sys/fs/bpf/overload/<instance>/maps_new/    the other set of maps while one replaces the other
//! ```
//!
//! All directories are 0700 and root's. The controller holds a lock on the instance's directory.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, Flock, FlockArg, RenameFlags, renameat2},
    mount::{MsFlags, mount},
    sys::{
        stat::{major, minor},
        statfs::{BPF_FS_MAGIC, statfs},
    },
};
use thiserror::Error;

/// Mount point of the BPF file system.
const BPFFS: &str = "/sys/fs/bpf";
/// Directory of all instances.
const ROOT: &str = "/sys/fs/bpf/overload";

/// Why an instance's directory cannot be used.
#[derive(Debug, Error)]
pub enum PinError {
    /// Not mounted, and we could not.
    #[error("cannot mount the BPF file system at {BPFFS}: {0}; mount it: mount -t bpf bpf {BPFFS}")]
    Mount(Errno),
    /// Somebody else's directory.
    #[error("{} is not a directory of root with mode 0700; remove it or correct it", .0.display())]
    Foreign(PathBuf),
    /// Another controller runs.
    #[error(
        "a controller of instance {instance} is running{}: stop it first, or choose another instance name", pid_note(*pid)
    )]
    Locked {
        /// The instance.
        instance: String,
        /// Process that holds the lock, where the kernel tells.
        pid: Option<u32>,
    },
    /// No such instance.
    #[error("instance {0} is not attached; start it with `overload-ctl run`")]
    Absent(String),
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// ` (pid 123)`, or nothing.
pub(super) fn pid_note(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PinError {
    move |source| PinError::File {
        action,
        path: path.to_owned(),
        source,
    }
}

/// The paths of one instance.
#[derive(Clone, Debug)]
pub struct Pins {
    instance: String,
    directory: PathBuf,
}

/// The right to change an instance, until dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its drop")] Flock<File>);

impl Pins {
    /// Paths only; nothing is looked at.
    pub fn of(instance: &str) -> Self {
        Self {
            instance: instance.to_owned(),
            directory: Path::new(ROOT).join(instance),
        }
    }

    /// Directory of the maps in use.
    pub fn maps(&self) -> PathBuf {
        self.directory.join("maps")
    }

    /// Directory of the maps that are being made.
    pub fn maps_new(&self) -> PathBuf {
        self.directory.join("maps_new")
    }

    /// Directory of the pinned links.
    fn links(&self) -> PathBuf {
        self.directory.join("links")
    }

    /// The pinned link to an interface. The BPF file system takes no dots, interface names no colons.
    pub fn link(&self, interface: &str) -> PathBuf {
        self.links().join(interface.replace('.', ":"))
    }

    /// Names of the interfaces that have a pinned link, sorted.
    pub fn interfaces(&self) -> Result<Vec<String>, PinError> {
        let directory = self.links();
        let failed = || failed("read", &directory);
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed()(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed())?.file_name();
            names.push(name.to_string_lossy().replace(':', "."));
        }
        names.sort();
        Ok(names)
    }

    /// The one link of an instance that version 0.1 left.
    pub fn single_link(&self) -> PathBuf {
        self.directory.join("link")
    }

    /// Puts it where this version keeps links.
    pub fn adopt_single_link(&self, interface: &str) -> Result<(), PinError> {
        let single = self.single_link();
        fs::rename(&single, self.link(interface)).map_err(failed("rename", &single))
    }

    /// Removes it when its interface is gone.
    pub fn remove_single_link(&self) -> Result<(), PinError> {
        remove_file(&self.single_link())
    }

    /// Keeps others from changing an interface's record until it is dropped: the controller follows
    /// addresses, while `bypass` changes the mode.
    pub fn lock_records(&self) -> Result<Lock, PinError> {
        let directory = self.links();
        let open = File::open(&directory).map_err(failed("open", &directory))?;
        Flock::lock(open, FlockArg::LockExclusive)
            .map(Lock)
            .map_err(|(_, errno)| failed("lock", &directory)(errno.into()))
    }

    /// Makes the instance's directory, mounting the file system if need be, and locks it.
    pub fn create(&self) -> Result<Lock, PinError> {
        let magic = statfs(BPFFS).map_err(PinError::Mount)?.filesystem_type();
        if magic != BPF_FS_MAGIC {
            let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
            mount(Some("bpf"), BPFFS, Some("bpf"), flags, Some("mode=0700"))
                .map_err(PinError::Mount)?;
        }
        make_directory(Path::new(ROOT))?;
        make_directory(&self.directory)?;
        let lock = self.lock()?;
        make_directory(&self.links())?;
        Ok(lock)
    }

    /// Locks a directory that is there.
    pub fn lock(&self) -> Result<Lock, PinError> {
        self.check()?;
        let open = failed("open", &self.directory);
        let directory = File::open(&self.directory).map_err(open)?;
        match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Lock(lock)),
            Err((directory, Errno::EWOULDBLOCK)) => Err(PinError::Locked {
                instance: self.instance.clone(),
                pid: holder(&directory),
            }),
            Err((_, errno)) => Err(failed("lock", &self.directory)(errno.into())),
        }
    }

    /// An error unless the instance's directory is there and ours.
    pub fn check(&self) -> Result<(), PinError> {
        match fs::symlink_metadata(&self.directory) {
            Ok(_) => {
                check_owner(Path::new(ROOT))?;
                check_owner(&self.directory)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(PinError::Absent(self.instance.clone()))
            }
            Err(error) => Err(failed("look at", &self.directory)(error)),
        }
    }

    /// An empty directory for new maps, whatever an interrupted start left there.
    pub fn prepare_new_maps(&self) -> Result<(), PinError> {
        remove_directory(&self.maps_new())?;
        make_directory(&self.maps_new())
    }

    /// Removes maps that were made for nothing.
    pub fn discard_new_maps(&self) -> Result<(), PinError> {
        remove_directory(&self.maps_new())
    }

    /// Puts the new maps in the place of those in use, and removes these.
    pub fn swap_maps(&self) -> Result<(), PinError> {
        let (new, current) = (self.maps_new(), self.maps());
        let flags = if current.exists() {
            RenameFlags::RENAME_EXCHANGE
        } else {
            RenameFlags::empty()
        };
        renameat2(AT_FDCWD, &new, AT_FDCWD, &current, flags)
            .map_err(|errno| failed("rename", &new)(errno.into()))?;
        remove_directory(&new)
    }

    /// Removes the pin of a link; without another holder this ends it. None is fine.
    pub fn remove_link(&self, interface: &str) -> Result<(), PinError> {
        remove_file(&self.link(interface))
    }

    /// Removes everything of the instance; links without another holder end.
    pub fn remove_all(&self) -> Result<(), PinError> {
        self.remove_single_link()?;
        remove_directory(&self.links())?;
        remove_directory(&self.maps())?;
        remove_directory(&self.maps_new())?;
        remove_directory(&self.directory)?;
        // Fails while other instances live there.
        let _shared = fs::remove_dir(ROOT);
        Ok(())
    }
}

fn make_directory(path: &Path) -> Result<(), PinError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_owner(path),
        Err(error) => Err(failed("make directory", path)(error)),
    }
}

fn check_owner(path: &Path) -> Result<(), PinError> {
    let metadata = fs::symlink_metadata(path).map_err(failed("look at", path))?;
    if metadata.is_dir() && metadata.uid() == 0 && metadata.mode() & 0o777 == 0o700 {
        Ok(())
    } else {
        Err(PinError::Foreign(path.to_owned()))
    }
}

/// The process that holds the lock on a file, by the kernel's list; `None` where that does not tell.
fn holder(file: &File) -> Option<u32> {
    let metadata = file.metadata().ok()?;
    let (device, inode) = (metadata.dev(), metadata.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    lock_holder(&locks, (major(device), minor(device), inode))
}

/// Lines are `1: FLOCK  ADVISORY  WRITE PID MAJOR:MINOR:INODE 0 EOF`, the device in hexadecimal.
fn lock_holder(locks: &str, (major, minor, inode): (u64, u64, u64)) -> Option<u32> {
    let wanted = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, pid, file, ..] if file == wanted => pid.parse().ok(),
            _ => None,
        }
    })
}

fn remove_file(path: &Path) -> Result<(), PinError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes a directory of files; none is fine.
fn remove_directory(path: &Path) -> Result<(), PinError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("read", path)(error)),
    };
    for entry in entries {
        let file = entry.map_err(failed("read", path))?.path();
        fs::remove_file(&file).map_err(failed("remove", &file))?;
    }
    fs::remove_dir(path).map_err(failed("remove", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_name_with_a_dot_can_be_pinned() {
        let pins = Pins::of("edge");
        assert_eq!(
            pins.link("eth0.100"),
            Path::new("/sys/fs/bpf/overload/edge/links/eth0:100")
        );
    }

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:1f:55 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 26612 fe:00:10166297 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 9 00:1f:55 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 812 00:1f:55 0 EOF\n";
        assert_eq!(lock_holder(locks, (0, 0x1f, 55)), Some(812));
        assert_eq!(lock_holder(locks, (0xfe, 0, 10_166_297)), Some(26612));
        assert_eq!(lock_holder(locks, (0, 0x1f, 56)), None);
    }
}
