//! What the kernel says about a network interface, by netlink: it answers for the network namespace of
//! this process, which a mounted /sys need not do.

use std::net::IpAddr;

use futures_util::TryStreamExt;
use rtnetlink::{
    Handle, new_connection,
    packet_route::{
        address::{AddressAttribute, AddressFlags, AddressMessage},
        link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage, LinkXdp, XdpAttached},
    },
};
use thiserror::Error;

use crate::mac::Mac;

/// Where an XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver or the card.
    Native,
    /// In the kernel's generic path.
    Generic,
}

impl AttachMode {
    /// Name in configuration and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// An XDP program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedProgram {
    /// Where it runs.
    pub mode: AttachMode,
    /// The kernel's number of it.
    pub id: u32,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// The kernel's number of it.
    pub index: u32,
    /// MAC address; zeros if it has none.
    pub mac: Mac,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Whether it is one end of a virtual pair.
    pub is_veth: bool,
    /// Names of the VLAN interfaces on it, when found by its name.
    pub vlans: Vec<String>,
    /// Its unicast addresses in use: IPv4, then lasting IPv6 ones, link-local ones, temporary ones.
    pub addresses: Vec<IpAddr>,
    /// XDP program on it.
    pub program: Option<AttachedProgram>,
}

/// Why nothing is known of an interface.
#[derive(Debug, Error)]
pub enum InterfaceError {
    /// No such name.
    #[error(
        "interface {0} does not exist in this network namespace; `ip link` lists those that do"
    )]
    UnknownName(String),
    /// No such number.
    #[error("the protected interface (number {0}) is gone from this network namespace")]
    UnknownIndex(u32),
    /// Netlink failed.
    #[error("cannot ask the kernel about interface {interface}: {reason}")]
    Netlink {
        /// Name or number.
        interface: String,
        /// What it said.
        reason: String,
    },
}

/// The interface with this name.
pub async fn by_name(name: &str) -> Result<Interface, InterfaceError> {
    let request = |handle: &Handle| handle.link().get().match_name(name.to_owned());
    query(name.to_owned(), request, true)
        .await?
        .ok_or_else(|| InterfaceError::UnknownName(name.to_owned()))
}

/// The interface with this number; nothing is asked about VLANs.
pub async fn by_index(index: u32) -> Result<Interface, InterfaceError> {
    let request = |handle: &Handle| handle.link().get().match_index(index);
    query(index.to_string(), request, false)
        .await?
        .ok_or(InterfaceError::UnknownIndex(index))
}

/// `None` when there is no such interface.
async fn query(
    label: String,
    request: impl FnOnce(&Handle) -> rtnetlink::LinkGetRequest,
    with_vlans: bool,
) -> Result<Option<Interface>, InterfaceError> {
    let failed = |reason: String| InterfaceError::Netlink {
        interface: label.clone(),
        reason,
    };
    let (connection, handle, _) = new_connection().map_err(|e| failed(e.to_string()))?;
    let connection = tokio::spawn(connection);
    let result = async {
        let mut answers = Box::pin(request(&handle).execute());
        let link = match answers.try_next().await {
            Ok(Some(link)) => link,
            Ok(None) => return Ok(None),
            Err(rtnetlink::Error::NetlinkError(error))
                if matches!(-error.raw_code(), libc::ENODEV | libc::EINVAL) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(failed(error.to_string())),
        };
        let mut interface = describe(&link);
        interface.addresses = addresses(&handle, interface.index)
            .await
            .map_err(|e| failed(e.to_string()))?;
        if with_vlans {
            let links: Vec<LinkMessage> = handle
                .link()
                .get()
                .execute()
                .try_collect()
                .await
                .map_err(|e| failed(e.to_string()))?;
            interface.vlans = vlans(&links, interface.index);
        }
        Ok(Some(interface))
    }
    .await;
    connection.abort();
    result
}

fn describe(link: &LinkMessage) -> Interface {
    let mut interface = Interface {
        name: String::new(),
        index: link.header.index,
        mac: Mac::default(),
        mtu: 0,
        is_veth: false,
        vlans: Vec::new(),
        addresses: Vec::new(),
        program: None,
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
            LinkAttribute::Address(address) => {
                interface.mac = Mac(address.as_slice().try_into().unwrap_or_default());
            }
            LinkAttribute::LinkInfo(infos) => {
                interface.is_veth = infos.contains(&LinkInfo::Kind(InfoKind::Veth));
            }
            LinkAttribute::Xdp(attributes) => interface.program = program(attributes),
            _ => {}
        }
    }
    interface
}

/// The VLAN interfaces on the one with this number.
fn vlans(links: &[LinkMessage], index: u32) -> Vec<String> {
    let is_vlan = |attribute: &LinkAttribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.contains(&LinkInfo::Kind(InfoKind::Vlan)),
        _ => false,
    };
    links
        .iter()
        .filter(|link| link.attributes.contains(&LinkAttribute::Link(index)))
        .filter(|link| link.attributes.iter().any(is_vlan))
        .map(|link| describe(link).name)
        .collect()
}

/// With programs in both places, the driver's one sees the packets first.
fn program(attributes: &[LinkXdp]) -> Option<AttachedProgram> {
    let mut single = None;
    let (mut driver, mut generic) = (None, None);
    let mut mode = None;
    for attribute in attributes {
        match attribute {
            LinkXdp::Attached(XdpAttached::SocketBuffer) => mode = Some(AttachMode::Generic),
            LinkXdp::Attached(XdpAttached::Driver | XdpAttached::Hardware) => {
                mode = Some(AttachMode::Native);
            }
            LinkXdp::ProgId(id) => single = Some(*id),
            LinkXdp::DrvProgId(id) | LinkXdp::HwProgId(id) => driver = Some(*id),
            LinkXdp::SkbProgId(id) => generic = Some(*id),
            _ => {}
        }
    }
    let attached = |mode, id| AttachedProgram { mode, id };
    match (mode, single) {
        (Some(mode), Some(id)) => Some(attached(mode, id)),
        _ => driver
            .map(|id| attached(AttachMode::Native, id))
            .or_else(|| generic.map(|id| attached(AttachMode::Generic, id))),
    }
}

async fn addresses(handle: &Handle, index: u32) -> Result<Vec<IpAddr>, rtnetlink::Error> {
    let request = handle.address().get().set_link_index_filter(index);
    let messages: Vec<_> = request.execute().try_collect().await?;
    let own: Vec<_> = messages
        .into_iter()
        .filter(|message| message.header.index == index)
        .collect();
    Ok(in_use(&own))
}

/// The addresses of [`Interface::addresses`], in its order and that of the kernel.
fn in_use(messages: &[AddressMessage]) -> Vec<IpAddr> {
    let mut found: Vec<(u8, IpAddr)> = Vec::new();
    for message in messages {
        let Some(address) = own_address(message) else {
            continue;
        };
        let flags = flags(message);
        // Not the host's yet, or never (RFC 4862 5.4).
        let is_unproven = flags.intersects(AddressFlags::Tentative | AddressFlags::Dadfailed)
            && !flags.contains(AddressFlags::Optimistic);
        let is_known = found.iter().any(|(_, known)| *known == address);
        if !is_unproven && !is_known && !address.is_loopback() && !address.is_multicast() {
            found.push((rank(address, flags), address));
        }
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, address)| address).collect()
}

/// On a point-to-point interface `Address` is the other end, and `Local` ours.
fn own_address(message: &AddressMessage) -> Option<IpAddr> {
    let attributes = &message.attributes;
    let local = attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| {
        attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

fn flags(message: &AddressMessage) -> AddressFlags {
    let header = AddressFlags::from_bits_retain(u32::from(message.header.flags.bits()));
    message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            AddressAttribute::Flags(flags) => Some(*flags),
            _ => None,
        })
        .unwrap_or(header)
}

/// Where there is no room for all, the last are left out: callers send to the first.
fn rank(address: IpAddr, flags: AddressFlags) -> u8 {
    match address {
        IpAddr::V4(_) => 0,
        IpAddr::V6(address) if address.is_unicast_link_local() => 2,
        // For IPv6 the kernel means temporary by it (RFC 8981).
        IpAddr::V6(_) if flags.contains(AddressFlags::Secondary) => 3,
        IpAddr::V6(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_and_its_mode_are_read() {
        let native = AttachedProgram {
            mode: AttachMode::Native,
            id: 7,
        };
        let generic = AttachedProgram {
            mode: AttachMode::Generic,
            id: 8,
        };
        assert_eq!(program(&[LinkXdp::Attached(XdpAttached::None)]), None);
        assert_eq!(
            program(&[
                LinkXdp::Attached(XdpAttached::Driver),
                LinkXdp::ProgId(7),
                LinkXdp::DrvProgId(7)
            ]),
            Some(native)
        );
        assert_eq!(
            program(&[
                LinkXdp::Attached(XdpAttached::SocketBuffer),
                LinkXdp::ProgId(8),
                LinkXdp::SkbProgId(8)
            ]),
            Some(generic)
        );
        assert_eq!(
            program(&[
                LinkXdp::Attached(XdpAttached::Multiple),
                LinkXdp::DrvProgId(7),
                LinkXdp::SkbProgId(8)
            ]),
            Some(native)
        );
    }

    fn message(attributes: &[AddressAttribute], flags: AddressFlags) -> AddressMessage {
        let mut message = AddressMessage::default();
        message.attributes = attributes.to_vec();
        message.attributes.push(AddressAttribute::Flags(flags));
        message
    }

    #[test]
    fn r4862_5_4_addresses_in_use_are_known_those_callers_use_first() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("address");
        let with = |text: &str, flags| message(&[AddressAttribute::Address(ip(text))], flags);
        let lasting = AddressFlags::Permanent;
        let messages = [
            with("2001:db8::77", AddressFlags::Secondary),
            with("fe80::1", lasting),
            with("2001:db8::1", lasting),
            with("fd00::1", AddressFlags::Deprecated),
            with("2001:db8::2", AddressFlags::Tentative),
            with(
                "2001:db8::3",
                AddressFlags::Tentative | AddressFlags::Optimistic,
            ),
            with("2001:db8::4", AddressFlags::Dadfailed),
            with("127.0.0.1", lasting),
            with("::1", lasting),
            message(
                &[
                    AddressAttribute::Address(ip("192.0.2.254")),
                    AddressAttribute::Local(ip("192.0.2.1")),
                ],
                lasting,
            ),
            with("192.0.2.2", AddressFlags::Secondary),
            with("192.0.2.2", lasting),
        ];
        let expected = [
            "192.0.2.1",
            "192.0.2.2",
            "2001:db8::1",
            "fd00::1",
            "2001:db8::3",
            "fe80::1",
            "2001:db8::77",
        ];
        assert_eq!(in_use(&messages), expected.map(ip));
    }

    #[test]
    fn vlans_on_an_interface_are_found() {
        let link = |name: &str, on: u32, kind: InfoKind| {
            let mut link = LinkMessage::default();
            link.attributes = vec![
                LinkAttribute::IfName(name.to_owned()),
                LinkAttribute::Link(on),
                LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]),
            ];
            link
        };
        let links = [
            link("eth0.100", 2, InfoKind::Vlan),
            link("eth1.100", 3, InfoKind::Vlan),
            link("peer", 2, InfoKind::Veth),
            link("trunk", 2, InfoKind::Vlan),
        ];
        assert_eq!(vlans(&links, 2), ["eth0.100", "trunk"]);
    }

    #[tokio::test]
    async fn the_loopback_interface_is_known_and_has_no_address_to_protect() {
        let lo = by_name("lo").await.expect("every namespace has lo");
        assert_eq!((lo.name.as_str(), lo.index), ("lo", 1));
        assert_eq!(lo.addresses, Vec::<IpAddr>::new());
        assert!(!lo.is_veth);
        assert_eq!(by_index(1).await.expect("lo").name, "lo");
    }

    #[tokio::test]
    async fn an_unknown_interface_is_one_sentence() {
        let error = by_name("nosuch0").await.expect_err("does not exist");
        assert_eq!(
            error.to_string(),
            "interface nosuch0 does not exist in this network namespace; `ip link` lists those that do"
        );
        let error = by_index(987_654).await.expect_err("does not exist");
        assert!(
            matches!(error, InterfaceError::UnknownIndex(987_654)),
            "{error}"
        );
    }
}
