//! Ethernet, IPv4 and UDP around a payload, with right checksums; and back, checking all of them.

use std::net::Ipv4Addr;

/// MAC address of the sender in all frames.
pub const CLIENT_MAC: [u8; 6] = [0x02, 0xc1, 0x1e, 0x07, 0x00, 0x0a];
/// MAC address of the protected host.
pub const SERVER_MAC: [u8; 6] = [0x02, 0x5e, 0x12, 0x4e, 0x12, 0x01];

/// A UDP datagram on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Source MAC address.
    pub source_mac: [u8; 6],
    /// Destination MAC address.
    pub destination_mac: [u8; 6],
    /// Source address.
    pub source: Ipv4Addr,
    /// Source port.
    pub source_port: u16,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Destination port.
    pub destination_port: u16,
    /// UDP payload.
    pub payload: Vec<u8>,
}

/// Why a frame is not one whole UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Too short, or not IPv4 without options, or not UDP.
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
            source: Ipv4Addr::new(192, 0, 2, 10),
            source_port,
            destination: Ipv4Addr::new(192, 0, 2, 1),
            destination_port: 5060,
            payload: payload.to_vec(),
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

        let mut ip = vec![0x45, 0x00];
        ip.extend((20 + udp_length).to_be_bytes());
        ip.extend([0x1c, 0x46, 0x40, 0x00, 57, 17, 0, 0]);
        ip.extend(self.source.octets());
        ip.extend(self.destination.octets());
        let sum = checksum(&[&ip]);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());

        let mut frame = self.destination_mac.to_vec();
        frame.extend(self.source_mac);
        frame.extend([0x08, 0x00]);
        frame.extend(ip);
        frame.extend(udp);
        frame
    }

    /// Reads a frame that must be exactly one datagram with right lengths and checksums.
    pub fn read(frame: &[u8]) -> Result<Self, FrameError> {
        if frame.len() < 42 || frame[12..15] != [0x08, 0x00, 0x45] || frame[23] != 17 {
            return Err(FrameError::Shape);
        }
        let (ip, udp) = (&frame[14..34], &frame[34..]);
        let address = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
        let mac = |at: usize| [0, 1, 2, 3, 4, 5].map(|byte| frame[at + byte]);
        let datagram = Self {
            destination_mac: mac(0),
            source_mac: mac(6),
            source: address(12),
            destination: address(16),
            source_port: big_endian(udp, 0),
            destination_port: big_endian(udp, 2),
            payload: udp[8..].to_vec(),
        };
        if usize::from(big_endian(ip, 2)) != frame.len() - 14
            || usize::from(big_endian(udp, 4)) != udp.len()
        {
            return Err(FrameError::Length);
        }
        if checksum(&[ip]) != 0 {
            return Err(FrameError::IpChecksum);
        }
        if udp[6..8] == [0, 0] || checksum(&[&datagram.pseudo_header(udp.len() as u16), udp]) != 0 {
            return Err(FrameError::UdpChecksum);
        }
        Ok(datagram)
    }

    fn pseudo_header(&self, udp_length: u16) -> Vec<u8> {
        let mut bytes = self.source.octets().to_vec();
        bytes.extend(self.destination.octets());
        bytes.extend([0, 17]);
        bytes.extend(udp_length.to_be_bytes());
        bytes
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
        let datagram = Datagram::new(5062, b"odd length!");
        let frame = datagram.frame();
        assert_eq!(Datagram::read(&frame), Ok(datagram));
        for at in 14..frame.len() {
            let mut damaged = frame.clone();
            damaged[at] ^= 0x10;
            assert!(Datagram::read(&damaged).is_err(), "byte {at}");
        }
    }
}
