//! Reads what the filter counted, summed over CPUs. Sums of one moment are not a snapshot: packets go
//! on while they are read.

use aya::{
    Pod,
    maps::{MapData, PerCpuArray},
};
use overload_common::abi::{
    ALGORITHM_NONE, ControlCounters, ControlRecord, Event, MAX_CONTROLS, Mode, Reason,
    ReasonCounter,
};

use super::{
    mapped::read_control,
    maps::{Maps, MapsError, map_error},
};

/// One control with its counters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// Its number.
    pub index: u32,
    /// What it enforces.
    pub record: ControlRecord,
    /// What it did.
    pub counters: ControlCounters,
}

/// All counters of an instance.
#[derive(Clone, Debug)]
pub struct Counters {
    /// What is done with verdicts now.
    pub mode: Mode,
    /// In the order of [`Reason::ALL`].
    pub reasons: Vec<(Reason, ReasonCounter)>,
    /// In the order of [`Event::ALL`].
    pub events: Vec<(Event, u64)>,
    /// Those in use, by number.
    pub controls: Vec<Control>,
}

impl Counters {
    /// Reads them.
    pub fn read(maps: &Maps) -> Result<Self, MapsError> {
        let mut reasons = Vec::with_capacity(Reason::COUNT);
        for reason in Reason::ALL {
            let sum = sum(&maps.reasons, "REASONS", *reason as u32, add_reason)?;
            reasons.push((*reason, sum));
        }
        let mut events = Vec::with_capacity(Event::COUNT);
        for event in Event::ALL {
            let sum = sum(&maps.events, "EVENTS", *event as u32, |a, b| a + b)?;
            events.push((*event, sum));
        }
        Ok(Self {
            mode: mode(maps)?,
            reasons,
            events,
            controls: controls(maps)?,
        })
    }
}

/// What is done with verdicts on all interfaces; where they differ, the most lenient.
pub fn mode(maps: &Maps) -> Result<Mode, MapsError> {
    let records = maps.interface_records()?;
    let used = records.iter().filter(|record| record.ifindex != 0);
    Ok(Mode::from_raw(
        used.map(|record| record.mode).min().unwrap_or_default(),
    ))
}

fn controls(maps: &Maps) -> Result<Vec<Control>, MapsError> {
    let mut controls = Vec::new();
    for (index, record) in records(maps)? {
        let counters = sum(
            &maps.control_counters,
            "CONTROL_COUNTERS",
            index,
            add_control,
        )?;
        controls.push(Control {
            index,
            record,
            counters,
        });
    }
    Ok(controls)
}

/// The controls in use, by number.
pub fn records(maps: &Maps) -> Result<Vec<(u32, ControlRecord)>, MapsError> {
    let mut records = Vec::new();
    for index in 0..MAX_CONTROLS {
        let record = read_control(maps.controls.words(index)).ok_or_else(|| MapsError::Layout {
            what: format!("control {index} was left half written"),
        })?;
        if record.algorithm != ALGORITHM_NONE {
            records.push((index as u32, record));
        }
    }
    Ok(records)
}

fn sum<V: Pod + Default>(
    map: &PerCpuArray<MapData, V>,
    name: &'static str,
    index: u32,
    add: impl Fn(V, V) -> V,
) -> Result<V, MapsError> {
    let values = map.get(&index, 0).map_err(map_error("read", name))?;
    Ok(values.iter().copied().fold(V::default(), add))
}

fn add_reason(a: ReasonCounter, b: ReasonCounter) -> ReasonCounter {
    ReasonCounter {
        enforced: a.enforced + b.enforced,
        shadow: a.shadow + b.shadow,
    }
}

fn add_control(a: ControlCounters, b: ControlCounters) -> ControlCounters {
    ControlCounters {
        offered: a.offered + b.offered,
        admitted: a.admitted + b.admitted,
        refused: a.refused + b.refused,
        shadow_refused: a.shadow_refused + b.shadow_refused,
    }
}
