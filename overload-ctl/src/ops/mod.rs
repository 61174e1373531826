//! HTTP for monitoring: `/metrics` and `/health`.

mod metrics;
mod server;

pub use metrics::{Metrics, MetricsError};
pub use server::{ListenError, bind, serve};
