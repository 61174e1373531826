//! Memory of transactions. What tells a request from the known ones is kept apart from what is known of
//! them: four MiB that caches and page tables hold, where sixteen would cost every packet a miss of both.

/// Admitted transactions a bucket holds.
pub const ADMITTED_WAYS: usize = 12;
/// Fingerprints of refused transactions a bucket holds.
pub const REFUSED_WAYS: usize = 16;

/// One entry of map `MEMORY`; the words are those of [`crate::admit::memory`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBucket {
    /// Fingerprint and end of life of each of the bucket's slots in map `ADMITTED`; 0 is free.
    pub admitted: [u64; ADMITTED_WAYS],
    /// Until when transactions of this bucket may lie in their other one, which they went to because
    /// this one was full.
    pub overflow: u64,
    /// Written, never read: a store lets the processor fetch the bucket while it goes on.
    pub touched: u64,
    /// Reserved, zero.
    pub reserved: [u64; 2],
    /// Fingerprints of refused transactions, apart, so that refusals cannot push out admitted calls.
    pub refused: [u64; REFUSED_WAYS],
}
const _: () = assert!(size_of::<MemoryBucket>() == 256);
const _: () = assert!(core::mem::offset_of!(MemoryBucket, refused) == 128);

impl MemoryBucket {
    /// A bucket that remembers nothing.
    pub const EMPTY: Self = Self {
        admitted: [0; ADMITTED_WAYS],
        overflow: 0,
        touched: 0,
        reserved: [0; 2],
        refused: [0; REFUSED_WAYS],
    };
}

/// One entry of map `ADMITTED`, at bucket * [`ADMITTED_WAYS`] + way: what is known of one transaction.
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
