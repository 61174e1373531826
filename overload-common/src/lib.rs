//! What the packet filter and its controller must agree on: map layouts, the
//! arithmetic of admission, and the keyed hashes. No I/O, no allocation; time,
//! randomness and keys are parameters.
#![cfg_attr(not(any(test, feature = "std")), no_std)]

pub mod abi;
pub mod admit;
pub mod hash;
pub mod sip;
