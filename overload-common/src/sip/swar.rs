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

/// Transposes an 8 by 8 matrix of bits, a byte a row: bit `i` of byte `j` becomes bit `j` of byte `i`.
#[inline(always)]
pub const fn transpose(matrix: u64) -> u64 {
    let mut x = matrix;
    let mut t = (x ^ x >> 7) & 0x00aa_00aa_00aa_00aa;
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & 0x0000_cccc_0000_cccc;
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & 0x0000_0000_f0f0_f0f0;
    x ^ t ^ t << 28
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

/// The number that the first `count` bytes are in decimal; `None` unless these are one to eight digits.
#[inline(always)]
pub const fn decimal(word: u64, count: u32) -> Option<u64> {
    if count.wrapping_sub(1) >= 8 {
        return None;
    }
    // Zeros stand before the digits, the first of which is the lowest byte.
    let shift = (8 - count) * 8;
    let digits = (word ^ ONES * 0x30) << shift;
    if (digits | digits.wrapping_add(ONES * 0x76)) & HIGH != 0 {
        return None;
    }
    let pairs = digits * 10 + (digits >> 8);
    let low = (pairs & 0xff_0000_00ff).wrapping_mul(100 + (1_000_000 << 32));
    let high = (pairs >> 16 & 0xff_0000_00ff).wrapping_mul(1 + (10_000 << 32));
    Some(low.wrapping_add(high) >> 32)
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
    fn decimal_reads_digits_and_nothing_else() {
        for text in [
            "5060x", "0", "65535;b", "00012", "12345678", "99999999", "7 ",
        ] {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let mut bytes = [b'x'; 8];
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            let word = u64::from_le_bytes(bytes);
            assert_eq!(decimal(word, digits as u32), text[..digits].parse().ok());
            if digits < 8 {
                assert_eq!(decimal(word, digits as u32 + 1), None, "{text}");
            }
        }
        for byte in 0..=255u8 {
            let word = u64::from_le_bytes([b'1', byte, b'2', 0, 0, 0, 0, 0]);
            assert_eq!(decimal(word, 3).is_some(), byte.is_ascii_digit(), "{byte}");
        }
        assert_eq!(decimal(u64::MAX, 0), None);
        assert_eq!(decimal(u64::from_le_bytes(*b"11111111"), 9), None);
    }

    #[test]
    fn transposition_swaps_rows_and_columns() {
        for matrix in cases().map(u64::from_le_bytes) {
            let bit = |row: u64, column: u64| matrix >> (8 * row + column) & 1;
            let expected = (0..64).fold(0, |bits, at| bits | bit(at % 8, at / 8) << at);
            assert_eq!(transpose(matrix), expected);
        }
    }

    #[test]
    fn agree_with_bytewise_code() {
        for bytes in cases() {
            let word = u64::from_le_bytes(bytes);
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
