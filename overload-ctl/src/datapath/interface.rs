//! What the kernel says about a network interface, by netlink: it answers for the network namespace of
//! this process, which a mounted /sys need not do.

use std::net::{IpAddr, Ipv4Addr};

use futures_util::TryStreamExt;
use rtnetlink::{
    Handle, new_connection,
    packet_route::{
        AddressFamily,
        address::AddressAttribute,
        link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage, LinkXdp, XdpAttached},
    },
};
use thiserror::Error;

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
    pub mac: [u8; 6],
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Whether it is one end of a virtual pair.
    pub is_veth: bool,
    /// IPv4 addresses, loopback ones left out.
    pub addresses: Vec<Ipv4Addr>,
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
    query(name.to_owned(), |handle| {
        handle.link().get().match_name(name.to_owned())
    })
    .await?
    .ok_or_else(|| InterfaceError::UnknownName(name.to_owned()))
}

/// The interface with this number.
pub async fn by_index(index: u32) -> Result<Interface, InterfaceError> {
    query(index.to_string(), |handle| {
        handle.link().get().match_index(index)
    })
    .await?
    .ok_or(InterfaceError::UnknownIndex(index))
}

/// `None` when there is no such interface.
async fn query(
    label: String,
    request: impl FnOnce(&Handle) -> rtnetlink::LinkGetRequest,
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
        mac: [0; 6],
        mtu: 0,
        is_veth: false,
        addresses: Vec::new(),
        program: None,
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
            LinkAttribute::Address(address) => {
                interface.mac = address.as_slice().try_into().unwrap_or_default();
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

async fn addresses(handle: &Handle, index: u32) -> Result<Vec<Ipv4Addr>, rtnetlink::Error> {
    let request = handle.address().get().set_link_index_filter(index);
    let messages: Vec<_> = request.execute().try_collect().await?;
    let mut found = Vec::new();
    for message in &messages {
        if message.header.family != AddressFamily::Inet || message.header.index != index {
            continue;
        }
        for attribute in &message.attributes {
            // On a point-to-point interface `Address` is the other end.
            if let AddressAttribute::Local(IpAddr::V4(address)) = attribute
                && !address.is_loopback()
                && !found.contains(address)
            {
                found.push(*address);
            }
        }
    }
    Ok(found)
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

    #[tokio::test]
    async fn the_loopback_interface_is_known_and_has_no_address_to_protect() {
        let lo = by_name("lo").await.expect("every namespace has lo");
        assert_eq!((lo.name.as_str(), lo.index), ("lo", 1));
        assert_eq!(lo.addresses, Vec::<Ipv4Addr>::new());
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
