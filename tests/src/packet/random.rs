//! A small deterministic generator, so that a failure is repeated by its seed.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts at a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 {
            return 0;
        }
        (self.next_u64() % bound as u64) as usize
    }

    /// True in one of `many` cases.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// Mostly 0, in one of `many` cases a number from 1 to `most`.
    pub fn rarely(&mut self, most: usize, many: usize) -> usize {
        if self.one_in(many) {
            1 + self.below(most)
        } else {
            0
        }
    }

    /// One of `items`.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A number from 0 (inclusive) to 1 (exclusive).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Time to the next event of a Poisson process, ns.
    pub fn exponential_ns(&mut self, rate_per_second: f64) -> u64 {
        let seconds = -(1.0 - self.unit()).ln() / rate_per_second;
        #[expect(clippy::cast_sign_loss, reason = "the logarithm is of at most 1")]
        let ns = (seconds * 1e9) as u64;
        ns
    }
}
