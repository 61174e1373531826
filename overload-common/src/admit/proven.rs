//! Sources that acknowledged one of our refusals: what is sent to them reaches them. A direct-mapped table
//! of words, chosen by a keyed hash of the source address; a later source displaces an earlier one.

/// How long a source stays proven.
pub const LIFE_NS: u64 = 3_600_000_000_000;

const UNIT_SHIFT: u32 = 30;
const LIFE_UNITS: u64 = LIFE_NS >> UNIT_SHIFT;

/// The table's unit of time: 2^30 ns, about a second; never 0, so that no word is 0.
#[inline(always)]
const fn units(now_ns: u64) -> u64 {
    (now_ns >> UNIT_SHIFT) + 1
}

/// Word of a source proven now, by its hash: fingerprint above, end of its time below.
#[inline(always)]
pub const fn word(hash: u64, now_ns: u64) -> u64 {
    hash >> 32 << 32 | (units(now_ns) + LIFE_UNITS) & 0xffff_ffff
}

/// Is this the word of this source, and is its time not over?
#[inline(always)]
pub const fn holds(word: u64, hash: u64, now_ns: u64) -> bool {
    (word ^ hash) >> 32 == 0 && word & 0xffff_ffff > units(now_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_proven_for_an_hour() {
        let (hash, other) = (0x1234_5678_9abc_def0, 0x1234_5679_9abc_def0);
        let word = word(hash, 1_000_000);
        assert!(holds(word, hash, 1_000_000));
        assert!(!holds(word, other, 1_000_000));
        assert!(holds(word, hash, LIFE_NS - 2_000_000_000));
        assert!(!holds(word, hash, LIFE_NS + 2_000_000_000));
        assert!(!holds(0, 0, 0));
    }
}
