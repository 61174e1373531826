//! What the program printed on one kernel, judged.

use std::fmt;

use anyhow::{Context, Result, bail, ensure};

/// Instructions that the kernel's verifier looks at before it refuses a program (kernel commit c04c0d2b968a).
const LIMIT: u64 = 1_000_000;
/// How many of them a program may use: paths that a newer verifier tells apart must not use them up.
const BOUND: u64 = 400_000;

/// One kernel's report.
#[derive(Debug, Default)]
pub struct Report {
    kernel: String,
    load_ms: Option<u64>,
    verified: Vec<(String, u64)>,
    attached: Vec<String>,
    fixtures: Vec<String>,
    faults: Vec<String>,
    summary: Option<String>,
}

impl Report {
    /// Reads the lines of the report among whatever else a console shows.
    pub fn read(console: &str) -> Self {
        let mut report = Self::default();
        for line in console.lines() {
            // The firmware leaves escape codes, of which the last clears the screen.
            let line = line.rsplit("\u{1b}[2J").next().unwrap_or(line);
            report.read_line(line.trim_end());
        }
        report
    }

    fn read_line(&mut self, line: &str) {
        let Some((word, rest)) = line.split_once(' ') else {
            return;
        };
        let rest = rest.to_owned();
        match word {
            "kernel" => self.kernel = rest,
            "loaded" => {
                self.load_ms = rest.strip_suffix(" ms").and_then(|ms| ms.parse().ok());
            }
            "verified" => {
                self.verified.extend(
                    rest.split_once(' ')
                        .and_then(|(name, count)| Some((name.to_owned(), count.parse().ok()?))),
                );
            }
            "attached" => self.attached.push(rest),
            "fixture" => self.fixtures.push(rest),
            "fault" => self.faults.push(rest),
            "summary" => self.summary = Some(rest),
            _ => {}
        }
    }

    /// Fails when the report is not whole, when something failed, when a program is above the bound, or when a
    /// fixture went another way than in `reference`.
    pub fn check(&self, reference: Option<&Self>) -> Result<()> {
        if let Some(fault) = self.faults.first() {
            bail!("{} fault(s), the first: {fault}", self.faults.len());
        }
        let summary = self
            .summary
            .as_deref()
            .context("the report ends without a summary")?;
        let expected = format!("{} fixtures, 0 failed", self.fixtures.len());
        ensure!(
            summary == expected,
            "{summary}, but {expected} by their lines"
        );
        ensure!(!self.fixtures.is_empty(), "no fixture ran");
        ensure!(
            self.attached == ["native", "generic"],
            "attached in modes {:?} only",
            self.attached
        );
        ensure!(
            self.verified.len() == 2,
            "counts of the programs {:?} only",
            self.verified
        );
        for (name, count) in &self.verified {
            ensure!(
                *count <= BOUND,
                "{name}: the verifier looked at {count} instructions, more than {BOUND}"
            );
        }
        let Some(reference) = reference else {
            return Ok(());
        };
        ensure!(
            self.fixtures.len() == reference.fixtures.len(),
            "{} fixtures, {} on {}",
            self.fixtures.len(),
            reference.fixtures.len(),
            reference.kernel
        );
        for (here, there) in self.fixtures.iter().zip(&reference.fixtures) {
            ensure!(
                here == there,
                "{here}, but on {}: {there}",
                reference.kernel
            );
        }
        Ok(())
    }
}

/// All kernels beside each other.
pub struct Table<'a>(pub &'a [Report]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<32} {:>8} {:>9}  {:<18} {:>9}",
            "kernel", "fixtures", "loaded", "program", "verified"
        )?;
        for report in self.0 {
            let load = report.load_ms.unwrap_or_default();
            let mut kernel = format!(
                "{:<32} {:>8} {load:>6} ms",
                report.kernel,
                report.fixtures.len()
            );
            for (name, count) in &report.verified {
                writeln!(f, "{kernel}  {name:<18} {count:>9}")?;
                kernel = " ".repeat(kernel.len());
            }
        }
        writeln!(
            f,
            "verified: instructions that the verifier looked at; {BOUND} at most. 50 % of the kernel's limit: {}",
            LIMIT / 2
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Table};

    const CONSOLE: &str = "\u{1b}c\u{1b}[?7l\u{1b}[2JSeaBIOS (version 1)\r\n\
        \u{1b}c\u{1b}[?7l\u{1b}[2Jkernel 6.1.0-1-cloud-amd64\r\n\
        loaded 7924 ms\r\n\
        verified overload_ingress 213280\r\n\
        verified overload_pass 2\r\n\
        attached native\r\n\
        attached generic\r\n\
        fixture INVITE refused: rate_limit Transmit 342\r\n\
        fixture keep-alive: keepalive Pass 46\r\n\
        summary 2 fixtures, 0 failed\r\n\
        [   22.403169] reboot: Power down\r\n";

    fn check(console: &str) -> Result<(), String> {
        Report::read(console)
            .check(Some(&Report::read(CONSOLE)))
            .map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn c32_whole_report_passes() {
        assert_eq!(check(CONSOLE), Ok(()));
        let table = Table(&[Report::read(CONSOLE)]).to_string();
        let row = table.lines().nth(2).unwrap_or_default();
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>(),
            [
                "6.1.0-1-cloud-amd64",
                "2",
                "7924",
                "ms",
                "overload_ingress",
                "213280"
            ]
        );
    }

    #[test]
    fn c32_whatever_is_missing_or_differs_fails() {
        for (from, to) in [
            ("summary 2 fixtures, 0 failed", ""),
            ("2 fixtures, 0 failed", "2 fixtures, 1 failed"),
            ("attached native", ""),
            ("attached generic", ""),
            ("verified overload_pass 2", ""),
            ("213280", "400001"),
            ("rate_limit Transmit 342", "rate_limit Transmit 343"),
            ("fixture keep-alive: keepalive Pass 46\r\n", ""),
            ("summary", "fault load: refused\r\nsummary"),
        ] {
            let changed = CONSOLE.replacen(from, to, 1);
            assert_ne!(changed, CONSOLE, "{from}");
            assert!(check(&changed).is_err(), "{from} -> {to}");
        }
        assert!(check("").is_err());
    }
}
