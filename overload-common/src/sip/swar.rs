//! Byte tests on eight bytes at once, in a little-endian word.

/// The high bit of every byte.
pub const HIGH: u64 = 0x8080_8080_8080_8080;
/// The low bit of every byte.
pub const ONES: u64 = 0x0101_0101_0101_0101;
/// All but the high bit of every byte.
pub const LOW7: u64 = !HIGH;

/// High bit *clear* in exactly the bytes that equal `byte`; the other bits are undefined.
#[inline(always)]
pub const fn unequal(word: u64, byte: u8) -> u64 {
    let x = word ^ ONES * byte as u64;
    ((x & LOW7) + LOW7) | x
}

/// Gathers the high bit of each byte into eight bits, the first byte lowest.
#[inline(always)]
pub const fn gather(word: u64) -> u64 {
    (word & HIGH).wrapping_mul(0x0002_0408_1020_4081) >> 56
}

/// High bit set in the first byte that is `byte`, or that is at most 0x20; higher bytes may err.
#[inline(always)]
pub const fn first_of_or_blank(word: u64, byte: u8) -> u64 {
    let x = word ^ ONES * byte as u64;
    let equal = x.wrapping_sub(ONES) & !x;
    let blank = word.wrapping_sub(ONES * 0x21) & !word;
    (equal | blank) & HIGH
}

/// Mask of the bytes below the lowest marked one; all ones when none is marked.
#[inline(always)]
pub const fn below(marks: u64) -> u64 {
    ((marks & marks.wrapping_neg()) >> 7).wrapping_sub(1)
}

/// Mask of the first `count` bytes, `count` at most 8.
#[inline(always)]
pub const fn first_bytes(count: u32) -> u64 {
    if count >= 8 {
        u64::MAX
    } else {
        (1 << (count * 8)) - 1
    }
}

/// Lower case of the ASCII letters A–Z, all else unchanged.
#[inline(always)]
pub const fn lower(word: u64) -> u64 {
    let seven = word & LOW7;
    let from_a = seven + ONES * (0x80 - b'A' as u64);
    let past_z = seven + ONES * (0x7f - b'Z' as u64);
    word | ((from_a ^ past_z) & !word & HIGH) >> 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases() -> impl Iterator<Item = [u8; 8]> {
        (0..200_000u64).map(|i| {
            let mut bytes = crate::hash::siphash13(1, 2, &i.to_le_bytes()).to_le_bytes();
            // Dense in the characters of interest.
            for byte in &mut bytes {
                if *byte & 0x80 != 0 && *byte & 3 != 0 {
                    *byte = b":;, \n@AZaz[`\r"[*byte as usize % 13];
                }
            }
            bytes
        })
    }

    #[test]
    fn agree_with_bytewise_code() {
        for bytes in cases() {
            let word = u64::from_le_bytes(bytes);
            let expected = bytes
                .iter()
                .rev()
                .fold(0, |bits, b| bits << 1 | u64::from(*b == b';'));
            assert_eq!(gather(!unequal(word, b';')), expected);
            assert_eq!(
                lower(word).to_le_bytes(),
                bytes.map(|b| b.to_ascii_lowercase())
            );
            let cut = bytes
                .iter()
                .position(|b| *b == b':' || *b <= 0x20)
                .unwrap_or(8);
            assert_eq!(
                below(first_of_or_blank(word, b':')),
                first_bytes(cut as u32),
                "{bytes:?}"
            );
        }
    }
}
