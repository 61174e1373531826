//! Hosts of URIs in canonical form, and their keyed hash.

use crate::hash::siphash13;

/// Canonical form of a host for comparison (RFC 3261 19.1.4): lower case.
#[cfg(any(test, feature = "std"))]
pub fn canonical_host(host: &str) -> std::string::String {
    host.to_ascii_lowercase()
}

/// Keyed hash of a canonical host; the kernel computes the same over a Request-URI.
pub fn host_key(k0: u64, k1: u64, canonical_host: &str) -> u64 {
    siphash13(k0, k1, canonical_host.as_bytes())
}
