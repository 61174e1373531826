//! `run`: puts the filter on its interface and steers it.

use std::{future::pending, path::Path, time::Duration};

use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval_at},
};
use tracing::{error, info, warn};

use super::Failure;
use crate::{
    config::{self, Config},
    datapath::filter::{self, Filter, FilterError, Owned, Started},
    ops,
    state::State,
};

/// Life of a tag key as the one of new tags. Each is valid for one more such time, and tags are
/// remembered for 64 s at most.
const KEY_LIFE: Duration = Duration::from_hours(1);

pub(super) async fn run(file: &Path, detach: bool) -> Result<(), Failure> {
    let (config, warnings) = config::load(file)?;
    // Before anything is attached, so that a taken port leaves no trace.
    let listener = ops::bind(config.metrics_listen).await?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;

    let started = filter::start(&config).await?;
    // Not before: a failed start is one sentence.
    for warning in warnings {
        warn!("{warning}");
    }
    announce(&config, &started);
    let Started { mut owned, .. } = started;
    let state = State::of(&config, owned.filter.id());
    if let Err(error) = state.write(&config.instance) {
        warn!("{error}");
    }
    let server = match (Filter::open(&config.instance), listener.local_addr()) {
        (Ok(filter), Ok(address)) => {
            info!("metrics at http://{address}/metrics, health at http://{address}/health");
            tokio::spawn(ops::serve(listener, filter, state.destinations))
        }
        (Err(error), _) => {
            error!("no metrics: {error}");
            tokio::spawn(pending())
        }
        (_, Err(error)) => {
            error!("no metrics: {error}");
            tokio::spawn(pending())
        }
    };

    tokio::select! {
        _ = interrupted.recv() => info!("SIGINT received"),
        _ = terminated.recv() => info!("SIGTERM received"),
        () = rotate_keys(&mut owned) => {}
    }
    server.abort();
    end(&config, owned, detach)
}

fn announce(config: &Config, started: &Started) {
    for notice in &started.notices {
        warn!("{notice}");
    }
    let addresses: Vec<String> = started.addresses.iter().map(ToString::to_string).collect();
    let ports: Vec<String> = config
        .interface
        .ports
        .iter()
        .map(ToString::to_string)
        .collect();
    info!(
        "instance {}: {} on {} ({}), protecting {} port {}, {} destinations",
        config.instance,
        config.mode.name(),
        started.interface.name,
        started.mode.name(),
        addresses.join(" "),
        ports.join(" "),
        config.destinations.len()
    );
}

/// Never ends.
async fn rotate_keys(owned: &mut Owned) {
    let mut timer = interval_at(Instant::now() + KEY_LIFE, KEY_LIFE);
    // After a suspension the next key must not come at once.
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        match owned.filter.rotate_key() {
            Ok(()) => info!("tag key rotated"),
            Err(error) => error!("the tag key could not be rotated: {error}"),
        }
    }
}

fn end(config: &Config, owned: Owned, detach: bool) -> Result<(), Failure> {
    let (instance, interface) = (&config.instance, &config.interface.name);
    if detach {
        owned.remove().map_err(FilterError::from)?;
        State::remove(instance);
        info!("the filter is off {interface}");
    } else {
        info!(
            "the filter stays on {interface} and goes on with its limits; end it with: overload-ctl detach --instance {instance}"
        );
    }
    Ok(())
}
