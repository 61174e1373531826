//! The lab of the end-to-end tests: two network namespaces on one machine, a client and a protected
//! host, joined by a veth pair, with the real controller, the real filter and real SIP peers.
//!
//! Every guard of this crate takes back what it made when it is dropped, on a panic too: processes
//! end by their pid, namespaces and pins go away. What a killed test run left behind is removed by
//! the next one. Needs root; traffic stays on documentation addresses between the namespaces.

mod capture;
mod command;
mod controller;
mod kamailio;
mod lab;
mod message;
mod namespace;
pub mod packet;
mod process;
mod run_time;
mod sender;
mod sink;
mod sipp;

pub use capture::{Capture, Pcap};
pub use command::run;
pub use controller::{
    Config, Controller, Destination, DestinationCounters, Interface, Status, controller_binary,
};
pub use kamailio::{Kamailio, Route};
pub use lab::{
    CLIENT, CLIENT_2, CLIENT_INTERFACE, CLIENT_V6, HOST, HOST_2, HOST_INTERFACE, HOST_INTERFACE_2,
    HOST_V6, Lab,
};
pub use message::{Reply, Request, start_line};
pub use namespace::{Namespace, Socket};
pub use process::Process;
pub use run_time::{RunTime, RunTimeMeter};
pub use sender::{Paced, pace};
pub use sink::Sink;
pub use sipp::{Sipp, SippReport};
