//! Two namespaces, a cable, and a directory for what the programs write.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};
use aya::{
    Ebpf,
    programs::{Xdp, xdp::XdpMode},
};

use crate::{command::run, namespace::Namespace};

/// Address of the client.
pub const CLIENT: &str = "192.0.2.10";
/// Address of the protected host.
pub const HOST: &str = "192.0.2.1";
/// The client's end of the cable.
pub const CLIENT_INTERFACE: &str = "trunk0";
/// The protected host's end of the cable, where the filter sits.
pub const HOST_INTERFACE: &str = "sip0";

/// Address of the client on the second cable.
pub const CLIENT_2: &str = "198.51.100.10";
/// Address of the protected host on the second cable.
pub const HOST_2: &str = "198.51.100.1";
/// The protected host's end of the second cable.
pub const HOST_INTERFACE_2: &str = "sip1";
const CLIENT_INTERFACE_2: &str = "trunk1";
/// Address of the client in [`Lab::add_ipv6`].
pub const CLIENT_V6: &str = "2001:db8::10";
/// Address of the protected host in [`Lab::add_ipv6`].
pub const HOST_V6: &str = "2001:db8::1";

const CLIENT_MAC: &str = "02:00:00:00:00:10";
const HOST_MAC: &str = "02:00:00:00:00:01";
const PREFIX: &str = "olc-";
const INSTANCE_PREFIX: &str = "lab-";

/// The test bed. Checksum offload stays as veth has it: a request arrives with only the pseudo-header
/// sum in its checksum field, as from a local virtual machine.
#[derive(Debug)]
pub struct Lab {
    /// Where requests come from.
    pub client: Namespace,
    /// Where the proxy and the filter are.
    pub host: Namespace,
    directory: PathBuf,
    instance: String,
    // The kernel detaches the program when this is dropped.
    peer_program: Option<Ebpf>,
}

impl Lab {
    /// A lab whose client end has an XDP program, without which frames sent back by native XDP on the
    /// host's end would vanish: veth takes them only where a receiver has been set up.
    pub fn new() -> Result<Self> {
        let mut lab = Self::without_peer_program()?;
        lab.peer_program = Some(attach_pass(&lab.client, CLIENT_INTERFACE)?);
        Ok(lab)
    }

    /// A lab whose client end has no XDP program.
    pub fn without_peer_program() -> Result<Self> {
        static LABS: AtomicU32 = AtomicU32::new(0);
        sweep()?;
        let identity = format!("{}-{}", process::id(), LABS.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(format!("{PREFIX}{identity}"));
        fs::create_dir(&directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let lab = Self {
            client: Namespace::create(&format!("{PREFIX}client-{identity}"))?,
            host: Namespace::create(&format!("{PREFIX}host-{identity}"))?,
            directory,
            instance: format!("{INSTANCE_PREFIX}{identity}"),
            peer_program: None,
        };
        lab.join()?;
        Ok(lab)
    }

    fn join(&self) -> Result<()> {
        self.lay_cable(
            (HOST_INTERFACE, HOST, HOST_MAC),
            (CLIENT_INTERFACE, CLIENT, CLIENT_MAC),
        )
    }

    /// A second cable, whose client end passes everything as long as the guard is held.
    pub fn add_cable(&self) -> Result<Ebpf> {
        self.lay_cable(
            (HOST_INTERFACE_2, HOST_2, "02:00:00:00:01:01"),
            (CLIENT_INTERFACE_2, CLIENT_2, "02:00:00:00:01:10"),
        )?;
        attach_pass(&self.client, CLIENT_INTERFACE_2)
    }

    /// Joins the namespaces; each end is a name, an IPv4 address and a MAC address.
    fn lay_cable(&self, host: (&str, &str, &str), client: (&str, &str, &str)) -> Result<()> {
        run(Command::new("ip")
            .args(["link", "add", host.0, "address", host.2])
            .args(["netns", self.host.name(), "type", "veth", "peer"])
            .args(["name", client.0, "address", client.2])
            .args(["netns", self.client.name()]))?;
        for (namespace, (interface, address, _)) in [(&self.host, host), (&self.client, client)] {
            namespace.run("ip", &["link", "set", interface, "up"])?;
            let address = format!("{address}/24");
            namespace.run("ip", &["address", "add", &address, "dev", interface])?;
        }
        // Static: a program that drops a flood would drop ARP too.
        neighbour(&self.client, client.0, host.1, host.2)?;
        neighbour(&self.host, host.0, client.1, client.2)
    }

    /// IPv6 on the first cable, with [`CLIENT_V6`] and [`HOST_V6`].
    pub fn add_ipv6(&self) -> Result<()> {
        for (namespace, interface, address) in [
            (&self.host, HOST_INTERFACE, HOST_V6),
            (&self.client, CLIENT_INTERFACE, CLIENT_V6),
        ] {
            namespace.enter(|| {
                let switch = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
                Ok(fs::write(switch, "0")?)
            })?;
            let address = format!("{address}/64");
            let add = ["address", "add", &address, "dev", interface, "nodad"];
            namespace.run("ip", &add)?;
        }
        neighbour(&self.client, CLIENT_INTERFACE, HOST_V6, HOST_MAC)?;
        neighbour(&self.host, HOST_INTERFACE, CLIENT_V6, CLIENT_MAC)
    }

    /// Gives the host a further address of 192.0.2.0/24, reached at `mac`, or at its own MAC address.
    pub fn add_host_address(&self, address: &str, mac: Option<&str>) -> Result<()> {
        let with_length = format!("{address}/24");
        let add = ["address", "add", &with_length, "dev", HOST_INTERFACE];
        self.host.run("ip", &add)?;
        neighbour(
            &self.client,
            CLIENT_INTERFACE,
            address,
            mac.unwrap_or(HOST_MAC),
        )
    }

    /// Gives the client a second address of 192.0.2.0/24.
    pub fn add_client_address(&self, address: &str) -> Result<()> {
        let with_length = format!("{address}/24");
        self.client.run(
            "ip",
            &["address", "add", &with_length, "dev", CLIENT_INTERFACE],
        )?;
        neighbour(&self.host, HOST_INTERFACE, address, CLIENT_MAC)
    }

    /// Name of the filter instance of this lab, never used before.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Where the controller pins that instance.
    pub fn pins(&self) -> PathBuf {
        pin_directory(&self.instance)
    }

    /// Directory for files of this lab, removed with it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Occupies the host's end with somebody else's program until the guard is dropped.
    pub fn attach_foreign_program(&self) -> Result<Ebpf> {
        attach_pass(&self.host, HOST_INTERFACE)
    }

    /// What the kernel says about XDP on the host's end: empty when no program is attached.
    pub fn attached_program(&self) -> Result<String> {
        let link = self
            .host
            .run("ip", &["-details", "link", "show", HOST_INTERFACE])?;
        Ok(link
            .lines()
            .filter(|line| line.contains("prog/xdp"))
            .map(str::trim)
            .collect())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for leftover in [
            self.directory.clone(),
            self.pins(),
            state_file(&self.instance),
        ] {
            if let Err(error) = remove(&leftover) {
                eprintln!("cannot remove {}: {error}", leftover.display());
            }
        }
    }
}

/// Tells a namespace where an address is, without asking the other end.
fn neighbour(namespace: &Namespace, interface: &str, address: &str, mac: &str) -> Result<()> {
    let to = ["neighbour", "replace", address, "lladdr", mac];
    namespace.run("ip", &[&to[..], &["dev", interface]].concat())?;
    Ok(())
}

/// Where the controller pins an instance.
fn pin_directory(instance: &str) -> PathBuf {
    Path::new("/sys/fs/bpf/overload").join(instance)
}

/// Where the controller notes the names of an instance.
fn state_file(instance: &str) -> PathBuf {
    Path::new("/run/overload-ctl").join(format!("{instance}.json"))
}

/// Removes a file or a directory with all in it, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Attaches a program that only passes; it is part of the committed object.
fn attach_pass(namespace: &Namespace, interface: &str) -> Result<Ebpf> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../overload-ctl/bpf/overload.o"
    );
    let mut object = Ebpf::load_file(path).with_context(|| format!("cannot load {path}"))?;
    let program: &mut Xdp = object
        .program_mut("overload_pass")
        .context("the object has no program overload_pass")?
        .try_into()?;
    program.load()?;
    namespace.enter(|| {
        program
            .attach(interface, XdpMode::Driver)
            .with_context(|| format!("cannot attach to {interface}"))?;
        Ok(())
    })?;
    Ok(object)
}

/// Removes what labs whose process has ended left behind.
fn sweep() -> Result<()> {
    for line in run(Command::new("ip").args(["netns", "list"]))?.lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        if name.strip_prefix(PREFIX).is_some_and(is_stale) {
            run(Command::new("ip").args(["netns", "delete", name]))?;
        }
    }
    let (pins, state) = (pin_directory(""), state_file(""));
    let state = state.parent().unwrap_or(&state);
    for (directory, prefix) in [
        (std::env::temp_dir().as_path(), PREFIX),
        (&pins, INSTANCE_PREFIX),
        (state, INSTANCE_PREFIX),
    ] {
        let Ok(entries) = fs::read_dir(directory) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name
                .to_str()
                .and_then(|name| name.strip_prefix(prefix))
                .is_some_and(is_stale)
            {
                let path = entry.path();
                remove(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
    }
    Ok(())
}

/// Whether a name `[client-|host-]PID-NUMBER[.json]` belongs to a process that has ended.
fn is_stale(identity: &str) -> bool {
    identity
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .split_once('-')
        .and_then(|(pid, _)| pid.parse::<u32>().ok())
        .is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}
