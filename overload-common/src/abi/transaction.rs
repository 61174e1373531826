//! Memory of transactions: buckets of one KiB, so that a packet touches one page of it.

/// Admitted transactions a bucket holds.
pub const ADMITTED_WAYS: usize = 12;
/// Fingerprints of refused transactions a bucket holds.
pub const REFUSED_WAYS: usize = 16;

/// One entry of map `MEMORY`; the words are those of [`crate::admit::memory`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBucket {
    /// Fingerprint and end of life of each of `slots`; 0 is free.
    pub admitted: [u64; ADMITTED_WAYS],
    /// Until when transactions of this bucket may lie in their other one, which they went to because
    /// this one was full.
    pub overflow: u64,
    /// Reserved, zero.
    pub reserved: [u64; 3],
    /// Fingerprints of refused transactions, apart, so that refusals cannot push out admitted calls.
    pub refused: [u64; REFUSED_WAYS],
    /// What is known of the admitted ones.
    pub slots: [AdmittedSlot; ADMITTED_WAYS],
}
const _: () = assert!(size_of::<MemoryBucket>() == 1024);
const _: () = assert!(core::mem::offset_of!(MemoryBucket, refused) == 128);
const _: () = assert!(core::mem::offset_of!(MemoryBucket, slots) == 256);

impl MemoryBucket {
    /// A bucket that remembers nothing.
    pub const EMPTY: Self = Self {
        admitted: [0; ADMITTED_WAYS],
        overflow: 0,
        reserved: [0; 3],
        refused: [0; REFUSED_WAYS],
        slots: [AdmittedSlot::UNUSED; ADMITTED_WAYS],
    };
}

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

impl AdmittedSlot {
    /// A slot never used.
    pub const UNUSED: Self = Self {
        transaction: 0,
        verify: 0,
        first_ns: 0,
        last_ns: 0,
        copies: 0,
        oc_offer: 0,
        controls: [0; 4],
        class: 0,
        epoch: 0,
        method: 0,
        outcome: 0,
        reserved: [0; 3],
    };
}
