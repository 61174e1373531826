//! `run`: puts the filter on its interface and steers it.

use std::{
    future::pending,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
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
    let mut interrupted = on(SignalKind::interrupt())?;
    let mut terminated = on(SignalKind::terminate())?;
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
        () = steer(&mut owned) => {}
    }
    server.abort();
    end(&config, owned, detach).await
}

fn on(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::fault(&format!("cannot wait for signals: {error}")))
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

/// How often the filter's attachment is looked at.
const LOOK: Duration = Duration::from_secs(10);

/// Changes keys, and tells when the filter is lost or found again. Never ends.
async fn steer(owned: &mut Owned) {
    let mut keys = interval_at(Instant::now() + KEY_LIFE, KEY_LIFE);
    let mut looks = interval_at(Instant::now() + LOOK, LOOK);
    // After a suspension the next key must not come at once.
    keys.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut lost = false;
    loop {
        tokio::select! {
            _ = keys.tick() => match owned.filter.rotate_key() {
                Ok(()) => info!("tag key rotated"),
                Err(error) => error!("the tag key could not be rotated: {error}"),
            },
            _ = looks.tick() => match owned.filter.attachment().await {
                Err(why) if !lost => {
                    lost = true;
                    error!("nothing is refused: {why}; run overload-ctl again");
                }
                Ok(_) if lost => {
                    lost = false;
                    info!("the filter is on its interface again");
                }
                _ => {}
            },
        }
    }
}

async fn end(config: &Config, owned: Owned, detach: bool) -> Result<(), Failure> {
    let instance = &config.instance;
    if detach {
        owned.remove().map_err(FilterError::from)?;
        State::remove(instance);
        info!("the filter is off {}", config.interface.name);
        return Ok(());
    }
    match owned.filter.attachment().await {
        Ok(at) => info!(
            "the filter stays on {} and goes on with its limits; end it with: overload-ctl detach --instance {instance}",
            at.interface.name
        ),
        Err(why) => warn!(
            "no filter stays: {why}; remove what is left with: overload-ctl detach --instance {instance}"
        ),
    }
    Ok(())
}
