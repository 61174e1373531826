//! Frames with what the filter has to do with them. One loaded filter runs them all, so that they can be run on
//! kernels where loading takes long.

mod damage;
mod reason;
mod refusal;
mod transaction;

use std::fmt;

use anyhow::{Context, Result, anyhow, ensure};
use overload_common::{
    abi::{METHOD_PASSES, Mode, Reason, SOURCE_DENIED},
    sip::Method,
};
use overload_ctl::datapath::sandbox::Action;

use super::{Datagram, Filter, ack, check_reply};

pub use reason::reasons;

/// What must be done before the frame is sent.
#[derive(Clone, Debug)]
pub enum Setting {
    /// A limit of 0.
    Refusing,
    /// The same, and this frame was sent before.
    After(Vec<u8>),
    /// A limit that admits one.
    One,
    /// That, and this frame so many milliseconds before.
    Later(u64, Vec<u8>),
    /// No control.
    NoControl,
    /// A percentage.
    Percent(f64),
    /// A limit of 0 for this host, and one that admits for the rest.
    RefusingHost(&'static str),
    /// A limit of 0 that is not carried out.
    Shadow,
    /// A limit of 0, in mode bypass.
    Bypass,
    /// A limit of 0, and a frame may be no longer than this.
    MaxFrame(u32),
    /// A limit of 0, and sources under this /24 are denied.
    Denied([u8; 4]),
    /// A limit of 0, and this method passes.
    Exempt(Method),
    /// A limit of 0, with a reserved share for emergency calls.
    Reserved,
    /// A limit of 0, and no reply for strangers.
    NoReplies,
}

impl Setting {
    fn prepare(&self, filter: &mut Filter) -> Result<()> {
        filter.reset()?;
        match self {
            Self::NoControl => {}
            Self::One => filter.limit(1.0, 1.0)?,
            Self::Later(ms, first) => {
                filter.limit(1.0, 1.0)?;
                filter.run(first)?;
                filter.at_ms(*ms)?;
            }
            Self::Percent(accept) => filter.percent(7, None, *accept)?,
            Self::RefusingHost(host) => {
                filter.limit(1.0, 1.0)?;
                filter.rate(8, Some(host), 0.0, 1.0)?;
            }
            Self::Refusing => filter.limit(0.0, 1.0)?,
            Self::After(first) => {
                filter.limit(0.0, 1.0)?;
                filter.run(first)?;
            }
            Self::Shadow => {
                filter.limit(0.0, 1.0)?;
                filter.mode(Mode::Shadow)?;
            }
            Self::Bypass => {
                filter.limit(0.0, 1.0)?;
                filter.mode(Mode::Bypass)?;
            }
            Self::MaxFrame(bytes) => {
                filter.limit(0.0, 1.0)?;
                filter.max_frame(*bytes)?;
            }
            Self::Denied(prefix) => {
                filter.limit(0.0, 1.0)?;
                filter.sandbox.source((*prefix).into(), 24, SOURCE_DENIED)?;
            }
            Self::Exempt(method) => {
                filter.limit(0.0, 1.0)?;
                let byte = METHOD_PASSES << (8 * *method as u64);
                filter
                    .sandbox
                    .settings(|instance| instance.method_classes |= byte)?;
            }
            Self::Reserved => filter.reserve(0.0, 1.0)?,
            Self::NoReplies => {
                filter.limit(0.0, 1.0)?;
                filter
                    .sandbox
                    .settings(|instance| instance.reply_period_ticks = 0)?;
            }
        }
        Ok(())
    }
}

/// What is run.
#[derive(Clone, Debug)]
pub enum Packet {
    /// A datagram.
    Datagram(Datagram),
    /// Any frame.
    Frame(Vec<u8>),
    /// The ACK to the refusal of this INVITE, which is sent first.
    AckTo(String),
}

impl Packet {
    fn frame(&self, filter: &mut Filter) -> Result<Vec<u8>> {
        match self {
            Self::Datagram(datagram) => Ok(datagram.frame()),
            Self::Frame(frame) => Ok(frame.clone()),
            Self::AckTo(invite) => Ok(frame(ack(invite, &filter.reply(invite)?))),
        }
    }

    /// The datagram in its frame.
    fn datagram(&self, frame: &[u8]) -> Result<Datagram> {
        match self {
            Self::Datagram(datagram) => Ok(datagram.clone()),
            Self::Frame(_) | Self::AckTo(_) => {
                Datagram::read(frame).map_err(|error| anyhow!("the fixture's frame: {error:?}"))
            }
        }
    }
}

/// What the filter has to do.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// This, and what it means.
    Reason(Reason),
    /// Whatever the oracle does not object to.
    Agreement,
}

/// A frame, what is done before it, and what is expected.
#[derive(Clone, Debug)]
pub struct Fixture {
    name: String,
    setting: Setting,
    packet: Packet,
    expected: Expected,
}

/// What the filter did; the same on each kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Why.
    pub reason: Reason,
    /// What became of the frame.
    pub action: Action,
    /// Length of the frame afterwards, bytes.
    pub length: usize,
}

impl Fixture {
    fn new(name: String, setting: Setting, packet: Packet, reason: Reason) -> Self {
        Self {
            name,
            setting,
            packet,
            expected: Expected::Reason(reason),
        }
    }

    /// A message, whole or damaged, at a limit of 0: see [`Filter::judge`].
    fn of_message(name: String, datagram: Datagram) -> Self {
        Self {
            name,
            setting: Setting::Refusing,
            packet: Packet::Datagram(datagram),
            expected: Expected::Agreement,
        }
    }

    /// What it shows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs it; an error says what is not as expected. Every reply is checked by the oracle.
    pub fn run(&self, filter: &mut Filter) -> Result<Judged> {
        self.judge(filter).with_context(|| self.name.clone())
    }

    fn judge(&self, filter: &mut Filter) -> Result<Judged> {
        self.setting.prepare(filter)?;
        let frame = self.packet.frame(filter)?;
        let (reason, outcome) = match self.expected {
            Expected::Agreement => filter.judge(&self.packet.datagram(&frame)?)?,
            Expected::Reason(expected) => {
                let (reason, outcome) = filter.run(&frame)?;
                ensure!(reason == expected, "{reason:?} instead of {expected:?}");
                if outcome.action == Action::Transmit {
                    let request = self.packet.datagram(&frame)?;
                    check_reply(&request, &outcome.frame, 1514).map_err(anyhow::Error::msg)?;
                }
                (reason, outcome)
            }
        };
        Ok(Judged {
            reason,
            action: outcome.action,
            length: outcome.frame.len(),
        })
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {:?} {}",
            self.reason.name(),
            self.action,
            self.length
        )
    }
}

/// All fixtures.
pub fn all() -> Vec<Fixture> {
    [
        reasons(),
        refusal::refusals(),
        transaction::transactions(),
        damage::damages(),
    ]
    .concat()
}

fn frame(text: impl AsRef<[u8]>) -> Vec<u8> {
    Datagram::new(5062, text.as_ref()).frame()
}
