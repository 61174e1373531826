//! Rate limits by the generic cell rate algorithm (RFC 7415 3.5): one word a control.
//!
//! The word is the theoretical arrival time of the next conforming request. A request conforms when
//! that time is at most the tolerance ahead of now; it then moves one period on. So over any time t,
//! at most `rate * t + burst` requests conform, with `burst = tolerance / period + 1`.
//!
//! Time is in ticks of 1/64 ns: a period is rounded up, so a limit is never exceeded, and falls short
//! by at most 1.6 requests in a million at 100,000/s. The clock lasts 9.1 years of uptime.

/// Ticks in a nanosecond.
pub const TICKS_PER_NS: u64 = 64;

/// Default burst: 10 requests or 20 ms of the rate, whichever is more.
pub fn default_burst(rate_per_second: f64) -> f64 {
    let share = rate_per_second * 0.020;
    if share > 10.0 { share } else { 10.0 }
}

/// Ticks between requests at `rate_per_second`; 0, which refuses all, for a rate of 0.
/// Rates too low for the clock become one request in its lifetime.
pub fn period_ticks(rate_per_second: f64) -> u64 {
    if rate_per_second <= 0.0 {
        return 0;
    }
    let ticks = 1e9 * TICKS_PER_NS as f64 / rate_per_second;
    if ticks >= (1u64 << 62) as f64 {
        return 1 << 62;
    }
    #[expect(clippy::cast_sign_loss, reason = "the rate is positive")]
    let whole = ticks as u64;
    whole + u64::from((whole as f64) < ticks)
}

/// Tolerance that lets `burst` requests through at once; at least one.
pub fn tolerance_ticks(period: u64, burst: f64) -> u64 {
    let extra = if burst > 1.0 { burst - 1.0 } else { 0.0 };
    let ticks = period as f64 * extra;
    if ticks >= (1u64 << 62) as f64 {
        return 1 << 62;
    }
    #[expect(clippy::cast_sign_loss, reason = "a product of non-negative factors")]
    let whole = ticks as u64;
    whole
}

/// Tolerances by class: normal admits the burst, emergency and priority twice that, low half, in the
/// proportions of RFC 7415 3.5.2 (TAU2 = 2 TAU1). The default burst is above its TAU1 of five periods.
pub fn class_tolerances(period: u64, burst: f64) -> [u64; 4] {
    let normal = tolerance_ticks(period, burst);
    let high = normal.saturating_mul(2).min(1 << 62);
    [high, high, normal, normal / 2]
}

/// The word after admitting one request at `now`, or `None` when it does not conform.
/// A clock that steps back counts as no time passed.
#[inline(always)]
pub const fn admit(arrival: u64, now: u64, period: u64, tolerance: u64) -> Option<u64> {
    if period == 0 {
        return None;
    }
    let base = if arrival > now { arrival } else { now };
    if base - now > tolerance {
        None
    } else {
        Some(base.wrapping_add(period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rate: f64, burst: f64, offered_per_second: u64, seconds: u64) -> u64 {
        let period = period_ticks(rate);
        let tolerance = tolerance_ticks(period, burst);
        let (mut arrival, mut admitted) = (0, 0);
        for i in 0..offered_per_second * seconds {
            let now = 1_000_000 + i * 1_000_000_000 * TICKS_PER_NS / offered_per_second;
            if let Some(next) = admit(arrival, now, period, tolerance) {
                arrival = next;
                admitted += 1;
            }
        }
        admitted
    }

    #[test]
    fn admits_rate_times_time_plus_burst() {
        assert_eq!(run(10.0, 10.0, 1000, 10), 100 + 10 - 1);
        // The last of 10,000 requests comes 1 ms before the tenth second ends: one period is missing.
        assert_eq!(run(1000.0, 20.0, 100_000, 10), 10_000 + 20 - 1);
    }

    #[test]
    fn burst_counts_requests_at_one_instant() {
        for burst in [1u64, 2, 10, 100] {
            let period = period_ticks(333.0);
            let tolerance = tolerance_ticks(period, burst as f64);
            let (mut arrival, mut admitted) = (0, 0);
            while let Some(next) = admit(arrival, 50, period, tolerance) {
                arrival = next;
                admitted += 1;
            }
            assert_eq!(admitted, burst);
        }
    }

    #[test]
    fn rate_zero_admits_nothing() {
        assert_eq!(period_ticks(0.0), 0);
        assert_eq!(admit(0, u64::MAX, 0, u64::MAX), None);
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing_away() {
        let (period, tolerance) = (100, 0);
        let first = admit(0, 10_000, period, tolerance).expect("empty bucket");
        assert_eq!(admit(first, 9_999, period, tolerance), None);
        assert_eq!(admit(first, 10_000, period, tolerance), None);
        assert_eq!(admit(first, 10_100, period, tolerance), Some(10_200));
    }

    #[test]
    fn slow_rates_do_not_overflow() {
        for rate in [1e-12, 1e-6, 0.5] {
            let period = period_ticks(rate);
            for tolerance in class_tolerances(period, 10.0) {
                let next = admit(0, 1 << 62, period, tolerance).expect("empty bucket");
                assert!(next > 1 << 62);
            }
        }
    }

    #[test]
    fn period_rounds_up() {
        assert_eq!(period_ticks(1000.0), 1_000_000 * TICKS_PER_NS);
        assert_eq!(
            period_ticks(3.0),
            (1_000_000_000 * TICKS_PER_NS).div_ceil(3)
        );
    }
}
