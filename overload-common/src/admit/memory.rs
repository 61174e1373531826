//! Words of the two transaction tables.
//!
//! An admitted transaction may live in any of sixteen slots, two sets of eight; it is put into a free
//! or expired one and never displaces a live one. A refused transaction has one slot and displaces
//! what is there. All times are the coarse monotonic clock in units of 17 ms; it wraps
//! after two years for the admitted, after 208 days for the refused.

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

/// A number whose top bit is set when the slot is in use at `now_ns`; the kernel asks sixteen in a row
/// and cannot afford a branch each.
#[inline(always)]
pub const fn admitted_live_sign(word: u64, now_ns: u64) -> u64 {
    (units(now_ns) & 0xffff_ffff).wrapping_sub(word & 0xffff_ffff)
}

/// Whether the slot is in use at `now_ns`.
#[inline(always)]
pub const fn admitted_is_live(word: u64, now_ns: u64) -> bool {
    admitted_live_sign(word, now_ns) >> 63 != 0
}

/// 0 when the word's fingerprint is the transaction's.
#[inline(always)]
pub const fn admitted_difference(word: u64, transaction: u64) -> u64 {
    (word ^ transaction << 32) >> 32
}

/// The two sets a transaction may live in; `mask` is the number of sets less one.
#[inline(always)]
pub const fn admitted_sets(transaction: u64, mask: u32) -> [u32; 2] {
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

/// Slot in the refused table; `mask` is the number of slots less one.
#[inline(always)]
pub const fn refused_slot(identity: u64, mask: u32) -> u32 {
    (identity >> 40) as u32 & mask
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
    let age = units(now_ns).wrapping_sub(word) & TIME_MASK;
    word != 0 && age < LIFE_UNITS
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
    }

    /// The bound the README gives: no admitted transaction goes untracked below 75 % fill.
    #[test]
    fn two_sets_of_eight_fill_evenly() {
        const SETS: u32 = 1 << 10;
        let mut fill = std::vec![0u8; SETS as usize];
        let mut tracked = 0u32;
        for i in 0u64.. {
            let hash = crate::hash::siphash13(3, 4, &i.to_le_bytes());
            let [a, b] = admitted_sets(hash, SETS - 1);
            let set = if fill[a as usize] <= fill[b as usize] {
                a
            } else {
                b
            };
            if fill[set as usize] == 8 {
                break;
            }
            fill[set as usize] += 1;
            tracked += 1;
        }
        assert!(
            tracked > SETS * 8 * 3 / 4,
            "first loss at {tracked} of {}",
            SETS * 8
        );
    }
}
