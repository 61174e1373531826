//! What is answered to senders that may have forged their address.

use toml::Spanned;

use super::{
    MAX_RATE,
    check::is_burst,
    document::RepliesTable,
    fault::{Problem, Report},
};

/// Replies to a source prefix (/24, /56) that is neither trusted nor proven by an ACK.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replies {
    /// Replies per second; 0 sends none.
    pub rate_per_second: f64,
    /// Replies at once.
    pub burst: f64,
}

/// `None` after a fault, which is then in the report.
pub(super) fn check(table: &RepliesTable, report: &mut Report) -> Option<Replies> {
    let rate = table.rate_per_second.as_ref();
    let rate = number(rate, "rate_per_second", 200.0, MAX_RATE, report);
    let burst = burst(table.burst.as_ref(), "burst", 400.0, report);
    Some(Replies {
        rate_per_second: rate?,
        burst: burst?,
    })
}

/// A number from 0 to `most`.
pub(super) fn number(
    written: Option<&Spanned<f64>>,
    key: &'static str,
    default: f64,
    most: f64,
    report: &mut Report,
) -> Option<f64> {
    let Some(written) = written else {
        return Some(default);
    };
    let value = *written.get_ref();
    if (0.0..=most).contains(&value) {
        return Some(value);
    }
    report.fault(&written.span(), Problem::OutOfRange { key, value, most });
    None
}

/// A whole number of packets at once.
pub(super) fn burst(
    written: Option<&Spanned<f64>>,
    key: &'static str,
    default: f64,
    report: &mut Report,
) -> Option<f64> {
    let Some(written) = written else {
        return Some(default);
    };
    let value = *written.get_ref();
    if is_burst(value) {
        return Some(value);
    }
    report.fault(&written.span(), Problem::NoBurst { key, value });
    None
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{accepted, messages, with_interface},
        *,
    };

    #[test]
    fn a_budget_is_read() {
        let (config, _) = accepted(&with_interface(
            "[replies]\nrate_per_second = 0\nburst = 1\n",
        ));
        let expected = Replies {
            rate_per_second: 0.0,
            burst: 1.0,
        };
        assert_eq!(config.replies, expected);
    }

    #[test]
    fn a_budget_is_bounded() {
        for (line, message) in [
            (
                "rate_per_second = -1",
                "c.toml:4:19: rate_per_second = -1 is out of range; write a number from 0 to 1000000",
            ),
            (
                "rate_per_second = nan",
                "c.toml:4:19: rate_per_second = NaN is out of range; write a number from 0 to 1000000",
            ),
            (
                "burst = 0",
                "c.toml:4:9: burst = 0 is no burst; write a whole number from 1 to 1000000",
            ),
            (
                "burst = 1.5",
                "c.toml:4:9: burst = 1.5 is no burst; write a whole number from 1 to 1000000",
            ),
            (
                "brust = 5",
                "c.toml:4:1: unknown key `brust`; did you mean `burst`?",
            ),
        ] {
            let text = with_interface(&format!("[replies]\n{line}\n"));
            assert_eq!(messages(&text), [message]);
        }
    }
}
