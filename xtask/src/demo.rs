//! The product at work, in two minutes: a caller at five times the limit, a proxy behind the filter.

use std::{
    fs,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use overload_tests::{
    CLIENT, Controller, DestinationCounters, HOST, HOST_INTERFACE, Kamailio, Lab, Request, Route,
    RunTime, RunTimeMeter, Sink, Sipp, SippReport, controller_binary, pace,
};
use toml::{Table, Value};

use crate::{
    setup::{self, Group},
    shell,
};

const CONFIG: &str = "config/overload.toml";
const OVERLOAD: f64 = 5.0;
const SECONDS: u32 = 15;
const SERVER: &str = "192.0.2.1:5060";
const CALLEE_PORT: u16 = 5070;
/// Requests sent to measure a refusal, and their rate.
const MEASURED: u32 = 20_000;
const MEASURED_PER_SECOND: f64 = 20_000.0;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Runs the demo. Fails when the counts do not add up.
pub fn run() -> Result<()> {
    ensure!(
        shell::is_root()?,
        "namespaces and XDP programs need root: run `cargo xtask demo` as root"
    );
    setup::ensure(&[Group::Test])?;
    // Ends the waits below, so that every guard takes back what it made.
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed))?;
    println!("Building the controller.");
    controller_binary()?;

    let lab = Lab::new()?;
    let (config, limit) = configuration(&lab)?;
    let controller = Controller::start_with(&lab, config)?;
    let answering = Sipp::answer(&lab, &lab.host, HOST, CALLEE_PORT)?;
    let next_hop = format!("{HOST}:{CALLEE_PORT}");
    let _proxy = Kamailio::start(&lab, &lab.host, "proxy", SERVER, Route::Stateful(&next_hop))?;

    let offered_per_second = (limit.rate * OVERLOAD).round();
    println!(
        "Two network namespaces: SIPp -> filter on {HOST_INTERFACE} -> Kamailio -> SIPp.\n\
         {} is limited to {}/s, burst {}; {offered_per_second}/s are offered for {SECONDS} s.\n",
        limit.host, limit.rate, limit.burst
    );
    #[expect(
        clippy::cast_sign_loss,
        reason = "the configuration's rates are positive"
    )]
    let rate = offered_per_second as u32;
    let started = Instant::now();
    let calls = Sipp::call(&lab, &limit.host, rate, rate * SECONDS)?;
    let caller = watch(&controller, &limit.name, calls)?;
    let span = started.elapsed();
    let completed = answering.stop()?.successful;

    let status = controller.status()?;
    let verdict = Verdict {
        counters: status.destination(&limit.name)?,
        copies: status.reason("admitted_copy")?
            + status.reason("refused_copy")?
            + status.reason("surplus_copy")?,
        own_acks: status.reason("own_ack")?,
        completed,
        caller,
        span,
    };
    let refusal = measure_refusal(&lab, &controller, &limit);
    verdict.print(&limit, &refusal);
    verdict.check(&limit)
}

/// The destination that is overloaded.
struct Limit {
    name: String,
    host: String,
    rate: f64,
    burst: f64,
}

/// The sample configuration with this lab's instance, interface and addresses, and its first rate limit.
fn configuration(lab: &Lab) -> Result<(std::path::PathBuf, Limit)> {
    let path = shell::workspace()?.join(CONFIG);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {CONFIG}"))?;
    let mut table: Table = text.parse().context(CONFIG)?;
    let limit = table
        .get("destination")
        .and_then(Value::as_array)
        .and_then(|all| all.iter().find_map(rate_limit))
        .with_context(|| format!("{CONFIG} limits no host by rate_per_second and burst"))?;
    table.insert("instance".to_owned(), lab.instance().into());
    let mut interface = Table::new();
    interface.insert("name".to_owned(), HOST_INTERFACE.into());
    interface.insert("addresses".to_owned(), vec![HOST].into());
    table.insert("interface".to_owned(), vec![Value::from(interface)].into());
    let patched = Controller::write_config(lab, "overload.toml", &table.to_string())?;
    Ok((patched, limit))
}

fn rate_limit(destination: &Value) -> Option<Limit> {
    let number = |key: &str| {
        let value = destination.get(key)?;
        value
            .as_float()
            .or(value.as_integer().map(|whole| whole as f64))
    };
    Some(Limit {
        name: destination.get("name")?.as_str()?.to_owned(),
        host: destination.get("host")?.as_str()?.to_owned(),
        rate: number("rate_per_second")?,
        burst: number("burst")?,
    })
}

/// Prints what happens each second until the caller is done.
fn watch(controller: &Controller<'_>, destination: &str, mut caller: Sipp) -> Result<SippReport> {
    println!(
        "{:>6} {:>9} {:>9} {:>9}",
        "second", "offered", "admitted", "refused"
    );
    let started = Instant::now();
    let mut before = controller.status()?.destination(destination)?;
    for second in 1.. {
        let due = Duration::from_secs(second);
        while caller.running() && started.elapsed() < due {
            if INTERRUPTED.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            thread::sleep(Duration::from_millis(20));
        }
        let now = controller.status()?.destination(destination)?;
        let over = !caller.running();
        // The last calls may take a moment longer than the last second.
        if over && now == before {
            break;
        }
        println!(
            "{second:>6} {:>9} {:>9} {:>9}",
            now.offered - before.offered,
            now.admitted - before.admitted,
            now.refused - before.refused
        );
        io::stdout().flush()?;
        before = now;
        if over {
            break;
        }
        ensure!(second < 4 * u64::from(SECONDS), "the caller does not end");
    }
    caller.finish(Duration::from_secs(5))
}

/// What a refusal costs, or why it is not known.
type Refusal = Result<(RunTime, DestinationCounters)>;

/// Sends first copies only, far above the limit, and lets the kernel measure the program.
fn measure_refusal(lab: &Lab, controller: &Controller<'_>, limit: &Limit) -> Refusal {
    let client = lab.client.bind(&format!("{CLIENT}:5080"))?;
    let _answers = Sink::read(client.share()?)?;
    let meter = RunTimeMeter::start(lab)?;
    let (time, counters) = (
        meter.read()?,
        controller.status()?.destination(&limit.name)?,
    );
    pace(&client, SERVER, MEASURED_PER_SECOND, MEASURED, |number| {
        Request::invite(&limit.host, &format!("measure-{number}")).to_string()
    })?;
    let (after, now) = (
        meter.read()?,
        controller.status()?.destination(&limit.name)?,
    );
    let counters = DestinationCounters {
        offered: now.offered - counters.offered,
        admitted: now.admitted - counters.admitted,
        refused: now.refused - counters.refused,
        shadow_refused: now.shadow_refused - counters.shadow_refused,
    };
    Ok((after.since(time), counters))
}

struct Verdict {
    counters: DestinationCounters,
    copies: u64,
    own_acks: u64,
    completed: u64,
    caller: SippReport,
    span: Duration,
}

impl Verdict {
    fn print(&self, limit: &Limit, refusal: &Refusal) {
        let DestinationCounters {
            offered,
            admitted,
            refused,
            ..
        } = self.counters;
        let share = |part: u64| 100.0 * part as f64 / offered.max(1) as f64;
        let most = self.most_admitted(limit);
        println!("\n{:<22} {:>8}", "verdict", "requests");
        println!("{:<22} {offered:>8}  new INVITEs at the filter", "offered");
        println!(
            "{:<22} {admitted:>8}  {:.1} %; the limit allows {most:.0} in {:.1} s",
            "admitted",
            share(admitted),
            self.span.as_secs_f64()
        );
        println!(
            "{:<22} {refused:>8}  {:.1} %; the caller saw {} answers 503",
            "refused",
            share(refused),
            self.caller.received("503")
        );
        println!(
            "{:<22} {:>8}  answered and hung up at the callee",
            "completed", self.completed
        );
        println!(
            "{:<22} {:>8}  ACKs to refusals, taken off the wire",
            "absorbed", self.own_acks
        );
        println!(
            "{:<22} {:>8}  seen by the filter; the caller sent {}",
            "retransmissions", self.copies, self.caller.retransmissions
        );
        match refusal {
            Ok((time, counters)) if time.packets != 0 => println!(
                "{:<22} {:>8}  mean of the kernel's run-time statistics over {} packets, {:.1} % of them refused,\n\
                 {:<31}  on this machine, without the driver's share",
                "ns per refusal",
                time.nanoseconds / time.packets,
                time.packets,
                100.0 * counters.refused as f64 / time.packets as f64,
                ""
            ),
            Ok(_) => println!(
                "{:<22} {:>8}  the kernel counted no packet",
                "ns per refusal", "unknown"
            ),
            Err(error) => println!("{:<22} {:>8}  {error:#}", "ns per refusal", "unknown"),
        }
    }

    fn most_admitted(&self, limit: &Limit) -> f64 {
        limit.rate * self.span.as_secs_f64() + limit.burst
    }

    /// The accounts of filter, caller and callee agree.
    fn check(&self, limit: &Limit) -> Result<()> {
        let DestinationCounters {
            offered,
            admitted,
            refused,
            ..
        } = self.counters;
        let most = self.most_admitted(limit);
        ensure!(
            offered == admitted + refused,
            "offered is not admitted + refused"
        );
        ensure!(
            admitted as f64 <= most,
            "{admitted} admitted, at most {most:.0} allowed"
        );
        ensure!(
            offered == self.caller.created,
            "{offered} offered at the filter, {} sent by the caller",
            self.caller.created
        );
        ensure!(
            self.caller.failed == 0,
            "{} calls failed at the caller",
            self.caller.failed
        );
        ensure!(
            self.completed == admitted,
            "{admitted} admitted, but {} completed",
            self.completed
        );
        Ok(())
    }
}
