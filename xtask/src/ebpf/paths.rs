//! Paths of this machine: which there are, and that the object names none of them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use super::flags::Machine;
use crate::shell;

/// Finds the directories that the compiler reads from.
pub fn machine(library_sources: &Path) -> Result<Machine> {
    let sources = cargo_home()?.join("registry/src");
    let mut registries = Vec::new();
    for entry in fs::read_dir(&sources).with_context(|| format!("list {}", sources.display()))? {
        registries.push(
            entry
                .with_context(|| format!("list {}", sources.display()))?
                .path(),
        );
    }
    registries.sort();
    let real = library_sources
        .canonicalize()
        .with_context(|| format!("no library sources at {}", library_sources.display()))?;
    let mut library_sources = vec![library_sources.to_owned(), real];
    library_sources.dedup();
    Ok(Machine {
        workspace: shell::workspace()?,
        registries,
        library_sources,
    })
}

/// Fails when a directory of this machine, or the name of a registry, stands in the object.
pub fn assert_absent(object: &[u8], machine: &Machine) -> Result<()> {
    let mut names = vec!["/root".to_owned(), "/home".to_owned()];
    let own = [
        machine.workspace.clone(),
        shell::target_dir()?,
        cargo_home()?,
    ];
    let homes = env::home_dir().filter(|home| home.parent().is_some());
    let dirs = machine.registries.iter().chain(&machine.library_sources);
    names.extend(
        own.iter()
            .chain(&homes)
            .chain(dirs)
            .map(|dir| dir.display().to_string()),
    );
    // Each is a host's name and a hash.
    let hosts = machine
        .registries
        .iter()
        .filter_map(|dir| dir.file_name()?.to_str());
    names.extend(hosts.map(|name| {
        name.rsplit_once('-')
            .map_or(name, |(host, _)| host)
            .to_owned()
    }));
    match first_present(object, &names) {
        None => Ok(()),
        Some(name) => bail!("the object holds the name {name:?} of this machine: remap it away"),
    }
}

fn first_present<'a>(object: &[u8], names: &'a [String]) -> Option<&'a str> {
    let holds = |name: &&String| {
        object
            .windows(name.len())
            .any(|window| window == name.as_bytes())
    };
    names
        .iter()
        .filter(|name| !name.is_empty())
        .find(holds)
        .map(String::as_str)
}

fn cargo_home() -> Result<PathBuf> {
    match env::var_os("CARGO_HOME") {
        Some(dir) => Ok(dir.into()),
        None => Ok(env::home_dir()
            .context("no home directory, and CARGO_HOME unset")?
            .join(".cargo")),
    }
}

#[cfg(test)]
mod tests {
    use super::first_present;

    #[test]
    fn name_inside_the_object_is_found() {
        let names = ["/root".to_owned(), "/home".to_owned(), String::new()];
        assert_eq!(first_present(b"\0/home/me/src\0", &names), Some("/home"));
        assert_eq!(first_present(b"\0/registry/aya\0", &names), None);
        assert_eq!(first_present(b"", &names), None);
    }
}
