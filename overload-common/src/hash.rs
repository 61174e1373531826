//! SipHash-1-3, fed with 64-bit words. Keyed, so that no sender can choose colliding identities.

/// SipHash-1-3 over whole little-endian words; the caller accounts for the length.
#[derive(Clone, Copy, Debug)]
pub struct SipHash13 {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl SipHash13 {
    /// Starts with a 128-bit key.
    #[inline(always)]
    pub const fn new(k0: u64, k1: u64) -> Self {
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    #[inline(always)]
    const fn round(mut self) -> Self {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v2 = self.v2.rotate_left(32);
        self
    }

    /// Takes in eight bytes, little-endian.
    #[inline(always)]
    #[must_use]
    pub const fn word(mut self, word: u64) -> Self {
        self.v3 ^= word;
        self = self.round();
        self.v0 ^= word;
        self
    }

    /// Ends with the last block: up to seven remaining bytes in the low part, the byte count modulo
    /// 256 in the top byte, as SipHash defines it.
    #[inline(always)]
    pub const fn finish(self, last: u64) -> u64 {
        let mut s = self.word(last);
        s.v2 ^= 0xff;
        s = s.round().round().round();
        s.v0 ^ s.v1 ^ s.v2 ^ s.v3
    }

    /// The four state words, to carry a hash over map memory.
    #[inline(always)]
    pub const fn state(self) -> [u64; 4] {
        [self.v0, self.v1, self.v2, self.v3]
    }

    /// The inverse of [`Self::state`].
    #[inline(always)]
    pub const fn from_state(state: [u64; 4]) -> Self {
        let [v0, v1, v2, v3] = state;
        Self { v0, v1, v2, v3 }
    }
}

/// SipHash-1-3 of a byte string.
pub fn siphash13(k0: u64, k1: u64, bytes: &[u8]) -> u64 {
    let mut hash = SipHash13::new(k0, k1);
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        hash = hash.word(u64::from_le_bytes(word));
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    hash.finish(u64::from_le_bytes(last) | (bytes.len() as u64) << 56)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::hash::Hasher;

    #[test]
    fn agrees_with_an_independent_implementation() {
        let bytes: std::vec::Vec<u8> = (0..=255).collect();
        for length in 0..=bytes.len() {
            let mut oracle = siphasher::sip::SipHasher13::new_with_keys(7, u64::MAX / 3);
            oracle.write(&bytes[..length]);
            assert_eq!(
                siphash13(7, u64::MAX / 3, &bytes[..length]),
                oracle.finish(),
                "{length}"
            );
        }
    }

    #[test]
    fn state_survives_a_detour_over_memory() {
        let straight = SipHash13::new(1, 2).word(3).word(4).finish(5);
        let halfway = SipHash13::new(1, 2).word(3).state();
        assert_eq!(SipHash13::from_state(halfway).word(4).finish(5), straight);
    }
}
