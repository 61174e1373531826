//! A filter instance that is there: watched, changed and ended.

use std::{io, sync::atomic::Ordering};

use aya::programs::{ProgramError, loaded_programs};
use overload_common::abi::{
    InstanceRecord, KEY_TAG_EPOCH_0, KEY_TAG_EPOCH_1, KeyRecord, MAX_ADDRESSES, Mode, SCHEMA,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    apply::INTERFACE_SLOT,
    attach::AttachError,
    capability::{self, MissingCapability},
    counters::Counters,
    interface::{self, AttachMode, Interface, InterfaceError},
    link::Link,
    maps::{Maps, MapsError, map_error},
    object::LoadError,
    pins::{Lock, PinError, Pins, pid_note},
};

/// Words of [`InstanceRecord`].
pub(super) const SCHEMA_WORD: usize = std::mem::offset_of!(InstanceRecord, schema) / 8;
pub(super) const GENERATION_WORD: usize = std::mem::offset_of!(InstanceRecord, generation) / 8;
const KEY_EPOCH_WORD: usize = std::mem::offset_of!(InstanceRecord, key_epoch) / 8;
pub(super) const HOST_ID_WORD: usize = std::mem::offset_of!(InstanceRecord, host_id) / 8;

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
    #[error(
        "a controller of instance {instance} is running{}: stop it first, or let everything pass at once with `overload-ctl bypass on --instance {instance}`", pid_note(*pid)
    )]
    Steered { instance: String, pid: Option<u32> },
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
    #[error("cannot count the processors: {0}")]
    Processors(io::Error),
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
}

/// Tells the tables in force from all others, as long as the kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The kernel's number of map INSTANCE.
    pub filter_id: u32,
    /// Generation of the destination table.
    pub generation: u64,
}

/// Name of a control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedControl {
    /// Its number.
    pub control: u32,
    /// Name of its destination.
    pub name: String,
}

/// A filter instance that is there, whether or not a controller runs.
pub struct Filter {
    pub(super) maps: Maps,
    pub(super) link: Link,
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

    /// Which tables are in force.
    pub fn identity(&self) -> Identity {
        Identity {
            filter_id: self.maps.instance_id,
            generation: self.instance_word(GENERATION_WORD),
        }
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
        let map_ids = loaded_programs()
            .filter_map(Result::ok)
            .find(|p| p.id() == link.program_id)
            .and_then(|p| p.map_ids().ok().flatten());
        if map_ids.is_some_and(|ids| !ids.contains(&self.maps.instance_id)) {
            return Err(Unhealthy::OtherMaps);
        }
        Ok(Attachment {
            interface,
            mode: program.mode,
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
    pub(super) pins: Pins,
    pub(super) _lock: Lock,
}

impl Owned {
    /// Ends the filter: takes it off the interface and removes its pins.
    pub fn remove(self) -> Result<(), PinError> {
        self.pins.remove_link()?;
        drop(self.filter);
        self.pins.remove_rest()
    }
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
        Err(PinError::Locked { instance, pid }) => {
            return Err(FilterError::Steered { instance, pid });
        }
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

pub(super) fn link_error(action: &'static str) -> impl FnOnce(io::Error) -> FilterError {
    move |source| FilterError::Link { action, source }
}

pub(super) fn random_key() -> Result<KeyRecord, getrandom::Error> {
    Ok(KeyRecord {
        k0: getrandom::u64()?,
        k1: getrandom::u64()?,
    })
}
