//! The filter under test, with a clock that the test moves.

use std::{env, fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use aya::programs::{TestRun, TestRunOptions};
use overload_common::{
    abi::{
        ALGORITHM_PERCENT, ALGORITHM_RATE, Bucket, ControlCounters, ControlRecord, Event, Mode,
        Reason, Verdict,
    },
    admit::{gcra, percentage},
};
use overload_ctl::datapath::{
    object::{INGRESS, OBJECT},
    sandbox::{Action, Outcome, Protected, Sandbox},
};

use super::{Datagram, SERVER, SERVER_MAC, SERVER_V6, check_reply};

const HOUR: u64 = 3_600_000_000_000;
/// Where the map clock starts, ns.
pub const T0: u64 = HOUR;
/// The control of most tests.
const CONTROL: u32 = 7;
/// Names the file of another build of the filter, to be tested in place of the committed one.
pub const OBJECT_VARIABLE: &str = "OVERLOAD_TEST_OBJECT";
/// Host of the Request-URI in most messages.
pub const HOST: &str = "gw1.example.net";
/// A host no message names.
pub const OTHER_HOST: &str = "gw2.example.net";

const MODE: Mode = Mode::Enforce;
const MAX_FRAME: u32 = 1514;

/// The real program on private maps, protecting 192.0.2.1 and 2001:db8::1 port 5060.
pub struct Filter {
    /// The maps.
    pub sandbox: Sandbox,
    protected: Protected,
    /// Where the clock of this test starts, ns.
    start: u64,
}

impl Filter {
    /// Enforces, without any control.
    pub fn new() -> Result<Self> {
        match env::var_os(OBJECT_VARIABLE) {
            None => Self::load(OBJECT),
            Some(file) => Self::of_object(Path::new(&file)),
        }
    }

    /// The same of another build, in this file.
    pub fn of_object(file: &Path) -> Result<Self> {
        Self::load(&fs::read(file).with_context(|| format!("read {}", file.display()))?)
    }

    fn load(object: &[u8]) -> Result<Self> {
        let protected = Protected {
            addresses: vec![SERVER, SERVER_V6],
            port: 5060,
            mac: SERVER_MAC,
            mode: MODE,
            max_frame: MAX_FRAME,
        };
        let mut sandbox = Sandbox::of_object(object, &protected)?;
        sandbox.set_clock(T0)?;
        Ok(Self {
            sandbox,
            protected,
            start: T0,
        })
    }

    /// As new, without loading the programs again: no control, a full bucket, enforcing, and nothing
    /// remembered, because an hour has passed.
    pub fn reset(&mut self) -> Result<()> {
        self.sandbox.clear_controls()?;
        self.sandbox.set("BUCKETS", CONTROL, Bucket::default())?;
        if (self.protected.mode, self.protected.max_frame) != (MODE, MAX_FRAME) {
            self.protected.mode = MODE;
            self.max_frame(MAX_FRAME)?;
        }
        self.start += HOUR;
        self.at(0)
    }

    /// Gives all destinations one limit, as [`Filter::limited`] does.
    pub fn limit(&mut self, rate_per_second: f64, burst: f64) -> Result<()> {
        self.rate(CONTROL, None, rate_per_second, burst)
    }

    /// Refuses every request that is judged.
    pub fn refusing() -> Result<Self> {
        Self::limited(0.0, 1.0)
    }

    /// Has one control, number 7, for all destinations.
    pub fn limited(rate_per_second: f64, burst: f64) -> Result<Self> {
        let mut filter = Self::new()?;
        filter.limit(rate_per_second, burst)?;
        Ok(filter)
    }

    /// Installs a rate limit.
    pub fn rate(&mut self, control: u32, host: Option<&str>, rate: f64, burst: f64) -> Result<()> {
        self.rate_within(control, host, (rate, burst), 0..u64::MAX)
    }

    /// Installs a rate limit that is valid for a time only, ns.
    pub fn rate_within(
        &mut self,
        control: u32,
        host: Option<&str>,
        (rate, burst): (f64, f64),
        valid: std::ops::Range<u64>,
    ) -> Result<()> {
        let period_ticks = gcra::period_ticks(rate);
        let record = ControlRecord {
            algorithm: ALGORITHM_RATE,
            period_ticks,
            tolerance_ticks: gcra::class_tolerances(period_ticks, burst),
            valid_from_ns: valid.start,
            valid_until_ns: valid.end,
            ..ControlRecord::default()
        };
        Ok(self.sandbox.control(control, host, record)?)
    }

    /// Gives all destinations one limit of which `share` requests per second, two at once, are reserved for
    /// emergency calls; a source prefix may use one a second of them, five at once.
    pub fn reserve(&mut self, rate: f64, share: f64) -> Result<()> {
        let period_ticks = gcra::period_ticks(rate);
        let emergency_period_ticks = gcra::period_ticks(share);
        let record = ControlRecord {
            algorithm: ALGORITHM_RATE,
            period_ticks,
            tolerance_ticks: gcra::class_tolerances(period_ticks, 1.0),
            emergency_period_ticks,
            emergency_tolerance_ticks: gcra::tolerance_ticks(emergency_period_ticks, 2.0),
            valid_until_ns: u64::MAX,
            ..ControlRecord::default()
        };
        self.sandbox.control(CONTROL, None, record)?;
        let period = gcra::period_ticks(1.0);
        Ok(self.sandbox.settings(|instance| {
            instance.emergency_period_ticks = period;
            instance.emergency_tolerance_ticks = gcra::tolerance_ticks(period, 5.0);
        })?)
    }

    /// Installs a percentage.
    pub fn percent(&mut self, control: u32, host: Option<&str>, accept: f64) -> Result<()> {
        let record = ControlRecord {
            algorithm: ALGORITHM_PERCENT,
            accept_below: percentage::accept_below(accept),
            valid_until_ns: u64::MAX,
            ..ControlRecord::default()
        };
        Ok(self.sandbox.control(control, host, record)?)
    }

    /// Changes the mode.
    pub fn mode(&mut self, mode: Mode) -> Result<()> {
        self.protected.mode = mode;
        Ok(self.sandbox.protect(&self.protected)?)
    }

    /// Changes the largest frame that may leave.
    pub fn max_frame(&mut self, bytes: u32) -> Result<()> {
        self.protected.max_frame = bytes;
        Ok(self.sandbox.protect(&self.protected)?)
    }

    /// Moves the clock to `ns` after its start.
    pub fn at(&mut self, ns: u64) -> Result<()> {
        Ok(self.sandbox.set_clock(self.start + ns)?)
    }

    /// Moves the clock to `ms` after its start.
    pub fn at_ms(&mut self, ms: u64) -> Result<()> {
        self.at(ms * 1_000_000)
    }

    /// Runs one frame. Whatever it is: one reason is counted, as shadow where the mode keeps it from being
    /// carried out, the action is that of the reason, and what passes is unchanged.
    pub fn run(&mut self, frame: &[u8]) -> Result<(Reason, Outcome)> {
        let outcome = self.sandbox.run(frame)?;
        let [(reason, shadow)] = outcome.reasons[..] else {
            bail!("{} reasons: {outcome:?}", outcome.reasons.len());
        };
        let passes = matches!(reason.verdict(), Verdict::Pass | Verdict::Admit);
        ensure!(
            shadow == (self.protected.mode == Mode::Shadow && !passes),
            "{outcome:?} in mode {:?}",
            self.protected.mode
        );
        let action = match reason.verdict() {
            _ if shadow => Action::Pass,
            Verdict::Pass | Verdict::Admit => Action::Pass,
            Verdict::Refuse => Action::Transmit,
            Verdict::Absorb | Verdict::Drop => Action::Drop,
        };
        ensure!(outcome.action == action, "{reason:?} but {outcome:?}");
        ensure!(
            action != Action::Pass || outcome.frame == frame,
            "{reason:?} changed the frame"
        );
        Ok((reason, outcome))
    }

    /// Reason of a datagram from port 5062 of the client.
    pub fn reason(&mut self, payload: impl AsRef<[u8]>) -> Result<Reason> {
        Ok(self.run(&Datagram::new(5062, payload.as_ref()).frame())?.0)
    }

    /// The datagram passes or is absorbed for this reason, or the error names the other.
    pub fn expect(&mut self, payload: impl AsRef<[u8]>, expected: Reason) -> Result<()> {
        let payload = payload.as_ref();
        let reason = self.reason(payload)?;
        ensure!(
            reason == expected,
            "{reason:?} instead of {expected:?} for {:?}",
            String::from_utf8_lossy(payload)
        );
        Ok(())
    }

    /// The datagram is judged and refused; gives the reason and the reply's text, checked by the oracle.
    pub fn refusal(&mut self, datagram: &Datagram) -> Result<(Reason, String)> {
        let (reason, outcome) = self.run(&datagram.frame())?;
        ensure!(
            outcome.action == Action::Transmit,
            "{reason:?} instead of a reply to {:?}",
            String::from_utf8_lossy(&datagram.payload)
        );
        let text = check_reply(datagram, &outcome.frame, self.protected.max_frame as usize)
            .map_err(anyhow::Error::msg)
            .with_context(|| String::from_utf8_lossy(&datagram.payload).into_owned())
            .with_context(|| String::from_utf8_lossy(&outcome.frame).into_owned())?;
        Ok((reason, text))
    }

    /// Runs a message, whole or damaged, that a control refuses if it is judged: it is answered only where the
    /// oracle would, and as it would.
    pub fn judge(&mut self, datagram: &Datagram) -> Result<(Reason, Outcome)> {
        let (reason, outcome) = self.run(&datagram.frame())?;
        let text = || String::from_utf8_lossy(&datagram.payload);
        match outcome.action {
            Action::Transmit => {
                let max_frame = self.protected.max_frame as usize;
                if let Err(wrong) = check_reply(datagram, &outcome.frame, max_frame) {
                    let reply = outcome.frame.get(42..).unwrap_or_default();
                    bail!(
                        "{reason:?}: {wrong}\n{:?}\n{:?}",
                        text(),
                        String::from_utf8_lossy(reply)
                    );
                }
            }
            // Damage can name a martian port in sent-by, or leave a request shorter than its reply.
            Action::Drop => ensure!(
                reason == Reason::Martian || reason == Reason::Unanswerable,
                "{reason:?} {:?}",
                text()
            ),
            Action::Pass => ensure!(
                reason.verdict() == Verdict::Pass,
                "{reason:?} at limit 0: {:?}",
                text()
            ),
            Action::Other(code) => bail!("action {code}"),
        }
        Ok((reason, outcome))
    }

    /// The reply to a request from port 5062 of the client.
    pub fn reply(&mut self, payload: impl AsRef<[u8]>) -> Result<String> {
        Ok(self.refusal(&Datagram::new(5062, payload.as_ref()))?.1)
    }

    /// Runs one frame without reading counters, for floods.
    pub fn flood(&mut self, frame: &[u8]) -> Result<Action> {
        let result = self.sandbox.program(INGRESS)?.test_run(TestRunOptions {
            data_in: Some(frame),
            ..TestRunOptions::new()
        })?;
        Ok(match result.return_value {
            1 => Action::Drop,
            2 => Action::Pass,
            3 => Action::Transmit,
            other => Action::Other(other),
        })
    }

    /// Counters of control 7, whose sum is checked.
    pub fn counters(&self) -> Result<ControlCounters> {
        let counters = self.sandbox.control_counters(CONTROL)?;
        ensure!(
            counters.offered == counters.admitted + counters.refused + counters.shadow_refused,
            "{counters:?}"
        );
        Ok(counters)
    }

    /// Counter of an event.
    pub fn event(&self, event: Event) -> Result<u64> {
        Ok(self.sandbox.event(event)?)
    }
}
