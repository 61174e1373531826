//! Figures, targets, and how they are shown.

use std::{fmt, fs, path::Path};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    paths::{FLOOR, SCAN_FLOOR, Series},
    statistics::Summary,
};

/// What a figure is compared with.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// At most this many ns beyond the empty program.
    BeyondEmpty(f64),
    /// At most this many times the scan floor.
    TimesScan(f64),
    /// At most this many times the path of the same name without what is behind the comma.
    TimesPlain(f64),
}

/// Target of each path; the distinct ones name the path they are compared with.
const TARGETS: [(&str, Target); 10] = [
    ("unrelated: other port", Target::BeyondEmpty(5.0)),
    ("unrelated: TCP", Target::BeyondEmpty(5.0)),
    ("response", Target::BeyondEmpty(15.0)),
    ("other: BYE", Target::BeyondEmpty(15.0)),
    ("other: keep-alive", Target::BeyondEmpty(15.0)),
    ("admitted", Target::TimesScan(4.0)),
    ("refused with 503", Target::TimesScan(5.5)),
    ("copy of an admitted request", Target::TimesScan(2.5)),
    ("copy of a refused request", Target::TimesScan(5.5)),
    ("own ACK absorbed", Target::TimesScan(2.5)),
];
/// Ends of names of paths that are compared with another one.
const VARIANTS: [(&str, Target); 3] = [
    (", distinct", Target::TimesPlain(1.6)),
    (", IPv6", Target::TimesPlain(1.1)),
    (", VLAN tag", Target::TimesPlain(1.1)),
];

/// A path's row.
#[derive(Debug, Serialize)]
pub struct PathFigure {
    path: &'static str,
    ns: Summary,
    times_scan_floor: Summary,
    /// What the target speaks of: ns beyond the empty program, or a ratio.
    measured: Option<Summary>,
    target: Option<Target>,
    reached: Option<bool>,
}

/// Any other figure.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// Of what; empty when it belongs to the figure before.
    pub name: &'static str,
    /// What the numbers count.
    pub unit: &'static str,
    /// The numbers.
    pub value: Summary,
    /// What else is to be known.
    pub note: Option<String>,
    /// What is wanted, in words, and whether it is so.
    pub target: Option<(String, bool)>,
}

/// Where and how it was measured.
#[derive(Debug, Serialize)]
pub struct Machine {
    pub date: String,
    pub kernel: String,
    pub cpu: String,
    pub cpus: usize,
    pub load_average: String,
}

/// The whole result.
#[derive(Debug, Serialize)]
pub struct Report {
    pub machine: Machine,
    pub rounds: u32,
    pub packet_bytes: usize,
    pub paths: Vec<PathFigure>,
    pub figures: Vec<Figure>,
    pub method: &'static [&'static str],
}

/// Turns series into rows, each with its target.
pub fn figures(all: &[Series]) -> Result<Vec<PathFigure>> {
    let of = |name: &str| -> Result<&Series> {
        all.iter()
            .find(|series| series.name == name)
            .with_context(|| format!("{name} was not measured"))
    };
    let (empty, scan) = (&of(FLOOR)?.ns, &of(SCAN_FLOOR)?.ns);
    all.iter()
        .map(|series| {
            let variant = VARIANTS
                .iter()
                .find_map(|(end, target)| Some((series.name.strip_suffix(end)?, *target)));
            let target = match variant {
                Some((_, target)) => Some(target),
                None => TARGETS
                    .iter()
                    .find(|(name, _)| *name == series.name)
                    .map(|(_, target)| *target),
            };
            let measured = match target {
                None => None,
                Some(Target::BeyondEmpty(_)) => Summary::of_differences(&series.ns, empty),
                Some(Target::TimesScan(_)) => Summary::of_ratios(&series.ns, scan),
                Some(Target::TimesPlain(_)) => {
                    let plain = variant.map_or(series.name, |(plain, _)| plain);
                    Summary::of_ratios(&series.ns, &of(plain)?.ns)
                }
            };
            Ok(PathFigure {
                path: series.name,
                ns: Summary::of(&series.ns).context("no round")?,
                times_scan_floor: Summary::of_ratios(&series.ns, scan).context("no round")?,
                measured,
                target,
                reached: measured
                    .zip(target)
                    .map(|(measured, target)| measured.median <= target.limit()),
            })
        })
        .collect()
}

impl Target {
    const fn limit(self) -> f64 {
        match self {
            Self::BeyondEmpty(limit) | Self::TimesScan(limit) | Self::TimesPlain(limit) => limit,
        }
    }

    fn show(self, measured: &Summary) -> String {
        match self {
            Self::BeyondEmpty(limit) => {
                format!("{:+.1} ns of empty, at most +{limit}", measured.median)
            }
            Self::TimesScan(limit) => {
                format!("{:.2} x scan floor, at most {limit}", measured.median)
            }
            Self::TimesPlain(limit) => {
                format!("{:.2} x the plain one, at most {limit}", measured.median)
            }
        }
    }
}

const fn word(reached: bool) -> &'static str {
    if reached { "ok" } else { "MISSED" }
}

impl Report {
    /// Writes the figures as JSON.
    pub fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("figures as JSON")?;
        fs::write(file, text + "\n").with_context(|| format!("write {}", file.display()))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        writeln!(
            f,
            "{}, {} CPUs, Linux {}, {}, load average {}",
            machine.cpu, machine.cpus, machine.kernel, machine.date, machine.load_average
        )?;
        writeln!(
            f,
            "SIP messages of {} bytes; median of {} rounds\n",
            self.packet_bytes, self.rounds
        )?;
        writeln!(
            f,
            "{:<40} {:>7} {:>15} {:>6}  target",
            "path", "ns", "spread", "x scan"
        )?;
        for row in &self.paths {
            let spread = format!("{:.0} - {:.0}", row.ns.least, row.ns.most);
            write!(
                f,
                "{:<40} {:>7.1} {spread:>15} {:>6.2}",
                row.path, row.ns.median, row.times_scan_floor.median
            )?;
            match (row.target, &row.measured, row.reached) {
                (Some(target), Some(measured), Some(reached)) => {
                    writeln!(f, "  {}: {}", target.show(measured), word(reached))?;
                }
                _ => writeln!(f)?,
            }
        }
        writeln!(f)?;
        for figure in &self.figures {
            let Figure {
                name, unit, value, ..
            } = figure;
            let digits = usize::from(value.median < 1000.0);
            let spread = format!("{:.digits$} - {:.digits$}", value.least, value.most);
            write!(
                f,
                "{name:<20} {:>9.digits$} {unit:<22} {spread:>20}",
                value.median
            )?;
            if let Some((target, reached)) = &figure.target {
                write!(f, "  {target}: {}", word(*reached))?;
            }
            writeln!(f, "  {}", figure.note.as_deref().unwrap_or_default())?;
        }
        writeln!(f)?;
        for line in self.method {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{TARGETS, figures};
    use crate::bench::paths::{FLOOR, SCAN_FLOOR, Series};

    fn series(name: &'static str, ns: [f64; 2]) -> Series {
        Series {
            name,
            ns: ns.to_vec(),
        }
    }

    #[test]
    fn each_target_is_judged_by_its_own_measure() {
        let rows = figures(&[
            series(FLOOR, [6.0, 8.0]),
            series(SCAN_FLOOR, [100.0, 120.0]),
            series("unrelated: TCP", [10.0, 14.0]),
            series("admitted", [410.0, 500.0]),
            series("admitted, distinct", [600.0, 700.0]),
        ])
        .expect("both floors are there");
        let reached: Vec<Option<bool>> = rows.iter().map(|row| row.reached).collect();
        assert_eq!(
            reached,
            [None, None, Some(true), Some(false), Some(true)],
            "{rows:?}"
        );
    }

    #[test]
    fn distinct_without_its_hot_path_is_an_error() {
        let rows = figures(&[
            series(FLOOR, [6.0, 8.0]),
            series(SCAN_FLOOR, [100.0, 120.0]),
            series("admitted, distinct", [600.0, 700.0]),
        ]);
        assert!(rows.is_err());
        assert!(!TARGETS.is_empty());
    }
}
