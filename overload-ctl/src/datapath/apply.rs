//! Puts a configuration in force on the maps of an instance.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::Ordering,
};

use aya::{
    maps::{MapError, PerCpuValues},
    util::nr_cpus,
};
use overload_common::abi::{
    ControlCounters, ControlRecord, DestinationKey, KEY_URI, SCHEMA, destination_value,
};

use super::{
    counters,
    filter::{FilterError, GENERATION_WORD, Identity, SCHEMA_WORD},
    mapped::write_control,
    maps::{Maps, map_error},
    protect::Protected,
    settings::{self, LOOKUPS_WORD},
    sources, tables,
};
use crate::{config::Config, state::State};

/// `BPF_NOEXIST`: two hosts with one hash must not pass unseen.
const BPF_NOEXIST: u64 = 1;

/// What a start is made of.
pub struct Plan<'a> {
    /// What is wanted.
    pub config: &'a Config,
    /// What its interfaces are, each with its entry of map INTERFACES.
    pub interfaces: &'a [(u32, Protected)],
    /// Names of the controls of an earlier run, if they are those of its tables.
    pub earlier: Option<&'a State>,
}

/// Puts a configuration in force on maps that may be in use: the tables of the next generation are
/// written beside those in force, and one word switches over. Gives the control of each destination.
pub fn apply(maps: &mut Maps, plan: &Plan<'_>) -> Result<Vec<u32>, FilterError> {
    let config = plan.config;
    let generation = maps.instance.words(0)[GENERATION_WORD].load(Ordering::Acquire);
    let in_force = Identity {
        filter_id: maps.instance_id,
        generation,
    };
    // The first one is 1: an empty table has 0.
    let next = generation.wrapping_add(1);

    let in_use = counters::records(maps)?;
    let names: HashMap<u32, &str> = plan
        .earlier
        .filter(|state| state.identity == in_force)
        .map(|state| state.names().collect())
        .unwrap_or_default();
    let earlier: Vec<(u32, Option<&str>)> = in_use
        .iter()
        .map(|(control, _)| (*control, names.get(control).copied()))
        .collect();
    let controls = tables::assign_controls(&config.destinations, &earlier);

    for (slot, protected) in plan.interfaces {
        maps.set_interface(*slot, protected.record(config.mode))?;
    }
    for (index, word) in (0..).zip(tables::port_bitmap(&config.ports)) {
        maps.ports
            .set(index, word, 0)
            .map_err(map_error("write", "PORTS"))?;
    }
    for (destination, control) in config.destinations.iter().zip(&controls) {
        if names.get(control) != Some(&destination.name.as_str()) {
            clear(maps, *control)?;
        }
        let limit = destination.limit;
        let record = tables::control_record(limit, next as u32);
        let record = settings::reserve(record, limit, config.emergency.share_percent);
        write_control(maps.controls.words(*control as usize), &record);
    }
    write_destinations(maps, config, &controls, next as u32)?;
    sources::write(maps, &config.sources, next as u32)?;
    let instance = maps.instance.words(0);
    for (word, value) in settings::words(config) {
        instance[word].store(value, Ordering::Relaxed);
    }
    // What the new generation needs is looked up before it is in force, what the old one needed until then.
    let lookups = settings::lookups(config);
    instance[LOOKUPS_WORD].fetch_or(lookups, Ordering::Release);
    instance[GENERATION_WORD].store(next, Ordering::Release);
    instance[SCHEMA_WORD].store(SCHEMA, Ordering::Release);
    instance[LOOKUPS_WORD].store(lookups, Ordering::Release);

    remove_destinations(maps, |key| key.generation != next as u32)?;
    sources::remove(maps, |generation| generation != next as u32)?;
    let used: HashSet<u32> = controls.iter().copied().collect();
    for (control, _) in in_use {
        if !used.contains(&control) {
            let words = maps.controls.words(control as usize);
            write_control(words, &ControlRecord::default());
        }
    }
    Ok(controls)
}

/// Forgets what a control did for another destination.
fn clear(maps: &mut Maps, control: u32) -> Result<(), FilterError> {
    for word in maps.buckets.words(control as usize) {
        word.store(0, Ordering::Relaxed);
    }
    let zeros = vec![ControlCounters::default(); processors()?];
    let zeros = PerCpuValues::try_from(zeros).map_err(FilterError::Processors)?;
    maps.control_counters
        .set(control, zeros, 0)
        .map_err(map_error("write", "CONTROL_COUNTERS"))?;
    Ok(())
}

/// Entries of a per-CPU value.
fn processors() -> Result<usize, FilterError> {
    nr_cpus().map_err(|(_, error)| FilterError::Processors(error))
}

fn write_destinations(
    maps: &mut Maps,
    config: &Config,
    controls: &[u32],
    generation: u32,
) -> Result<(), FilterError> {
    // An interrupted start may have left some.
    remove_destinations(maps, |key| key.generation == generation)?;
    let uri_key = maps
        .keys
        .get(&KEY_URI, 0)
        .map_err(map_error("read", "KEYS"))?;
    for (order, (destination, control)) in (0..).zip(config.destinations.iter().zip(controls)) {
        let key = tables::destination_key(&destination.matches, generation, &uri_key);
        maps.destinations
            .insert(key, destination_value(*control, order), BPF_NOEXIST)
            .map_err(map_error("write", "DESTINATIONS"))?;
    }
    for number in &config.emergency.numbers {
        let key = tables::emergency_key(*number, generation);
        maps.destinations
            .insert(key, 0, BPF_NOEXIST)
            .map_err(map_error("write", "DESTINATIONS"))?;
    }
    Ok(())
}

fn remove_destinations(
    maps: &mut Maps,
    unwanted: impl Fn(&DestinationKey) -> bool,
) -> Result<(), FilterError> {
    let keys: Result<Vec<DestinationKey>, MapError> = maps.destinations.keys().collect();
    let keys = keys.map_err(map_error("read", "DESTINATIONS"))?;
    for key in keys.iter().filter(|key| unwanted(key)) {
        maps.destinations
            .remove(key)
            .map_err(map_error("write", "DESTINATIONS"))?;
    }
    Ok(())
}
