//! A network namespace and what runs in it.

use std::{
    fs::{self, File},
    net::UdpSocket,
    os::fd::AsRawFd,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sched::{CloneFlags, setns};

use crate::{
    command::run,
    message::{Reply, Request},
};

/// A named network namespace, deleted on drop.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates the namespace, with loopback up and IPv6 off, so that nothing but the test's own
    /// traffic is seen.
    pub fn create(name: &str) -> Result<Self> {
        run(Command::new("ip").args(["netns", "add", name]))?;
        let namespace = Self {
            name: name.to_owned(),
        };
        namespace.enter(|| {
            fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")?;
            fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")?;
            Ok(())
        })?;
        namespace.run("ip", &["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Name as `ip netns` lists it.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    /// A command that will run in the namespace. Only the network differs: the BPF file system stays
    /// in sight, which `ip netns exec` would hide. The process dies with the thread that starts it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "nsenter"])
            .arg(format!("--net={}", self.path()))
            .arg(program);
        command
    }

    /// Runs a command in the namespace to its end; see [`run`].
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        run(self.command(program).args(arguments))
    }

    /// Does `work` on a thread of its own inside the namespace.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    let handle = File::open(self.path())
                        .with_context(|| format!("cannot open namespace {}", self.name))?;
                    setns(&handle, CloneFlags::CLONE_NEWNET)
                        .with_context(|| format!("cannot enter namespace {}", self.name))?;
                    work()
                })
                .join()
                .map_err(|_| anyhow!("panic inside namespace {}", self.name))?
        })
    }

    /// A UDP socket bound inside the namespace to `address:port`.
    pub fn bind(&self, address: &str) -> Result<Socket> {
        let socket = self.enter(|| {
            UdpSocket::bind(address).with_context(|| format!("cannot bind UDP {address}"))
        })?;
        Ok(Socket(socket))
    }

    /// Waits until somebody has bound UDP `port`; at most 10 s.
    pub fn wait_for_port(&self, port: u16) -> Result<()> {
        let wanted = format!(":{port:04X} ");
        let deadline = Instant::now() + Duration::from_secs(10);
        while Instant::now() < deadline {
            // Not /proc/net: that is the main thread's namespace.
            let table = self.enter(|| Ok(fs::read_to_string("/proc/thread-self/net/udp")?))?;
            // Columns: slot, local address, remote address.
            if table.lines().any(|line| {
                line.split_inclusive(' ')
                    .any(|word| word.ends_with(&wanted))
            }) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("nobody bound UDP port {port} in {}", self.name)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("ip").args(["netns", "delete", &self.name])) {
            eprintln!("{error:#}");
        }
    }
}

/// A UDP socket of a namespace, for single exact datagrams.
#[derive(Debug)]
pub struct Socket(UdpSocket);

impl Socket {
    /// Sends one datagram to `address:port`.
    pub fn send(&self, datagram: impl AsRef<[u8]>, address: &str) -> Result<()> {
        self.0
            .send_to(datagram.as_ref(), address)
            .with_context(|| format!("cannot send to {address}"))?;
        Ok(())
    }

    /// The next datagram and its source `address:port`, or `None` when none comes within the time.
    pub fn receive(&self, within: Duration) -> Result<Option<(Vec<u8>, String)>> {
        self.0.set_read_timeout(Some(within))?;
        let mut buffer = vec![0; 65_536];
        match self.0.recv_from(&mut buffer) {
            Ok((length, source)) => {
                buffer.truncate(length);
                Ok(Some((buffer, source.to_string())))
            }
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).context("cannot receive"),
        }
    }

    /// Sends `request` to `address:port` and gives the next datagram that comes back within `within`.
    pub fn ask(&self, request: &Request, address: &str, within: Duration) -> Result<Option<Reply>> {
        self.send(request.to_string(), address)?;
        Ok(self
            .receive(within)?
            .map(|(datagram, _)| Reply::new(&datagram)))
    }

    /// A second handle of the same socket.
    pub fn share(&self) -> Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// From now on datagrams leave with UDP checksum 0, which means none (RFC 768).
    pub fn without_checksum(&self) -> Result<()> {
        let on: libc::c_int = 1;
        // SAFETY: the descriptor is open, and the option is one int that outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_NO_CHECK,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        ensure!(
            result == 0,
            "SO_NO_CHECK: {}",
            std::io::Error::last_os_error()
        );
        Ok(())
    }
}
