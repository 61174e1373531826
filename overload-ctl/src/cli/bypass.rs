//! `bypass`: judges nothing until told otherwise.

use std::io::{self, Write};

use overload_common::abi::Mode;

use super::{Failure, Status, Switch};
use crate::{
    datapath::filter::{Filter, Identity},
    state::State,
};

pub(super) fn bypass(switch: Switch, instance: &str) -> Result<(), Failure> {
    let mut filter = Filter::open(instance)?;
    let mode = match switch {
        Switch::On => Mode::Bypass,
        Switch::Off => configured(instance, filter.identity())?,
    };
    filter.set_mode(mode)?;
    writeln!(io::stdout(), "instance {instance}: mode is {}", mode.name())?;
    Ok(())
}

fn configured(instance: &str, identity: Identity) -> Result<Mode, Failure> {
    let modes = [Mode::Enforce, Mode::Shadow, Mode::Bypass];
    State::read_for(instance, identity)
        .and_then(|state| modes.into_iter().find(|mode| mode.name() == state.mode))
        .ok_or_else(|| Failure {
            status: Status::Fault,
            message: format!(
                "the configured mode of instance {instance} is not known, its file in /run is missing; run `overload-ctl run` again"
            ),
        })
}
