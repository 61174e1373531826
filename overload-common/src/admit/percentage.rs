//! Percentages by keyed hash: the same distribution as the random draw of RFC 7339 7.2.2 and
//! RFC 7200, but all copies of a request agree.

/// Threshold for [`accepts`]: 2^32 at 100 %, 0 at 0 %.
pub fn accept_below(accept_percent: f64) -> u64 {
    let clamped = accept_percent.clamp(0.0, 100.0);
    #[expect(clippy::cast_sign_loss, reason = "clamped to 0..=100")]
    let threshold = (clamped / 100.0 * 4_294_967_296.0) as u64;
    threshold
}

/// Whether the transaction is among those accepted. The coin is bits of its keyed hash, mixed so that
/// it does not follow the bits that choose a table slot.
#[inline(always)]
pub const fn accepts(transaction: u64, accept_below: u64) -> bool {
    transaction.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 < accept_below
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::siphash13;

    #[test]
    fn ends_are_exact_and_the_middle_is_fair() {
        for (percent, expected) in [
            (0.0, 0.0),
            (1.0, 0.01),
            (50.0, 0.5),
            (99.0, 0.99),
            (100.0, 1.0),
        ] {
            let below = accept_below(percent);
            let accepted = (0..100_000u64)
                .filter(|i| accepts(siphash13(1, 2, &i.to_le_bytes()), below))
                .count();
            let share = accepted as f64 / 100_000.0;
            assert!((share - expected).abs() < 0.005, "{percent} gave {share}");
            if expected == 0.0 || (expected - 1.0).abs() < f64::EPSILON {
                assert!((share - expected).abs() < f64::EPSILON);
            }
        }
    }
}
