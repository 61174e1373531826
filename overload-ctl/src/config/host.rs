//! Hosts as they stand in a Request-URI (RFC 3261 25.1: hostname, IPv4address, IPv6reference).

use std::net::{Ipv4Addr, Ipv6Addr};

use overload_common::sip::canonical_host;
use thiserror::Error;

/// Longest host name (RFC 1035 2.3.4).
const MAX_HOST: usize = 255;

/// Why a text is no host, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostFault {
    /// Nothing there.
    #[error("host is empty; write the host of the Request-URI, such as \"gw1.example.net\"")]
    Empty,
    /// A blank or control character.
    #[error("host {0:?} contains a blank or control character; remove it")]
    Blank(String),
    /// Longer than a name can be.
    #[error("host is longer than {MAX_HOST} bytes, so no Request-URI can have it; shorten it")]
    TooLong,
    /// A whole URI.
    #[error("host {0:?} begins with a URI scheme; write the host alone")]
    Scheme(String),
    /// A user part.
    #[error("host {0:?} contains a user part; write only what stands after '@'")]
    User(String),
    /// A port.
    #[error("host {0:?} contains a port; leave it out, a destination is a host at all its ports")]
    Port(String),
    /// URI parameters or headers.
    #[error("host {0:?} contains URI parameters; leave out what follows the host")]
    Parameters(String),
    /// An IPv6 address without its brackets.
    #[error("host {0:?} is an IPv6 address without brackets; write \"[{0}]\"")]
    Brackets(String),
    /// Something else in brackets.
    #[error("host {0:?} has brackets but no IPv6 address in them; correct the address")]
    Ipv6(String),
    /// Digits and dots that are no address.
    #[error("host {0:?} ends in a number but is no IPv4 address; correct the address")]
    Ipv4(String),
    /// An internationalised name.
    #[error("host {0:?} is not ASCII; write its form in punycode, as it stands in the Request-URI")]
    NotAscii(String),
    /// Letters, digits, '-' and '.' only (RFC 3261 25.1).
    #[error("host {host:?} contains {found:?}; a host has letters, digits, '-' and '.' only")]
    Character {
        /// The text.
        host: String,
        /// The first one that does not belong there.
        found: char,
    },
    /// An empty label, or one with a hyphen at an end.
    #[error("host {0:?} has an empty label or one that begins or ends with '-'; correct the name")]
    Label(String),
}

/// The host in the canonical form the kernel compares.
pub(super) fn canonical(text: &str) -> Result<String, HostFault> {
    let host = || text.to_owned();
    if text.is_empty() {
        return Err(HostFault::Empty);
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(HostFault::Blank(host()));
    }
    if !text.is_ascii() {
        return Err(HostFault::NotAscii(host()));
    }
    if text.len() > MAX_HOST {
        return Err(HostFault::TooLong);
    }
    let lower = canonical_host(text);
    if ["sip:", "sips:", "tel:"]
        .iter()
        .any(|s| lower.starts_with(s))
        || lower.contains("://")
    {
        return Err(HostFault::Scheme(host()));
    }
    if text.contains('@') {
        return Err(HostFault::User(host()));
    }
    if text.contains([';', '?']) {
        return Err(HostFault::Parameters(host()));
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(HostFault::Brackets(host()));
    }
    if text.starts_with('[') {
        return reference(text).map(|()| lower);
    }
    if let Some((_, port)) = text.rsplit_once(':')
        && port.bytes().all(|b| b.is_ascii_digit())
    {
        return Err(HostFault::Port(host()));
    }
    name(text).map(|()| lower)
}

fn reference(text: &str) -> Result<(), HostFault> {
    let host = text.to_owned();
    let Some((inside, after)) = text[1..].split_once(']') else {
        return Err(HostFault::Ipv6(host));
    };
    if inside.parse::<Ipv6Addr>().is_err() {
        Err(HostFault::Ipv6(host))
    } else if after.starts_with(':') {
        Err(HostFault::Port(host))
    } else if let Some(found) = after.chars().next() {
        Err(HostFault::Character { host, found })
    } else {
        Ok(())
    }
}

fn name(text: &str) -> Result<(), HostFault> {
    let host = || text.to_owned();
    if let Some(found) = text
        .chars()
        .find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '.'))
    {
        return Err(HostFault::Character {
            host: host(),
            found,
        });
    }
    // One dot may end a name (RFC 3261 25.1).
    let labels = text.strip_suffix('.').unwrap_or(text);
    if labels
        .split('.')
        .any(|l| l.is_empty() || l.starts_with('-') || l.ends_with('-'))
    {
        return Err(HostFault::Label(host()));
    }
    let top = labels.rsplit('.').next().unwrap_or_default();
    if top.starts_with(|c: char| c.is_ascii_digit()) && text.parse::<Ipv4Addr>().is_err() {
        return Err(HostFault::Ipv4(host()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r3261_19_1_4_hosts_are_compared_in_lower_case() {
        for (text, expected) in [
            ("GW1.Example.NET", "gw1.example.net"),
            ("192.0.2.7", "192.0.2.7"),
            ("[2001:DB8::1]", "[2001:db8::1]"),
            ("localhost", "localhost"),
            ("gw1.example.net.", "gw1.example.net."),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("3.gw.example", "3.gw.example"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn r3261_25_1_what_is_no_host_is_named() {
        type Make = fn(String) -> HostFault;
        let cases: &[(&str, Make)] = &[
            ("gw 1", HostFault::Blank),
            ("gw1\t", HostFault::Blank),
            ("sip:gw1", HostFault::Scheme),
            ("SIPS:gw1", HostFault::Scheme),
            ("http://gw1", HostFault::Scheme),
            ("alice@gw1", HostFault::User),
            ("gw1:5060", HostFault::Port),
            ("192.0.2.1:5060", HostFault::Port),
            ("[2001:db8::1]:5060", HostFault::Port),
            ("gw1;lr", HostFault::Parameters),
            ("2001:db8::1", HostFault::Brackets),
            ("[2001:db8::1", HostFault::Ipv6),
            ("[gw1]", HostFault::Ipv6),
            ("192.0.2.256", HostFault::Ipv4),
            ("10.0.0", HostFault::Ipv4),
            ("192.0.2.1.", HostFault::Ipv4),
            ("bücher.example", HostFault::NotAscii),
            ("gw1..example", HostFault::Label),
            (".gw1", HostFault::Label),
            ("-gw1.example", HostFault::Label),
            ("gw1-.example", HostFault::Label),
            (".", HostFault::Label),
        ];
        for (text, fault) in cases {
            assert_eq!(canonical(text), Err(fault((*text).to_owned())), "{text}");
        }
        assert_eq!(canonical(""), Err(HostFault::Empty));
        assert_eq!(canonical(&"a".repeat(256)), Err(HostFault::TooLong));
        for (host, found) in [("gw_1", '_'), ("gw1/", '/'), ("[2001:db8::1]x", 'x')] {
            let host = host.to_owned();
            assert_eq!(
                canonical(&host.clone()),
                Err(HostFault::Character { host, found })
            );
        }
    }
}
