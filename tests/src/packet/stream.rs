//! Many datagrams through one filter: the counter of the predicted reason is read for each, all others
//! now and then.

use anyhow::{Context, Result, bail, ensure};
use aya::programs::{TestRun, TestRunOptions};
use overload_common::abi::{Reason, ReasonCounter, Verdict};
use overload_ctl::datapath::{object::INGRESS, sandbox::Action};

use super::{Datagram, Filter, Prediction, State, oracle::compare, predict};

/// A filter, and its counters as they must be.
pub struct Stream {
    /// The filter.
    pub filter: Filter,
    counted: Vec<ReasonCounter>,
    out: Vec<u8>,
}

/// What became of a datagram.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Its reason.
    pub reason: Reason,
    /// The reply, when there was one; its text was checked.
    pub reply: Option<String>,
    /// What was predicted.
    pub prediction: Prediction,
}

impl Stream {
    /// Takes a filter over.
    pub fn new(filter: Filter) -> Result<Self> {
        let counted = filter.sandbox.reasons()?;
        Ok(Self {
            filter,
            counted,
            out: vec![0; 16_384],
        })
    }

    /// Sends a datagram; an error says how it differs from what the oracle predicts.
    pub fn send(&mut self, datagram: &Datagram, state: &State) -> Result<Judged> {
        self.send_frame(&datagram.frame(), datagram, state)
    }

    /// Sends a frame that is to be read as this datagram.
    pub fn send_frame(
        &mut self,
        frame: &[u8],
        datagram: &Datagram,
        state: &State,
    ) -> Result<Judged> {
        let prediction = predict(datagram, state);
        let judged = self.run(frame, &prediction.reasons, state.shadow);
        let (reason, action) = judged.with_context(|| describe(datagram, &prediction))?;
        ensure!(
            prediction.reasons.contains(&reason),
            "{reason:?}\n{}",
            describe(datagram, &prediction)
        );
        let reply = match &prediction.reply {
            Some(expected) if action == Action::Transmit => Some(
                compare(datagram, expected, &self.out)
                    .map_err(anyhow::Error::msg)
                    .with_context(|| describe(datagram, &prediction))?,
            ),
            _ => None,
        };
        Ok(Judged {
            reason,
            reply,
            prediction,
        })
    }

    /// Runs one frame: one reason is counted, one of those expected or another that the error names, and the
    /// action is that of the reason.
    pub fn run(
        &mut self,
        frame: &[u8],
        expected: &[Reason],
        shadow: bool,
    ) -> Result<(Reason, Action)> {
        self.out.resize(frame.len() + 512, 0);
        let result = self
            .filter
            .sandbox
            .program(INGRESS)?
            .test_run(TestRunOptions {
                data_in: Some(frame),
                data_out: Some(&mut self.out),
                ..TestRunOptions::new()
            })?;
        self.out.truncate(result.data_size_out as usize);
        let reason = self.counted_reason(expected)?;
        let carried_out = match reason.verdict() {
            Verdict::Pass | Verdict::Admit => 2,
            _ if shadow => 2,
            Verdict::Refuse => 3,
            Verdict::Absorb | Verdict::Drop => 1,
        };
        ensure!(
            result.return_value == carried_out,
            "{reason:?}, but the program returned {}",
            result.return_value
        );
        let action = match carried_out {
            1 => Action::Drop,
            2 => Action::Pass,
            _ => Action::Transmit,
        };
        ensure!(
            action == Action::Transmit || self.out == frame,
            "{reason:?}: the frame changed"
        );
        Ok((reason, action))
    }

    /// The frame that the last one became.
    pub fn frame(&self) -> &[u8] {
        &self.out
    }

    /// Finds the one reason that was counted since the last time, looking at those expected first.
    fn counted_reason(&mut self, expected: &[Reason]) -> Result<Reason> {
        for reason in expected.iter().chain(Reason::ALL) {
            let now = self.filter.sandbox.reason(*reason)?;
            let counted = &mut self.counted[*reason as usize];
            let before = counted.enforced + counted.shadow;
            if now == before + 1 {
                counted.enforced += 1;
                return Ok(*reason);
            }
            ensure!(now == before, "{reason:?} counted {} times", now - before);
        }
        bail!("no reason was counted")
    }

    /// Compares all counters: each packet was counted once, under the reason that was told.
    pub fn audit(&self) -> Result<()> {
        for (reason, now) in Reason::ALL.iter().zip(self.filter.sandbox.reasons()?) {
            let counted = self.counted[*reason as usize];
            ensure!(
                now.enforced + now.shadow == counted.enforced + counted.shadow,
                "{reason:?}: {now:?} counted, {counted:?} told"
            );
        }
        Ok(())
    }

    /// Packets that were sent.
    pub fn total(&self) -> u64 {
        self.counted
            .iter()
            .map(|counted| counted.enforced + counted.shadow)
            .sum()
    }

    /// Packets by reason, those that occurred.
    pub fn reasons(&self) -> Vec<(Reason, u64)> {
        let counts = self
            .counted
            .iter()
            .map(|counted| counted.enforced + counted.shadow);
        let all = Reason::ALL.iter().copied().zip(counts);
        all.filter(|(_, count)| *count > 0).collect()
    }
}

fn describe(datagram: &Datagram, prediction: &Prediction) -> String {
    format!(
        "expected {:?} from {}:{} for {:?}",
        prediction.reasons,
        datagram.source,
        datagram.source_port,
        String::from_utf8_lossy(&datagram.payload)
    )
}
