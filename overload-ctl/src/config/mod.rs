//! The configuration file: read, checked whole, all or nothing.
//!
//! Every fault is one message with file, line, column and remedy; all faults of a file are
//! reported together, unless its syntax hides the rest.

mod check;
mod document;
mod emergency;
mod fault;
mod host;
mod methods;
mod number;
mod replies;
mod sources;

use std::{
    fs,
    io::{self, Read as _},
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    str::Utf8Chunk,
};

use overload_common::{abi::Mode, sip::Number};
use thiserror::Error;

use crate::mac::Mac;

pub use check::is_instance_name;
pub use emergency::Emergency;
pub use fault::{Fault, Position, Problem, Warning, WarningKind};
pub use host::HostFault;
pub use methods::{METHODS, Treatment};
pub use number::{NumberFault, number_text};
pub use replies::Replies;
pub use sources::{Prefix, SourceFault, Sources};

/// Largest rate of one destination, requests per second: more than one core can be offered.
pub const MAX_RATE: f64 = 1_000_000.0;
/// Largest burst of one destination, requests.
pub const MAX_BURST: f64 = 1_000_000.0;
/// Bytes of an interface name the kernel takes (`IFNAMSIZ` less the end mark).
pub const MAX_INTERFACE_NAME: usize = 15;
/// Bytes of an instance name: a directory name.
pub const MAX_INSTANCE_NAME: usize = 32;
/// Bytes of a destination name: a metric label.
pub const MAX_DESTINATION_NAME: usize = 64;

/// How the program is attached to the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// In the driver, or not at all.
    Native,
    /// In the kernel's generic path, after the socket buffer is made.
    Generic,
    /// Native where the driver can, else generic, which is then said.
    Auto,
}

/// One destination's limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// New requests per second, and how many may come at once.
    Rate {
        /// Requests per second.
        rate_per_second: f64,
        /// Requests.
        burst: f64,
    },
    /// Share of the new requests that is admitted, percent.
    AcceptPercent(f64),
}

/// Which Request-URIs belong to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// Those with this host, in canonical form.
    Host(String),
    /// Those to a number that begins like this.
    NumberPrefix(Number),
    /// Those that match nothing else.
    Default,
}

/// A destination with its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// Unique label.
    pub name: String,
    /// What belongs to it.
    pub matches: Match,
    /// What it can take.
    pub limit: Limit,
}

/// An interface to protect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Kernel's name.
    pub name: String,
    /// Attach mode asked for.
    pub attach: Attach,
    /// Protected addresses; empty means the interface's own, as they change.
    pub addresses: Vec<IpAddr>,
    /// MAC addresses it answers for beside its own.
    pub macs: Vec<Mac>,
}

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of the filter instance, hence of its directory.
    pub instance: String,
    /// What is done with verdicts.
    pub mode: Mode,
    /// Protected UDP ports.
    pub ports: Vec<u16>,
    /// Where packets come in, at least one.
    pub interfaces: Vec<Interface>,
    /// Address of the metrics listener.
    pub metrics_listen: SocketAddr,
    /// What is known of senders.
    pub sources: Sources,
    /// What is answered to senders of whom nothing is known.
    pub replies: Replies,
    /// What emergency calls have for themselves.
    pub emergency: Emergency,
    /// How each of [`METHODS`] is judged.
    pub methods: [Treatment; METHODS.len()],
    /// Destinations in order of precedence; the default one is last.
    pub destinations: Vec<Destination>,
}

/// Why a file is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read configuration {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file has faults; none of it is used.
    #[error("{}", lines(faults))]
    Faults {
        /// In order of their place, at least one.
        faults: Vec<Fault>,
    },
}

fn lines(faults: &[Fault]) -> String {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Reads and checks a file. The warnings belong to a configuration that is fit for use.
pub fn load(path: &Path) -> Result<(Config, Vec<Warning>), ConfigError> {
    let bytes = read(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(path, &bytes)
}

/// Largest file that is read, bytes: ten times what all destinations take.
const FILE_MAX: u64 = 16 << 20;

/// Reads a regular file of bounded size; a device or a pipe might never end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(FILE_MAX + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(io::Error::other("more than 16 MiB"));
    }
    Ok(bytes)
}

/// Checks the bytes of a file; `path` is for the messages only.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<(Config, Vec<Warning>), ConfigError> {
    let readable = bytes.utf8_chunks().next();
    let text = readable.as_ref().map_or("", Utf8Chunk::valid);
    let mut report = fault::Report::new(path, text);
    let config = if let Some(byte) = bytes.get(text.len()) {
        report.fault(&(text.len()..text.len()), Problem::NotUtf8(*byte));
        None
    } else {
        match toml::from_str::<document::Document>(text) {
            Ok(document) => check::check(&document, &mut report),
            Err(error) => {
                report.syntax(&error);
                None
            }
        }
    };
    match (config, report.finish()) {
        (Some(config), (faults, warnings)) if faults.is_empty() => Ok((config, warnings)),
        (_, (faults, _)) => Err(ConfigError::Faults { faults }),
    }
}

#[cfg(test)]
mod tests;
