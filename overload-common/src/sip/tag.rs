//! The To tag of a refusal: a keyed hash, so that the ACK can be told without having kept state
//! (RFC 3261 8.2.7, 19.3).

use crate::hash::SipHash13;

/// Bytes of a tag: prefix, epoch digit, sixteen hexadecimal digits.
pub const TAG_LEN: usize = 20;

/// First three bytes of every tag of ours.
pub const TAG_PREFIX: [u8; 3] = *b"olc";

/// A tag as three little-endian words, the last one four bytes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Prefix, epoch digit, first four hexadecimal digits.
    pub first: u64,
    /// The next eight.
    pub second: u64,
    /// The last four.
    pub third: u32,
}

/// Value of a tag: keyed by the epoch's key, over the transaction (top branch, sent-by, Call-ID, CSeq
/// number) and the host's identity. A tag of ours that comes back through the proxy belongs to another
/// branch, and so does not verify.
#[inline(always)]
pub const fn tag_hash(k0: u64, k1: u64, transaction: u64, host_id: u64) -> u64 {
    SipHash13::new(k0, k1)
        .word(transaction)
        .word(host_id)
        .finish(16 << 56)
}

/// Eight hexadecimal digits of a 32-bit word, the least significant nibble first.
#[inline(always)]
const fn hex(word: u32) -> u64 {
    let mut x = word as u64;
    x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // 10..15 become a..f: 0x27 lies between '9' + 1 and 'a'.
    let letters = (x + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    x + 0x3030_3030_3030_3030 + letters * 0x27
}

impl Tag {
    /// Writes a hash and its key epoch.
    #[inline(always)]
    pub const fn new(hash: u64, epoch: u64) -> Self {
        let prefix =
            TAG_PREFIX[0] as u64 | (TAG_PREFIX[1] as u64) << 8 | (TAG_PREFIX[2] as u64) << 16;
        let (low, high) = (hex(hash as u32), hex((hash >> 32) as u32));
        Self {
            first: prefix | (b'0' as u64 + (epoch & 1)) << 24 | low << 32,
            second: low >> 32 | high << 32,
            third: (high >> 32) as u32,
        }
    }

    /// The key epoch of a tag with our prefix, from its first word.
    #[inline(always)]
    pub const fn epoch_of(first: u64) -> Option<u64> {
        let prefix =
            TAG_PREFIX[0] as u64 | (TAG_PREFIX[1] as u64) << 8 | (TAG_PREFIX[2] as u64) << 16;
        if first & 0xff_ffff != prefix {
            return None;
        }
        match first >> 24 & 0xff {
            0x30 => Some(0),
            0x31 => Some(1),
            _ => None,
        }
    }

    /// The tag's bytes.
    pub const fn bytes(self) -> [u8; TAG_LEN] {
        let mut bytes = [0; TAG_LEN];
        let (first, second, third) = (
            self.first.to_le_bytes(),
            self.second.to_le_bytes(),
            self.third.to_le_bytes(),
        );
        let mut i = 0;
        while i < TAG_LEN {
            bytes[i] = match i {
                0..8 => first[i],
                8..16 => second[i - 8],
                _ => third[i - 16],
            };
            i += 1;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r3261_19_3_1_tag_is_a_token_with_64_bits() {
        for (hash, epoch) in [
            (0, 0),
            (u64::MAX, 1),
            (0x0123_4567_89ab_cdef, 0),
            (1 << 63, 1),
        ] {
            let tag = Tag::new(hash, epoch);
            let text = std::string::String::from_utf8(tag.bytes().to_vec()).expect("ascii");
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric()), "{text}");
            let digits: std::string::String = text[4..].chars().rev().collect();
            assert_eq!(u64::from_str_radix(&digits, 16), Ok(hash), "{text}");
            assert_eq!(Tag::epoch_of(tag.first), Some(epoch));
        }
        assert_eq!(Tag::epoch_of(u64::from_le_bytes(*b"olc2abcd")), None);
        assert_eq!(Tag::epoch_of(u64::from_le_bytes(*b"xlc0abcd")), None);
    }

    #[test]
    fn r3261_8_2_7_1_tag_follows_key_transaction_and_host() {
        let reference = tag_hash(1, 2, 3, 4);
        assert_eq!(reference, tag_hash(1, 2, 3, 4));
        for other in [
            tag_hash(9, 2, 3, 4),
            tag_hash(1, 9, 3, 4),
            tag_hash(1, 2, 9, 4),
            tag_hash(1, 2, 3, 9),
        ] {
            assert_ne!(reference, other);
        }
    }
}
