//! Ethernet, IPv4 or IPv6 and UDP around a payload, with right checksums; and back, checking all of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// MAC address of the sender in all frames.
pub const CLIENT_MAC: [u8; 6] = [0x02, 0xc1, 0x1e, 0x07, 0x00, 0x0a];
/// MAC address of the protected host.
pub const SERVER_MAC: [u8; 6] = [0x02, 0x5e, 0x12, 0x4e, 0x12, 0x01];
/// Addresses of the protected host.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// See [`SERVER`].
pub const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
/// Addresses of the client.
pub const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));
/// See [`CLIENT`].
pub const CLIENT_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 9, 0xff));

const UDP: u8 = 17;

/// A UDP datagram on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Source MAC address.
    pub source_mac: [u8; 6],
    /// Destination MAC address.
    pub destination_mac: [u8; 6],
    /// VLAN tags: protocol and control information of each, the outer first.
    pub tags: Vec<[u8; 4]>,
    /// Source address.
    pub source: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// IPv4 options, or IPv6 extension headers: the type of each and its bytes, whose first is the type of
    /// what follows and is filled in.
    pub options: Vec<(u8, Vec<u8>)>,
    /// UDP payload.
    pub payload: Vec<u8>,
}

/// Why a frame is not one whole UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Too short, or not IP without options, or not UDP.
    Shape,
    /// A length field does not give the frame's length.
    Length,
    /// The IPv4 header checksum is wrong.
    IpChecksum,
    /// The UDP checksum is wrong or absent.
    UdpChecksum,
}

impl Datagram {
    /// From the client 192.0.2.10 to the protected host 192.0.2.1 port 5060.
    pub fn new(source_port: u16, payload: &[u8]) -> Self {
        Self {
            source_mac: CLIENT_MAC,
            destination_mac: SERVER_MAC,
            tags: Vec::new(),
            source: CLIENT,
            source_port,
            destination: SERVER,
            destination_port: 5060,
            options: Vec::new(),
            payload: payload.to_vec(),
        }
    }

    /// The same over IPv6, from 2001:db8::9:ff to 2001:db8::1.
    pub fn new_v6(source_port: u16, payload: &[u8]) -> Self {
        Self {
            source: CLIENT_V6,
            destination: SERVER_V6,
            ..Self::new(source_port, payload)
        }
    }

    /// The frame.
    pub fn frame(&self) -> Vec<u8> {
        let udp_length = 8 + self.payload.len() as u16;
        let mut udp = Vec::new();
        udp.extend(self.source_port.to_be_bytes());
        udp.extend(self.destination_port.to_be_bytes());
        udp.extend(udp_length.to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(&self.payload);
        let sum = match checksum(&[&self.pseudo_header(udp_length), &udp]) {
            0 => 0xffff,
            sum => sum,
        };
        udp[6..8].copy_from_slice(&sum.to_be_bytes());

        let mut frame = self.destination_mac.to_vec();
        frame.extend(self.source_mac);
        frame.extend(self.tags.concat());
        frame.extend(if self.source.is_ipv4() {
            [0x08, 0x00]
        } else {
            [0x86, 0xdd]
        });
        frame.extend(self.ip_header(udp_length));
        frame.extend(udp);
        frame
    }

    fn ip_header(&self, udp_length: u16) -> Vec<u8> {
        let mut options = self.options.clone();
        if self.source.is_ipv6() {
            let next: Vec<u8> = self
                .options
                .iter()
                .map(|(kind, _)| *kind)
                .chain([UDP])
                .collect();
            for ((_, bytes), next) in options.iter_mut().zip(&next[1..]) {
                bytes[0] = *next;
            }
            let options_length: usize = options.iter().map(|(_, bytes)| bytes.len()).sum();
            let mut ip = vec![0x60, 0, 0, 0];
            ip.extend((udp_length + options_length as u16).to_be_bytes());
            ip.extend([next[0], 61]);
            ip.extend(octets(self.source));
            ip.extend(octets(self.destination));
            ip.extend(options.into_iter().flat_map(|(_, bytes)| bytes));
            return ip;
        }
        let options: Vec<u8> = options.into_iter().flat_map(|(_, bytes)| bytes).collect();
        let words = 5 + options.len() as u8 / 4;
        let mut ip = vec![0x40 | words, 0x00];
        ip.extend((u16::from(words) * 4 + udp_length).to_be_bytes());
        ip.extend([0x1c, 0x46, 0x40, 0x00, 57, UDP, 0, 0]);
        ip.extend(octets(self.source));
        ip.extend(octets(self.destination));
        ip.extend(options);
        let sum = checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip
    }

    /// Reads a frame that must be exactly one datagram with right lengths and checksums.
    pub fn read(frame: &[u8]) -> Result<Self, FrameError> {
        let mut tags = Vec::new();
        let mut at = 12;
        while let Some([kind @ (0x81 | 0x88), low @ (0x00 | 0xa8), high, id]) =
            frame.get(at..at + 4)
            && matches!((kind, low), (0x81, 0x00) | (0x88, 0xa8))
        {
            tags.push([*kind, *low, *high, *id]);
            at += 4;
        }
        let body = frame.get(at + 2..).ok_or(FrameError::Shape)?;
        let (source, destination, udp) = match frame[at..at + 2] {
            [0x08, 0x00] => read_v4(body)?,
            [0x86, 0xdd] => read_v6(body)?,
            _ => return Err(FrameError::Shape),
        };
        let mac = |at: usize| [0, 1, 2, 3, 4, 5].map(|byte| frame[at + byte]);
        let datagram = Self {
            destination_mac: mac(0),
            source_mac: mac(6),
            tags,
            source,
            destination,
            source_port: big_endian(udp, 0),
            destination_port: big_endian(udp, 2),
            options: Vec::new(),
            payload: udp[8..].to_vec(),
        };
        if usize::from(big_endian(udp, 4)) != udp.len() {
            return Err(FrameError::Length);
        }
        if udp[6..8] == [0, 0] || checksum(&[&datagram.pseudo_header(udp.len() as u16), udp]) != 0 {
            return Err(FrameError::UdpChecksum);
        }
        Ok(datagram)
    }

    fn pseudo_header(&self, udp_length: u16) -> Vec<u8> {
        let mut bytes = octets(self.source);
        bytes.extend(octets(self.destination));
        bytes.extend([0, UDP]);
        bytes.extend(udp_length.to_be_bytes());
        bytes
    }
}

/// Addresses and UDP of an IPv4 packet without options.
fn read_v4(ip: &[u8]) -> Result<(IpAddr, IpAddr, &[u8]), FrameError> {
    if ip.len() < 28 || ip[0] != 0x45 || ip[9] != UDP {
        return Err(FrameError::Shape);
    }
    if usize::from(big_endian(ip, 2)) != ip.len() {
        return Err(FrameError::Length);
    }
    if checksum(&[&ip[..20]]) != 0 {
        return Err(FrameError::IpChecksum);
    }
    let address = |at: usize| IpAddr::from([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
    Ok((address(12), address(16), &ip[20..]))
}

/// Addresses and UDP of an IPv6 packet without extension headers.
fn read_v6(ip: &[u8]) -> Result<(IpAddr, IpAddr, &[u8]), FrameError> {
    if ip.len() < 48 || ip[..4] != [0x60, 0, 0, 0] || ip[6] != UDP || ip[7] == 0 {
        return Err(FrameError::Shape);
    }
    if usize::from(big_endian(ip, 4)) != ip.len() - 40 {
        return Err(FrameError::Length);
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&ip[at..at + 16]);
        IpAddr::from(octets)
    };
    Ok((address(8), address(24), &ip[40..]))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn big_endian(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Internet checksum (RFC 1071) over byte strings, each of them padded to an even length.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_header_has_the_known_checksum() {
        // The header of a published worked example of RFC 1071.
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0x00,
            0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(checksum(&[&header]), 0xb861);
    }

    #[test]
    fn what_is_built_is_read_and_every_damaged_byte_is_seen() {
        let four = Datagram::new(5062, b"odd length!");
        let mut six = Datagram::new_v6(5062, b"odd length!");
        six.tags = vec![[0x88, 0xa8, 0, 5], [0x81, 0x00, 0xa0, 7]];
        for datagram in [four, six] {
            let frame = datagram.frame();
            let ip = 14 + 4 * datagram.tags.len();
            assert_eq!(Datagram::read(&frame), Ok(datagram));
            for at in ip..frame.len() {
                let mut damaged = frame.clone();
                damaged[at] ^= 0x10;
                // The hop limit is in no checksum.
                if at != ip + 7 || frame[ip] != 0x60 {
                    assert!(Datagram::read(&damaged).is_err(), "byte {at}");
                }
            }
        }
    }
}
