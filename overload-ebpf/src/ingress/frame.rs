//! Ethernet, VLAN tags, IPv4 or IPv6 and UDP: is this datagram for a protected address and port?

use aya_ebpf::{helpers::generated::bpf_xdp_get_buff_len, programs::XdpContext};
use overload_common::abi::{InterfaceRecord, MAX_ADDRESSES, MAX_MACS, Mode, Reason};

use crate::{
    kernel::opaque_word,
    maps::{INTERFACE_SLOT, INTERFACES, PORTS},
};

/// Bytes of an Ethernet header without tags.
pub const ETHERNET: u32 = 14;
/// Bytes of a VLAN tag.
const TAG: u32 = 4;
/// Bytes of an IPv4 header without options.
pub const IPV4_HEADER: u32 = 20;
/// Bytes of an IPv6 header.
pub const IPV6_HEADER: u32 = 40;
/// Bytes of a UDP header.
pub const UDP_HEADER: u32 = 8;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;

/// Protocol number of UDP.
pub const UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// Extension headers that are walked.
const EXTENSIONS_MAX: u32 = 4;

/// An address as it lies in an IPv6 packet, in two words; IPv4 as `::ffff:a.b.c.d`.
pub type Address = [u64; 2];

/// An IPv4 address as it lies in the packet.
#[inline(always)]
fn mapped(address: u32) -> Address {
    [0, MAPPED | u64::from(address) << 32]
}

/// Is this `::ffff:a.b.c.d`?
#[inline(always)]
pub fn is_mapped(address: Address) -> bool {
    address[0] == 0 && address[1] & 0xffff_ffff == MAPPED
}

const MAPPED: u64 = u64::from_le_bytes([0, 0, 0xff, 0xff, 0, 0, 0, 0]);

/// A datagram to a protected address and port. Pointers are into the packet, their headers within it.
pub struct Frame {
    /// What to do with verdicts here.
    pub mode: Mode,
    /// Bytes of the frame.
    pub length: u32,
    /// The IP header.
    ip: Ip,
    /// The UDP header.
    udp: usize,
    /// Bytes of UDP payload.
    pub payload_length: u32,
    /// Payload's start, bounds to be checked against `end`.
    pub payload: usize,
    /// End of what can be read directly.
    pub end: usize,
}

/// An IP header in the packet.
struct Ip {
    /// Pointer to it.
    header: usize,
    version: Version,
    /// Offset of the header, of UDP and of the packet's end, as the header states it.
    start: u32,
    udp: u32,
    end: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Four,
    Six,
}

impl Ip {
    #[inline(always)]
    fn addresses(&self, four: u32, six: u32) -> Address {
        // SAFETY: the header is within the packet.
        unsafe {
            match self.version {
                Version::Four => mapped(read(self.header, four)),
                Version::Six => [read(self.header, six), read(self.header, six + 8)],
            }
        }
    }

    #[inline(always)]
    fn source(&self) -> Address {
        self.addresses(12, 8)
    }

    #[inline(always)]
    fn destination(&self) -> Address {
        self.addresses(16, 24)
    }
}

impl Frame {
    /// Offset of the IP header: Ethernet and tags are before it.
    #[inline(always)]
    pub fn ip(&self) -> u32 {
        self.ip.start
    }

    /// Offset of the UDP payload.
    #[inline(always)]
    pub fn offset(&self) -> u32 {
        self.ip.udp + UDP_HEADER
    }

    /// Source and destination address.
    #[inline(always)]
    pub fn addresses(&self) -> [Address; 2] {
        [self.ip.source(), self.ip.destination()]
    }

    /// Source and destination port, host order.
    #[inline(always)]
    pub fn ports(&self) -> [u32; 2] {
        // SAFETY: the UDP header is within the packet.
        unsafe {
            [
                u32::from(u16::from_be(read(self.udp, 0))),
                u32::from(u16::from_be(read(self.udp, 2))),
            ]
        }
    }
}

/// A place in the packet as one pointer, lest the compiler make a new one, unchecked, for each read.
#[inline(always)]
fn at(data: usize, offset: u32) -> usize {
    opaque_word(data as u64 + u64::from(offset)) as usize
}

/// Reads `T` at an offset that has been checked against the end.
#[inline(always)]
unsafe fn read<T>(data: usize, offset: u32) -> T {
    // SAFETY: the caller has compared `data + offset + size_of::<T>()` with the packet's end.
    unsafe { ((data + offset as usize) as *const T).read_unaligned() }
}

#[inline(always)]
fn is_protected_port(port: u16) -> bool {
    match PORTS.get(u32::from(port) >> 6) {
        Some(word) => word >> (port & 63) & 1 != 0,
        None => false,
    }
}

#[inline(always)]
fn is_protected_address(interface: &InterfaceRecord, address: Address) -> bool {
    for slot in 0..MAX_ADDRESSES {
        let own = u128::from_ne_bytes(interface.addresses[slot]);
        if (slot as u32) < interface.address_count
            && (own >> 64) as u64 == address[1]
            && own as u64 == address[0]
        {
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
    if data + (ETHERNET + IPV4_HEADER + UDP_HEADER) as usize > end {
        return Err(Reason::Unrelated);
    }
    let mut ip = ETHERNET;
    // SAFETY: at most 22 bytes, which are within the packet.
    let mut ethertype = unsafe { u16::from_be(read(data, ip - 2)) };
    for _ in 0..2 {
        if ethertype != VLAN && ethertype != QINQ {
            break;
        }
        ip += TAG;
        // SAFETY: as above.
        ethertype = unsafe { u16::from_be(read(data, ip - 2)) };
    }
    let ip = match ethertype {
        IPV4 => ipv4(data, end, ip)?,
        IPV6 => ipv6(data, end, ip)?,
        _ => return Err(Reason::Unrelated),
    };
    let udp = at(data, ip.udp);
    if udp + UDP_HEADER as usize > end {
        return Err(Reason::Unrelated);
    }
    // SAFETY: the UDP header is within the packet.
    if !is_protected_port(unsafe { u16::from_be(read(udp, 2)) }) {
        return Err(Reason::Unrelated);
    }
    let Some(interface) = INTERFACES.get(INTERFACE_SLOT.load()) else {
        return Err(Reason::Unconfigured);
    };
    // SAFETY: the MAC address is within the packet.
    let mac = unsafe { u64::from(read::<u32>(data, 0)) | u64::from(read::<u16>(data, 4)) << 32 };
    if !is_protected_address(interface, ip.destination()) || !is_own_mac(interface, mac) {
        return Err(Reason::Unrelated);
    }
    let mode = Mode::from_raw(interface.mode);
    if mode == Mode::Bypass {
        return Err(Reason::Bypass);
    }
    let mut length = (end - data) as u32;
    if ip.end > length {
        // The rest may lie in fragments of the buffer.
        // SAFETY: a helper on the context.
        length = unsafe { bpf_xdp_get_buff_len(ctx.ctx) } as u32;
    }
    // SAFETY: the UDP header is within the packet.
    let udp_length = u32::from(unsafe { u16::from_be(read(udp, 4)) });
    if udp_length < UDP_HEADER || ip.udp + udp_length > ip.end || ip.end > length {
        return Err(Reason::BadLength);
    }
    Ok(Frame {
        mode,
        length,
        ip,
        udp,
        payload_length: udp_length - UDP_HEADER,
        payload: udp + UDP_HEADER as usize,
        end,
    })
}

/// IPv4 with or without options.
#[inline(always)]
fn ipv4(data: usize, end: usize, ip: u32) -> Result<Ip, Reason> {
    let header = at(data, ip);
    if header + (IPV4_HEADER + UDP_HEADER) as usize > end {
        return Err(Reason::Unrelated);
    }
    // SAFETY: the header without options is within the packet.
    unsafe {
        if read::<u8>(header, 9) != UDP {
            return Err(Reason::Unrelated);
        }
        if u16::from_be(read(header, 6)) & 0x3fff != 0 {
            return Err(Reason::Fragment);
        }
        let first = read::<u8>(header, 0);
        if !(0x45..=0x4f).contains(&first) {
            return Err(Reason::BadLength);
        }
        Ok(Ip {
            header,
            version: Version::Four,
            start: ip,
            udp: ip + u32::from(first & 15) * 4,
            end: ip + u32::from(u16::from_be(read(header, 2))),
        })
    }
}

/// IPv6 with at most [`EXTENSIONS_MAX`] extension headers (RFC 8200 4).
#[inline(always)]
fn ipv6(data: usize, end: usize, ip: u32) -> Result<Ip, Reason> {
    let header = at(data, ip);
    if header + (IPV6_HEADER + UDP_HEADER) as usize > end {
        return Err(Reason::Unrelated);
    }
    let mut udp = ip + IPV6_HEADER;
    // SAFETY: the fixed header is within the packet.
    let mut next = unsafe { read::<u8>(header, 6) };
    for _ in 0..EXTENSIONS_MAX {
        match next {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {}
            FRAGMENT => return Err(Reason::Fragment),
            _ => break,
        }
        let extension = at(data, udp);
        if extension + 8 > end {
            return Err(Reason::Unrelated);
        }
        // SAFETY: eight bytes of the extension header are within the packet.
        unsafe {
            // Segments left: the destination is only a stop on the way.
            if next == ROUTING && read::<u8>(extension, 3) != 0 {
                return Err(Reason::ExtensionHeaders);
            }
            next = read(extension, 0);
            udp += (u32::from(read::<u8>(extension, 1)) + 1) * 8;
        }
    }
    if next != UDP {
        return Err(match next {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => Reason::ExtensionHeaders,
            FRAGMENT => Reason::Fragment,
            _ => Reason::Unrelated,
        });
    }
    // SAFETY: the fixed header is within the packet.
    let length = unsafe { u16::from_be(read(header, 4)) };
    Ok(Ip {
        header,
        version: Version::Six,
        start: ip,
        udp,
        end: ip + IPV6_HEADER + u32::from(length),
    })
}
