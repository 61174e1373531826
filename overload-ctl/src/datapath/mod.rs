//! The only place that knows aya: load, attach, pin, swap, read counters.

pub mod apply;
pub mod attach;
pub mod capability;
pub mod counters;
pub mod filter;
pub mod interface;
pub mod link;
pub mod mapped;
pub mod maps;
pub mod object;
pub mod pins;
pub mod sandbox;
mod signals;
pub mod start;
pub mod tables;
