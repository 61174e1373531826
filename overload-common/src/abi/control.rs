//! Controls: one enforceable limit each, with its bucket and its counters apart.

/// No limit: everything is admitted.
pub const ALGORITHM_NONE: u32 = 0;
/// Requests per second by the generic cell rate algorithm.
pub const ALGORITHM_RATE: u32 = 1;
/// A share of the transactions, chosen by keyed hash.
pub const ALGORITHM_PERCENT: u32 = 2;

/// Priority class of a request: picks its threshold in a control.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Emergency calls, within their reserved share.
    Emergency = 0,
    /// Resource-Priority from trusted sources.
    Priority = 1,
    /// Everything else.
    Normal = 2,
    /// First to be refused.
    Low = 3,
}

/// Number of classes.
pub const CLASSES: usize = 4;

/// One entry of map `CONTROLS`, written under its sequence word (odd while being written).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlRecord {
    /// Sequence lock.
    pub sequence: u64,
    /// `ALGORITHM_*`.
    pub algorithm: u32,
    /// Generation that introduced the control.
    pub generation: u32,
    /// Rate: ticks between requests, see [`crate::admit::gcra`]; 0 refuses all.
    pub period_ticks: u64,
    /// Rate: tolerance of each [`Class`], ticks.
    pub tolerance_ticks: [u64; CLASSES],
    /// Percent: accept when the transaction's 32-bit coin is below; 2^32 accepts all.
    pub accept_below: u64,
    /// First instant of validity, ns of CLOCK_BOOTTIME.
    pub valid_from_ns: u64,
    /// End of validity, ns of CLOCK_BOOTTIME; `u64::MAX` has no end. Outside, the control is inert.
    pub valid_until_ns: u64,
    /// Rate: ticks between emergency requests of the reserved share; 0 reserves nothing.
    pub emergency_period_ticks: u64,
    /// Rate: tolerance of the reserved share, ticks.
    pub emergency_tolerance_ticks: u64,
    /// Reserved for a ramp that the kernel follows alone, zero.
    pub reserved: [u64; 4],
}
const _: () = assert!(size_of::<ControlRecord>() == 128);
const _: () = assert!(core::mem::offset_of!(ControlRecord, tolerance_ticks) == 24);
const _: () = assert!(core::mem::offset_of!(ControlRecord, accept_below) == 56);

/// One entry of map `BUCKETS`: alone on its cache line, shared by all CPUs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Theoretical arrival time of the next conforming request, ticks.
    pub arrival_ticks: u64,
    /// The same of the share reserved for emergency requests.
    pub emergency_ticks: u64,
    /// Keeps the next bucket off this line.
    pub reserved: [u64; 6],
}
const _: () = assert!(size_of::<Bucket>() == 64);

/// One per-CPU entry of map `CONTROL_COUNTERS`. `offered = admitted + refused + shadow_refused`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlCounters {
    /// New requests judged by this control.
    pub offered: u64,
    /// Of these, admitted.
    pub admitted: u64,
    /// Of these, refused.
    pub refused: u64,
    /// Of these, admitted only because the interface is in shadow mode.
    pub shadow_refused: u64,
}
const _: () = assert!(size_of::<ControlCounters>() == 32);

/// Matches the host of a Request-URI; `hash` is [`crate::sip::host_key`].
pub const SCOPE_HOST: u32 = 1;
/// Matches what nothing else matches; `hash` is 0.
pub const SCOPE_DEFAULT: u32 = 2;

/// Matches numbers that begin with `+` and these digits; `hash` is [`crate::sip::Number::digits`].
pub const SCOPE_GLOBAL_PREFIX: u32 = 3;
/// Matches numbers without `+` that begin with these digits; `hash` is [`crate::sip::Number::digits`].
pub const SCOPE_LOCAL_PREFIX: u32 = 4;
/// An emergency number, with or without `+`; `hash` is [`crate::sip::Number::digits`], the value nothing.
pub const SCOPE_EMERGENCY: u32 = 5;

/// Value of map `DESTINATIONS`: the control's index, and above it the place in the configuration's order.
/// Of several that match, the first in that order decides.
#[inline(always)]
pub const fn destination_value(control: u32, order: u32) -> u64 {
    (order as u64) << 32 | control as u64
}

/// Key of map `DESTINATIONS`; the value is [`destination_value`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DestinationKey {
    /// Low 32 bits of the generation the entry belongs to.
    pub generation: u32,
    /// `SCOPE_*`.
    pub scope: u32,
    /// Keyed hash of the identity.
    pub hash: u64,
}
const _: () = assert!(size_of::<DestinationKey>() == 16);
