//! Ethernet, IPv4 and UDP: is this datagram for a protected address and port?

use aya_ebpf::programs::XdpContext;
use overload_common::abi::{InterfaceRecord, MAX_ADDRESSES, MAX_MACS, Mode, Reason};

use crate::maps::{INTERFACE_SLOT, INTERFACES, PORTS};

const ETHERNET: usize = 14;
/// Offset of the UDP payload: Ethernet, IPv4 without options, UDP.
pub const PAYLOAD: u32 = 42;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;
const UDP: u8 = 17;

/// A datagram to a protected address and port.
pub struct Frame {
    /// What to do with verdicts here.
    pub mode: Mode,
    /// Bytes of UDP payload.
    pub payload_length: u32,
    /// Source address, as it lies in the packet.
    pub source: u32,
    /// Destination address, as it lies in the packet.
    pub destination: u32,
    /// Source port, host order.
    pub source_port: u32,
    /// Payload's start, bounds to be checked against `end`.
    pub payload: usize,
    /// End of the packet.
    pub end: usize,
}

/// Reads `T` at an offset that has been checked against the end.
#[inline(always)]
unsafe fn read<T>(data: usize, offset: usize) -> T {
    // SAFETY: the caller has compared `data + offset + size_of::<T>()` with the packet's end.
    unsafe { ((data + offset) as *const T).read_unaligned() }
}

#[inline(always)]
fn is_protected_port(port: u16) -> bool {
    match PORTS.get(u32::from(port) >> 6) {
        Some(word) => word >> (port & 63) & 1 != 0,
        None => false,
    }
}

/// IPv4 addresses are stored as `::ffff:a.b.c.d`.
#[inline(always)]
fn is_protected_address(interface: &InterfaceRecord, address: u32) -> bool {
    for slot in 0..MAX_ADDRESSES {
        let [.., a, b, c, d] = interface.addresses[slot];
        if (slot as u32) < interface.address_count && u32::from_ne_bytes([a, b, c, d]) == address {
            return true;
        }
    }
    false
}

#[inline(always)]
fn is_own_mac(interface: &InterfaceRecord, mac: u64) -> bool {
    for slot in 0..MAX_MACS {
        if interface.macs[slot] == mac {
            return true;
        }
    }
    false
}

/// The datagram's frame, or why it is none of ours.
#[inline(always)]
pub fn parse(ctx: &XdpContext) -> Result<Frame, Reason> {
    let (data, end) = (ctx.data(), ctx.data_end());
    if data + PAYLOAD as usize > end {
        return Err(Reason::Unrelated);
    }
    // SAFETY: the first 42 bytes are within the packet.
    unsafe {
        let ethertype = u16::from_be(read(data, 12));
        if ethertype != IPV4 {
            return Err(other_ethertype(data, end, ethertype));
        }
        if read::<u8>(data, ETHERNET + 9) != UDP {
            return Err(Reason::Unrelated);
        }
        let fragment = u16::from_be(read(data, ETHERNET + 6));
        if fragment & 0x3fff != 0 {
            return Err(Reason::Fragment);
        }
        match read::<u8>(data, ETHERNET) {
            0x45 => {}
            0x46..=0x4f => return Err(Reason::IpOptions),
            _ => return Err(Reason::BadLength),
        }
        if !is_protected_port(u16::from_be(read(data, ETHERNET + 22))) {
            return Err(Reason::Unrelated);
        }
        let Some(interface) = INTERFACES.get(INTERFACE_SLOT.load()) else {
            return Err(Reason::Unconfigured);
        };
        let mac = u64::from(read::<u32>(data, 0)) | u64::from(read::<u16>(data, 4)) << 32;
        let destination = read::<u32>(data, ETHERNET + 16);
        if !is_protected_address(interface, destination) || !is_own_mac(interface, mac) {
            return Err(Reason::Unrelated);
        }
        let mode = Mode::from_raw(interface.mode);
        if mode == Mode::Bypass {
            return Err(Reason::Bypass);
        }
        let ip_length = u32::from(u16::from_be(read(data, ETHERNET + 2)));
        let udp_length = u32::from(u16::from_be(read(data, ETHERNET + 24)));
        if udp_length < 8
            || udp_length + 20 > ip_length
            || ip_length as usize + ETHERNET > end - data
        {
            return Err(Reason::BadLength);
        }
        Ok(Frame {
            mode,
            payload_length: udp_length - 8,
            source: read(data, ETHERNET + 12),
            destination,
            source_port: u32::from(u16::from_be(read(data, ETHERNET + 20))),
            payload: data + PAYLOAD as usize,
            end,
        })
    }
}

/// What this version sees and leaves alone is still told from unrelated traffic.
#[inline(always)]
unsafe fn other_ethertype(data: usize, end: usize, ethertype: u16) -> Reason {
    if ethertype == VLAN || ethertype == QINQ {
        return Reason::Vlan;
    }
    if ethertype != IPV6 || data + ETHERNET + 44 > end {
        return Reason::Unrelated;
    }
    // SAFETY: checked against the end just above.
    unsafe {
        if read::<u8>(data, ETHERNET + 6) == UDP
            && is_protected_port(u16::from_be(read(data, ETHERNET + 42)))
        {
            return Reason::Ipv6;
        }
    }
    Reason::Unrelated
}
