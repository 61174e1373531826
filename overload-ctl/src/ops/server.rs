//! The listener.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use thiserror::Error;
use tokio::net::TcpListener;

use super::metrics::Metrics;
use crate::datapath::{
    filter::{Filter, NamedControl, faults},
    follow::Tally,
};

/// Media type of OpenMetrics text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Why nobody can be served.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Somebody else listens there.
    #[error(
        "metrics address {0} is in use by another program; write another listen under [metrics]"
    )]
    InUse(SocketAddr),
    /// Anything else.
    #[error("cannot listen on metrics address {address}: {source}; correct listen under [metrics]")]
    Failed {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

impl ListenError {
    fn new(address: SocketAddr, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::AddrInUse {
            Self::InUse(address)
        } else {
            Self::Failed { address, source }
        }
    }
}

/// Takes the address; nobody is served yet.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ListenError::new(address, source))
}

struct Served {
    filter: Filter,
    destinations: Arc<[NamedControl]>,
    tally: Arc<Tally>,
}

/// Serves until dropped.
pub async fn serve(
    listener: TcpListener,
    filter: Filter,
    destinations: Vec<NamedControl>,
    tally: Arc<Tally>,
) {
    let served = Served {
        filter,
        tally,
        destinations: destinations.into(),
    };
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .with_state(Arc::new(served));
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!("the metrics listener ended: {error}");
    }
}

async fn metrics(State(served): State<Arc<Served>>) -> Response {
    let failed = |reason: String| (StatusCode::INTERNAL_SERVER_ERROR, reason + "\n");
    let counters = match served.filter.counters() {
        Ok(counters) => counters,
        Err(error) => return failed(error.to_string()).into_response(),
    };
    let metrics = Metrics {
        counters,
        interface_changes: served.tally.all(),
        interfaces: served.filter.attachments().await,
        destinations: Arc::clone(&served.destinations),
    };
    match metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(error) => failed(error.to_string()).into_response(),
    }
}

async fn health(State(served): State<Arc<Served>>) -> Response {
    let attachments = served.filter.attachments().await;
    if let Some(why) = faults(&attachments) {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response();
    }
    let places: Vec<String> = attachments
        .iter()
        .filter_map(|attachment| {
            let mode = attachment.state.as_ref().ok()?.mode.name();
            Some(format!("on {} in {mode} mode", attachment.name))
        })
        .collect();
    format!("the filter is {}\n", places.join(", ")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_address_is_one_sentence() {
        let first = bind(([127, 0, 0, 1], 0).into()).await.expect("free port");
        let address = first.local_addr().expect("address");
        let error = bind(address).await.expect_err("taken");
        assert_eq!(
            error.to_string(),
            format!(
                "metrics address {address} is in use by another program; write another listen under [metrics]"
            )
        );
    }
}
