//! What is known of senders.

/// The sender is the operator's own peer.
pub const SOURCE_TRUSTED: u32 = 1;
/// The sender is left to the host's own packet filter: not judged, not answered.
pub const SOURCE_DENIED: u32 = 2;

/// What map `SOURCES` looks up by its longest prefix, in bytes as they are compared; the value is `SOURCE_*`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceAddress {
    /// Low 32 bits of the generation, big-endian: always compared whole.
    pub generation: [u8; 4],
    /// Network order, IPv4 as `::ffff:a.b.c.d`.
    pub address: [u8; 16],
}
const _: () = assert!(size_of::<SourceAddress>() == 20);

impl SourceAddress {
    /// Bits before the address, which every prefix includes.
    pub const GENERATION_BITS: u32 = 32;
}

/// One entry of map `PREFIXES`, which a keyed hash of the source prefix (/24, /56) chooses: prefixes of one
/// entry share it. Words as in [`super::Bucket`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixBucket {
    /// Replies.
    pub reply_ticks: u64,
    /// Emergency requests.
    pub emergency_ticks: u64,
}
const _: () = assert!(size_of::<PrefixBucket>() == 16);
