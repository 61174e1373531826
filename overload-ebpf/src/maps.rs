//! Every map. Shapes are in `overload_common::abi`, meanings in docs/maps.md.

use aya_ebpf::{
    Global,
    btf_maps::{Array, HashMap, LpmTrie, PerCpuArray},
    macros::btf_map,
};
use overload_common::abi::{
    ADMITTED_SLOTS, AdmittedSlot, BPF_F_MMAPABLE, Bucket, ControlCounters, ControlRecord,
    DESTINATION_ENTRIES, DestinationKey, Event, INTERFACE_SLOTS, InstanceRecord, InterfaceRecord,
    KeyRecord, MAX_CONTROLS, MEMORY_BUCKETS, MemoryBucket, PORT_WORDS, PREFIX_ENTRIES,
    PROVEN_ENTRIES, PrefixBucket, Reason, ReasonCounter, SOURCE_ENTRIES, SourceAddress,
};

use crate::scratch::Scratch;

/// Index in [`INTERFACES`] of the interface this program is loaded for.
#[unsafe(no_mangle)]
pub static INTERFACE_SLOT: Global<u32> = Global::new(0);

/// 0: the kernel's clocks; 1: `InstanceRecord::map_clock_ns`, for tests and replay.
#[unsafe(no_mangle)]
pub static CLOCK_SOURCE: Global<u32> = Global::new(0);

#[btf_map]
pub static INSTANCE: Array<InstanceRecord, 1, BPF_F_MMAPABLE> = Array::new();

#[btf_map]
pub static INTERFACES: Array<InterfaceRecord, INTERFACE_SLOTS> = Array::new();

#[btf_map]
pub static PORTS: Array<u64, PORT_WORDS> = Array::new();

#[btf_map]
pub static KEYS: Array<KeyRecord, 4> = Array::new();

#[btf_map]
pub static DESTINATIONS: HashMap<DestinationKey, u64, DESTINATION_ENTRIES> = HashMap::new();

#[btf_map]
pub static SOURCES: LpmTrie<SourceAddress, u32, SOURCE_ENTRIES> = LpmTrie::new();

#[btf_map]
pub static PREFIXES: Array<PrefixBucket, PREFIX_ENTRIES, BPF_F_MMAPABLE> = Array::new();

#[btf_map]
pub static PROVEN: Array<u64, PROVEN_ENTRIES, BPF_F_MMAPABLE> = Array::new();

#[btf_map]
pub static CONTROLS: Array<ControlRecord, MAX_CONTROLS, BPF_F_MMAPABLE> = Array::new();

#[btf_map]
pub static BUCKETS: Array<Bucket, MAX_CONTROLS, BPF_F_MMAPABLE> = Array::new();

#[btf_map]
pub static CONTROL_COUNTERS: PerCpuArray<ControlCounters, MAX_CONTROLS> = PerCpuArray::new();

#[btf_map]
pub static MEMORY: Array<MemoryBucket, MEMORY_BUCKETS, BPF_F_MMAPABLE> = Array::new();

#[btf_map]
pub static ADMITTED: Array<AdmittedSlot, ADMITTED_SLOTS, BPF_F_MMAPABLE> = Array::new();

#[btf_map]
pub static REASONS: PerCpuArray<ReasonCounter, { Reason::COUNT }> = PerCpuArray::new();

#[btf_map]
pub static EVENTS: PerCpuArray<u64, { Event::COUNT }> = PerCpuArray::new();

/// One entry a CPU; the loader knows how many there are. A per-CPU array would lie anywhere: these begin
/// on a page, because a copy to an odd place takes up to ten times as long.
#[btf_map]
pub static SCRATCH: Array<Scratch, 1, BPF_F_MMAPABLE> = Array::new();
