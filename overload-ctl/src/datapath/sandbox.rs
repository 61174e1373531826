//! Runs packets through the real program on private maps, attached to nothing, with a clock of its own.

use std::{
    net::IpAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aya::{
    Ebpf, Pod,
    maps::{Array, HashMap, LpmTrie, MapData, MapError, PerCpuArray, lpm_trie::Key},
    programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp},
};
use overload_common::{
    abi::{
        ADMITTED_WAYS, AdmittedSlot, ControlCounters, ControlRecord, DestinationKey, Event,
        InstanceRecord, InterfaceRecord, KEY_URI, KeyRecord, LOOKUP_EMERGENCY,
        LOOKUP_PREFIXES_SHIFT, LOOKUP_SOURCES, MAX_ADDRESSES, MAX_MACS, METHOD_CLASSES_DEFAULT,
        MemoryBucket, Mode, PORT_WORDS, Reason, ReasonCounter, SCHEMA, SCOPE_DEFAULT,
        SCOPE_EMERGENCY, SCOPE_GLOBAL_PREFIX, SCOPE_HOST, SCOPE_LOCAL_PREFIX, SourceAddress,
        destination_value,
    },
    hash::siphash13,
    sip::{Number, canonical_host, host_key},
};

use super::object::{self, Clock, INGRESS, LoadError, LoadOptions, OBJECT, PASS};

/// What the program did with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Handed to the host.
    Pass,
    /// Taken off the wire.
    Drop,
    /// Sent back, rewritten.
    Transmit,
    /// Anything else: the program failed.
    Other(u32),
}

/// Result of one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What happened to it.
    pub action: Action,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// The reasons counted for it: exactly one, with `true` when only in shadow mode.
    pub reasons: Vec<(Reason, bool)>,
}

/// Why a sandbox could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The program could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A map could not be read or written.
    #[error("map {name}: {source}")]
    Map {
        /// The map.
        name: &'static str,
        /// What the kernel said.
        source: MapError,
    },
    /// The kernel refused to run the program.
    #[error("test run: {0}")]
    Run(#[from] ProgramError),
}

/// Addresses, port and MAC that the sandbox protects.
#[derive(Clone, Debug)]
pub struct Protected {
    /// The host's addresses, at most [`MAX_ADDRESSES`].
    pub addresses: Vec<IpAddr>,
    /// The host's port.
    pub port: u16,
    /// The host's MAC address.
    pub mac: [u8; 6],
    /// What to do with verdicts.
    pub mode: Mode,
    /// Largest frame that may leave, bytes.
    pub max_frame: u32,
}

/// What a new sandbox has: nothing to look up, no reserved share, replies without end.
const NEW: InstanceRecord = InstanceRecord {
    schema: SCHEMA,
    generation: 1,
    key_epoch: 0,
    host_id: 0,
    map_clock_ns: 3_600_000_000_000,
    lookups: 0,
    method_classes: METHOD_CLASSES_DEFAULT,
    reply_period_ticks: 1,
    reply_tolerance_ticks: u64::MAX,
    emergency_period_ticks: 0,
    emergency_tolerance_ticks: 0,
    reserved: [0; 5],
};

/// The real program on private maps.
pub struct Sandbox {
    ebpf: Ebpf,
    instance: InstanceRecord,
    uri_key: KeyRecord,
    /// Destinations installed so far.
    order: u32,
}

impl Sandbox {
    /// Loads the program with the map clock at one hour, protecting `protected`, without any control.
    pub fn new(protected: &Protected) -> Result<Self, SandboxError> {
        Self::of_object(OBJECT, protected)
    }

    /// The same of another build of the filter.
    pub fn of_object(object: &[u8], protected: &Protected) -> Result<Self, SandboxError> {
        let options = LoadOptions {
            interface_slot: 0,
            clock: Clock::Map,
            pinned_maps: None,
        };
        let mut ebpf = object::load_object(object, &options)?;
        pass_program(&mut ebpf)?.load()?;
        Self::from_ebpf(ebpf, protected)
    }

    /// The same of another object that has the filter's maps, its programs loaded by the caller.
    pub fn from_ebpf(ebpf: Ebpf, protected: &Protected) -> Result<Self, SandboxError> {
        let seed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO)
            .as_nanos() as u64;
        let mut sandbox = Self {
            ebpf,
            instance: InstanceRecord {
                host_id: seed,
                ..NEW
            },
            uri_key: key(seed, KEY_URI),
            order: 0,
        };
        for index in 0..KEY_URI {
            sandbox.set("KEYS", index, key(seed, index))?;
        }
        sandbox.set("KEYS", KEY_URI, sandbox.uri_key)?;
        sandbox.set("INSTANCE", 0, sandbox.instance)?;
        sandbox.protect(protected)?;
        Ok(sandbox)
    }

    /// Changes what is protected.
    pub fn protect(&mut self, protected: &Protected) -> Result<(), SandboxError> {
        let mut addresses = [[0; 16]; MAX_ADDRESSES];
        for (slot, address) in addresses.iter_mut().zip(&protected.addresses) {
            *slot = match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
        }
        let mut mac = [0; 8];
        mac[..6].copy_from_slice(&protected.mac);
        let record = InterfaceRecord {
            mode: protected.mode as u32,
            address_count: protected.addresses.len().min(MAX_ADDRESSES) as u32,
            addresses,
            macs: [u64::from_le_bytes(mac); MAX_MACS],
            max_frame: protected.max_frame,
            ifindex: 0,
        };
        self.set("INTERFACES", 0, record)?;
        for word in 0..PORT_WORDS as u32 {
            let port = u32::from(protected.port);
            let bits = if port / 64 == word {
                1u64 << (port % 64)
            } else {
                0
            };
            self.set("PORTS", word, bits)?;
        }
        Ok(())
    }

    /// Installs a control for a host, or for what nothing else matches.
    pub fn control(
        &mut self,
        index: u32,
        host: Option<&str>,
        record: ControlRecord,
    ) -> Result<(), SandboxError> {
        self.set("CONTROLS", index, record)?;
        let generation = self.instance.generation as u32;
        let key = match host {
            Some(host) => DestinationKey {
                generation,
                scope: SCOPE_HOST,
                hash: host_key(self.uri_key.k0, self.uri_key.k1, &canonical_host(host)),
            },
            None => DestinationKey {
                generation,
                scope: SCOPE_DEFAULT,
                hash: 0,
            },
        };
        self.destination(key, destination_value(index, self.order))
    }

    /// Installs a control for called numbers that begin like this one.
    pub fn control_prefix(
        &mut self,
        index: u32,
        prefix: Number,
        record: ControlRecord,
    ) -> Result<(), SandboxError> {
        self.set("CONTROLS", index, record)?;
        let scope = if prefix.global {
            SCOPE_GLOBAL_PREFIX
        } else {
            SCOPE_LOCAL_PREFIX
        };
        self.number(prefix, scope, index)?;
        self.instance.lookups |= 1 << (LOOKUP_PREFIXES_SHIFT + prefix.count() - 1);
        self.set("INSTANCE", 0, self.instance)
    }

    /// Makes a number an emergency number.
    pub fn emergency_number(&mut self, number: Number) -> Result<(), SandboxError> {
        self.number(number, SCOPE_EMERGENCY, 0)?;
        self.instance.lookups |= LOOKUP_EMERGENCY;
        self.set("INSTANCE", 0, self.instance)
    }

    fn number(&mut self, number: Number, scope: u32, index: u32) -> Result<(), SandboxError> {
        let key = DestinationKey {
            generation: self.instance.generation as u32,
            scope,
            hash: number.digits,
        };
        self.destination(key, destination_value(index, self.order))
    }

    /// Each destination comes after those installed before it.
    fn destination(&mut self, key: DestinationKey, value: u64) -> Result<(), SandboxError> {
        self.order += 1;
        let name = "DESTINATIONS";
        let map = self.ebpf.map_mut(name).ok_or(LoadError::Missing(name))?;
        let mut map: HashMap<&mut MapData, DestinationKey, u64> = map
            .try_into()
            .map_err(|source| SandboxError::Map { name, source })?;
        map.insert(key, value, 0)
            .map_err(|source| SandboxError::Map { name, source })
    }

    /// Says what is known of the sources under a prefix, `length` bits of the address.
    pub fn source(&mut self, prefix: IpAddr, length: u32, flags: u32) -> Result<(), SandboxError> {
        let (address, offset) = match prefix {
            IpAddr::V4(address) => (address.to_ipv6_mapped(), 96),
            IpAddr::V6(address) => (address, 0),
        };
        let source = SourceAddress {
            generation: (self.instance.generation as u32).to_be_bytes(),
            address: address.octets(),
        };
        let name = "SOURCES";
        let map = self.ebpf.map_mut(name).ok_or(LoadError::Missing(name))?;
        let mut map: LpmTrie<&mut MapData, SourceAddress, u32> = map
            .try_into()
            .map_err(|source| SandboxError::Map { name, source })?;
        let length = SourceAddress::GENERATION_BITS + offset + length;
        map.insert(&Key::new(length, source), flags, 0)
            .map_err(|source| SandboxError::Map { name, source })?;
        self.instance.lookups |= LOOKUP_SOURCES;
        self.set("INSTANCE", 0, self.instance)
    }

    /// Changes what holds for the whole instance.
    pub fn settings(
        &mut self,
        change: impl FnOnce(&mut InstanceRecord),
    ) -> Result<(), SandboxError> {
        change(&mut self.instance);
        self.set("INSTANCE", 0, self.instance)
    }

    /// Begins a generation without controls and sources, all settings as new.
    pub fn clear_controls(&mut self) -> Result<(), SandboxError> {
        self.instance = InstanceRecord {
            generation: self.instance.generation + 1,
            key_epoch: self.instance.key_epoch,
            host_id: self.instance.host_id,
            map_clock_ns: self.instance.map_clock_ns,
            ..NEW
        };
        self.set("INSTANCE", 0, self.instance)
    }

    /// Moves the map clock, ns.
    pub fn set_clock(&mut self, now_ns: u64) -> Result<(), SandboxError> {
        self.instance.map_clock_ns = now_ns;
        self.set("INSTANCE", 0, self.instance)
    }

    /// The map clock, ns.
    pub fn clock(&self) -> u64 {
        self.instance.map_clock_ns
    }

    /// Makes `epoch` the key epoch of new tags.
    pub fn set_key_epoch(&mut self, epoch: u64) -> Result<(), SandboxError> {
        self.instance.key_epoch = epoch;
        self.set("INSTANCE", 0, self.instance)
    }

    /// Runs one frame.
    pub fn run(&mut self, frame: &[u8]) -> Result<Outcome, SandboxError> {
        let before = self.reasons()?;
        let mut out = vec![0; frame.len() + 512];
        let result = object::ingress(&mut self.ebpf)?.test_run(TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ..TestRunOptions::new()
        })?;
        out.truncate(result.data_size_out as usize);
        let after = self.reasons()?;
        let mut reasons = Vec::new();
        for ((reason, before), after) in Reason::ALL.iter().zip(&before).zip(&after) {
            reasons.extend((before.enforced..after.enforced).map(|_| (*reason, false)));
            reasons.extend((before.shadow..after.shadow).map(|_| (*reason, true)));
        }
        let action = match result.return_value {
            1 => Action::Drop,
            2 => Action::Pass,
            3 => Action::Transmit,
            other => Action::Other(other),
        };
        Ok(Outcome {
            action,
            frame: out,
            reasons,
        })
    }

    /// Mean time of the program over `repeat` runs of one frame. A program that rewrites the frame sees
    /// its own output from the second run on: use 1 there.
    pub fn time(&mut self, frame: &[u8], repeat: u32) -> Result<Duration, SandboxError> {
        time(object::ingress(&mut self.ebpf)?, frame, repeat)
    }

    /// The same of the program that passes everything.
    pub fn time_empty(&mut self, frame: &[u8], repeat: u32) -> Result<Duration, SandboxError> {
        time(pass_program(&mut self.ebpf)?, frame, repeat)
    }

    /// Sends `repeat` real frames through the driver path of the kernel; replies leave by the interface
    /// with this index.
    pub fn run_live(
        &mut self,
        frame: &[u8],
        repeat: u32,
        ifindex: u32,
    ) -> Result<(), SandboxError> {
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
        let mut context = [0u8; 24];
        context[4..8].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        context[12..16].copy_from_slice(&ifindex.to_ne_bytes());
        object::ingress(&mut self.ebpf)?.test_run(TestRunOptions {
            data_in: Some(frame),
            ctx_in: Some(&context),
            repeat,
            attrs: TestRunAttrs::new().xdp_live_frames(64),
            ..TestRunOptions::new()
        })?;
        Ok(())
    }

    /// Instructions the verifier looked at; `None` when the kernel does not tell.
    pub fn verified_instructions(&mut self) -> Option<u32> {
        let program = self.ebpf.program(INGRESS)?;
        program.info().ok()?.verified_instruction_count()
    }

    /// A program of the object, to be run or attached by the caller.
    pub fn program(&mut self, name: &'static str) -> Result<&mut Xdp, SandboxError> {
        let program = self
            .ebpf
            .program_mut(name)
            .ok_or(LoadError::Missing(name))?;
        Ok(program.try_into()?)
    }

    /// Counters by reason, summed over CPUs, in the order of [`Reason::ALL`].
    pub fn reasons(&self) -> Result<Vec<ReasonCounter>, SandboxError> {
        Reason::ALL
            .iter()
            .map(|reason| {
                let per_cpu: Vec<ReasonCounter> = self.per_cpu("REASONS", *reason as u32)?;
                Ok(per_cpu
                    .iter()
                    .fold(ReasonCounter::default(), |sum, one| ReasonCounter {
                        enforced: sum.enforced + one.enforced,
                        shadow: sum.shadow + one.shadow,
                    }))
            })
            .collect()
    }

    /// Counter of one reason, enforced and shadow together.
    pub fn reason(&self, reason: Reason) -> Result<u64, SandboxError> {
        Ok(self
            .per_cpu::<ReasonCounter>("REASONS", reason as u32)?
            .iter()
            .map(|counter| counter.enforced + counter.shadow)
            .sum())
    }

    /// Counter of one event.
    pub fn event(&self, event: Event) -> Result<u64, SandboxError> {
        Ok(self.per_cpu::<u64>("EVENTS", event as u32)?.iter().sum())
    }

    /// Counters of one control.
    pub fn control_counters(&self, index: u32) -> Result<ControlCounters, SandboxError> {
        let per_cpu: Vec<ControlCounters> = self.per_cpu("CONTROL_COUNTERS", index)?;
        Ok(per_cpu
            .iter()
            .fold(ControlCounters::default(), |sum, one| ControlCounters {
                offered: sum.offered + one.offered,
                admitted: sum.admitted + one.admitted,
                refused: sum.refused + one.refused,
                shadow_refused: sum.shadow_refused + one.shadow_refused,
            }))
    }

    /// Slots of admitted transactions that were ever used.
    pub fn admitted_slots(&self) -> Result<Vec<AdmittedSlot>, SandboxError> {
        let buckets: Array<&MapData, MemoryBucket> = self.array("MEMORY")?;
        let slots: Array<&MapData, AdmittedSlot> = self.array("ADMITTED")?;
        let failed = |name| move |source| SandboxError::Map { name, source };
        let mut used = Vec::new();
        for (index, bucket) in buckets.iter().enumerate() {
            for (way, word) in bucket
                .map_err(failed("MEMORY"))?
                .admitted
                .iter()
                .enumerate()
            {
                if *word != 0 {
                    let slot = (index * ADMITTED_WAYS + way) as u32;
                    used.push(slots.get(&slot, 0).map_err(failed("ADMITTED"))?);
                }
            }
        }
        Ok(used)
    }

    /// An array map, to be read.
    fn array<V: Pod>(&self, name: &'static str) -> Result<Array<&MapData, V>, SandboxError> {
        let map = self.ebpf.map(name).ok_or(LoadError::Missing(name))?;
        map.try_into()
            .map_err(|source| SandboxError::Map { name, source })
    }

    /// Overwrites one entry of an array map.
    pub fn set<V: Pod>(
        &mut self,
        name: &'static str,
        index: u32,
        value: V,
    ) -> Result<(), SandboxError> {
        let map = self.ebpf.map_mut(name).ok_or(LoadError::Missing(name))?;
        let mut map: Array<&mut MapData, V> = map
            .try_into()
            .map_err(|source| SandboxError::Map { name, source })?;
        map.set(index, value, 0)
            .map_err(|source| SandboxError::Map { name, source })
    }

    /// One entry of a per-CPU array map, a value for each CPU.
    pub fn per_cpu<V: Pod>(&self, name: &'static str, index: u32) -> Result<Vec<V>, SandboxError> {
        let map = self.ebpf.map(name).ok_or(LoadError::Missing(name))?;
        let map: PerCpuArray<&MapData, V> = map
            .try_into()
            .map_err(|source| SandboxError::Map { name, source })?;
        let values = map
            .get(&index, 0)
            .map_err(|source| SandboxError::Map { name, source })?;
        Ok(values.iter().copied().collect())
    }
}

/// A key that nothing but this sandbox uses.
fn key(seed: u64, index: u32) -> KeyRecord {
    KeyRecord {
        k0: siphash13(seed, 0, &index.to_le_bytes()),
        k1: siphash13(seed, 1, &index.to_le_bytes()),
    }
}

fn pass_program(ebpf: &mut Ebpf) -> Result<&mut Xdp, LoadError> {
    let program = ebpf.program_mut(PASS).ok_or(LoadError::Missing(PASS))?;
    Ok(program.try_into()?)
}

fn time(program: &Xdp, frame: &[u8], repeat: u32) -> Result<Duration, SandboxError> {
    let options = TestRunOptions {
        data_in: Some(frame),
        repeat,
        ..TestRunOptions::new()
    };
    Ok(program.test_run(options)?.duration)
}
