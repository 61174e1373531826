//! The only place that knows aya: load, attach, pin, swap, read counters.

pub mod object;
pub mod sandbox;
