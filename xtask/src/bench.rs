//! What the filter costs, beside floors and a peer, measured in one run.

mod cpu;
mod filter;
mod lab;
mod message;
mod paths;
mod refusals;
mod report;
mod statistics;

use std::{fs, path::Path, process::Command, thread, time::Duration};

use anyhow::{Context, Result, ensure};

use crate::{
    ebpf,
    setup::{self, Group},
    shell,
};
use filter::Filter;
use paths::Size;
use refusals::{Allocator, Rate};
use report::{Figure, Machine, Report};
use statistics::Summary;

/// Instructions the verifier may look at, of the million it would.
const VERIFIED_MAX: u32 = 400_000;

/// What the filter refuses a second of CPU time, in times of what Kamailio refuses.
const LIVE_TIMES_KAMAILIO: f64 = 30.0;
const CABLE_TIMES_KAMAILIO: f64 = 12.0;

const METHOD: &[&str] = &[
    "Paths: BPF_PROG_TEST_RUN on one CPU, rounds interleaved, SipHash included, the kernel's clock; ratios are",
    "medians of the ratios within a round. Copies, refusals and admissions are fed: before each run the packet",
    "is put back and eight digits of branch and Call-ID are changed; the feeding, measured beside it, is",
    "subtracted, the empty program's time added. Distinct: 102,400 packets. The counters of each run were",
    "compared with the number of runs: every packet went the way its row names.",
    "Live frames: BPF_F_TEST_XDP_LIVE_FRAMES, feeding of 256 packets included, answers leave by a veth; CPU",
    "time of the thread, with the softirqs that ran on it; the client's end is polled on the other CPU.",
    "Cable: one sender on CPU 0, the filter on the host's end of a veth, polled by a kernel thread of its own on",
    "CPU 1; CPU time of that thread (schedstat), which takes the request in and sends the answer.",
    "Kamailio: the same cable without the filter; sl_send_reply(\"503\") and nothing else, one worker on CPU 1,",
    "32 requests under way, so that none is lost; CPU time of all its processes. What the kernel does up to its",
    "socket runs on CPU 0 and is not counted. As shipped, most of its time goes into its default memory manager;",
    "tlsf is the fastest it has.",
];

/// How much is measured.
struct Plan {
    paths: Size,
    live_frames: u32,
    traffic: Duration,
    /// Rounds of live frames, cable and Kamailio, one after the other.
    rounds: u32,
}

const FULL: Plan = Plan {
    paths: Size {
        rounds: 11,
        plain_runs: 200_000,
        fed_runs: 50_000,
    },
    live_frames: 1_000_000,
    traffic: Duration::from_secs(2),
    rounds: 3,
};
const QUICK: Plan = Plan {
    paths: Size {
        rounds: 3,
        plain_runs: 10_000,
        fed_runs: 10_000,
    },
    live_frames: 50_000,
    traffic: Duration::from_millis(300),
    rounds: 1,
};

/// Measures everything and prints it; fails when a packet did not go the way that was measured, not
/// when a target was missed.
pub fn run(quick: bool, json: Option<&Path>) -> Result<()> {
    ensure!(
        shell::is_root()?,
        "test runs and namespaces need root: run `cargo xtask bench` as root"
    );
    setup::ensure(&[Group::Build, Group::Test])?;
    let plan = if quick { QUICK } else { FULL };
    let object = ebpf::build_bench()?;
    let machine = machine()?;
    let mut filter = Filter::load(&object)?;
    let mut figures = vec![verified(&mut filter)?];
    let paths = report::figures(&paths::measure(&mut filter, plan.paths)?)?;
    figures.extend(refusals(&mut filter, &plan)?);
    let report = Report {
        machine,
        rounds: plan.paths.rounds,
        packet_bytes: message::MESSAGE,
        paths,
        figures,
        method: METHOD,
    };
    if quick {
        println!("Quick: every path can be measured; the figures mean little.\n");
    }
    print!("{report}");
    json.map_or(Ok(()), |file| report.write(file))
}

fn refusals(filter: &mut Filter, plan: &Plan) -> Result<Vec<Figure>> {
    let (mut live, mut cable) = (Vec::new(), Vec::new());
    let (mut kamailio, mut default_kamailio) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        live.push(refusals::live_frames(filter, plan.live_frames).context("live frames")?);
        cable.push(refusals::cable(filter, plan.traffic).context("cable")?);
        kamailio.push(refusals::kamailio(Allocator::Tlsf, plan.traffic).context("Kamailio")?);
        default_kamailio
            .push(refusals::kamailio(Allocator::Default, plan.traffic).context("Kamailio")?);
    }
    let rates = |all: &[Rate]| all.iter().map(Rate::per_core_second).collect::<Vec<f64>>();
    let peers = [
        ("x Kamailio as shipped", rates(&default_kamailio), true),
        ("x Kamailio with tlsf", rates(&kamailio), false),
    ];
    let row = |name, all: &[Rate], wanted: Option<f64>| -> Result<Vec<Figure>> {
        let mut rows = vec![Figure {
            name,
            unit: "refusals a core-second",
            value: Summary::of(&rates(all)).context("no round")?,
            note: all.last().map(Rate::to_string),
            target: None,
        }];
        let Some(wanted) = wanted else {
            return Ok(rows);
        };
        for (unit, peer, has_target) in &peers {
            let value = Summary::of_ratios(&rates(all), peer).context("no round")?;
            rows.push(Figure {
                name: "",
                unit,
                value,
                note: None,
                target: has_target.then(|| (format!("at least {wanted}"), value.median >= wanted)),
            });
        }
        Ok(rows)
    };
    let mut figures = row("filter, live frames", &live, Some(LIVE_TIMES_KAMAILIO))?;
    figures.extend(row("filter, cable", &cable, Some(CABLE_TIMES_KAMAILIO))?);
    figures.extend(row("Kamailio with tlsf", &kamailio, None)?);
    figures.extend(row("Kamailio as shipped", &default_kamailio, None)?);
    Ok(figures)
}

fn verified(filter: &mut Filter) -> Result<Figure> {
    let count = filter
        .sandbox()
        .verified_instructions()
        .context("the kernel does not tell what the verifier did")?;
    Ok(Figure {
        name: "verifier",
        unit: "instructions looked at",
        value: Summary::of(&[f64::from(count)]).context("no value")?,
        note: None,
        target: Some((format!("at most {VERIFIED_MAX}"), count <= VERIFIED_MAX)),
    })
}

fn machine() -> Result<Machine> {
    let read = |file: &str| fs::read_to_string(file).with_context(|| format!("read {file}"));
    let cpu = read("/proc/cpuinfo")?
        .lines()
        .find_map(|line| {
            Some(
                line.strip_prefix("model name")?
                    .split_once(": ")?
                    .1
                    .to_owned(),
            )
        })
        .unwrap_or_else(|| "unknown CPU".to_owned());
    let load = read("/proc/loadavg")?;
    Ok(Machine {
        date: shell::read(Command::new("date").args(["--utc", "+%F %R UTC"]))?,
        kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        cpu,
        cpus: thread::available_parallelism()?.get(),
        load_average: load
            .split_whitespace()
            .take(3)
            .collect::<Vec<_>>()
            .join(" "),
    })
}
