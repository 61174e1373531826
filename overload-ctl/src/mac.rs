//! MAC addresses (EUI-48).

use std::fmt;

/// A MAC address, first byte first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Six bytes in hexadecimal with colons, as `ip link` shows them.
    pub fn parse(text: &str) -> Option<Self> {
        let mut mac = Self::default();
        let mut pairs = text.split(':');
        for byte in &mut mac.0 {
            let pair = pairs.next()?;
            // `from_str_radix` would take a sign.
            if pair.len() != 2 || !pair.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        pairs.next().is_none().then_some(mac)
    }

    /// Whether one host can have it: neither a group address (IEEE 802, 8.2.2) nor zero.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }

    /// In the low six bytes, the first byte lowest.
    pub fn word(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let separator = if place == 0 { "" } else { ":" };
            write!(f, "{separator}{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_address_is_read_and_shown() {
        let mac = Mac::parse("02:00:5E:00:01:0f").expect("valid");
        assert_eq!(mac, Mac([2, 0, 0x5e, 0, 1, 15]));
        assert_eq!(mac.to_string(), "02:00:5e:00:01:0f");
        assert_eq!(mac.word(), 0x0f01_005e_0002);
        for bad in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:05:06",
            "2:0:0:0:0:5",
            "02-00-00-00-00-05",
            "+2:00:00:00:00:05",
            "0g:00:00:00:00:05",
        ] {
            assert_eq!(Mac::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn groups_and_zero_belong_to_no_host() {
        for (text, expected) in [
            ("02:00:00:00:00:05", true),
            ("00:00:5e:00:01:05", true),
            ("01:00:5e:00:00:01", false),
            ("ff:ff:ff:ff:ff:ff", false),
            ("00:00:00:00:00:00", false),
        ] {
            assert_eq!(Mac::parse(text).map(Mac::is_unicast), Some(expected));
        }
    }
}
