//! The filter under measurement, on private maps, and proof that it did what is measured.

use std::{path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use aya::{
    EbpfLoader, Pod,
    programs::{TestRun, TestRunOptions, Xdp},
};
use overload_common::{
    abi::{
        ALGORITHM_RATE, ControlRecord, Event, MEMORY_BUCKETS, MemoryBucket, Mode, Reason,
        ReasonCounter,
    },
    admit::gcra::{class_tolerances, period_ticks},
};
use overload_ctl::datapath::{
    object::{SCRATCH, possible_cpus},
    sandbox::{Protected, Sandbox},
};

use super::message::{self, DESTINATION, DISTINCT, FRAME, HOST_MAC, PORT};

/// The filter.
pub const FILTER: &str = "overload_ingress";
/// The program that passes everything.
pub const EMPTY: &str = "overload_pass";
/// Copies a message and looks for its line feeds.
const SCAN: &str = "bench_scan";
/// Feeds a packet and runs the filter.
pub const FED_FILTER: &str = "bench_filter";
/// Feeds a packet.
pub const FEED: &str = "bench_feed";
/// Counts and drops refusals.
pub const SINK: &str = "bench_sink";

const PROGRAMS: [&str; 6] = [FILTER, EMPTY, SCAN, FED_FILTER, FEED, SINK];

/// Bytes of one entry of the map of packets.
const PACKET: usize = 784;
const _: () = assert!(FRAME <= PACKET);

/// The limit that applies to every request.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// So high that each is admitted.
    AdmitsAll,
    /// So low that each but the first is refused.
    RefusesAll,
}

/// One entry of map `FEED`: see the benchmark's programs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Feed {
    /// Packet that comes next.
    pub cursor: u32,
    /// Packets that are cycled through.
    pub count: u32,
    /// Number of the next transaction.
    pub serial: u32,
    /// What is added to it after each packet.
    pub step: u32,
    branch: u32,
    call_id: u32,
}

// SAFETY: `repr(C)`, integers only, no padding.
unsafe impl Pod for Feed {}

impl Feed {
    /// The first transaction again and again.
    pub fn repeated(self) -> Self {
        Self { step: 0, ..self }
    }
}

/// The programs of the benchmark.
pub struct Filter {
    sandbox: Sandbox,
    /// Offsets of the digits that tell transactions apart.
    digits: [u32; 2],
    /// Transactions so far.
    serial: u32,
}

impl Filter {
    /// Loads the object of [`crate::ebpf::build_bench`].
    pub fn load(object: &Path) -> Result<Self> {
        let mut ebpf = EbpfLoader::new()
            .map_max_entries(SCRATCH, possible_cpus())
            .load_file(object)
            .with_context(|| format!("load {}", object.display()))?;
        for name in PROGRAMS {
            let program: &mut Xdp = ebpf
                .program_mut(name)
                .with_context(|| format!("no program {name}"))?
                .try_into()?;
            program.load().with_context(|| format!("load {name}"))?;
        }
        let protected = Protected {
            addresses: vec!["192.0.2.1".parse()?, "2001:db8::1".parse()?],
            port: PORT,
            mac: HOST_MAC,
            mode: Mode::Enforce,
            max_frame: 1514,
        };
        let mut sandbox = Sandbox::from_ebpf(ebpf, &protected)?;
        for number in 0..DISTINCT {
            let mut packet = [0u8; PACKET];
            let frame = message::frame(&message::invite(number));
            ensure!(frame.len() == FRAME, "a frame of {} bytes", frame.len());
            packet[..FRAME].copy_from_slice(&frame);
            sandbox.set("PACKETS", number, packet)?;
        }
        let digits = message::digits(&message::invite(0)).context("an INVITE without digits")?;
        Ok(Self {
            sandbox,
            digits,
            serial: 1,
        })
    }

    /// The programs and their maps.
    pub fn sandbox(&mut self) -> &mut Sandbox {
        &mut self.sandbox
    }

    /// Puts every request under this limit. Each limit has its own bucket.
    pub fn limit(&mut self, limit: Limit) -> Result<()> {
        let (control, rate, burst) = match limit {
            Limit::AdmitsAll => (0, 1e7, 1e6),
            Limit::RefusesAll => (1, 1e-5, 1.0),
        };
        let period = period_ticks(rate);
        let mut tolerances = class_tolerances(period, burst);
        if matches!(limit, Limit::RefusesAll) {
            tolerances = [0; 4];
        }
        let record = ControlRecord {
            algorithm: ALGORITHM_RATE,
            period_ticks: period,
            tolerance_ticks: tolerances,
            valid_until_ns: u64::MAX,
            ..ControlRecord::default()
        };
        self.sandbox.control(control, Some(DESTINATION), record)?;
        if matches!(limit, Limit::RefusesAll) {
            // The first may be admitted.
            let feed = self.new_transactions(0, 1, 1);
            self.feed(feed)?;
            self.run(FED_FILTER, &message::frame(&message::invite(0)), 1)?;
        }
        Ok(())
    }

    /// Forgets admitted transactions, so that the next ones find a slot.
    pub fn forget_admitted(&mut self) -> Result<()> {
        for bucket in 0..MEMORY_BUCKETS as u32 {
            self.sandbox.set("MEMORY", bucket, MemoryBucket::EMPTY)?;
        }
        Ok(())
    }

    /// A feed of `runs` transactions never seen before, over `count` packets from `cursor` on.
    pub fn new_transactions(&mut self, cursor: u32, count: u32, runs: u32) -> Feed {
        Feed {
            cursor,
            count,
            serial: self.new_serials(runs),
            step: 1,
            branch: self.digits[0],
            call_id: self.digits[1],
        }
    }

    /// The first of `count` numbers of transactions never used before.
    pub fn new_serials(&mut self, count: u32) -> u32 {
        let first = self.serial;
        self.serial = first.wrapping_add(count);
        first
    }

    /// Sets what comes next.
    pub fn feed(&mut self, feed: Feed) -> Result<()> {
        Ok(self.sandbox.set("FEED", 0, feed)?)
    }

    /// Mean ns of `program` over `repeat` runs.
    pub fn run(&mut self, program: &'static str, frame: &[u8], repeat: u32) -> Result<f64> {
        Ok(self.run_program(program, frame, repeat)?.0)
    }

    /// Mean ns of the scan floor, which must have seen every byte.
    pub fn run_scan(&mut self, message: &str, repeat: u32) -> Result<f64> {
        let frame = message::frame(message);
        let (time, others) = self.run_program(SCAN, &frame, repeat)?;
        let feeds = message.matches('\n').count();
        ensure!(
            others as usize == message.len().next_multiple_of(8) - feeds,
            "the scan saw {others} bytes beside {feeds} line feeds"
        );
        Ok(time)
    }

    fn run_program(
        &mut self,
        program: &'static str,
        frame: &[u8],
        repeat: u32,
    ) -> Result<(f64, u32)> {
        let options = TestRunOptions {
            data_in: Some(frame),
            repeat,
            ..TestRunOptions::new()
        };
        let result = self.sandbox.program(program)?.test_run(options)?;
        Ok((nanoseconds(result.duration), result.return_value))
    }

    /// Mean ns of the filter; every run must have ended for one of `reasons`.
    pub fn run_for(
        &mut self,
        program: &'static str,
        frame: &[u8],
        repeat: u32,
        reasons: &[Reason],
    ) -> Result<f64> {
        let before = self.counters()?;
        let time = self.run(program, frame, repeat)?;
        before.require(&self.counters()?, repeat, reasons)?;
        Ok(time)
    }

    /// Counters as they are now.
    pub fn counters(&self) -> Result<Counters> {
        Ok(Counters {
            reasons: self.sandbox.reasons()?,
            untracked: self.sandbox.event(Event::AdmittedUntracked)?,
        })
    }
}

/// What the filter has counted.
pub struct Counters {
    reasons: Vec<ReasonCounter>,
    untracked: u64,
}

impl Counters {
    /// Packets with this reason since.
    pub fn since(&self, after: &Self, reason: Reason) -> u64 {
        let index = reason as usize;
        after.reasons[index].enforced - self.reasons[index].enforced
    }

    /// Packets with other reasons since.
    pub fn others_since(&self, after: &Self, reasons: &[Reason]) -> Vec<(&'static str, u64)> {
        let all = Reason::ALL
            .iter()
            .filter(|reason| !reasons.contains(reason));
        all.map(|reason| (reason.name(), self.since(after, *reason)))
            .filter(|(_, count)| *count != 0)
            .collect()
    }

    /// Fails unless exactly `count` packets had one of `reasons`, and none another one.
    pub fn require(&self, after: &Self, count: u32, reasons: &[Reason]) -> Result<()> {
        let counted: u64 = reasons
            .iter()
            .map(|reason| self.since(after, *reason))
            .sum();
        let others = self.others_since(after, reasons);
        let names: Vec<&str> = reasons.iter().map(|reason| reason.name()).collect();
        if counted != u64::from(count) || !others.is_empty() {
            bail!(
                "not the path that was to be measured: {counted} of {count} runs were {}, others {others:?}",
                names.join(" or ")
            );
        }
        ensure!(
            self.untracked == after.untracked,
            "{} admitted transactions found no slot",
            after.untracked - self.untracked
        );
        Ok(())
    }
}

fn nanoseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}
