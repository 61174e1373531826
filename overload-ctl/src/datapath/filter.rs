//! A filter instance: started, watched, changed and ended.

use std::{io, net::Ipv4Addr, os::fd::AsFd, sync::atomic::Ordering, time::SystemTime};

use aya::programs::{ProgramError, loaded_programs};
use overload_common::abi::{
    InstanceRecord, KEY_TAG_EPOCH_0, KEY_TAG_EPOCH_1, KEY_URI, KeyRecord, MAX_ADDRESSES, Mode,
    SCHEMA,
};
use thiserror::Error;

use super::{
    attach::{self, AttachError, Notice},
    capability::{self, MissingCapability},
    counters::Counters,
    interface::{self, AttachMode, Interface, InterfaceError},
    link::Link,
    mapped::write_control,
    maps::{KEYS, Maps, MapsError, map_error},
    object::{self, Clock, LoadError, LoadOptions},
    pins::{Lock, PinError, Pins},
    tables,
};
use crate::config::Config;

/// Entry of the one interface of an instance.
const INTERFACE_SLOT: u32 = 0;
/// Generation of a new instance's destinations; 0 is that of an empty table.
const FIRST_GENERATION: u32 = 1;
/// `BPF_NOEXIST`: two hosts with one hash must not pass unseen.
const BPF_NOEXIST: u64 = 1;

/// Words of [`InstanceRecord`].
const SCHEMA_WORD: usize = std::mem::offset_of!(InstanceRecord, schema) / 8;
const GENERATION_WORD: usize = std::mem::offset_of!(InstanceRecord, generation) / 8;
const KEY_EPOCH_WORD: usize = std::mem::offset_of!(InstanceRecord, key_epoch) / 8;
const HOST_ID_WORD: usize = std::mem::offset_of!(InstanceRecord, host_id) / 8;

/// Why a filter cannot be started, read or changed.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each passes on the error of its name")]
pub enum FilterError {
    #[error(transparent)]
    Capability(#[from] MissingCapability),
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Maps(#[from] MapsError),
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error(
        "interface {0} has no IPv4 address to protect; give it one, or write addresses under [interface]"
    )]
    NoAddress(String),
    #[error(
        "interface {interface} has {found} IPv4 addresses, more than the {MAX_ADDRESSES} that can be protected; write those that callers send to under [interface] as addresses"
    )]
    TooManyAddresses { interface: String, found: usize },
    #[error("cannot {action} the pinned link: {source}")]
    Link {
        action: &'static str,
        source: io::Error,
    },
    #[error("the filter program has no descriptor: {0}")]
    Program(#[from] ProgramError),
    #[error("the kernel gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

/// Why a filter that is there does not work.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Unhealthy {
    #[error("the program is no longer on its interface")]
    Detached,
    #[error(
        "interface number {0} of this network namespace does not carry the program; run this in the namespace of the protected interface"
    )]
    NotOnInterface(u32),
    #[error("the maps have schema {0}, not {SCHEMA}")]
    Schema(u64),
    #[error(
        "the program on the interface uses other maps than those pinned; start `overload-ctl run` again"
    )]
    OtherMaps,
    #[error("cannot ask the kernel about the link: {0}")]
    Link(#[from] io::Error),
    #[error(transparent)]
    Interface(#[from] InterfaceError),
}

/// Where a working filter is.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// The interface.
    pub interface: Interface,
    /// Where the program runs.
    pub mode: AttachMode,
    /// Since when the program is loaded; `None` when the kernel does not tell.
    pub since: Option<SystemTime>,
}

/// A filter instance that is there, whether or not a controller runs.
pub struct Filter {
    maps: Maps,
    link: Link,
}

impl Filter {
    /// Opens the pins of an instance.
    pub fn open(instance: &str) -> Result<Self, FilterError> {
        capability::check()?;
        let pins = Pins::of(instance);
        pins.check()?;
        let link = match Link::open(&pins.link()) {
            Ok(link) => link,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(PinError::Absent(instance.to_owned()).into());
            }
            Err(source) => return Err(link_error("open")(source)),
        };
        let maps = Maps::open(&pins.maps())?;
        Ok(Self { maps, link })
    }

    /// The kernel's number of map INSTANCE, which tells this start of the instance from others.
    pub fn id(&self) -> u32 {
        self.maps.instance_id
    }

    /// What was counted.
    pub fn counters(&self) -> Result<Counters, MapsError> {
        Counters::read(&self.maps)
    }

    /// Where the filter is, or why it does not work.
    pub async fn attachment(&self) -> Result<Attachment, Unhealthy> {
        let schema = self.instance_word(SCHEMA_WORD);
        if schema != SCHEMA {
            return Err(Unhealthy::Schema(schema));
        }
        let link = self.link.info()?;
        if link.ifindex == 0 {
            return Err(Unhealthy::Detached);
        }
        let interface = interface::by_index(link.ifindex).await?;
        let Some(program) = interface.program.filter(|p| p.id == link.program_id) else {
            return Err(Unhealthy::NotOnInterface(interface.index));
        };
        let info = loaded_programs()
            .filter_map(Result::ok)
            .find(|p| p.id() == link.program_id);
        let map_ids = info.as_ref().and_then(|p| p.map_ids().ok().flatten());
        if map_ids.is_some_and(|ids| !ids.contains(&self.maps.instance_id)) {
            return Err(Unhealthy::OtherMaps);
        }
        Ok(Attachment {
            interface,
            mode: program.mode,
            since: info.and_then(|p| p.loaded_at()),
        })
    }

    /// Changes what is done with verdicts, from the next packet on.
    pub fn set_mode(&mut self, mode: Mode) -> Result<(), MapsError> {
        let interfaces = &mut self.maps.interfaces;
        let mut record = interfaces
            .get(&INTERFACE_SLOT, 0)
            .map_err(map_error("read", "INTERFACES"))?;
        record.mode = mode as u32;
        interfaces
            .set(INTERFACE_SLOT, record, 0)
            .map_err(map_error("write", "INTERFACES"))
    }

    /// Makes a new tag key and lets new tags use it. The key before the last one is forgotten, so calls
    /// must be further apart than tags are remembered: 64 s.
    pub fn rotate_key(&mut self) -> Result<(), FilterError> {
        let (epoch, key) = if self.instance_word(KEY_EPOCH_WORD) == 0 {
            (1, KEY_TAG_EPOCH_1)
        } else {
            (0, KEY_TAG_EPOCH_0)
        };
        self.maps
            .keys
            .set(key, random_key()?, 0)
            .map_err(map_error("write", "KEYS"))?;
        self.set_instance_word(KEY_EPOCH_WORD, epoch);
        Ok(())
    }

    fn instance_word(&self, word: usize) -> u64 {
        self.maps.instance.words(0)[word].load(Ordering::Acquire)
    }

    fn set_instance_word(&self, word: usize, value: u64) {
        self.maps.instance.words(0)[word].store(value, Ordering::Release);
    }
}

/// A filter with the right to change and end it.
pub struct Owned {
    /// The filter.
    pub filter: Filter,
    pins: Pins,
    _lock: Lock,
}

impl Owned {
    /// Ends the filter: takes it off the interface and removes its pins.
    pub fn remove(self) -> Result<(), PinError> {
        self.pins.remove_link()?;
        drop(self.filter);
        self.pins.remove_rest()
    }
}

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
    /// What the operator should know.
    pub notices: Vec<Notice>,
}

/// Loads a filter and puts it on its interface. Everything is in the maps before the first packet is
/// seen. A filter that an earlier run left there is replaced between two packets.
pub async fn start(config: &Config) -> Result<Started, FilterError> {
    capability::check()?;
    let interface = interface::by_name(&config.interface.name).await?;
    let addresses = addresses(config, &interface)?;
    let pins = Pins::of(&config.instance);
    let lock = pins.create()?;
    let mut notices = Vec::new();
    let result = replace_or_attach(config, &interface, &addresses, &pins, &mut notices);
    let (filter, mode) = match result {
        Ok(done) => done,
        Err(error) => {
            undo(&pins);
            return Err(error);
        }
    };
    let owned = Owned {
        filter,
        pins,
        _lock: lock,
    };
    Ok(Started {
        owned,
        interface,
        addresses,
        mode,
        notices,
    })
}

/// After a failed start: nothing new stays, and a filter from before goes on.
fn undo(pins: &Pins) {
    let removed = if pins.link().exists() {
        pins.discard_new_maps()
    } else {
        pins.remove_rest()
    };
    if let Err(error) = removed {
        tracing::warn!("after the failed start: {error}");
    }
}

fn replace_or_attach(
    config: &Config,
    interface: &Interface,
    addresses: &[Ipv4Addr],
    pins: &Pins,
    notices: &mut Vec<Notice>,
) -> Result<(Filter, AttachMode), FilterError> {
    let (earlier, secrets) = match earlier_link(pins)? {
        Some(link) => {
            let info = link.info().map_err(link_error("look at"))?;
            let mode = attach::check_takeover(info, interface, config.interface.attach)?;
            (Some((link, mode)), Secrets::earlier(pins, notices)?)
        }
        None => (None, Secrets::random()?),
    };

    pins.prepare_new_maps()?;
    let directory = pins.maps_new();
    let mut ebpf = object::load(&LoadOptions {
        interface_slot: INTERFACE_SLOT,
        clock: Clock::Kernel,
        pinned_maps: Some(&directory),
    })?;
    let mut maps = Maps::open(&directory)?;
    fill(&mut maps, config, interface, addresses, &secrets)?;

    let program = object::ingress(&mut ebpf)?.fd()?.as_fd();
    let (link, mode) = if let Some((link, mode)) = earlier {
        link.update(program).map_err(link_error("update"))?;
        pins.swap_maps()?;
        notices.push(Notice::TookOver {
            interface: interface.name.clone(),
        });
        (link, mode)
    } else {
        pins.swap_maps()?;
        let wanted = config.interface.attach;
        let (link, mode) = attach::attach(program, interface, wanted, notices)?;
        link.pin(&pins.link()).map_err(link_error("pin"))?;
        (link, mode)
    };
    Ok((Filter { maps, link }, mode))
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

fn link_error(action: &'static str) -> impl FnOnce(io::Error) -> FilterError {
    move |source| FilterError::Link { action, source }
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

/// Writes everything that packets depend on; the schema word last.
fn fill(
    maps: &mut Maps,
    config: &Config,
    interface: &Interface,
    addresses: &[Ipv4Addr],
    secrets: &Secrets,
) -> Result<(), FilterError> {
    for (index, key) in (0..).zip(&secrets.keys) {
        maps.keys
            .set(index, key, 0)
            .map_err(map_error("write", "KEYS"))?;
    }
    let record = tables::interface_record(interface, addresses, config.mode);
    maps.interfaces
        .set(INTERFACE_SLOT, record, 0)
        .map_err(map_error("write", "INTERFACES"))?;
    for (index, word) in (0..).zip(tables::port_bitmap(&config.interface.ports)) {
        if word != 0 {
            maps.ports
                .set(index, word, 0)
                .map_err(map_error("write", "PORTS"))?;
        }
    }
    for (index, destination) in config.destinations.iter().enumerate() {
        let record = tables::control_record(destination.limit, FIRST_GENERATION);
        write_control(maps.controls.words(index), &record);
    }
    let uri_key = &secrets.keys[KEY_URI as usize];
    let entries = tables::destination_entries(&config.destinations, FIRST_GENERATION, uri_key);
    for (key, control) in entries {
        maps.destinations
            .insert(key, control, BPF_NOEXIST)
            .map_err(map_error("write", "DESTINATIONS"))?;
    }
    let words = maps.instance.words(0);
    for (word, value) in [
        (HOST_ID_WORD, secrets.host_id),
        (KEY_EPOCH_WORD, secrets.key_epoch),
        (GENERATION_WORD, u64::from(FIRST_GENERATION)),
        (SCHEMA_WORD, SCHEMA),
    ] {
        words[word].store(value, Ordering::Release);
    }
    Ok(())
}

/// What outsiders must not know.
struct Secrets {
    keys: [KeyRecord; KEYS as usize],
    key_epoch: u64,
    host_id: u64,
}

impl Secrets {
    fn random() -> Result<Self, FilterError> {
        Ok(Self {
            keys: [random_key()?, random_key()?, random_key()?, random_key()?],
            key_epoch: 0,
            host_id: getrandom::u64()?,
        })
    }

    /// Those of the filter that is about to be replaced, so that ACKs to its refusals are still known.
    fn earlier(pins: &Pins, notices: &mut Vec<Notice>) -> Result<Self, FilterError> {
        let read = Maps::open(&pins.maps()).and_then(|maps| Self::of(&maps));
        match read {
            Ok(secrets) => Ok(secrets),
            Err(error) => {
                notices.push(Notice::KeysLost {
                    reason: error.to_string(),
                });
                Self::random()
            }
        }
    }

    fn of(maps: &Maps) -> Result<Self, MapsError> {
        let words = maps.instance.words(0);
        let word = |index: usize| words[index].load(Ordering::Acquire);
        if word(SCHEMA_WORD) != SCHEMA {
            return Err(MapsError::Layout {
                what: format!("schema {}, not {SCHEMA}", word(SCHEMA_WORD)),
            });
        }
        let mut keys = [KeyRecord::default(); KEYS as usize];
        for (index, key) in (0..).zip(&mut keys) {
            *key = maps
                .keys
                .get(&index, 0)
                .map_err(map_error("read", "KEYS"))?;
        }
        Ok(Self {
            keys,
            key_epoch: word(KEY_EPOCH_WORD),
            host_id: word(HOST_ID_WORD),
        })
    }
}

fn random_key() -> Result<KeyRecord, getrandom::Error> {
    Ok(KeyRecord {
        k0: getrandom::u64()?,
        k1: getrandom::u64()?,
    })
}

/// What was there to remove.
#[derive(Debug, PartialEq, Eq)]
pub enum Removed {
    /// Nothing: there is no such instance.
    Nothing,
    /// Files of a filter that was on no interface any more.
    Remains,
    /// A filter that was on the interface with this number.
    Filter(u32),
}

/// Ends an instance that no controller steers, however much of it is left.
pub fn remove(instance: &str) -> Result<Removed, FilterError> {
    capability::check()?;
    let pins = Pins::of(instance);
    let _lock = match pins.lock() {
        Ok(lock) => lock,
        Err(PinError::Absent(_)) => return Ok(Removed::Nothing),
        Err(error) => return Err(error.into()),
    };
    // Holding the link makes its removal take effect before this function ends.
    let link = Link::open(&pins.link()).ok();
    let info = link.as_ref().and_then(|link| link.info().ok());
    pins.remove_link()?;
    drop(link);
    pins.remove_rest()?;
    Ok(match info {
        Some(info) if info.ifindex != 0 => Removed::Filter(info.ifindex),
        _ => Removed::Remains,
    })
}
