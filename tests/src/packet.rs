//! Packet tests: frames run through the real filter on private maps, and an oracle that shares no code
//! with it. Needs root and BPF, but no namespaces.

mod filter;
pub mod fixture;
mod frame;
mod generate;
mod headers;
mod mutate;
mod oracle;
mod predict;
mod random;
mod request;
mod sip;
mod stream;
mod template;

pub use filter::{Filter, HOST, OBJECT_VARIABLE, OTHER_HOST, T0};
pub use frame::{
    CLIENT, CLIENT_MAC, CLIENT_V6, Datagram, FrameError, SERVER, SERVER_MAC, SERVER_V6, checksum,
};
pub use generate::{Generated, generate};
pub use mutate::{mutate, sanitised};
pub use predict::{Prediction, State, acknowledge, check_reply, predict, transaction};
pub use random::Random;
pub use request::Reading;
pub use stream::{Judged, Stream};
pub use template::{ack, base, edit, sdp, tag, templates};
