//! `run`: puts the filter on its interface and steers it.

use std::{
    future::pending,
    path::Path,
    sync::Arc,
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
        filter::{Attached, Filter, FilterError, Owned, faults},
        follow::{Messages, Tally},
        protect::{Change, list},
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
    // Before the interfaces are looked at, so that no change is missed.
    let messages = Messages::subscribe();
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
    let names = owned.attached.iter().map(|a| a.protected.name.as_str());
    let tally = Arc::new(Tally::new(names));
    let server = match (Filter::open(&config.instance), listener.local_addr()) {
        (Ok(filter), Ok(address)) => {
            info!("metrics at http://{address}/metrics, health at http://{address}/health");
            tokio::spawn(ops::serve(
                listener,
                filter,
                state.destinations,
                Arc::clone(&tally),
            ))
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
        () = steer(&mut owned, messages, &tally) => {}
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
    let ports: Vec<String> = config.ports.iter().map(ToString::to_string).collect();
    info!(
        "instance {}: {}, port {}, {} destinations",
        config.instance,
        config.mode.name(),
        ports.join(" "),
        config.destinations.len()
    );
    for Attached {
        protected, mode, ..
    } in &started.owned.attached
    {
        let addresses = match &protected.addresses[..] {
            [] => "no address yet".to_owned(),
            addresses => list(addresses),
        };
        info!(
            "on {} ({}), protecting {addresses}",
            protected.name,
            mode.name()
        );
    }
}

/// How often the interfaces are looked at without a message of the kernel.
const LOOK: Duration = Duration::from_secs(10);

/// Changes keys, follows the interfaces, and tells where the filter is lost or found again. Never ends.
async fn steer(owned: &mut Owned, mut messages: Messages, tally: &Tally) {
    let mut keys = interval_at(Instant::now() + KEY_LIFE, KEY_LIFE);
    // The first one at once: something may have changed since the start.
    let mut looks = interval_at(Instant::now(), LOOK);
    // After a suspension the next key must not come at once.
    keys.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let interfaces: Vec<u32> = owned.attached.iter().map(|a| a.protected.index).collect();
    let mut lost = None;
    loop {
        tokio::select! {
            _ = keys.tick() => match owned.filter.rotate_key() {
                Ok(()) => info!("tag key rotated"),
                Err(error) => error!("the tag key could not be rotated: {error}"),
            },
            _ = looks.tick() => {}
            () = messages.next(&interfaces) => {}
        }
        for change in owned.follow().await {
            match change {
                Ok(change) => {
                    tally.count(&change);
                    if matches!(change, Change::LeftOut { .. }) {
                        warn!("{change}");
                    } else {
                        info!("{change}");
                    }
                }
                Err(error) => error!("an interface is protected as before: {error}"),
            }
        }
        let found = faults(&owned.filter.attachments().await);
        match &found {
            Some(why) if found != lost => {
                error!("nothing is refused there: {why}; run overload-ctl again");
            }
            None if lost.is_some() => info!("the filter is on its interfaces again"),
            _ => {}
        }
        lost = found;
    }
}

async fn end(config: &Config, owned: Owned, detach: bool) -> Result<(), Failure> {
    let instance = &config.instance;
    if detach {
        owned.remove().map_err(FilterError::from)?;
        State::remove(instance);
        let names: Vec<&str> = config.interfaces.iter().map(|i| i.name.as_str()).collect();
        info!("the filter is off {}", names.join(", "));
        return Ok(());
    }
    let attachments = owned.filter.attachments().await;
    if let Some(why) = faults(&attachments) {
        warn!("the filter does not work everywhere: {why}");
    }
    let working: Vec<&str> = attachments
        .iter()
        .filter(|attachment| attachment.state.is_ok())
        .map(|attachment| attachment.name.as_str())
        .collect();
    if working.is_empty() {
        warn!(
            "no filter stays; remove what is left with: overload-ctl detach --instance {instance}"
        );
    } else {
        info!(
            "the filter stays on {} and goes on with its limits; end it with: overload-ctl detach --instance {instance}",
            working.join(", ")
        );
    }
    Ok(())
}
