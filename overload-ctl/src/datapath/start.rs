//! Starts an instance: attaches it for the first time, or takes over from an earlier run.

use std::{io, net::Ipv4Addr, os::fd::AsFd, path::Path, sync::atomic::Ordering};

use aya::Ebpf;
use overload_common::abi::{MAX_ADDRESSES, SCHEMA};

use super::{
    apply::{INTERFACE_SLOT, Plan, apply},
    attach::{self, Notice},
    capability,
    filter::{
        Filter, FilterError, HOST_ID_WORD, NamedControl, Owned, SCHEMA_WORD, link_error, random_key,
    },
    interface::{self, AttachMode, Interface},
    link::Link,
    maps::{KEYS, Maps, MapsError, map_error},
    object::{self, Clock, LoadError, LoadOptions},
    pins::{Lock, Pins},
};
use crate::{
    config::{Config, Destination},
    state::State,
};

/// A successful start.
pub struct Started {
    /// The filter.
    pub owned: Owned,
    /// The interface it protects.
    pub interface: Interface,
    /// The addresses it protects.
    pub addresses: Vec<Ipv4Addr>,
    /// Where it runs.
    pub mode: AttachMode,
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

/// What a start came to.
struct Outcome {
    filter: Filter,
    mode: AttachMode,
    controls: Vec<u32>,
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
        let removed = if self.pins.link().exists() {
            self.pins.discard_new_maps()
        } else {
            self.pins.remove_rest()
        };
        if let Err(error) = removed {
            tracing::warn!("after the failed start: {error}");
        }
    }

    /// Loads a filter and puts it on its interface. Everything is in the maps before its first packet.
    /// A filter that an earlier run left there is replaced between two packets; `earlier` is that run's
    /// state.
    pub async fn start(
        self,
        config: &Config,
        earlier: Option<&State>,
    ) -> Result<Started, FilterError> {
        let mut notices = Vec::new();
        let result = async {
            let interface = interface::by_name(&config.interface.name).await?;
            let addresses = addresses(config, &interface)?;
            let plan = Plan {
                config,
                interface: &interface,
                addresses: &addresses,
                earlier,
            };
            let outcome = match earlier_link(&self.pins)? {
                Some(link) => take_over(&plan, &self.pins, link, &mut notices),
                None => attach_first(&plan, &self.pins, &mut notices),
            };
            Ok((outcome?, interface, addresses))
        }
        .await;
        let (outcome, interface, addresses) = match result {
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
                filter: outcome.filter,
                pins: self.pins,
                _lock: self.lock,
            },
            interface,
            addresses,
            mode: outcome.mode,
            controls: config
                .destinations
                .iter()
                .zip(outcome.controls)
                .map(name)
                .collect(),
            notices,
        })
    }
}

fn attach_first(
    plan: &Plan<'_>,
    pins: &Pins,
    notices: &mut Vec<Notice>,
) -> Result<Outcome, FilterError> {
    pins.prepare_new_maps()?;
    let mut ebpf = load(&pins.maps_new())?;
    let mut maps = new_maps(pins)?;
    let controls = apply(&mut maps, plan)?;
    pins.swap_maps()?;
    let program = object::ingress(&mut ebpf)?.fd()?.as_fd();
    let wanted = plan.config.interface.attach;
    let (link, mode) = attach::attach(program, plan.interface, wanted, notices)?;
    link.pin(&pins.link()).map_err(link_error("pin"))?;
    Ok(Outcome {
        filter: Filter { maps, link },
        mode,
        controls,
    })
}

/// Goes on with the maps of the earlier filter if they are of our layout, else replaces them too.
fn take_over(
    plan: &Plan<'_>,
    pins: &Pins,
    link: Link,
    notices: &mut Vec<Notice>,
) -> Result<Outcome, FilterError> {
    let info = link.info().map_err(link_error("look at"))?;
    let mode = attach::check_takeover(info, plan.interface, plan.config.interface.attach)?;
    let interface = plan.interface.name.clone();
    let (maps, controls) = match current_maps(pins) {
        Ok(mut maps) => {
            let mut ebpf = load(&pins.maps())?;
            let controls = apply(&mut maps, plan)?;
            let program = object::ingress(&mut ebpf)?.fd()?.as_fd();
            link.update(program).map_err(link_error("update"))?;
            notices.push(Notice::TookOver(interface));
            (maps, controls)
        }
        Err(reason) => {
            pins.prepare_new_maps()?;
            let mut ebpf = load(&pins.maps_new())?;
            let mut maps = new_maps(pins)?;
            let controls = apply(&mut maps, plan)?;
            let program = object::ingress(&mut ebpf)?.fd()?.as_fd();
            link.update(program).map_err(link_error("update"))?;
            pins.swap_maps()?;
            notices.push(Notice::Replaced {
                interface,
                reason: reason.to_string(),
            });
            (maps, controls)
        }
    };
    Ok(Outcome {
        filter: Filter { maps, link },
        mode,
        controls,
    })
}

/// Loads the program with the maps pinned in a directory; those that are not there are made there.
fn load(directory: &Path) -> Result<Ebpf, LoadError> {
    object::load(&LoadOptions {
        interface_slot: INTERFACE_SLOT,
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

/// The link that an earlier run left; one whose interface is gone is removed.
fn earlier_link(pins: &Pins) -> Result<Option<Link>, FilterError> {
    let link = match Link::open(&pins.link()) {
        Ok(link) => link,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(link_error("open")(source)),
    };
    if link.info().map_err(link_error("look at"))?.ifindex == 0 {
        pins.remove_link()?;
        return Ok(None);
    }
    Ok(Some(link))
}

/// The addresses to protect: those configured, else the interface's own.
fn addresses(config: &Config, interface: &Interface) -> Result<Vec<Ipv4Addr>, FilterError> {
    if !config.interface.addresses.is_empty() {
        return Ok(config.interface.addresses.clone());
    }
    match interface.addresses.len() {
        0 => Err(FilterError::NoAddress(interface.name.clone())),
        found if found > MAX_ADDRESSES => Err(FilterError::TooManyAddresses {
            interface: interface.name.clone(),
            found,
        }),
        _ => Ok(interface.addresses.clone()),
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
