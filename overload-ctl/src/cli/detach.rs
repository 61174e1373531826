//! `detach`: ends an instance that no controller steers.

use std::io::{self, Write};

use super::Failure;
use crate::{datapath::filter, state::State};

pub(super) fn detach(instance: &str) -> Result<(), Failure> {
    let removed = filter::remove(instance)?;
    State::remove(instance);
    let mut out = io::stdout().lock();
    match removed.ifindex {
        Some(index) => writeln!(
            out,
            "instance {instance}: the filter is off the interface (number {index}), its state is removed"
        )?,
        None => writeln!(
            out,
            "instance {instance}: the filter was on no interface, what was left of it is removed"
        )?,
    }
    Ok(())
}
