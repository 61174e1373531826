//! `detach`: ends an instance that no controller steers.

use std::io::{self, Write};

use super::Failure;
use crate::{
    datapath::filter::{self, Removed},
    state::State,
};

/// Nothing to end is no error, so that scripts can repeat it.
pub(super) fn detach(instance: &str) -> Result<(), Failure> {
    let removed = filter::remove(instance)?;
    State::remove(instance);
    let mut out = io::stdout().lock();
    match removed {
        Removed::Filter(names) => writeln!(
            out,
            "instance {instance}: the filter is off {}",
            names.join(", ")
        )?,
        Removed::Remains => writeln!(
            out,
            "instance {instance}: the filter was on no interface; what was left of it is removed"
        )?,
        Removed::Nothing => writeln!(out, "instance {instance}: not attached, nothing to do")?,
    }
    Ok(())
}
