//! The arithmetic of admission. Time, keys and randomness are parameters.

pub mod gcra;
pub mod memory;
pub mod percentage;
pub mod proven;
