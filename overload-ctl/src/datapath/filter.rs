//! A filter instance that is there: watched, changed and ended.

use std::{io, net::IpAddr, sync::atomic::Ordering};

use aya::programs::ProgramError;
use overload_common::abi::{
    InstanceRecord, KEY_TAG_EPOCH_0, KEY_TAG_EPOCH_1, KeyRecord, Mode, SCHEMA,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    attach::{AttachError, program_info},
    capability::{self, MissingCapability},
    counters::Counters,
    interface::{self, AttachMode, InterfaceError},
    link::Link,
    maps::{Maps, MapsError, map_error},
    object::LoadError,
    pins::{Lock, PinError, Pins, pid_note},
    protect::{Protected, addresses_of},
};
use crate::config;

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
    #[error("interface {other} is {interface} under another name; write one [[interface]] for it")]
    SameInterface { interface: String, other: String },
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

/// Why a filter that is there does not work on an interface.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Unhealthy {
    #[error("the program is no longer on interface {0}")]
    Detached(String),
    #[error(
        "{name} (number {index}) of this network namespace does not carry the program; run this in the namespace of the protected interface"
    )]
    NotOnInterface { name: String, index: u32 },
    #[error("the maps have schema {0}, not {SCHEMA}")]
    Schema(u64),
    #[error("the program on {0} uses other maps than those pinned; start `overload-ctl run` again")]
    OtherMaps(String),
    #[error("cannot ask the kernel about the link to {name}: {source}")]
    Link { name: String, source: io::Error },
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    #[error(transparent)]
    Maps(#[from] MapsError),
}

/// One interface of an instance.
#[derive(Debug)]
pub struct Attachment {
    /// Its name; the one it had when the filter was attached, when it is not found now.
    pub name: String,
    /// Where the program runs and what it protects, or why the filter does not work there.
    pub state: Result<Working, Unhealthy>,
}

/// The filter on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Working {
    /// Where the program runs.
    pub mode: AttachMode,
    /// What it protects.
    pub addresses: Vec<IpAddr>,
}

/// What is wrong, each thing once: most are about one interface, some about all.
pub fn faults(attachments: &[Attachment]) -> Option<String> {
    let mut faults: Vec<String> = attachments
        .iter()
        .filter_map(|attachment| attachment.state.as_ref().err().map(ToString::to_string))
        .collect();
    faults.dedup();
    (!faults.is_empty()).then(|| faults.join("; "))
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
    /// By interface name.
    pub(super) links: Vec<(String, Link)>,
    pub(super) pins: Pins,
}

impl Filter {
    /// Opens the pins of an instance.
    pub fn open(instance: &str) -> Result<Self, FilterError> {
        capability::check()?;
        let pins = Pins::of(instance);
        pins.check()?;
        let mut links = Vec::new();
        for name in pins.interfaces()? {
            let link = Link::open(&pins.link(&name)).map_err(link_error("open"))?;
            links.push((name, link));
        }
        if links.is_empty() {
            return Err(PinError::Absent(instance.to_owned()).into());
        }
        let maps = Maps::open(&pins.maps())?;
        Ok(Self { maps, links, pins })
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

    /// Each interface, and whether the filter works there.
    pub async fn attachments(&self) -> Vec<Attachment> {
        let mut attachments = Vec::new();
        for (name, link) in &self.links {
            let mut name = name.clone();
            let state = self.working(&mut name, link).await;
            attachments.push(Attachment { name, state });
        }
        attachments
    }

    /// Corrects the name to the present one.
    async fn working(&self, name: &mut String, link: &Link) -> Result<Working, Unhealthy> {
        let schema = self.instance_word(SCHEMA_WORD);
        if schema != SCHEMA {
            return Err(Unhealthy::Schema(schema));
        }
        let link = link.info().map_err(|source| Unhealthy::Link {
            name: name.clone(),
            source,
        })?;
        if link.ifindex == 0 {
            return Err(Unhealthy::Detached(name.clone()));
        }
        let interface = interface::by_index(link.ifindex).await?;
        let (index, program) = (interface.index, interface.program);
        *name = interface.name;
        let Some(program) = program.filter(|p| p.id == link.program_id) else {
            let name = name.clone();
            return Err(Unhealthy::NotOnInterface { name, index });
        };
        let map_ids = program_info(link.program_id).and_then(|p| p.map_ids().ok().flatten());
        if map_ids.is_some_and(|ids| !ids.contains(&self.maps.instance_id)) {
            return Err(Unhealthy::OtherMaps(name.clone()));
        }
        let records = self.maps.interface_records()?;
        let record = records.iter().find(|record| record.ifindex == index);
        Ok(Working {
            mode: program.mode,
            addresses: record.map(addresses_of).unwrap_or_default(),
        })
    }

    /// Changes what is done with verdicts, from the next packet on.
    pub fn set_mode(&mut self, mode: Mode) -> Result<(), FilterError> {
        let _records = self.pins.lock_records()?;
        for (slot, mut record) in (0..).zip(self.maps.interface_records()?) {
            if record.ifindex != 0 {
                record.mode = mode as u32;
                self.maps.set_interface(slot, record)?;
            }
        }
        Ok(())
    }

    /// Changes what is protected on an interface, from the next packet on.
    pub(super) fn protect(&mut self, slot: u32, protected: &Protected) -> Result<(), FilterError> {
        let _records = self.pins.lock_records()?;
        let mode = self.maps.interface_record(slot)?.mode;
        let record = protected.record(Mode::from_raw(mode));
        Ok(self.maps.set_interface(slot, record)?)
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
    /// Its interfaces, in the order of the configuration.
    pub attached: Vec<Attached>,
    pub(super) _lock: Lock,
}

/// An interface of a running controller.
#[derive(Clone, Debug)]
pub struct Attached {
    /// Its entry of map INTERFACES.
    pub(super) slot: u32,
    /// What is configured for it.
    pub(super) wanted: config::Interface,
    /// What is protected there.
    pub protected: Protected,
    /// Where the program runs.
    pub mode: AttachMode,
}

impl Owned {
    /// Ends the filter: takes it off its interfaces and removes its pins.
    pub fn remove(self) -> Result<(), PinError> {
        let pins = self.filter.pins.clone();
        drop(self.filter);
        pins.remove_all()
    }
}

/// What was there to remove.
#[derive(Debug, PartialEq, Eq)]
pub enum Removed {
    /// Nothing: there is no such instance.
    Nothing,
    /// Files of a filter that was on no interface any more.
    Remains,
    /// A filter that was on these interfaces.
    Filter(Vec<String>),
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
    let mut links = Vec::new();
    for name in pins.interfaces()? {
        let Ok(link) = Link::open(&pins.link(&name)) else {
            continue;
        };
        if link.info().is_ok_and(|info| info.ifindex != 0) {
            links.push((name, link));
        }
    }
    pins.remove_all()?;
    // The last holders: the program is off when this returns.
    let names: Vec<String> = links.into_iter().map(|(name, _link)| name).collect();
    Ok(if names.is_empty() {
        Removed::Remains
    } else {
        Removed::Filter(names)
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
