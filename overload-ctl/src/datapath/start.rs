//! Starts an instance: attaches it for the first time, or takes over from an earlier run. All interfaces
//! or none: what fails leaves everything as it was.

use std::{
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    sync::atomic::Ordering,
};

use aya::Ebpf;
use overload_common::abi::{INTERFACE_SLOTS, InterfaceRecord, SCHEMA};

use super::{
    apply::{Plan, apply},
    attach::Notice,
    capability,
    filter::{
        Attached, Filter, FilterError, HOST_ID_WORD, NamedControl, Owned, SCHEMA_WORD, random_key,
    },
    links::{NewLinks, Place, attach_new, earlier_names, pin, replace, survey},
    maps::{KEYS, Maps, MapsError, map_error},
    object::{self, Clock, LoadError, LoadOptions},
    pins::{Lock, Pins},
    protect::Protected,
    tables, vlan,
};
use crate::{
    config::{Config, Destination},
    state::State,
};

/// A successful start.
pub struct Started {
    /// The filter.
    pub owned: Owned,
    /// Destinations in the order of the configuration.
    pub controls: Vec<NamedControl>,
    /// What the operator should know.
    pub notices: Vec<Notice>,
}

/// The right to start an instance.
pub struct Claim {
    pins: Pins,
    lock: Lock,
}

impl Claim {
    /// Makes sure that nobody else steers the instance.
    pub fn new(instance: &str) -> Result<Self, FilterError> {
        capability::check()?;
        let pins = Pins::of(instance);
        let lock = pins.create()?;
        Ok(Self { pins, lock })
    }

    /// Gives it up: nothing new stays, and a filter from before goes on.
    pub fn abandon(self) {
        let removed = match self.pins.interfaces() {
            Ok(links) if links.is_empty() && !self.pins.single_link().exists() => {
                self.pins.remove_all()
            }
            _ => self.pins.discard_new_maps(),
        };
        if let Err(error) = removed {
            tracing::warn!("after the failed start: {error}");
        }
    }

    /// Loads a filter and puts it on its interfaces. Everything is in the maps before its first packet.
    /// A filter that an earlier run left there is replaced between two packets; `earlier` is that run's
    /// state.
    pub async fn start(
        self,
        config: &Config,
        earlier: Option<&State>,
    ) -> Result<Started, FilterError> {
        let mut notices = Vec::new();
        let result = start(&self.pins, config, earlier, &mut notices).await;
        let (filter, attached, controls) = match result {
            Ok(done) => done,
            Err(error) => {
                self.abandon();
                return Err(error);
            }
        };
        let name = |(destination, control): (&Destination, u32)| NamedControl {
            control,
            name: destination.name.clone(),
        };
        Ok(Started {
            owned: Owned {
                filter,
                attached,
                _lock: self.lock,
            },
            controls: config.destinations.iter().zip(controls).map(name).collect(),
            notices,
        })
    }
}

async fn start(
    pins: &Pins,
    config: &Config,
    earlier: Option<&State>,
    notices: &mut Vec<Notice>,
) -> Result<(Filter, Vec<Attached>, Vec<u32>), FilterError> {
    let (places, released) = survey(pins, config).await?;
    let is_takeover = !released.is_empty() || places.iter().any(|place| place.kept.is_some());
    let names = earlier_names(&places, &released);
    let (maps, why_new) = if is_takeover {
        current_maps(pins).map_or_else(|why| (None, Some(why)), |maps| (Some(maps), None))
    } else {
        (None, None)
    };
    let in_use = maps.as_ref().map(Maps::interface_records).transpose()?;
    let in_use = in_use
        .unwrap_or([InterfaceRecord::default(); INTERFACE_SLOTS])
        .map(|record| record.ifindex);
    let indexes: Vec<u32> = places.iter().map(|place| place.interface.index).collect();
    let slots = tables::assign_slots(&indexes, &in_use);
    let protected: Vec<(u32, Protected)> = slots
        .iter()
        .zip(&places)
        .map(|(slot, place)| (*slot, Protected::new(place.wanted, &place.interface)))
        .collect();
    notices.extend(protected.iter().filter_map(|(_, p)| coverage(p)));
    notices.extend(places.iter().filter_map(|p| vlan::warning(&p.interface)));

    let is_new = maps.is_none();
    let directory = if is_new {
        pins.prepare_new_maps()?;
        pins.maps_new()
    } else {
        pins.maps()
    };
    let mut programs = Vec::new();
    for slot in &slots {
        programs.push(load(&directory, *slot)?);
    }
    let mut fds = Vec::new();
    for ebpf in &mut programs {
        fds.push(object::ingress(ebpf)?.fd()?.as_fd());
    }
    let mut maps = match maps {
        Some(maps) => maps,
        None => new_maps(pins)?,
    };

    let records = pins.lock_records()?;
    let plan = Plan {
        config,
        interfaces: &protected,
        earlier,
    };
    let put = put_on(&mut maps, is_new, &plan, &places, &fds, notices);
    let (controls, new_links) = put.inspect_err(|_| {
        if !is_new {
            clear_others(&mut maps, |slot| in_use[slot as usize] != 0);
        }
    })?;
    if is_new {
        pins.swap_maps()?;
    }
    let links = pin(pins, places, new_links, released, notices)?;
    clear_others(&mut maps, |slot| slots.contains(&slot));
    drop(records);

    match why_new {
        Some(why) => notices.push(Notice::Replaced {
            interface: names,
            reason: why.to_string(),
        }),
        None if is_takeover => notices.push(Notice::TookOver(names)),
        None => {}
    }
    let mut attached = Vec::new();
    let mut named_links = Vec::new();
    for ((link, mode, wanted), (slot, protected)) in links.into_iter().zip(protected) {
        named_links.push((protected.name.clone(), link));
        attached.push(Attached {
            slot,
            wanted,
            protected,
            mode,
        });
    }
    let filter = Filter {
        maps,
        links: named_links,
        pins: pins.clone(),
    };
    Ok((filter, attached, controls))
}

/// What the operator should know of the addresses of an interface.
fn coverage(protected: &Protected) -> Option<Notice> {
    if protected.addresses.is_empty() {
        return Some(Notice::NoAddress(protected.name.clone()));
    }
    (!protected.left_out.is_empty()).then(|| Notice::LeftOut {
        interface: protected.name.clone(),
        addresses: protected.left_out.clone(),
    })
}

/// Puts configuration and programs in force. On maps in use the limits stay until nothing more can be
/// refused by an interface.
fn put_on(
    maps: &mut Maps,
    is_new: bool,
    plan: &Plan<'_>,
    places: &[Place<'_>],
    programs: &[BorrowedFd<'_>],
    notices: &mut Vec<Notice>,
) -> Result<(Vec<u32>, NewLinks), FilterError> {
    let (controls, links) = if is_new {
        let controls = apply(maps, plan)?;
        (controls, attach_new(places, programs, notices)?)
    } else {
        let added = plan.interfaces.iter().zip(places);
        for ((slot, protected), _) in added.filter(|(_, place)| place.kept.is_none()) {
            maps.set_interface(*slot, protected.record(plan.config.mode))?;
        }
        let links = attach_new(places, programs, notices)?;
        (apply(maps, plan)?, links)
    };
    replace(places, programs)?;
    Ok((controls, links))
}

/// Zeroes the records of no interface.
fn clear_others(maps: &mut Maps, is_used: impl Fn(u32) -> bool) {
    for slot in (0..INTERFACE_SLOTS as u32).filter(|slot| !is_used(*slot)) {
        if let Err(error) = maps.set_interface(slot, InterfaceRecord::default()) {
            tracing::warn!("an unused record stays: {error}");
        }
    }
}

/// Loads the program with the maps pinned in a directory; those that are not there are made there.
fn load(directory: &Path, interface_slot: u32) -> Result<Ebpf, LoadError> {
    object::load(&LoadOptions {
        interface_slot,
        clock: Clock::Kernel,
        pinned_maps: Some(directory),
    })
}

/// The maps in use, if they have our layout.
fn current_maps(pins: &Pins) -> Result<Maps, MapsError> {
    let maps = Maps::open(&pins.maps())?;
    let schema = maps.instance.words(0)[SCHEMA_WORD].load(Ordering::Acquire);
    if schema == SCHEMA {
        Ok(maps)
    } else {
        Err(MapsError::Layout {
            what: format!("schema {schema}, not {SCHEMA}"),
        })
    }
}

/// Maps just made, with secrets of their own.
fn new_maps(pins: &Pins) -> Result<Maps, FilterError> {
    let mut maps = Maps::open(&pins.maps_new())?;
    for index in 0..KEYS {
        maps.keys
            .set(index, random_key()?, 0)
            .map_err(map_error("write", "KEYS"))?;
    }
    let host_id = getrandom::u64()?;
    maps.instance.words(0)[HOST_ID_WORD].store(host_id, Ordering::Release);
    Ok(maps)
}
