//! The packet filter's object file and its loading.

use std::path::Path;

use aya::{
    Ebpf, EbpfError, EbpfLoader,
    programs::{ProgramError, Xdp},
};

use super::signals::HeldBack;

/// The packet filter, built by `cargo xtask build-ebpf`.
pub static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/overload.o");

/// Name of the filter's entry point.
pub const INGRESS: &str = "overload_ingress";

/// Name of the program that passes everything.
pub const PASS: &str = "overload_pass";

/// The map of working memory, which has an entry for each of [`possible_cpus`].
pub const SCRATCH: &str = "SCRATCH";

/// Every map of the object that an instance pins.
pub const MAPS: [&str; 15] = [
    "INSTANCE",
    "INTERFACES",
    "PORTS",
    "KEYS",
    "DESTINATIONS",
    "SOURCES",
    "PREFIXES",
    "PROVEN",
    "CONTROLS",
    "BUCKETS",
    "CONTROL_COUNTERS",
    "MEMORY",
    "ADMITTED",
    "REASONS",
    "EVENTS",
];

/// Which clock the program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The kernel's.
    Kernel,
    /// `InstanceRecord::map_clock_ns`, for tests and replay.
    Map,
}

/// What a program is loaded for.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions<'a> {
    /// Entry of map INTERFACES that belongs to the interface.
    pub interface_slot: u32,
    /// Clock of the program.
    pub clock: Clock,
    /// Directory of pinned maps to use instead of creating new ones.
    pub pinned_maps: Option<&'a Path>,
}

/// Why the filter could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Maps could not be created, or the object is damaged.
    #[error(
        "cannot create the filter's maps: {0}; CAP_BPF and CAP_NET_ADMIN are needed, and about 20 MB of kernel memory"
    )]
    Object(#[from] EbpfError),
    /// The verifier refused the program.
    #[error("the kernel refused the filter program: {0}; Linux 6.1 or newer is needed")]
    Program(#[from] ProgramError),
    /// The object lacks a program.
    #[error("the filter object has no program `{0}`: rebuild it with `cargo xtask build-ebpf`")]
    Missing(&'static str),
}

/// Creates the maps and loads the filter's program, attached to nothing.
pub fn load(options: &LoadOptions<'_>) -> Result<Ebpf, LoadError> {
    load_object(OBJECT, options)
}

/// The same of another build of the filter.
pub fn load_object(object: &[u8], options: &LoadOptions<'_>) -> Result<Ebpf, LoadError> {
    let clock = u32::from(options.clock == Clock::Map);
    let mut loader = EbpfLoader::new();
    loader
        .map_max_entries(SCRATCH, possible_cpus())
        .override_global("INTERFACE_SLOT", &options.interface_slot, true)
        .override_global("CLOCK_SOURCE", &clock, true);
    if let Some(directory) = options.pinned_maps {
        for name in MAPS {
            loader.map_pin_path(name, directory.join(name));
        }
    }
    let mut ebpf = loader.load(object)?;
    let _held = HeldBack::begin();
    ingress(&mut ebpf)?.load()?;
    Ok(ebpf)
}

/// CPUs that may ever run the filter; the kernel numbers them from 0.
pub fn possible_cpus() -> u32 {
    // Where the kernel does not tell, more than any has costs memory only.
    aya::util::nr_cpus().map_or(1024, |cpus| cpus as u32)
}

/// The filter's entry point in a loaded object.
pub fn ingress(ebpf: &mut Ebpf) -> Result<&mut Xdp, LoadError> {
    let program = ebpf
        .program_mut(INGRESS)
        .ok_or(LoadError::Missing(INGRESS))?;
    Ok(program.try_into()?)
}
