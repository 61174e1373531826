//! Memory of transactions.

use super::ADMITTED_WAYS;

/// Fingerprint and expiry of the slots of one set, one cache line; see [`crate::admit::memory`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexSet {
    /// One word a slot; 0 is free.
    pub words: [u64; ADMITTED_WAYS],
}
const _: () = assert!(size_of::<IndexSet>() == 64);

/// What is known of one admitted transaction.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmittedSlot {
    /// Keyed hash of what a response carries too: top branch, sent-by, Call-ID, CSeq.
    pub transaction: u64,
    /// Keyed hash of source address and Request-URI.
    pub verify: u64,
    /// First copy, ns of the coarse monotonic clock.
    pub first_ns: u64,
    /// Last copy that passed, ns of the coarse monotonic clock.
    pub last_ns: u64,
    /// Copies that passed, the first one included.
    pub copies: u32,
    /// The client's `oc` offer; 0 is none.
    pub oc_offer: u32,
    /// Controls that admitted it; unused entries are `u16::MAX`.
    pub controls: [u16; 4],
    /// [`super::Class`].
    pub class: u8,
    /// Key epoch at admission.
    pub epoch: u8,
    /// [`crate::sip::Method`].
    pub method: u8,
    /// Outcome: 0 unknown.
    pub outcome: u8,
    /// Reserved, zero.
    pub reserved: [u32; 3],
}
const _: () = assert!(size_of::<AdmittedSlot>() == 64);
