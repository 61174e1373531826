//! SIPp as caller and as called party, and its own counts.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;

use crate::{
    lab::{CLIENT, CLIENT_V6, HOST, HOST_V6, Lab},
    namespace::Namespace,
    process::Process,
};

const CALL: &str = include_str!("../scenarios/call.xml");
const REFUSED: &str = include_str!("../scenarios/refused.xml");
const ANSWER: &str = include_str!("../scenarios/answer.xml");

/// A running SIPp.
#[derive(Debug)]
pub struct Sipp {
    process: Process,
    statistics: PathBuf,
    counts: PathBuf,
}

impl Sipp {
    /// Calls `host` through the protected address: `calls` calls at `rate_per_second`. A call is
    /// successful when it is refused with 503 and acknowledged, or answered and hung up.
    pub fn call(lab: &Lab, host: &str, rate_per_second: u32, calls: u32) -> Result<Self> {
        Self::caller(lab, CALL, (CLIENT, HOST), host, rate_per_second, calls)
    }

    /// Like [`Sipp::call`], but only a refused and acknowledged call is successful.
    pub fn refused(lab: &Lab, host: &str, rate_per_second: u32, calls: u32) -> Result<Self> {
        let ends = (CLIENT, HOST);
        Self::caller(lab, REFUSED, ends, host, rate_per_second, calls)
    }

    /// Like [`Sipp::refused`], over IPv6: see [`Lab::add_ipv6`].
    pub fn refused_v6(lab: &Lab, host: &str, rate_per_second: u32, calls: u32) -> Result<Self> {
        let ends = (CLIENT_V6, &*format!("[{HOST_V6}]"));
        Self::caller(lab, REFUSED, ends, host, rate_per_second, calls)
    }

    fn caller(
        lab: &Lab,
        scenario: &str,
        (from, to): (&str, &str),
        host: &str,
        rate: u32,
        calls: u32,
    ) -> Result<Self> {
        let arguments = [
            &format!("{to}:5060"),
            "-i",
            from,
            "-p",
            "5060",
            "-key",
            "host",
            host,
            "-r",
            &rate.to_string(),
            "-m",
            &calls.to_string(),
            // No cap on open calls: the offered rate must not follow the answers.
            "-l",
            &calls.to_string(),
        ];
        Self::start(lab, &lab.client, "caller", scenario, &arguments)
    }

    /// Answers calls on `address:port` of a namespace until stopped.
    pub fn answer(lab: &Lab, namespace: &Namespace, address: &str, port: u16) -> Result<Self> {
        let arguments = ["-i", address, "-p", &port.to_string()];
        let callee = Self::start(lab, namespace, "callee", ANSWER, &arguments)?;
        namespace.wait_for_port(port)?;
        Ok(callee)
    }

    fn start(
        lab: &Lab,
        namespace: &Namespace,
        name: &str,
        scenario: &str,
        arguments: &[&str],
    ) -> Result<Self> {
        let directory = lab.directory().join(name);
        // A lab may run several callers, one after another.
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir(&directory)?;
        let file = directory.join("scenario.xml");
        fs::write(&file, scenario)?;
        let statistics = directory.join("statistics.csv");
        let mut command = namespace.command("sipp");
        command
            .args(arguments)
            .arg("-sf")
            .arg(&file)
            .args(["-nostdin", "-trace_stat", "-fd", "1", "-stf"])
            .arg(&statistics)
            .args(["-trace_counts", "-trace_err"]);
        let process = Process::start(command, name, &directory)?;
        // setpriv and nsenter become SIPp, so the pid is SIPp's own.
        let counts = directory.join(format!("scenario_{}_counts.csv", process.pid()));
        Ok(Self {
            process,
            statistics,
            counts,
        })
    }

    /// Whether calls are still going on.
    pub fn running(&mut self) -> bool {
        self.process.running()
    }

    /// Waits until all calls are over and gives the counts; fails after `within`.
    pub fn finish(mut self, within: Duration) -> Result<SippReport> {
        self.process.wait(within)?;
        self.report()
    }

    /// Ends it once its open calls are over, and gives the counts.
    pub fn stop(mut self) -> Result<SippReport> {
        self.process.signal(Signal::SIGUSR1);
        self.process.wait(Duration::from_secs(10))?;
        self.report()
    }

    /// Counts so far, at most a second old.
    pub fn report(&self) -> Result<SippReport> {
        let statistics = last_row(&self.statistics)?;
        let counts = last_row(&self.counts)?;
        let number = |name: &str| -> Result<u64> {
            let text = statistics
                .get(name)
                .with_context(|| format!("SIPp's statistics have no {name}"))?;
            text.parse()
                .with_context(|| format!("SIPp's {name} is {text:?}"))
        };
        Ok(SippReport {
            created: number("TotalCallCreated")?,
            successful: number("SuccessfulCall(C)")?,
            failed: number("FailedCall(C)")?,
            retransmissions: number("Retransmissions(C)")?,
            messages: counts
                .into_iter()
                .filter_map(|(name, count)| Some((name, count.parse().ok()?)))
                .collect(),
        })
    }
}

/// SIPp's own counts.
#[derive(Clone, Debug)]
pub struct SippReport {
    /// Calls begun.
    pub created: u64,
    /// Calls that went as the scenario says.
    pub successful: u64,
    /// Calls that did not.
    pub failed: u64,
    /// Messages sent again.
    pub retransmissions: u64,
    messages: BTreeMap<String, u64>,
}

impl SippReport {
    /// Messages sent, without retransmissions, over all steps of the scenario: a method or a code.
    pub fn sent(&self, message: &str) -> u64 {
        self.sum(message, "Sent")
    }

    /// Messages received, without retransmissions, over all steps: a method or a status code.
    pub fn received(&self, message: &str) -> u64 {
        self.sum(message, "Recv")
    }

    // Columns are named `step_message_what`.
    fn sum(&self, message: &str, what: &str) -> u64 {
        let wanted = format!("{message}_{what}");
        self.messages
            .iter()
            .filter(|(name, _)| name.split_once('_').is_some_and(|(_, rest)| rest == wanted))
            .map(|(_, count)| count)
            .sum()
    }
}

/// The last whole row of a file with a heading, by column name. A row being written is left out.
fn last_row(file: &Path) -> Result<BTreeMap<String, String>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut rows = whole
        .lines()
        .map(|line| line.split(';').collect::<Vec<_>>());
    let names = rows
        .next()
        .with_context(|| format!("{} is empty", file.display()))?;
    let last = rows
        .rfind(|row| row.len() == names.len())
        .with_context(|| format!("{} has no row", file.display()))?;
    ensure!(names.len() > 1, "{} has no columns", file.display());
    Ok(names
        .into_iter()
        .zip(last)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}
