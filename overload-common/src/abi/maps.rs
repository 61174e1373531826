//! Sizes and flags of the maps.

/// `BPF_F_MMAPABLE`: the controller maps the array, so that single words change atomically.
pub const BPF_F_MMAPABLE: usize = 1 << 10;

/// Interfaces one filter instance may sit on.
pub const INTERFACE_SLOTS: usize = 16;

/// Words of the bitmap of protected UDP ports, one bit a port.
pub const PORT_WORDS: usize = 65_536 / 64;

/// Controls, hence destinations, of one instance.
pub const MAX_CONTROLS: usize = 16_384;

/// Entries of the destination table: two generations side by side while one replaces the other.
pub const DESTINATION_ENTRIES: usize = 2 * MAX_CONTROLS;

/// Buckets of transaction memory: 196,608 admitted transactions and 262,144 refused ones.
pub const MEMORY_BUCKETS: usize = 16_384;

/// Entries of map `SOURCES`: two generations of 16,384 prefixes.
pub const SOURCE_ENTRIES: usize = 2 * 16_384;

/// Entries of map `PREFIXES`.
pub const PREFIX_ENTRIES: usize = 16_384;

/// Entries of map `PROVEN`: [`crate::admit::proven`].
pub const PROVEN_ENTRIES: usize = 16_384;

/// Entries of map `ADMITTED`: the admitted transactions of all buckets.
pub const ADMITTED_SLOTS: usize = MEMORY_BUCKETS * super::ADMITTED_WAYS;
