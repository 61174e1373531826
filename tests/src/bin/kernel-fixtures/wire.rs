//! Whole frames to and from an interface.

use std::{
    io,
    net::UdpSocket,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

/// Ethernet, IPv4 and UDP headers before a payload, bytes.
const HEADERS: usize = 42;

/// A packet socket (packet(7)). Its calls are those of a datagram socket, for which the library has safe ones.
pub struct Wire(UdpSocket);

impl Wire {
    /// Opens the interface with this number.
    pub fn open(ifindex: u32) -> Result<Self> {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: plain numbers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(protocol)) };
        ensure!(fd >= 0, "packet socket: {}", io::Error::last_os_error());
        // SAFETY: a descriptor the kernel just made for us and nobody else knows.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: zero is a value of each field.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = ifindex.try_into().context("number of an interface")?;
        // SAFETY: the descriptor is open, and the address outlives the call, which reads its length.
        let bound = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        ensure!(bound == 0, "bind: {}", io::Error::last_os_error());
        Ok(Self(fd.into()))
    }

    /// Sends a frame out of the interface.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        let sent = self.0.send(frame).context("send a frame")?;
        ensure!(sent == frame.len(), "{sent} bytes of {}", frame.len());
        Ok(())
    }

    /// The next frame whose payload begins like this; others are passed over.
    pub fn receive(&self, start: &[u8], within: Duration) -> Result<Vec<u8>> {
        let deadline = Instant::now() + within;
        let mut frame = [0; 2048];
        while let Some(left) = deadline
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            self.0.set_read_timeout(Some(left))?;
            let length = match self.0.recv(&mut frame) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("receive a frame"),
            };
            let payload = frame[..length].get(HEADERS..).unwrap_or_default();
            if payload.starts_with(start) {
                return Ok(frame[..length].to_vec());
            }
        }
        bail!("no reply within {} s", within.as_secs())
    }
}
