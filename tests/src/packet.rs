//! Packet tests: frames run through the real filter on private maps, and an oracle that shares no code
//! with it. Needs root and BPF, but no namespaces.

mod filter;
pub mod fixture;
mod frame;
mod mutate;
mod oracle;
mod random;
mod request;
mod sip;
mod template;

pub use filter::{Filter, HOST, OBJECT_VARIABLE, OTHER_HOST, T0};
pub use frame::{
    CLIENT, CLIENT_MAC, CLIENT_V6, Datagram, FrameError, SERVER, SERVER_MAC, SERVER_V6, checksum,
};
pub use mutate::mutate;
pub use oracle::check_reply;
pub use random::Random;
pub use request::read_request;
pub use template::{ack, base, edit, sdp, tag, templates};
