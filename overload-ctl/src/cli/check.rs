//! `check`: is the file a configuration?

use std::{
    io::{self, Write},
    path::Path,
};

use super::Failure;
use crate::config;

pub(super) fn check(file: &Path) -> Result<(), Failure> {
    let (config, warnings) = config::load(file)?;
    let mut out = io::stdout().lock();
    for warning in warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let count = config.destinations.len();
    let plural = if count == 1 { "" } else { "s" };
    let names: Vec<&str> = config.interfaces.iter().map(|i| i.name.as_str()).collect();
    writeln!(
        out,
        "{}: valid, {count} destination{plural} on {} in {} mode",
        file.display(),
        names.join(", "),
        config.mode.name()
    )?;
    Ok(())
}
