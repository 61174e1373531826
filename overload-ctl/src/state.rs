//! What `run` leaves for the other commands: the kernel knows controls by number only.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::config::{Config, Destination};

/// Directory of the state files.
const DIRECTORY: &str = "/run/overload-ctl";

/// State of one instance.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Which start of the instance this is of, see `Filter::id`.
    pub filter_id: u32,
    /// Name of the configured mode, for the end of a bypass.
    pub mode: String,
    /// Names of the destinations in the order of their controls.
    pub destinations: Vec<String>,
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
    /// The state of a configuration that is in force.
    pub fn of(config: &Config, filter_id: u32) -> Self {
        let name = |d: &Destination| d.name.clone();
        Self {
            filter_id,
            mode: config.mode.name().to_owned(),
            destinations: config.destinations.iter().map(name).collect(),
        }
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

    /// Reads that of a running filter; `None` when it is missing, damaged or of another start.
    pub fn read(instance: &str, filter_id: u32) -> Option<Self> {
        let text = fs::read(path(instance)).ok()?;
        let state: Self = serde_json::from_slice(&text).ok()?;
        (state.filter_id == filter_id).then_some(state)
    }

    /// Removes it.
    pub fn remove(instance: &str) {
        let _absent = fs::remove_file(path(instance));
    }
}
