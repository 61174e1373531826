//! What holds for all destinations: words of [`InstanceRecord`], and the reserved share of each limit.
//! Pure: no map is touched here.

use std::mem::offset_of;

use overload_common::{
    abi::{
        Class, ControlRecord, InstanceRecord, LOOKUP_EMERGENCY, LOOKUP_PREFIXES_SHIFT,
        LOOKUP_SOURCES, METHOD_PASSES,
    },
    admit::gcra,
};

use crate::config::{Config, Limit, Match, Treatment};

/// Word of [`InstanceRecord`] that says what is looked up.
pub const LOOKUPS_WORD: usize = offset_of!(InstanceRecord, lookups) / 8;

/// Reserved of each limit at least, requests per second.
const LEAST_RESERVED: f64 = 1.0;

/// Words of [`InstanceRecord`], by their index.
pub fn words(config: &Config) -> [(usize, u64); 5] {
    let (replies, emergency) = (config.replies, &config.emergency);
    let reply = gcra::period_ticks(replies.rate_per_second);
    let source = gcra::period_ticks(emergency.source_rate_per_second);
    [
        (
            offset_of!(InstanceRecord, method_classes),
            method_classes(&config.methods),
        ),
        (offset_of!(InstanceRecord, reply_period_ticks), reply),
        (
            offset_of!(InstanceRecord, reply_tolerance_ticks),
            gcra::tolerance_ticks(reply, replies.burst),
        ),
        (offset_of!(InstanceRecord, emergency_period_ticks), source),
        (
            offset_of!(InstanceRecord, emergency_tolerance_ticks),
            gcra::tolerance_ticks(source, emergency.source_burst),
        ),
    ]
    .map(|(offset, value)| (offset / 8, value))
}

/// A byte each, the first method lowest.
fn method_classes(methods: &[Treatment]) -> u64 {
    let class = |treatment: &Treatment| match treatment {
        Treatment::Normal => Class::Normal as u64,
        Treatment::Low => Class::Low as u64,
        Treatment::Priority => Class::Priority as u64,
        Treatment::Pass => METHOD_PASSES,
    };
    (0..)
        .zip(methods)
        .fold(0, |all, (n, method)| all | class(method) << (8 * n))
}

/// What the configuration needs to be looked up: `LOOKUP_*`.
pub fn lookups(config: &Config) -> u64 {
    let mut lookups = 0;
    let sources = &config.sources;
    if !(sources.trusted.is_empty() && sources.denied.is_empty()) {
        lookups |= LOOKUP_SOURCES;
    }
    if !config.emergency.numbers.is_empty() {
        lookups |= LOOKUP_EMERGENCY;
    }
    for destination in &config.destinations {
        if let Match::NumberPrefix(prefix) = destination.matches {
            lookups |= 1 << (LOOKUP_PREFIXES_SHIFT + prefix.count() - 1);
        }
    }
    lookups
}

/// The record with its share for emergency calls: of a rate so many percent, at least one a second, which is
/// also what a percentage reserves. Its burst is the default one of its rate.
pub fn reserve(record: ControlRecord, limit: Limit, share_percent: f64) -> ControlRecord {
    if share_percent <= 0.0 {
        return record;
    }
    let share = match limit {
        Limit::Rate {
            rate_per_second, ..
        } => rate_per_second * share_percent / 100.0,
        Limit::AcceptPercent(_) => 0.0,
    };
    let reserved = share.max(LEAST_RESERVED);
    let emergency_period_ticks = gcra::period_ticks(reserved);
    ControlRecord {
        emergency_period_ticks,
        emergency_tolerance_ticks: gcra::tolerance_ticks(
            emergency_period_ticks,
            gcra::default_burst(reserved),
        ),
        ..record
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use overload_common::{abi::METHOD_CLASSES_DEFAULT, admit::gcra::TICKS_PER_NS};

    use super::*;
    use crate::config::parse;

    const SECOND: u64 = 1_000_000_000 * TICKS_PER_NS;

    fn config(rest: &str) -> Config {
        // The sample has what every version asks for.
        let sample = include_str!("../../../config/overload.toml");
        let head = sample.split("[metrics]").next().unwrap_or_default();
        let text = format!("{head}\n{rest}");
        parse(Path::new("c.toml"), text.as_bytes())
            .expect("valid")
            .0
    }

    fn word(words: &[(usize, u64)], offset: usize) -> u64 {
        let found = words.iter().find(|(word, _)| *word == offset / 8);
        found.expect("the word is written").1
    }

    #[test]
    fn without_configuration_the_words_are_those_of_the_documentation() {
        let words = words(&config(""));
        let word = |offset| word(&words, offset);
        assert_eq!(
            word(offset_of!(InstanceRecord, method_classes)),
            METHOD_CLASSES_DEFAULT
        );
        let reply = SECOND / 200;
        assert_eq!(word(offset_of!(InstanceRecord, reply_period_ticks)), reply);
        assert_eq!(
            word(offset_of!(InstanceRecord, reply_tolerance_ticks)),
            399 * reply
        );
        assert_eq!(
            word(offset_of!(InstanceRecord, emergency_period_ticks)),
            SECOND
        );
        assert_eq!(
            word(offset_of!(InstanceRecord, emergency_tolerance_ticks)),
            4 * SECOND
        );
    }

    #[test]
    fn a_rate_of_zero_is_a_period_of_zero() {
        let config =
            config("[replies]\nrate_per_second = 0\n[emergency]\nsource_rate_per_second = 0\n");
        let words = words(&config);
        for offset in [
            offset_of!(InstanceRecord, reply_period_ticks),
            offset_of!(InstanceRecord, emergency_period_ticks),
        ] {
            assert_eq!(word(&words, offset), 0);
        }
    }

    #[test]
    fn methods_are_bytes() {
        let config =
            config("[methods]\nINVITE = \"priority\"\nMESSAGE = \"low\"\nPUBLISH = \"pass\"\n");
        assert_eq!(method_classes(&config.methods), 0xff02_0202_0301);
    }

    #[test]
    fn what_is_configured_is_looked_up() {
        let prefix = |name: &str, prefix: &str| {
            format!(
                "[[destination]]\nname = \"{name}\"\nnumber_prefix = \"{prefix}\"\naccept_percent = 5\n"
            )
        };
        let none = "[emergency]\nnumbers = []\n";
        for (text, expected) in [
            (none.to_owned(), 0),
            (String::new(), LOOKUP_EMERGENCY),
            (
                format!("{none}[sources]\ntrusted = [\"192.0.2.1\"]\n"),
                LOOKUP_SOURCES,
            ),
            (
                format!("{none}[sources]\ndeny = [\"192.0.2.1\"]\n"),
                LOOKUP_SOURCES,
            ),
            (
                format!(
                    "{none}{}{}{}",
                    prefix("a", "+1"),
                    prefix("b", "1-555"),
                    prefix("c", "123456789012345")
                ),
                0b100_0000_0000_1001 << LOOKUP_PREFIXES_SHIFT,
            ),
        ] {
            assert_eq!(lookups(&config(&text)), expected, "{text}");
        }
    }

    #[test]
    fn a_share_of_each_limit_is_reserved() {
        let rate = |rate_per_second| Limit::Rate {
            rate_per_second,
            burst: 10.0,
        };
        for (limit, share, period, burst) in [
            (rate(100.0), 5.0, SECOND / 5, 10),
            (rate(10.0), 5.0, SECOND, 10),
            (rate(0.0), 5.0, SECOND, 10),
            (rate(20_000.0), 5.0, SECOND / 1000, 20),
            (Limit::AcceptPercent(0.0), 5.0, SECOND, 10),
            (rate(100.0), 0.0, 0, 1),
            (Limit::AcceptPercent(80.0), 0.0, 0, 1),
        ] {
            let record = reserve(ControlRecord::default(), limit, share);
            assert_eq!(record.emergency_period_ticks, period, "{limit:?}");
            assert_eq!(record.emergency_tolerance_ticks, (burst - 1) * period);
        }
    }
}
