//! The counters as Prometheus metrics, read from the maps at each scrape.

use std::{fmt, sync::Arc};

use overload_common::abi::{Event, Mode, Reason};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, text::encode},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use thiserror::Error;

use crate::datapath::{
    counters::{Control, Counters},
    filter::{Attachment, NamedControl},
    tables::{RecordLimit, limit_of},
};

/// Why a scrape failed.
#[derive(Debug, Error)]
pub enum MetricsError {
    /// The text could not be made.
    #[error("cannot write the metrics: {0}")]
    Format(#[from] fmt::Error),
}

/// Counters of one moment with the names of their destinations.
#[derive(Debug)]
pub struct Metrics {
    /// What was counted.
    pub counters: Counters,
    /// The interfaces, and whether the filter works there.
    pub interfaces: Vec<Attachment>,
    /// Interface, kind and number of the changes that were taken up.
    pub interface_changes: Vec<(String, &'static str, u64)>,
    /// Names of the controls.
    pub destinations: Arc<[NamedControl]>,
}

type Labels<'a> = [(&'a str, &'a str)];

impl Metrics {
    /// In OpenMetrics text.
    pub fn text(self) -> Result<String, MetricsError> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    fn packets(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "overload_packets",
            "Packets by verdict and reason; mode shadow counts verdicts that were not carried out",
            None,
            MetricType::Counter,
        )?;
        for (reason, counter) in &self.counters.reasons {
            for (mode, value) in [("enforced", counter.enforced), ("shadow", counter.shadow)] {
                let labels = [
                    ("verdict", reason.verdict().name()),
                    ("reason", reason.name()),
                    ("mode", mode),
                ];
                sample(&mut family, &labels, &ConstCounter::new(value))?;
            }
        }
        Ok(())
    }

    fn events(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "overload_events",
            "Things that happened beside a verdict",
            None,
            MetricType::Counter,
        )?;
        for (event, value) in &self.counters.events {
            let labels = [("event", event.name())];
            sample(&mut family, &labels, &ConstCounter::new(*value))?;
        }
        Ok(())
    }

    fn requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "overload_control_requests",
            "New requests by destination; offered is the sum of the other outcomes",
            None,
            MetricType::Counter,
        )?;
        for (name, control) in self.named() {
            for (outcome, value) in [
                ("offered", control.counters.offered),
                ("admitted", control.counters.admitted),
                ("refused", control.counters.refused),
                ("shadow_refused", control.counters.shadow_refused),
            ] {
                let labels = [("destination", name), ("outcome", outcome)];
                sample(&mut family, &labels, &ConstCounter::new(value))?;
            }
        }
        Ok(())
    }

    fn limits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let limits = || {
            self.named()
                .filter_map(|(name, control)| Some((name, limit_of(&control.record)?)))
        };
        let mut rates = encoder.encode_descriptor(
            "overload_control_limit_requests_per_second",
            "Limit of a destination that has a rate",
            None,
            MetricType::Gauge,
        )?;
        for (name, limit) in limits() {
            if let RecordLimit::Rate(rate) = limit {
                sample(&mut rates, &[("destination", name)], &ConstGauge::new(rate))?;
            }
        }
        let mut shares = encoder.encode_descriptor(
            "overload_control_limit_accept_ratio",
            "Limit of a destination that has a share, 0 to 1",
            None,
            MetricType::Gauge,
        )?;
        for (name, limit) in limits() {
            if let RecordLimit::AcceptPercent(percent) = limit {
                let ratio = ConstGauge::new(percent / 100.0);
                sample(&mut shares, &[("destination", name)], &ratio)?;
            }
        }
        Ok(())
    }

    fn mode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "overload_mode",
            "1 for what is done with verdicts now",
            None,
            MetricType::Gauge,
        )?;
        for mode in [Mode::Bypass, Mode::Shadow, Mode::Enforce] {
            let value = ConstGauge::new(u64::from(mode == self.counters.mode));
            sample(&mut family, &[("mode", mode.name())], &value)?;
        }
        Ok(())
    }

    fn interfaces(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "overload_interface_attached",
            "1 where the filter works on the interface, 0 where it was lost",
            None,
            MetricType::Gauge,
        )?;
        for Attachment { name, state } in &self.interfaces {
            let value = ConstGauge::new(u64::from(state.is_ok()));
            sample(&mut family, &[("interface", name)], &value)?;
        }
        Ok(())
    }

    fn interface_changes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "overload_interface_changes",
            "Changes of an interface that the running controller took up",
            None,
            MetricType::Counter,
        )?;
        for (interface, kind, count) in &self.interface_changes {
            let labels = [("interface", interface.as_str()), ("change", *kind)];
            sample(&mut family, &labels, &ConstCounter::new(*count))?;
        }
        Ok(())
    }

    fn named(&self) -> impl Iterator<Item = (&str, &Control)> {
        self.destinations.iter().filter_map(|destination| {
            let controls = &self.counters.controls;
            let at = controls
                .binary_search_by_key(&destination.control, |c| c.index)
                .ok()?;
            Some((destination.name.as_str(), &controls[at]))
        })
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.packets(&mut encoder)?;
        self.events(&mut encoder)?;
        self.requests(&mut encoder)?;
        self.limits(&mut encoder)?;
        self.mode(&mut encoder)?;
        self.interfaces(&mut encoder)?;
        self.interface_changes(&mut encoder)?;
        explanations(&mut encoder)?;
        build(&mut encoder)
    }
}

/// What each reason and event means, to join with the counters.
fn explanations(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let one = ConstGauge::new(1u64);
    let mut reasons = encoder.encode_descriptor(
        "overload_reason_info",
        "What a reason means",
        None,
        MetricType::Gauge,
    )?;
    for reason in Reason::ALL {
        let labels = [("reason", reason.name()), ("meaning", reason.help())];
        sample(&mut reasons, &labels, &one)?;
    }
    let mut events = encoder.encode_descriptor(
        "overload_event_info",
        "What an event means",
        None,
        MetricType::Gauge,
    )?;
    for event in Event::ALL {
        let labels = [("event", event.name()), ("meaning", event.help())];
        sample(&mut events, &labels, &one)?;
    }
    Ok(())
}

fn build(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut family = encoder.encode_descriptor(
        "overload_build_info",
        "Version of the controller",
        None,
        MetricType::Gauge,
    )?;
    let labels = [("version", env!("CARGO_PKG_VERSION"))];
    sample(&mut family, &labels, &ConstGauge::new(1u64))
}

fn sample(
    family: &mut MetricEncoder<'_>,
    labels: &Labels<'_>,
    value: &impl EncodeMetric,
) -> fmt::Result {
    value.encode(family.encode_family(&LabelSlice(labels))?)
}

#[derive(Debug)]
struct LabelSlice<'a>(&'a Labels<'a>);

impl EncodeLabelSet for LabelSlice<'_> {
    fn encode(
        &self,
        encoder: &mut prometheus_client::encoding::LabelSetEncoder<'_>,
    ) -> fmt::Result {
        for label in self.0 {
            prometheus_client::encoding::EncodeLabel::encode(label, encoder.encode_label())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use overload_common::abi::{ControlCounters, ReasonCounter};

    use super::*;
    use crate::{
        config::Limit,
        datapath::{
            filter::{Unhealthy, Working},
            interface::AttachMode,
            tables::control_record,
        },
    };

    fn metrics() -> Metrics {
        let control = |index, limit, counters| Control {
            index,
            record: control_record(limit, 1),
            counters,
        };
        let rate = Limit::Rate {
            rate_per_second: 1000.0,
            burst: 20.0,
        };
        Metrics {
            counters: Counters {
                mode: Mode::Shadow,
                reasons: (1u64..)
                    .zip(Reason::ALL)
                    .map(|(n, reason)| {
                        let counter = ReasonCounter {
                            enforced: n,
                            shadow: 1000 + n,
                        };
                        (*reason, counter)
                    })
                    .collect(),
                events: (1u64..)
                    .zip(Event::ALL)
                    .map(|(n, e)| (*e, 2000 + n))
                    .collect(),
                controls: vec![
                    control(
                        2,
                        rate,
                        ControlCounters {
                            offered: 60,
                            admitted: 10,
                            refused: 20,
                            shadow_refused: 30,
                        },
                    ),
                    control(5, Limit::AcceptPercent(25.0), ControlCounters::default()),
                ],
            },
            interfaces: vec![
                Attachment {
                    name: "eth0".to_owned(),
                    state: Ok(Working {
                        mode: AttachMode::Native,
                        addresses: Vec::new(),
                    }),
                },
                Attachment {
                    name: "eth1".to_owned(),
                    state: Err(Unhealthy::Detached("eth1".to_owned())),
                },
            ],
            interface_changes: vec![("eth0".to_owned(), "address_added", 3)],
            destinations: [(2, "gw1"), (5, "the \"rest\"\\")]
                .map(|(control, name)| NamedControl {
                    control,
                    name: name.to_owned(),
                })
                .into(),
        }
    }

    #[test]
    fn every_reason_and_event_is_exported_with_its_value() {
        let text = metrics().text().expect("text");
        for (n, reason) in (1u64..).zip(Reason::ALL) {
            let (verdict, reason) = (reason.verdict().name(), reason.name());
            for (mode, value) in [("enforced", n), ("shadow", 1000 + n)] {
                let line = format!(
                    "overload_packets_total{{verdict=\"{verdict}\",reason=\"{reason}\",mode=\"{mode}\"}} {value}\n"
                );
                assert!(text.contains(&line), "{line} not in\n{text}");
            }
            assert!(text.contains(&format!("overload_reason_info{{reason=\"{reason}\",")));
        }
        for (n, event) in (1u64..).zip(Event::ALL) {
            let name = event.name();
            let line = format!("overload_events_total{{event=\"{name}\"}} {}\n", 2000 + n);
            assert!(text.contains(&line), "{line} not in\n{text}");
        }
    }

    #[test]
    fn destinations_modes_and_limits_are_exported() {
        let text = metrics().text().expect("text");
        for line in [
            "overload_control_requests_total{destination=\"gw1\",outcome=\"offered\"} 60\n",
            "overload_control_requests_total{destination=\"gw1\",outcome=\"admitted\"} 10\n",
            "overload_control_requests_total{destination=\"gw1\",outcome=\"refused\"} 20\n",
            "overload_control_requests_total{destination=\"gw1\",outcome=\"shadow_refused\"} 30\n",
            "overload_control_requests_total{destination=\"the \\\"rest\\\"\\\\\",outcome=\"offered\"} 0\n",
            "overload_control_limit_requests_per_second{destination=\"gw1\"} 1000.0\n",
            "overload_control_limit_accept_ratio{destination=\"the \\\"rest\\\"\\\\\"} 0.25\n",
            "overload_mode{mode=\"bypass\"} 0\n",
            "overload_mode{mode=\"shadow\"} 1\n",
            "overload_mode{mode=\"enforce\"} 0\n",
            "overload_interface_attached{interface=\"eth0\"} 1\n",
            "overload_interface_attached{interface=\"eth1\"} 0\n",
            "overload_interface_changes_total{interface=\"eth0\",change=\"address_added\"} 3\n",
            "# TYPE overload_packets counter\n",
        ] {
            assert!(text.contains(line), "{line} not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
