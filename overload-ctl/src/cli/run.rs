//! `run`: puts the filter on its interface and steers it.

use std::{
    future::pending,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, MissedTickBehavior, interval_at},
};
use tracing::{error, info, warn};

use super::Failure;
use crate::{
    config::{self, Config},
    datapath::{
        filter::{Filter, FilterError, Owned},
        start::{Claim, Started},
    },
    ops,
    state::State,
};

/// Life of a tag key as the one of new tags. Each is valid for one more such time, which must cover
/// the ACK to the last refusal under it: twice 64 * T1 (RFC 3261 17.2.1).
const KEY_LIFE: Duration = Duration::from_hours(1);
const _: () = assert!(KEY_LIFE.as_secs() >= 64);

pub(super) async fn run(file: &Path, detach: bool) -> Result<(), Failure> {
    let (config, warnings) = config::load(file)?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let claim = Claim::new(&config.instance)?;
    // Before anything is attached, so that a taken port changes nothing.
    let listener = match ops::bind(config.metrics_listen).await {
        Ok(listener) => listener,
        Err(error) => {
            claim.abandon();
            return Err(error.into());
        }
    };
    let earlier = State::read(&config.instance);
    let started = claim.start(&config, earlier.as_ref()).await?;
    // Not before: a failed start is one sentence.
    for warning in warnings {
        warn!("{warning}");
    }
    announce(&config, &started);
    let Started {
        mut owned,
        controls,
        ..
    } = started;
    let identity = owned.filter.identity();
    let state = State {
        identity,
        counting_since: earlier
            .filter(|earlier| earlier.identity.filter_id == identity.filter_id)
            .map_or_else(now, |earlier| earlier.counting_since),
        mode: config.mode.name().to_owned(),
        destinations: controls,
    };
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

/// Seconds of Unix time.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
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
