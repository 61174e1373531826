//! Map keys and values shared with the kernel. Every struct is `repr(C)` without
//! implicit padding; size and offsets are asserted where they are defined.

mod control;
mod instance;
mod maps;
mod reason;
mod source;
mod transaction;
#[cfg(feature = "user")]
mod user;

pub use control::{
    ALGORITHM_NONE, ALGORITHM_PERCENT, ALGORITHM_RATE, Bucket, CLASSES, Class, ControlCounters,
    ControlRecord, DestinationKey, SCOPE_DEFAULT, SCOPE_EMERGENCY, SCOPE_GLOBAL_PREFIX, SCOPE_HOST,
    SCOPE_LOCAL_PREFIX, destination_value,
};
pub use instance::{
    InstanceRecord, InterfaceRecord, KEY_TAG_EPOCH_0, KEY_TAG_EPOCH_1, KEY_TRANSACTION, KEY_URI,
    KeyRecord, LOOKUP_EMERGENCY, LOOKUP_PREFIXES_SHIFT, LOOKUP_SOURCES, MAX_ADDRESSES, MAX_MACS,
    METHOD_CLASSES_DEFAULT, METHOD_PASSES, Mode, SCHEMA,
};
pub use maps::{
    ADMITTED_SLOTS, BPF_F_MMAPABLE, DESTINATION_ENTRIES, INTERFACE_SLOTS, MAX_CONTROLS,
    MEMORY_BUCKETS, PORT_WORDS, PREFIX_ENTRIES, PROVEN_ENTRIES, SOURCE_ENTRIES,
};
pub use reason::{Event, Reason, ReasonCounter, Verdict};
pub use source::{PrefixBucket, SOURCE_DENIED, SOURCE_TRUSTED, SourceAddress};
pub use transaction::{ADMITTED_WAYS, AdmittedSlot, MemoryBucket, REFUSED_WAYS};
