//! `status`: reads the pins only.

use std::{
    collections::HashMap,
    fmt,
    io::{self, Write},
    net::IpAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use overload_common::abi::Verdict;
use serde::Serialize;

use super::Failure;
use crate::{
    datapath::{
        counters::{Control, Counters},
        filter::{Attachment, Filter, FilterError, NamedControl, faults},
        protect::list,
        tables::{RecordLimit, limit_of},
    },
    state::State,
};

const VERDICTS: [Verdict; 5] = [
    Verdict::Pass,
    Verdict::Admit,
    Verdict::Refuse,
    Verdict::Absorb,
    Verdict::Drop,
];

/// One filter instance. What was carried out and what shadow mode only counted are never added up.
#[derive(Debug, Serialize)]
struct Report {
    instance: String,
    interfaces: Vec<InterfaceState>,
    /// Why it does not work on all interfaces, when so; the exit status is then 1.
    fault: Option<String>,
    /// `enforce`, `shadow` or `bypass`.
    mode: &'static str,
    /// Since the counters began, seconds; absent when unknown.
    counting_seconds: Option<u64>,
    verdicts: Vec<Count>,
    reasons: Vec<ReasonCount>,
    events: Vec<EventCount>,
    destinations: Vec<DestinationCount>,
}

#[derive(Debug, Serialize)]
struct InterfaceState {
    name: String,
    /// `native` or `generic`; absent where the filter does not work.
    attach: Option<&'static str>,
    /// Protected addresses.
    addresses: Vec<IpAddr>,
}

#[derive(Debug, Serialize)]
struct Count {
    verdict: &'static str,
    enforced: u64,
    shadow: u64,
}

#[derive(Debug, Serialize)]
struct ReasonCount {
    reason: &'static str,
    verdict: &'static str,
    enforced: u64,
    shadow: u64,
    meaning: &'static str,
}

#[derive(Debug, Serialize)]
struct EventCount {
    event: &'static str,
    count: u64,
    meaning: &'static str,
}

#[derive(Debug, Serialize)]
struct DestinationCount {
    control: u32,
    /// Absent when unknown.
    name: Option<String>,
    rate_per_second: Option<f64>,
    accept_percent: Option<f64>,
    offered: u64,
    admitted: u64,
    refused: u64,
    shadow_refused: u64,
}

pub(super) async fn status(instance: &str, json: bool) -> Result<(), Failure> {
    let filter = Filter::open(instance)?;
    let counters = filter.counters().map_err(FilterError::from)?;
    let attachments = filter.attachments().await;
    let state = State::read_for(instance, filter.identity());
    let report = report(instance, &counters, attachments, state.as_ref());
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    match report.fault {
        None => Ok(()),
        Some(fault) => Err(Failure::fault(&format!("instance {instance}: {fault}"))),
    }
}

fn report(
    instance: &str,
    counters: &Counters,
    attachments: Vec<Attachment>,
    state: Option<&State>,
) -> Report {
    let names = state.map_or(&[][..], |state| &state.destinations);
    Report {
        instance: instance.to_owned(),
        fault: faults(&attachments),
        interfaces: attachments.into_iter().map(interface).collect(),
        mode: counters.mode.name(),
        counting_seconds: state.and_then(|state| {
            let since = UNIX_EPOCH.checked_add(Duration::from_secs(state.counting_since))?;
            Some(SystemTime::now().duration_since(since).ok()?.as_secs())
        }),
        verdicts: verdicts(counters),
        reasons: reasons(counters),
        events: events(counters),
        destinations: destinations(counters, names),
    }
}

fn interface(attachment: Attachment) -> InterfaceState {
    let working = attachment.state.ok();
    InterfaceState {
        name: attachment.name,
        attach: working.as_ref().map(|working| working.mode.name()),
        addresses: working.map(|working| working.addresses).unwrap_or_default(),
    }
}

fn verdicts(counters: &Counters) -> Vec<Count> {
    VERDICTS
        .iter()
        .map(|verdict| {
            let mut count = Count {
                verdict: verdict.name(),
                enforced: 0,
                shadow: 0,
            };
            for (_, counter) in counters
                .reasons
                .iter()
                .filter(|(r, _)| r.verdict() == *verdict)
            {
                count.enforced += counter.enforced;
                count.shadow += counter.shadow;
            }
            count
        })
        .collect()
}

fn reasons(counters: &Counters) -> Vec<ReasonCount> {
    counters
        .reasons
        .iter()
        .map(|(reason, counter)| ReasonCount {
            reason: reason.name(),
            verdict: reason.verdict().name(),
            enforced: counter.enforced,
            shadow: counter.shadow,
            meaning: reason.help(),
        })
        .collect()
}

fn events(counters: &Counters) -> Vec<EventCount> {
    counters
        .events
        .iter()
        .map(|(event, count)| EventCount {
            event: event.name(),
            count: *count,
            meaning: event.help(),
        })
        .collect()
}

/// In the order of the configuration; those without a name come last.
fn destinations(counters: &Counters, names: &[NamedControl]) -> Vec<DestinationCount> {
    let places: HashMap<u32, (usize, &str)> = names
        .iter()
        .enumerate()
        .map(|(place, named)| (named.control, (place, named.name.as_str())))
        .collect();
    let mut controls: Vec<&Control> = counters.controls.iter().collect();
    controls.sort_by_key(|c| places.get(&c.index).map_or(usize::MAX, |(place, _)| *place));
    controls
        .into_iter()
        .map(|control| {
            let name = places
                .get(&control.index)
                .map(|(_, name)| (*name).to_owned());
            destination(name, control)
        })
        .collect()
}

fn destination(name: Option<String>, control: &Control) -> DestinationCount {
    let limit = limit_of(&control.record);
    let Control { counters, .. } = control;
    DestinationCount {
        control: control.index,
        name,
        rate_per_second: match limit {
            Some(RecordLimit::Rate(rate)) => Some(rate),
            _ => None,
        },
        accept_percent: match limit {
            Some(RecordLimit::AcceptPercent(percent)) => Some(percent),
            _ => None,
        },
        offered: counters.offered,
        admitted: counters.admitted,
        refused: counters.refused,
        shadow_refused: counters.shadow_refused,
    }
}

impl DestinationCount {
    fn label(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => format!("control {} (name unknown)", self.control),
        }
    }

    fn limit(&self) -> String {
        match (self.rate_per_second, self.accept_percent) {
            (Some(rate), _) => format!("{}/s", short(rate)),
            (_, Some(percent)) => format!("{} %", short(percent)),
            _ => "none".to_owned(),
        }
    }
}

/// Without the digits that rounding to clock ticks leaves: three after the point, or three that are not
/// zero where the value is smaller than one.
fn short(value: f64) -> String {
    #[expect(
        clippy::cast_sign_loss,
        reason = "a value below one has a negative logarithm"
    )]
    let leading_zeros = if value > 0.0 && value < 1.0 {
        (-value.log10()).floor() as usize
    } else {
        0
    };
    let rounded = format!("{value:.*}", 3 + leading_zeros);
    rounded
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "instance   {}", self.instance)?;
        for interface in &self.interfaces {
            let InterfaceState {
                name, addresses, ..
            } = interface;
            let attach = interface.attach.unwrap_or("lost");
            writeln!(f, "interface  {name} ({attach}) {}", list(addresses))?;
        }
        if let Some(fault) = &self.fault {
            writeln!(f, "FAULT      {fault}")?;
        }
        writeln!(f, "mode       {}", self.mode)?;
        match self.counting_seconds {
            Some(seconds) => writeln!(f, "counting   for {seconds} s")?,
            None => writeln!(f, "counting   for an unknown time")?,
        }
        writeln!(f, "\n{:<21}{:>14}{:>14}", "VERDICT", "enforced", "shadow")?;
        for count in &self.verdicts {
            let Count {
                verdict,
                enforced,
                shadow,
            } = count;
            writeln!(f, "{verdict:<21}{enforced:>14}{shadow:>14}")?;
        }
        self.write_reasons(f)?;
        self.write_events(f)?;
        self.write_destinations(f)
    }
}

impl Report {
    fn write_reasons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let occurred = |count: &&ReasonCount| count.enforced != 0 || count.shadow != 0;
        let mut counts = self.reasons.iter().filter(occurred).peekable();
        if counts.peek().is_none() {
            return Ok(());
        }
        writeln!(f, "\n{:<21}{:>14}{:>14}", "REASON", "enforced", "shadow")?;
        for count in counts {
            let ReasonCount {
                reason,
                enforced,
                shadow,
                meaning,
                ..
            } = count;
            writeln!(f, "{reason:<21}{enforced:>14}{shadow:>14}  {meaning}")?;
        }
        Ok(())
    }

    fn write_events(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts = self.events.iter().filter(|e| e.count != 0).peekable();
        if counts.peek().is_none() {
            return Ok(());
        }
        writeln!(f, "\n{:<21}{:>14}", "EVENT", "count")?;
        for EventCount {
            event,
            count,
            meaning,
        } in counts
        {
            writeln!(f, "{event:<21}{count:>14}                {meaning}")?;
        }
        Ok(())
    }

    fn write_destinations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.destinations.is_empty() {
            return Ok(());
        }
        let labels: Vec<String> = self
            .destinations
            .iter()
            .map(DestinationCount::label)
            .collect();
        let width = labels
            .iter()
            .map(|label| label.chars().count())
            .max()
            .unwrap_or(0)
            .max(19)
            + 2;
        writeln!(
            f,
            "\n{:<width$}{:>14}{:>14}{:>14}{:>14}{:>16}",
            "DESTINATION", "limit", "offered", "admitted", "refused", "shadow refused"
        )?;
        for (label, count) in labels.iter().zip(&self.destinations) {
            writeln!(
                f,
                "{label:<width$}{:>14}{:>14}{:>14}{:>14}{:>16}",
                count.limit(),
                count.offered,
                count.admitted,
                count.refused,
                count.shadow_refused
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use overload_common::abi::{ControlCounters, Event, Mode, Reason, ReasonCounter};

    use super::*;
    use crate::{
        config::Limit,
        datapath::{
            filter::{Identity, Unhealthy, Working},
            interface::AttachMode,
            tables::control_record,
        },
    };

    fn attachments() -> Vec<Attachment> {
        let addresses = ["192.0.2.1", "2001:db8::1"].map(|a| a.parse().expect("address"));
        vec![
            Attachment {
                name: "eth0".to_owned(),
                state: Ok(Working {
                    mode: AttachMode::Generic,
                    addresses: addresses.to_vec(),
                }),
            },
            Attachment {
                name: "eth1".to_owned(),
                state: Err(Unhealthy::Detached("eth1".to_owned())),
            },
        ]
    }

    fn counters() -> Counters {
        let counter = |reason| match reason {
            Reason::RateLimit => ReasonCounter {
                enforced: 7,
                shadow: 2,
            },
            Reason::RefusedCopy => ReasonCounter {
                enforced: 3,
                shadow: 0,
            },
            _ => ReasonCounter::default(),
        };
        let rate = Limit::Rate {
            rate_per_second: 333.3,
            burst: 10.0,
        };
        let control = |index, limit, refused| Control {
            index,
            record: control_record(limit, 1),
            counters: ControlCounters {
                offered: 9 + refused,
                admitted: 5,
                refused,
                shadow_refused: 4,
            },
        };
        Counters {
            mode: Mode::Enforce,
            reasons: Reason::ALL.iter().map(|r| (*r, counter(*r))).collect(),
            events: Event::ALL
                .iter()
                .map(|e| (*e, u64::from(*e == Event::BucketContended)))
                .collect(),
            controls: vec![
                control(1, Limit::AcceptPercent(12.5), 0),
                control(4, rate, 7),
            ],
        }
    }

    #[test]
    fn enforced_and_shadow_stay_apart() {
        let state = State {
            identity: Identity {
                filter_id: 1,
                generation: 1,
            },
            counting_since: 1 << 40,
            mode: "enforce".to_owned(),
            destinations: vec![NamedControl {
                control: 4,
                name: "gw1".to_owned(),
            }],
        };
        let report = report("default", &counters(), attachments(), Some(&state));
        let refuse = report
            .verdicts
            .iter()
            .find(|c| c.verdict == "refuse")
            .expect("row");
        assert_eq!((refuse.enforced, refuse.shadow), (10, 2));
        let text = report.to_string();
        for line in [
            "interface  eth0 (generic) 192.0.2.1 2001:db8::1\n",
            "interface  eth1 (lost) \n",
            "FAULT      the program is no longer on interface eth1\n",
            "mode       enforce\n",
            "counting   for an unknown time\n",
            "refuse                           10             2\n",
            "rate_limit                        7             2  Above a rate limit.\n",
            "bucket_contended                  1                Refused because",
            "gw1                              333.3/s            16             5             7               4\n",
            "control 1 (name unknown)          12.5 %",
        ] {
            assert!(text.contains(line), "{line:?} not in\n{text}");
        }
        assert!(
            !text.contains("percent_limit"),
            "reasons that did not occur are left out"
        );
    }

    #[test]
    fn c19_a_limit_is_shown_as_it_was_written() {
        for (rate_per_second, shown) in [
            (0.0, "0/s"),
            (0.0001, "0.0001/s"),
            (0.000_012_5, "0.0000125/s"),
            (0.25, "0.25/s"),
            (1.0, "1/s"),
            (333.3, "333.3/s"),
            (1_000_000.0, "1000000/s"),
        ] {
            let limit = Limit::Rate {
                rate_per_second,
                burst: 10.0,
            };
            let control = Control {
                index: 0,
                record: control_record(limit, 1),
                counters: ControlCounters::default(),
            };
            assert_eq!(destination(None, &control).limit(), shown);
        }
    }

    #[test]
    fn json_has_every_number_under_its_own_name() {
        let report = report("default", &counters(), attachments(), None);
        let json = serde_json::to_value(&report).expect("json");
        assert_eq!(json["mode"], "enforce");
        assert_eq!(
            json["interfaces"],
            serde_json::json!([
                {"name": "eth0", "attach": "generic", "addresses": ["192.0.2.1", "2001:db8::1"]},
                {"name": "eth1", "attach": null, "addresses": []},
            ])
        );
        assert_eq!(json["destinations"][1]["refused"], 7);
        assert_eq!(json["destinations"][1]["shadow_refused"], 4);
        assert_eq!(json["destinations"][0]["name"], serde_json::Value::Null);
        assert_eq!(json["destinations"][0]["accept_percent"], 12.5);
        assert_eq!(
            json["reasons"].as_array().map(Vec::len),
            Some(Reason::COUNT)
        );
        let rate_limit = &json["reasons"][Reason::RateLimit as usize];
        assert_eq!(rate_limit["reason"], "rate_limit");
        assert_eq!(rate_limit["enforced"], 7);
        assert_eq!(rate_limit["shadow"], 2);
        assert_eq!(json["events"].as_array().map(Vec::len), Some(Event::COUNT));
    }
}
