//! The maps of one instance, opened from their pins and checked against the layout of this program.

use std::{io, path::Path};

use aya::{
    Pod,
    maps::{Array, HashMap, LpmTrie, Map, MapData, MapError, PerCpuArray},
};
use overload_common::abi::{
    ADMITTED_SLOTS, AdmittedSlot, Bucket, ControlCounters, ControlRecord, DESTINATION_ENTRIES,
    DestinationKey, Event, INTERFACE_SLOTS, InstanceRecord, InterfaceRecord, KeyRecord,
    MAX_CONTROLS, MEMORY_BUCKETS, MemoryBucket, PORT_WORDS, PREFIX_ENTRIES, PROVEN_ENTRIES,
    PrefixBucket, Reason, ReasonCounter, SOURCE_ENTRIES, SourceAddress,
};
use thiserror::Error;

use super::mapped::MappedArray;

/// Keys of an instance: two tag epochs, transactions, host names.
pub const KEYS: u32 = 4;

/// Why the maps cannot be used.
#[derive(Debug, Error)]
pub enum MapsError {
    /// The kernel refused.
    #[error("cannot {action} map {name}: {source}")]
    Map {
        /// What was tried.
        action: &'static str,
        /// The map.
        name: &'static str,
        /// What the kernel said.
        source: MapError,
    },
    /// The map could not be shared with this process.
    #[error("cannot map {name} into memory: {source}")]
    Memory {
        /// The map.
        name: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another version made them.
    #[error(
        "the maps of this instance were made by another version of overload-ctl ({what}); use that one, or end the filter with `overload-ctl detach`"
    )]
    Layout {
        /// What differs.
        what: String,
    },
}

/// Turns a map error into one that says what was done.
pub(super) fn map_error(
    action: &'static str,
    name: &'static str,
) -> impl FnOnce(MapError) -> MapsError {
    move |source| MapsError::Map {
        action,
        name,
        source,
    }
}

/// The maps that the controller reads or writes.
pub struct Maps {
    /// Identity, generation and key epoch.
    pub instance: MappedArray<InstanceRecord>,
    /// The kernel's number of map INSTANCE, to tell whether a program uses these maps.
    pub instance_id: u32,
    /// Limits.
    pub controls: MappedArray<ControlRecord>,
    /// State of the rate limits.
    pub buckets: MappedArray<Bucket>,
    /// Mode and addresses.
    pub interfaces: Array<MapData, InterfaceRecord>,
    /// Bitmap of protected ports.
    pub ports: Array<MapData, u64>,
    /// Secrets.
    pub keys: Array<MapData, KeyRecord>,
    /// What belongs to which control.
    pub destinations: HashMap<MapData, DestinationKey, u64>,
    /// Trusted and denied sources.
    pub sources: LpmTrie<MapData, SourceAddress, u32>,
    /// Per control.
    pub control_counters: PerCpuArray<MapData, ControlCounters>,
    /// Per reason.
    pub reasons: PerCpuArray<MapData, ReasonCounter>,
    /// Per event.
    pub events: PerCpuArray<MapData, u64>,
}

impl Maps {
    /// Opens the maps pinned in a directory.
    pub fn open(directory: &Path) -> Result<Self, MapsError> {
        let open = |name, entries| open(directory, name, entries);
        let instance = open("INSTANCE", 1)?;
        let instance_id = instance
            .info()
            .map_err(map_error("look at", "INSTANCE"))?
            .id();
        let controls = open("CONTROLS", MAX_CONTROLS)?;
        let buckets = open("BUCKETS", MAX_CONTROLS)?;
        // Read by the program only, which indexes them without a further check.
        fits::<MemoryBucket>(open("MEMORY", MEMORY_BUCKETS)?, "MEMORY")?;
        fits::<AdmittedSlot>(open("ADMITTED", ADMITTED_SLOTS)?, "ADMITTED")?;
        fits::<PrefixBucket>(open("PREFIXES", PREFIX_ENTRIES)?, "PREFIXES")?;
        fits::<u64>(open("PROVEN", PROVEN_ENTRIES)?, "PROVEN")?;
        Ok(Self {
            instance: share(&instance, "INSTANCE", 1)?,
            instance_id,
            controls: share(&controls, "CONTROLS", MAX_CONTROLS)?,
            buckets: share(&buckets, "BUCKETS", MAX_CONTROLS)?,
            interfaces: typed(
                Map::Array(open("INTERFACES", INTERFACE_SLOTS)?),
                "INTERFACES",
            )?,
            ports: typed(Map::Array(open("PORTS", PORT_WORDS)?), "PORTS")?,
            keys: typed(Map::Array(open("KEYS", KEYS as usize)?), "KEYS")?,
            destinations: typed(
                Map::HashMap(open("DESTINATIONS", DESTINATION_ENTRIES)?),
                "DESTINATIONS",
            )?,
            sources: typed(Map::LpmTrie(open("SOURCES", SOURCE_ENTRIES)?), "SOURCES")?,
            control_counters: typed(
                Map::PerCpuArray(open("CONTROL_COUNTERS", MAX_CONTROLS)?),
                "CONTROL_COUNTERS",
            )?,
            reasons: typed(Map::PerCpuArray(open("REASONS", Reason::COUNT)?), "REASONS")?,
            events: typed(Map::PerCpuArray(open("EVENTS", Event::COUNT)?), "EVENTS")?,
        })
    }
}

/// Entries of map INTERFACES.
impl Maps {
    /// All of them; those not in use are zero.
    pub fn interface_records(&self) -> Result<[InterfaceRecord; INTERFACE_SLOTS], MapsError> {
        let mut records = [InterfaceRecord::default(); INTERFACE_SLOTS];
        for (slot, record) in (0..).zip(&mut records) {
            *record = self.interface_record(slot)?;
        }
        Ok(records)
    }

    /// One of them.
    pub fn interface_record(&self, slot: u32) -> Result<InterfaceRecord, MapsError> {
        self.interfaces
            .get(&slot, 0)
            .map_err(map_error("read", "INTERFACES"))
    }

    /// Writes one. Nobody else may change it meanwhile: [`super::pins::Pins::lock_records`].
    pub fn set_interface(&mut self, slot: u32, record: InterfaceRecord) -> Result<(), MapsError> {
        self.interfaces
            .set(slot, record, 0)
            .map_err(map_error("write", "INTERFACES"))
    }
}

fn open(directory: &Path, name: &'static str, entries: usize) -> Result<MapData, MapsError> {
    let map = MapData::from_pin(directory.join(name)).map_err(map_error("open", name))?;
    let found = map
        .info()
        .map_err(map_error("look at", name))?
        .max_entries();
    if found as usize == entries {
        Ok(map)
    } else {
        Err(MapsError::Layout {
            what: format!("{name} has {found} entries, not {entries}"),
        })
    }
}

fn typed<T: TryFrom<Map, Error = MapError>>(map: Map, name: &'static str) -> Result<T, MapsError> {
    T::try_from(map).map_err(|source| MapsError::Layout {
        what: format!("{name}: {source}"),
    })
}

/// An error unless the map is an array of such values.
fn fits<V: Pod>(map: MapData, name: &'static str) -> Result<(), MapsError> {
    typed::<Array<MapData, V>>(Map::Array(map), name).map(drop)
}

fn share<V: Pod>(
    map: &MapData,
    name: &'static str,
    entries: usize,
) -> Result<MappedArray<V>, MapsError> {
    let info = map.info().map_err(map_error("look at", name))?;
    // An access beyond the end of a shorter map would be a bus error.
    if info.value_size() as usize != size_of::<V>() {
        return Err(MapsError::Layout {
            what: format!("{name} has values of {} bytes", info.value_size()),
        });
    }
    MappedArray::new(map, entries).map_err(|source| MapsError::Memory { name, source })
}
