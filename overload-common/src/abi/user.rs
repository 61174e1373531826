//! Lets aya move the map values as bytes.

use super::{
    AdmittedSlot, Bucket, ControlCounters, ControlRecord, DestinationKey, InstanceRecord,
    InterfaceRecord, KeyRecord, MemoryBucket, PrefixBucket, ReasonCounter, SourceAddress,
};

macro_rules! pod {
    ($($name:ty),+ $(,)?) => {
        $(
            // SAFETY: `repr(C)`, no padding (asserted by size), integers and arrays of integers only,
            // so every bit pattern is valid.
            unsafe impl aya::Pod for $name {}
        )+
    };
}

pod!(
    AdmittedSlot,
    Bucket,
    ControlCounters,
    ControlRecord,
    DestinationKey,
    InstanceRecord,
    InterfaceRecord,
    KeyRecord,
    MemoryBucket,
    PrefixBucket,
    ReasonCounter,
    SourceAddress,
);
