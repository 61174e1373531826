//! BPF links by the system call itself. aya's attach falls back to a netlink attach that cannot be
//! pinned and does not tell; and its link information lacks the interface.

use std::{
    ffi::CString,
    io, mem,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

// Commands and constants of `linux/bpf.h` and `linux/if_link.h`.
const BPF_OBJ_PIN: libc::c_long = 6;
const BPF_OBJ_GET: libc::c_long = 7;
const BPF_OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_LINK_UPDATE: libc::c_long = 29;
const BPF_XDP: u32 = 37;
const BPF_LINK_TYPE_XDP: u32 = 6;

/// Run in the kernel's generic path.
pub const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
/// Run in the driver.
pub const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The program on an interface for as long as this, or a pin of it, is there.
#[derive(Debug)]
pub struct Link(OwnedFd);

/// What the kernel says of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The kernel's number of the program.
    pub program_id: u32,
    /// The interface, in its own network namespace; 0 when it is gone or the link was detached.
    pub ifindex: u32,
}

#[repr(C)]
struct CreateAttributes {
    program: u32,
    ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct UpdateAttributes {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

#[repr(C)]
struct PathAttributes {
    path: u64,
    fd: u32,
    flags: u32,
}

#[repr(C)]
struct InfoAttributes {
    fd: u32,
    length: u32,
    info: u64,
}

/// `struct bpf_link_info` as far as an XDP link uses it.
#[repr(C)]
#[derive(Default)]
struct RawInfo {
    link_type: u32,
    id: u32,
    program_id: u32,
    padding: u32,
    ifindex: u32,
    reserved: [u32; 3],
}

/// One call; `attributes` is what the command takes, shorter than the kernel's union, which then reads
/// the rest as zeros.
fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the kernel reads `size` bytes of live memory, and only such pointers in it as the callers
    // below keep alive over the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_mut(attributes),
            mem::size_of::<T>(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(result).map_err(io::Error::other)
}

fn raw(fd: BorrowedFd<'_>) -> io::Result<u32> {
    u32::try_from(fd.as_raw_fd()).map_err(io::Error::other)
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: a descriptor the kernel just made for us and nobody else knows.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

impl Link {
    /// Attaches a program; `flags` is one of `XDP_FLAGS_*`.
    pub fn create(program: BorrowedFd<'_>, ifindex: u32, flags: u32) -> io::Result<Self> {
        let mut attributes = CreateAttributes {
            program: raw(program)?,
            ifindex,
            attach_type: BPF_XDP,
            flags,
        };
        bpf(BPF_LINK_CREATE, &mut attributes).map(|fd| Self(owned(fd)))
    }

    /// Puts another program in the place of the attached one, between two packets.
    pub fn update(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let mut attributes = UpdateAttributes {
            link: raw(self.0.as_fd())?,
            program: raw(program)?,
            flags: 0,
            old_program: 0,
        };
        bpf(BPF_LINK_UPDATE, &mut attributes).map(drop)
    }

    /// Keeps the link alive by a file.
    pub fn pin(&self, path: &Path) -> io::Result<()> {
        let path = c_path(path)?;
        let mut attributes = PathAttributes {
            path: path.as_ptr() as u64,
            fd: raw(self.0.as_fd())?,
            flags: 0,
        };
        bpf(BPF_OBJ_PIN, &mut attributes).map(drop)
    }

    /// Opens a pinned link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = c_path(path)?;
        let mut attributes = PathAttributes {
            path: path.as_ptr() as u64,
            fd: 0,
            flags: 0,
        };
        bpf(BPF_OBJ_GET, &mut attributes).map(|fd| Self(owned(fd)))
    }

    /// Asks the kernel what the link does. An error when it is no XDP link.
    pub fn info(&self) -> io::Result<LinkInfo> {
        let mut info = RawInfo::default();
        let mut attributes = InfoAttributes {
            fd: raw(self.0.as_fd())?,
            length: size_of::<RawInfo>() as u32,
            info: std::ptr::from_mut(&mut info) as u64,
        };
        bpf(BPF_OBJ_GET_INFO_BY_FD, &mut attributes)?;
        if info.link_type != BPF_LINK_TYPE_XDP {
            return Err(io::Error::other("the pinned object is no XDP link"));
        }
        Ok(LinkInfo {
            program_id: info.program_id,
            ifindex: info.ifindex,
        })
    }
}
