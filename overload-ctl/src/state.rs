//! What `run` leaves for the other commands: the kernel knows controls by number only.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::datapath::filter::{Identity, NamedControl};

/// Directory of the state files.
const DIRECTORY: &str = "/run/overload-ctl";

/// State of one instance.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Which tables it belongs to.
    pub identity: Identity,
    /// Since when its counters count, seconds of Unix time.
    pub counting_since: u64,
    /// Name of the configured mode, for the end of a bypass.
    pub mode: String,
    /// Destinations in the order of the configuration.
    pub destinations: Vec<NamedControl>,
}

/// Why the state was not written.
#[derive(Debug, Error)]
#[error("cannot write {}: {source}; `status` will show numbers for names", path.display())]
pub struct StateError {
    path: PathBuf,
    source: io::Error,
}

fn path(instance: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{instance}.json"))
}

impl State {
    /// Controls with their names.
    pub fn names(&self) -> impl Iterator<Item = (u32, &str)> {
        self.destinations
            .iter()
            .map(|named| (named.control, named.name.as_str()))
    }

    /// Writes it, readable by root only.
    pub fn write(&self, instance: &str) -> Result<(), StateError> {
        let path = path(instance);
        self.write_to(&path)
            .map_err(|source| StateError { path, source })
    }

    fn write_to(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(DIRECTORY) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // A new file takes the old one's place whole.
        let new = path.with_extension("new");
        let _leftover = fs::remove_file(&new);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(&new, path)
    }

    /// Reads the one written last; `None` when it is missing or damaged.
    pub fn read(instance: &str) -> Option<Self> {
        let text = fs::read(path(instance)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Reads the one that belongs to the tables in force.
    pub fn read_for(instance: &str, identity: Identity) -> Option<Self> {
        Self::read(instance).filter(|state| state.identity == identity)
    }

    /// Removes it.
    pub fn remove(instance: &str) {
        let _absent = fs::remove_file(path(instance));
    }
}
