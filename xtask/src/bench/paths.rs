//! ns of each of the packet's ways, by BPF_PROG_TEST_RUN.

use anyhow::{Context, Result};
use overload_common::abi::Reason;
use overload_ctl::datapath::sandbox::{Action, Outcome};

use super::{
    cpu,
    filter::{EMPTY, FED_FILTER, FEED, FILTER, Feed, Filter, Limit},
    message::{self, DISTINCT},
};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Rounds; in each, every path is measured once.
    pub rounds: u32,
    /// Runs of a path that leaves the packet alone, in one round.
    pub plain_runs: u32,
    /// Runs of a path that is fed, in one round. Distinct packets are all used in any case.
    pub fed_runs: u32,
}

/// Name of the empty program's row.
pub const FLOOR: &str = "empty program";
/// Name of the scan floor's row.
pub const SCAN_FLOOR: &str = "scan floor";

/// Name of the row of copies that are fed.
pub const FED_COPY: &str = "copy of an admitted request, fed";

/// A path and its ns, one for each round.
#[derive(Debug)]
pub struct Series {
    /// Name of the path.
    pub name: &'static str,
    /// Mean ns of each round.
    pub ns: Vec<f64>,
}

struct Plain {
    name: &'static str,
    frame: Vec<u8>,
    reason: Reason,
}

/// Half of the distinct packets fit the table of admitted transactions without loss.
const HALF: u32 = DISTINCT / 2;

/// Measures every path; fails when a packet went another way.
pub fn measure(filter: &mut Filter, size: Size) -> Result<Vec<Series>> {
    cpu::pin_self(cpu::MEASURED)?;
    let invite = message::invite(0);
    let frame = message::frame(&invite);
    let plain = plain_paths(filter)?;
    let mut all: Vec<Series> = Vec::new();
    for round in 0..=size.rounds {
        let mut times = Vec::new();
        let empty = filter.run(EMPTY, &frame, size.plain_runs)?;
        times.push((FLOOR, empty));
        times.push((SCAN_FLOOR, filter.run_scan(&invite, size.plain_runs)?));
        for path in &plain {
            let runs = size.plain_runs;
            let ns = filter
                .run_for(FILTER, &path.frame, runs, &[path.reason])
                .context(path.name)?;
            times.push((path.name, ns));
        }
        let feed = filter.new_transactions(0, 1, 1).repeated();
        filter.feed(feed)?;
        times.push(("feeding alone", filter.run(FEED, &frame, size.fed_runs)?));
        admitted(filter, size, empty, &mut times)?;
        refused(filter, size, empty, &mut times)?;
        // The first round warms caches and branch predictors.
        if round != 0 {
            note(&mut all, times);
        }
    }
    Ok(all)
}

fn note(all: &mut Vec<Series>, times: Vec<(&'static str, f64)>) {
    for (name, ns) in times {
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.ns.push(ns),
            None => all.push(Series { name, ns: vec![ns] }),
        }
    }
}

/// Paths that leave the packet as it is, so that it can be repeated.
fn plain_paths(filter: &mut Filter) -> Result<Vec<Plain>> {
    let invite = message::invite(0);
    let path = |name, frame, reason| Plain {
        name,
        frame,
        reason,
    };
    Ok(vec![
        path(
            "unrelated: other port",
            message::frame_to_other_port(&invite),
            Reason::Unrelated,
        ),
        path(
            "unrelated: TCP",
            message::frame_of_tcp(&invite),
            Reason::Unrelated,
        ),
        path(
            "response",
            message::frame(&message::response()),
            Reason::Response2xx,
        ),
        path(
            "other: BYE",
            message::frame(&message::bye()),
            Reason::OtherMethod,
        ),
        path(
            "other: keep-alive",
            message::frame("\r\n\r\n"),
            Reason::Keepalive,
        ),
        path(
            "in-dialog request",
            message::frame(&message::invite_in_dialog()),
            Reason::InDialog,
        ),
        path(
            "in-dialog request, IPv6",
            message::frame_v6(&message::invite_in_dialog()),
            Reason::InDialog,
        ),
        path(
            "in-dialog request, VLAN tag",
            message::tagged(&message::frame(&message::invite_in_dialog())),
            Reason::InDialog,
        ),
        path(
            "own ACK absorbed",
            message::frame(&own_ack(filter)?),
            Reason::OwnAck,
        ),
    ])
}

/// Has an INVITE refused, and acknowledges the refusal.
fn own_ack(filter: &mut Filter) -> Result<String> {
    filter.limit(Limit::RefusesAll)?;
    let frame = message::frame(&message::invite(0));
    let Outcome { action, frame, .. } = filter.sandbox().run(&frame)?;
    anyhow::ensure!(
        action == Action::Transmit,
        "an INVITE above the limit: {action:?}"
    );
    let answer = String::from_utf8_lossy(&frame).into_owned();
    let to = answer
        .lines()
        .find(|line| line.starts_with("To:"))
        .context("a refusal without To")?;
    Ok(message::ack(0, to))
}

/// ns of the filter on fed packets: what it takes beyond the feeding, as if it ran alone.
fn fed(filter: &mut Filter, feed: Feed, runs: u32, empty: f64, reasons: &[Reason]) -> Result<f64> {
    let frame = message::frame(&message::invite(0));
    filter.feed(feed)?;
    let with = filter.run_for(FED_FILTER, &frame, runs, reasons)?;
    filter.feed(feed)?;
    let without = filter.run(FEED, &frame, runs)?;
    Ok(with - without + empty)
}

fn admitted(
    filter: &mut Filter,
    size: Size,
    empty: f64,
    times: &mut Vec<(&'static str, f64)>,
) -> Result<()> {
    filter.limit(Limit::AdmitsAll)?;
    filter.forget_admitted()?;
    let feed = filter.new_transactions(0, 1, size.fed_runs);
    let ns = fed(filter, feed, size.fed_runs, empty, &[Reason::WithinLimit]).context("admitted")?;
    times.push(("admitted", ns));

    // A copy leaves the packet as it is: it is the same datagram again.
    filter.forget_admitted()?;
    let frame = message::frame(&message::invite(0));
    filter.run_for(FILTER, &frame, 1, &[Reason::WithinLimit])?;
    let ns = filter
        .run_for(FILTER, &frame, size.plain_runs, COPY)
        .context("admitted copy")?;
    times.push(("copy of an admitted request", ns));

    // The same fed, to be compared with distinct ones.
    let copy = feed.repeated();
    filter.forget_admitted()?;
    fed(filter, copy, 1, empty, &[Reason::WithinLimit])?;
    let ns = fed(filter, copy, size.fed_runs, empty, COPY).context("admitted copy")?;
    times.push((FED_COPY, ns));

    let (mut first, mut second) = (0.0, 0.0);
    for half in [0, HALF] {
        filter.forget_admitted()?;
        let feed = filter.new_transactions(half, DISTINCT, HALF);
        first += fed(filter, feed, HALF, empty, &[Reason::WithinLimit])
            .context("admitted, distinct")?
            / 2.0;
        second += fed(filter, feed, HALF, empty, COPY).context("admitted copy, distinct")? / 2.0;
    }
    times.push(("admitted, distinct", first));
    times.push(("copy of an admitted request, fed, distinct", second));
    Ok(())
}

/// A copy is passed or, when it comes too soon or too often, absorbed.
const COPY: &[Reason] = &[Reason::AdmittedCopy, Reason::SurplusCopy];

fn refused(
    filter: &mut Filter,
    size: Size,
    empty: f64,
    times: &mut Vec<(&'static str, f64)>,
) -> Result<()> {
    filter.limit(Limit::RefusesAll)?;
    filter.forget_admitted()?;
    let feed = filter.new_transactions(0, 1, size.fed_runs);
    let ns = fed(filter, feed, size.fed_runs, empty, &[Reason::RateLimit]).context("refused")?;
    times.push(("refused with 503", ns));

    let copy = filter.new_transactions(0, 1, 1).repeated();
    fed(filter, copy, 1, empty, &[Reason::RateLimit])?;
    let ns =
        fed(filter, copy, size.fed_runs, empty, &[Reason::RefusedCopy]).context("refused copy")?;
    times.push(("copy of a refused request", ns));

    let feed = filter.new_transactions(0, DISTINCT, DISTINCT);
    let ns =
        fed(filter, feed, DISTINCT, empty, &[Reason::RateLimit]).context("refused, distinct")?;
    times.push(("refused with 503, distinct", ns));
    Ok(())
}
