//! VLAN tags that the card takes off: XDP does not see them, and an answer would leave without.

use std::{
    io,
    os::{fd::AsRawFd, unix::net::UnixDatagram},
};

use super::{attach::Notice, interface::Interface};

// `linux/ethtool.h`
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;

#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// A warning where tags that matter are taken off before the filter. An offload that cannot be asked for is
/// none: the interface has no driver that would do it.
pub fn warning(interface: &Interface) -> Option<Notice> {
    let is_offloaded = receive_offload(&interface.name).unwrap_or(false);
    hidden_tags(&interface.name, is_offloaded, &interface.vlans)
}

fn hidden_tags(interface: &str, is_offloaded: bool, vlans: &[String]) -> Option<Notice> {
    (is_offloaded && !vlans.is_empty()).then(|| Notice::HiddenTags {
        interface: interface.to_owned(),
        vlans: vlans.join(" "),
    })
}

/// Whether the interface takes VLAN tags off what it receives: `rx-vlan-offload` of `ethtool -k`.
pub fn receive_offload(interface: &str) -> io::Result<bool> {
    // A socket of any kind stands for its network namespace.
    let socket = UnixDatagram::unbound()?;
    let mut value = EthtoolValue {
        command: ETHTOOL_GFLAGS,
        data: 0,
    };
    // SAFETY: a struct of integers, arrays and pointers, all of which may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request and the value it points to outlive the call, which writes the value only.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value.data & ETH_FLAG_RXVLAN != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_tags_are_warned_of_where_they_matter() {
        let vlans = ["eth0.100".to_owned(), "eth0.200".to_owned()];
        let warning = hidden_tags("eth0", true, &vlans).expect("a warning");
        assert_eq!(
            warning.to_string(),
            "eth0 takes VLAN tags off before the filter sees them, so answers to requests for eth0.100 eth0.200 would leave untagged; keep the tags: ethtool -K eth0 rxvlan off"
        );
        assert_eq!(hidden_tags("eth0", false, &vlans), None);
        assert_eq!(hidden_tags("eth0", true, &[]), None);
    }

    #[test]
    fn what_does_not_exist_has_no_offload() {
        assert!(receive_offload("nosuch0").is_err());
        assert!(receive_offload("a-name-that-is-too-long").is_err());
    }
}
