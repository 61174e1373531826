//! The only place that knows aya: load, attach, pin, swap, read counters.

pub mod apply;
pub mod attach;
pub mod capability;
pub mod counters;
pub mod filter;
pub mod follow;
pub mod interface;
pub mod link;
mod links;
pub mod mapped;
pub mod maps;
pub mod object;
pub mod pins;
pub mod protect;
pub mod sandbox;
pub mod settings;
mod signals;
mod sources;
pub mod start;
pub mod tables;
pub mod vlan;
