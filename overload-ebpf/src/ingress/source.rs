//! Who sends this: a trusted peer, a denied source, one that acknowledged a refusal; and what its prefix
//! has left.

use aya_ebpf::btf_maps::lpm_trie::Key;
use overload_common::{
    abi::{
        InstanceRecord, KEY_TRANSACTION, LOOKUP_SOURCES, PREFIX_ENTRIES, PROVEN_ENTRIES,
        PrefixBucket, SOURCE_TRUSTED, SourceAddress,
    },
    admit::proven,
};

use super::{
    bucket,
    frame::{Address, is_mapped},
    transaction::{key, mix},
};
use crate::{
    maps::{INSTANCE, PREFIXES, PROVEN, SOURCES},
    scratch::{Work, get, set},
};

#[inline(always)]
pub fn address(work: Work) -> Address {
    [get!(work, meta.source[0]), get!(work, meta.source[1])]
}

/// Sets and answers `meta.source_flags`: `SOURCE_*`. Reads the generation and what it needs looked up, once for
/// this and all later stages: a packet sees one generation.
#[inline(always)]
pub fn look_up(work: Work, instance: *const InstanceRecord) -> u32 {
    set!(work, 0, meta.source_flags);
    // SAFETY: words of a live map value, written whole.
    let (generation, lookups) = unsafe {
        (
            (&raw const (*instance).generation).read_volatile() as u32,
            (&raw const (*instance).lookups).read_volatile(),
        )
    };
    set!(work, generation, meta.generation);
    set!(work, lookups, meta.lookups);
    if lookups & LOOKUP_SOURCES == 0 {
        return 0;
    }
    let [high, low] = address(work).map(u64::to_ne_bytes);
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&high);
    octets[8..].copy_from_slice(&low);
    let source = SourceAddress {
        generation: generation.to_be_bytes(),
        address: octets,
    };
    let whole = Key::new(SourceAddress::GENERATION_BITS + 128, source);
    let flags = SOURCES.get(&whole).copied().unwrap_or(0);
    set!(work, flags, meta.source_flags);
    flags
}

/// Keyed hash of an address. Its bits choose what sources share, never what a request is.
#[inline(always)]
fn hash(address: Address) -> u64 {
    let key = key(KEY_TRANSACTION);
    let mixed = mix(mix(!key.k1, address[0], key.k0), address[1], key.k0);
    mix(mixed, 0, key.k0)
}

/// Remembers that the source acknowledged a refusal of ours.
#[inline(always)]
pub fn prove(work: Work, now_ns: u64) {
    let hash = hash(address(work));
    if let Some(word) = PROVEN.get_ptr_mut(hash as u32 & (PROVEN_ENTRIES as u32 - 1)) {
        // SAFETY: a word of a live map value, stored whole.
        unsafe { word.write_volatile(proven::word(hash, now_ns)) };
    }
}

#[inline(always)]
fn is_proven(work: Work) -> bool {
    let hash = hash(address(work));
    match PROVEN.get_ptr(hash as u32 & (PROVEN_ENTRIES as u32 - 1)) {
        // SAFETY: a word of a live map value, stored whole.
        Some(word) => proven::holds(unsafe { word.read_volatile() }, hash, get!(work, meta.now)),
        None => false,
    }
}

/// The bucket that the source's prefix uses: /24, /56.
#[inline(always)]
fn prefix(work: Work) -> Option<*mut PrefixBucket> {
    let [high, low] = address(work);
    // The last octet of an IPv4 address is the highest byte in memory order, the eighth of an IPv6 one too.
    let prefix = if is_mapped([high, low]) {
        [high, low & !LAST_BYTE]
    } else {
        [high & !LAST_BYTE, 0]
    };
    PREFIXES.get_ptr_mut(hash(prefix) as u32 & (PREFIX_ENTRIES as u32 - 1))
}

const LAST_BYTE: u64 = u64::from_le_bytes([0, 0, 0, 0, 0, 0, 0, 0xff]);

/// May the source be answered? Trusted and proven ones always, others within the budget of their prefix.
#[inline(always)]
pub fn may_be_answered(work: Work) -> bool {
    if get!(work, meta.source_flags) & SOURCE_TRUSTED != 0 || is_proven(work) {
        return true;
    }
    let (Some(instance), Some(prefix)) = (INSTANCE.get_ptr(0), prefix(work)) else {
        return false;
    };
    let now = get!(work, meta.now);
    // SAFETY: words of live map values.
    unsafe {
        bucket::conforms(
            &raw mut (*prefix).reply_ticks,
            now,
            (&raw const (*instance).reply_period_ticks).read_volatile(),
            (&raw const (*instance).reply_tolerance_ticks).read_volatile(),
        )
    }
}

/// Has the source's prefix an emergency request left?
#[inline(always)]
pub fn has_emergency_share(work: Work, instance: *const InstanceRecord) -> bool {
    let Some(prefix) = prefix(work) else {
        return false;
    };
    let now = get!(work, meta.now);
    // SAFETY: words of live map values.
    unsafe {
        bucket::conforms(
            &raw mut (*prefix).emergency_ticks,
            now,
            (&raw const (*instance).emergency_period_ticks).read_volatile(),
            (&raw const (*instance).emergency_tolerance_ticks).read_volatile(),
        )
    }
}
