//! The controller of the packet filter: reads the configuration, loads and steers the filter, reports
//! what it does.

pub mod cli;
pub mod config;
pub mod datapath;
pub mod mac;
pub mod ops;
pub mod state;
