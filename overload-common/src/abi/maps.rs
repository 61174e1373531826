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

/// Admitted transactions that are remembered.
pub const ADMITTED_SLOTS: usize = 131_072;

/// Slots of one set, whose fingerprints share a cache line.
pub const ADMITTED_WAYS: usize = 8;

/// Sets of the admitted table; a transaction may live in either of two.
pub const ADMITTED_SETS: usize = ADMITTED_SLOTS / ADMITTED_WAYS;

/// Fingerprints of refused transactions that are remembered.
pub const REFUSED_SLOTS: usize = 262_144;
