//! From a configuration to what the maps hold. Pure: no map is touched here.

use std::collections::{HashMap, HashSet};

use overload_common::{
    abi::{
        ALGORITHM_PERCENT, ALGORITHM_RATE, CLASSES, ControlRecord, DestinationKey, INTERFACE_SLOTS,
        KeyRecord, MAX_CONTROLS, PORT_WORDS, SCOPE_DEFAULT, SCOPE_EMERGENCY, SCOPE_GLOBAL_PREFIX,
        SCOPE_HOST, SCOPE_LOCAL_PREFIX,
    },
    admit::{gcra, percentage},
    sip::{Number, host_key},
};

use crate::config::{Destination, Limit, Match};

/// The record of a limit that has no end.
pub fn control_record(limit: Limit, generation: u32) -> ControlRecord {
    let unlimited_in_time = ControlRecord {
        generation,
        valid_until_ns: u64::MAX,
        ..ControlRecord::default()
    };
    match limit {
        Limit::Rate {
            rate_per_second,
            burst,
        } => {
            let period_ticks = gcra::period_ticks(rate_per_second);
            ControlRecord {
                algorithm: ALGORITHM_RATE,
                period_ticks,
                tolerance_ticks: gcra::class_tolerances(period_ticks, burst),
                ..unlimited_in_time
            }
        }
        Limit::AcceptPercent(percent) => ControlRecord {
            algorithm: ALGORITHM_PERCENT,
            accept_below: percentage::accept_below(percent),
            ..unlimited_in_time
        },
    }
}
const _: () = assert!(CLASSES == 4);

/// The control of each destination: one keeps that of its name, a new one gets a free one, and one
/// that was just in use only when no other is left. `earlier` names the controls in use, where known.
pub fn assign_controls(destinations: &[Destination], earlier: &[(u32, Option<&str>)]) -> Vec<u32> {
    let by_name: HashMap<&str, u32> = earlier
        .iter()
        .filter_map(|(control, name)| Some(((*name)?, *control)))
        .collect();
    let kept: Vec<Option<u32>> = destinations
        .iter()
        .map(|d| by_name.get(d.name.as_str()).copied())
        .collect();
    let in_use: HashSet<u32> = earlier.iter().map(|(control, _)| *control).collect();
    let taken: HashSet<u32> = kept.iter().flatten().copied().collect();
    let all = 0..MAX_CONTROLS as u32;
    let given_up = in_use.iter().copied().filter(|c| !taken.contains(c));
    let mut free = all.filter(|c| !in_use.contains(c)).chain(given_up);
    // The configuration has no more destinations than there are controls.
    kept.into_iter()
        .filter_map(|kept| kept.or_else(|| free.next()))
        .collect()
}

/// The key of one destination; its value is the destination's control.
pub fn destination_key(matches: &Match, generation: u32, uri_key: &KeyRecord) -> DestinationKey {
    match matches {
        Match::Host(host) => DestinationKey {
            generation,
            scope: SCOPE_HOST,
            hash: host_key(uri_key.k0, uri_key.k1, host),
        },
        Match::NumberPrefix(prefix) => DestinationKey {
            generation,
            scope: if prefix.global {
                SCOPE_GLOBAL_PREFIX
            } else {
                SCOPE_LOCAL_PREFIX
            },
            hash: prefix.digits,
        },
        Match::Default => DestinationKey {
            generation,
            scope: SCOPE_DEFAULT,
            hash: 0,
        },
    }
}

/// The key of an emergency number.
pub fn emergency_key(number: Number, generation: u32) -> DestinationKey {
    DestinationKey {
        generation,
        scope: SCOPE_EMERGENCY,
        hash: number.digits,
    }
}

/// The bitmap of protected ports.
pub fn port_bitmap(ports: &[u16]) -> [u64; PORT_WORDS] {
    let mut bitmap = [0; PORT_WORDS];
    for port in ports {
        bitmap[usize::from(port / 64)] |= 1 << (port % 64);
    }
    bitmap
}

/// The entry of map INTERFACES for each interface number: one keeps that of its record, a new one gets a
/// free one, and one that was just in use only when no other is left. `in_use` are the interface numbers of
/// the records, 0 where there is none.
pub fn assign_slots(interfaces: &[u32], in_use: &[u32; INTERFACE_SLOTS]) -> Vec<u32> {
    let kept: Vec<Option<usize>> = interfaces
        .iter()
        .map(|index| in_use.iter().position(|found| found == index))
        .collect();
    let is_kept = |slot: &usize| kept.contains(&Some(*slot));
    let free = (0..INTERFACE_SLOTS).filter(|slot| in_use[*slot] == 0);
    let given_up = (0..INTERFACE_SLOTS).filter(|slot| in_use[*slot] != 0 && !is_kept(slot));
    let mut others = free.chain(given_up);
    // The configuration has no more interfaces than there are entries.
    kept.iter()
        .filter_map(|kept| kept.or_else(|| others.next()))
        .map(|slot| slot as u32)
        .collect()
}

/// The limit a record enforces, as it was configured but for rounding; `None` for no limit.
pub fn limit_of(record: &ControlRecord) -> Option<RecordLimit> {
    match record.algorithm {
        ALGORITHM_RATE if record.period_ticks == 0 => Some(RecordLimit::Rate(0.0)),
        ALGORITHM_RATE => {
            let ticks_per_second = 1e9 * gcra::TICKS_PER_NS as f64;
            Some(RecordLimit::Rate(
                ticks_per_second / record.period_ticks as f64,
            ))
        }
        ALGORITHM_PERCENT => Some(RecordLimit::AcceptPercent(
            record.accept_below as f64 / 4_294_967_296.0 * 100.0,
        )),
        _ => None,
    }
}

/// A limit as the kernel enforces it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RecordLimit {
    /// Requests per second.
    Rate(f64),
    /// Percent of the requests.
    AcceptPercent(f64),
}

#[cfg(test)]
mod tests {
    use overload_common::admit::gcra::TICKS_PER_NS;

    use super::*;

    #[test]
    fn a_rate_becomes_period_and_tolerances() {
        let limit = Limit::Rate {
            rate_per_second: 1000.0,
            burst: 20.0,
        };
        let record = control_record(limit, 3);
        let period = 1_000_000 * TICKS_PER_NS;
        assert_eq!(record.algorithm, ALGORITHM_RATE);
        assert_eq!(record.generation, 3);
        assert_eq!(record.period_ticks, period);
        assert_eq!(
            record.tolerance_ticks,
            [38 * period, 38 * period, 19 * period, 19 * period / 2]
        );
        assert_eq!((record.valid_from_ns, record.valid_until_ns), (0, u64::MAX));
        assert_eq!(limit_of(&record), Some(RecordLimit::Rate(1000.0)));
    }

    #[test]
    fn rate_zero_is_a_limit_that_refuses_all() {
        let limit = Limit::Rate {
            rate_per_second: 0.0,
            burst: 10.0,
        };
        let record = control_record(limit, 1);
        assert_eq!((record.algorithm, record.period_ticks), (ALGORITHM_RATE, 0));
        assert_eq!(limit_of(&record), Some(RecordLimit::Rate(0.0)));
    }

    #[test]
    fn a_percentage_becomes_a_threshold() {
        for (percent, below) in [(0.0, 0), (50.0, 1 << 31), (100.0, 1 << 32)] {
            let record = control_record(Limit::AcceptPercent(percent), 1);
            assert_eq!(record.algorithm, ALGORITHM_PERCENT);
            assert_eq!(record.accept_below, below);
            assert_eq!(limit_of(&record), Some(RecordLimit::AcceptPercent(percent)));
        }
        assert_eq!(limit_of(&ControlRecord::default()), None);
    }

    #[test]
    fn destinations_have_keys_of_their_generation() {
        let key = KeyRecord { k0: 1, k1: 2 };
        assert_eq!(
            destination_key(&Match::Host("gw1.example.net".to_owned()), 7, &key),
            DestinationKey {
                generation: 7,
                scope: SCOPE_HOST,
                hash: host_key(1, 2, "gw1.example.net"),
            }
        );
        assert_eq!(
            destination_key(&Match::Default, 7, &key),
            DestinationKey {
                generation: 7,
                scope: SCOPE_DEFAULT,
                hash: 0,
            }
        );
        for (text, scope) in [
            ("+1-555", SCOPE_GLOBAL_PREFIX),
            ("1555", SCOPE_LOCAL_PREFIX),
        ] {
            let number = Number::read(text).expect("number");
            let prefix = destination_key(&Match::NumberPrefix(number), 7, &key);
            let expected = DestinationKey {
                generation: 7,
                scope,
                hash: 0x1_1555,
            };
            assert_eq!(prefix, expected);
            let expected = DestinationKey {
                scope: SCOPE_EMERGENCY,
                ..expected
            };
            assert_eq!(emergency_key(number, 7), expected);
        }
    }

    fn named(names: &[&str]) -> Vec<Destination> {
        names
            .iter()
            .map(|name| Destination {
                name: (*name).to_owned(),
                matches: Match::Default,
                limit: Limit::AcceptPercent(50.0),
            })
            .collect()
    }

    #[test]
    fn a_destination_keeps_the_control_of_its_name() {
        assert_eq!(assign_controls(&named(&["a", "b", "c"]), &[]), [0, 1, 2]);
        let earlier = [(0, Some("a")), (1, Some("b")), (5, None)];
        assert_eq!(
            assign_controls(&named(&["c", "b", "d", "a"]), &earlier),
            [2, 1, 3, 0]
        );
        assert_eq!(assign_controls(&named(&["x"]), &earlier), [2]);
    }

    #[test]
    fn controls_just_given_up_are_the_last_to_be_used() {
        let names: Vec<String> = (0..MAX_CONTROLS).map(|n| n.to_string()).collect();
        let earlier: Vec<(u32, Option<&str>)> =
            (0..).zip(names.iter().map(|n| Some(n.as_str()))).collect();
        assert_eq!(
            assign_controls(&named(&["7", "new"]), &earlier[1..]),
            [7, 0]
        );
        let with_all = assign_controls(&named(&["7", "new"]), &earlier);
        assert_eq!(with_all[0], 7);
        assert_ne!(with_all[1], 7);
    }

    #[test]
    fn ports_are_bits() {
        let bitmap = port_bitmap(&[1, 63, 64, 5060, 65535]);
        let mut set = Vec::new();
        for (word, bits) in bitmap.iter().enumerate() {
            set.extend(
                (0..64)
                    .filter(|bit| bits >> bit & 1 == 1)
                    .map(|bit| word * 64 + bit),
            );
        }
        assert_eq!(set, [1, 63, 64, 5060, 65535]);
    }

    #[test]
    fn an_interface_keeps_its_entry() {
        let mut in_use = [0; INTERFACE_SLOTS];
        assert_eq!(assign_slots(&[7, 3], &in_use), [0, 1]);
        in_use[0] = 9;
        in_use[2] = 7;
        assert_eq!(assign_slots(&[3, 7, 4], &in_use), [1, 2, 3]);
        for (slot, index) in in_use.iter_mut().zip(1..) {
            *slot = index;
        }
        assert_eq!(assign_slots(&[16, 99, 2], &in_use), [15, 0, 1]);
    }
}
