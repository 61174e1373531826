//! Words of the transaction memory.
//!
//! An admitted transaction lies in one of two buckets: in the first unless that was full. It is put into a
//! free or expired slot and never displaces a live one. A refused transaction has one slot and displaces
//! what is there. All times are the coarse monotonic clock in units of 17 ms; it wraps after two years for
//! the admitted, after 208 days for the refused.

/// How long a transaction is remembered: 64 * T1 (RFC 3261 17.2.1).
pub const LIFE_NS: u64 = 32_000_000_000;
/// Copies nearer than this to the last one are surplus: T1/2.
pub const SPACING_NS: u64 = 250_000_000;
/// Transmissions of an INVITE within its life (RFC 3261 17.1.1.2).
pub const INVITE_COPIES: u32 = 7;
/// Transmissions of another request within its life (RFC 3261 17.1.2.2).
pub const OTHER_COPIES: u32 = 11;

const UNIT_SHIFT: u32 = 24;
const LIFE_UNITS: u64 = LIFE_NS >> UNIT_SHIFT;
const TIME_MASK: u64 = (1 << 30) - 1;
/// How far the clock may step back, about two seconds, without a refusal being forgotten.
const SKEW_UNITS: u64 = 120;

/// The table's unit of time: 2^24 ns, about 17 ms. Never 0, so that no word is 0.
#[inline(always)]
const fn units(now_ns: u64) -> u64 {
    (now_ns >> UNIT_SHIFT) + 1
}

/// Word of a transaction admitted now: fingerprint above, end of life below.
#[inline(always)]
pub const fn admitted_word(transaction: u64, now_ns: u64) -> u64 {
    transaction << 32 | (units(now_ns) + LIFE_UNITS) & 0xffff_ffff
}

/// Whether the slot, or the overflow, is in use at `now_ns`.
#[inline(always)]
pub const fn admitted_is_live(word: u64, now_ns: u64) -> bool {
    word & 0xffff_ffff > units(now_ns) & 0xffff_ffff
}

/// 0 when the word's fingerprint is the transaction's.
#[inline(always)]
pub const fn admitted_difference(word: u64, transaction: u64) -> u64 {
    (word ^ transaction << 32) >> 32
}

/// The two buckets a transaction may lie in; `mask` is the number of buckets less one.
#[inline(always)]
pub const fn buckets(transaction: u64, mask: u32) -> [u32; 2] {
    [
        (transaction >> 32) as u32 & mask,
        (transaction >> 46) as u32 & mask,
    ]
}

/// Identity of a request in the refused table: a copy has the same transaction, source and URI.
#[inline(always)]
pub const fn refused_identity(transaction: u64, verify: u64) -> u64 {
    transaction ^ verify.rotate_left(32)
}

/// Slot of a refused request in its bucket, of sixteen, by bits that do not choose the bucket.
#[inline(always)]
pub const fn refused_slot(identity: u64) -> u32 {
    (identity >> 60) as u32
}

/// Word of a request refused now: 32 bits of fingerprint, the key epoch, whether it was refused only in
/// shadow mode, 30 bits of time.
#[inline(always)]
pub const fn refused_word(identity: u64, epoch: u64, shadow: bool, now_ns: u64) -> u64 {
    identity << 32 | (epoch & 1) << 31 | (shadow as u64) << 30 | units(now_ns) & TIME_MASK
}

/// Whether the slot holds a request that is still remembered.
#[inline(always)]
pub const fn refused_is_live(word: u64, now_ns: u64) -> bool {
    let age = units(now_ns).wrapping_add(SKEW_UNITS).wrapping_sub(word) & TIME_MASK;
    word != 0 && age < LIFE_UNITS + SKEW_UNITS
}

/// Whether the request was handed to the host all the same.
#[inline(always)]
pub const fn refused_in_shadow(word: u64) -> bool {
    word >> 30 & 1 != 0
}

/// Whether the word is this request's.
#[inline(always)]
pub const fn refused_matches(word: u64, identity: u64) -> bool {
    (word ^ identity << 32) >> 32 == 0
}

/// Key epoch at refusal.
#[inline(always)]
pub const fn refused_epoch(word: u64) -> u64 {
    word >> 31 & 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn admitted_lives_32_seconds() {
        let word = admitted_word(0xdead_beef_0000_0001, HOUR);
        assert_eq!(admitted_difference(word, 0xdead_beef_0000_0001), 0);
        assert_ne!(admitted_difference(word, 0xdead_beef_0000_0002), 0);
        assert!(admitted_is_live(word, HOUR));
        assert!(admitted_is_live(word, HOUR + LIFE_NS - (1 << 25)));
        assert!(!admitted_is_live(word, HOUR + LIFE_NS + (1 << 25)));
        assert!(!admitted_is_live(0, 0));
    }

    #[test]
    fn refused_lives_32_seconds() {
        let identity = refused_identity(0x0123_4567_89ab_cdef, 0x1111);
        for (epoch, shadow) in [(0, false), (1, false), (0, true), (1, true)] {
            let word = refused_word(identity, epoch, shadow, HOUR);
            assert_eq!(refused_in_shadow(word), shadow);
            assert!(refused_matches(word, identity));
            assert!(!refused_matches(word, identity ^ 1));
            assert_eq!(refused_epoch(word), epoch);
            assert!(refused_is_live(word, HOUR));
            assert!(refused_is_live(word, HOUR + LIFE_NS - (1 << 25)));
            assert!(!refused_is_live(word, HOUR + LIFE_NS + (1 << 25)));
        }
        assert!(!refused_is_live(0, 0));
        assert!(!refused_is_live(0, LIFE_NS));
        // CPUs disagree a little; a clock that steps back forgets nothing.
        assert!(refused_is_live(
            refused_word(identity, 0, false, HOUR),
            HOUR - 1_000_000_000
        ));
    }

    #[test]
    fn refused_requests_of_one_source_and_uri_use_all_slots() {
        let mut used = std::collections::HashSet::new();
        for i in 0u64..2000 {
            let transaction = crate::hash::siphash13(5, 6, &i.to_le_bytes());
            let slot = refused_slot(refused_identity(transaction, 7));
            used.insert((buckets(transaction, 15)[0], slot));
        }
        assert_eq!(used.len(), 16 * 16);
    }

    /// The bound the README gives: no admitted transaction goes untracked below two fifths of the slots.
    #[test]
    fn two_buckets_of_twelve_fill_evenly() {
        const BUCKETS: u32 = 1 << 12;
        let mut fill = std::vec![0u32; BUCKETS as usize];
        let mut tracked = 0u32;
        for i in 0u64.. {
            let hash = crate::hash::siphash13(3, 4, &i.to_le_bytes());
            let [first, second] = buckets(hash, BUCKETS - 1);
            let bucket = if fill[first as usize] < 12 {
                first
            } else {
                second
            };
            if fill[bucket as usize] == 12 {
                break;
            }
            fill[bucket as usize] += 1;
            tracked += 1;
        }
        let slots = BUCKETS * 12;
        assert!(
            tracked > slots * 2 / 5,
            "first loss at {tracked} of {slots}"
        );
    }
}
