//! Senders that are known: the operator's peers, and those left to the host's packet filter.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use overload_common::abi::SOURCE_ENTRIES;
use thiserror::Error;
use toml::Spanned;

use super::{document::SourcesTable, fault::Report};

/// Prefixes of one instance, trusted and denied together: the table holds two generations.
pub const MAX_SOURCES: usize = SOURCE_ENTRIES / 2;

/// Addresses that begin alike; none of its host bits is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The first of them.
    pub address: IpAddr,
    /// How many bits they have in common.
    pub length: u8,
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// What is known of senders; of two prefixes that an address is under, the longer one counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The operator's own peers: answered without budget, their OPTIONS in the priority class.
    pub trusted: Vec<Prefix>,
    /// Passed to the host's packet filter without being judged.
    pub denied: Vec<Prefix>,
}

/// Why a prefix cannot be used, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SourceFault {
    /// Another text.
    #[error(
        "{0:?} is no IP prefix; write one such as \"192.0.2.0/24\" or \"2001:db8::/32\", or the address of a host"
    )]
    NoPrefix(String),
    /// No length of this kind of address.
    #[error("{text:?} has no length from 0 to {most}; correct what follows the '/'")]
    Length {
        /// The text.
        text: String,
        /// Bits of the address.
        most: u8,
    },
    /// An address that is not the first one of its prefix.
    #[error(
        "{written} is not the first address of its prefix; write {network} for all of it, or {} for the host alone", written.address
    )]
    HostBits {
        /// As it was written.
        written: Prefix,
        /// Without the bits that do not belong there.
        network: Prefix,
    },
    /// IPv4 in the form of IPv6.
    #[error("{0:?} is IPv4 in the form of IPv6; write it as IPv4, such as \"192.0.2.0/24\"")]
    Mapped(String),
    /// IPv6, but IPv4 addresses in the form of IPv6 are under it.
    #[error("{0} covers IPv4 addresses too; write \"2000::/3\" for all global IPv6 addresses")]
    CoversIpv4(Prefix),
    /// Named twice in one list.
    #[error("prefix {prefix} is that of line {line} again; remove one")]
    Duplicate {
        /// The prefix.
        prefix: Prefix,
        /// Where the first one stands.
        line: usize,
    },
    /// Named in both lists.
    #[error("prefix {prefix} is trusted in line {line}, and cannot be denied too; remove one")]
    Both {
        /// The prefix.
        prefix: Prefix,
        /// Where it is trusted.
        line: usize,
    },
    /// More than the table holds.
    #[error("{0} prefixes are more than the {MAX_SOURCES} of one instance; remove some")]
    TooMany(usize),
}

/// `None` after a fault, which is then in the report.
pub(super) fn check(table: &SourcesTable, report: &mut Report) -> Option<Sources> {
    let SourcesTable { trusted, deny } = table;
    let found = trusted.len() + deny.len();
    if let Some(first_surplus) = trusted.iter().chain(deny).nth(MAX_SOURCES) {
        report.fault(&first_surplus.span(), SourceFault::TooMany(found).into());
        return None;
    }
    let mut seen = HashMap::new();
    let trusted = list(trusted, true, &mut seen, report);
    let denied = list(deny, false, &mut seen, report);
    Some(Sources {
        trusted: trusted?,
        denied: denied?,
    })
}

/// Where a prefix stood first, and whether it is trusted there.
type Seen = HashMap<Prefix, (bool, usize)>;

fn list(
    written: &[Spanned<String>],
    trusted: bool,
    seen: &mut Seen,
    report: &mut Report,
) -> Option<Vec<Prefix>> {
    let mut prefixes = Some(Vec::with_capacity(written.len()));
    for item in written {
        match read(item.get_ref()).and_then(|prefix| first_of(prefix, trusted, seen)) {
            Ok(prefix) => {
                let line = report.position(&item.span()).line;
                seen.insert(prefix, (trusted, line));
                if let Some(prefixes) = &mut prefixes {
                    prefixes.push(prefix);
                }
            }
            Err(fault) => {
                report.fault(&item.span(), fault.into());
                prefixes = None;
            }
        }
    }
    prefixes
}

fn first_of(prefix: Prefix, trusted: bool, seen: &Seen) -> Result<Prefix, SourceFault> {
    match seen.get(&prefix) {
        None => Ok(prefix),
        Some((before, line)) if *before == trusted => Err(SourceFault::Duplicate {
            prefix,
            line: *line,
        }),
        Some((_, line)) => Err(SourceFault::Both {
            prefix,
            line: *line,
        }),
    }
}

fn read(text: &str) -> Result<Prefix, SourceFault> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return Err(SourceFault::NoPrefix(text.to_owned()));
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => most,
        Some(written) => written
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| written.parse::<u8>().ok())
            .flatten()
            .filter(|length| *length <= most)
            .ok_or_else(|| SourceFault::Length {
                text: text.to_owned(),
                most,
            })?,
    };
    let written = Prefix { address, length };
    let network = Prefix {
        address: network(address, length),
        length,
    };
    if let IpAddr::V6(address) = address
        && address.to_ipv4_mapped().is_some()
    {
        Err(SourceFault::Mapped(text.to_owned()))
    } else if network != written {
        Err(SourceFault::HostBits { written, network })
    } else if covers_ipv4(network) {
        Err(SourceFault::CoversIpv4(network))
    } else {
        Ok(network)
    }
}

/// The address without the bits behind the prefix.
fn network(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

/// The kernel compares IPv4 addresses in the form of IPv6.
fn covers_ipv4(prefix: Prefix) -> bool {
    const MAPPED: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0);
    prefix.address.is_ipv6() && network(IpAddr::V6(MAPPED), prefix.length) == prefix.address
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::{
        super::tests::{accepted, messages, with_interface},
        *,
    };

    fn prefixes(list: &[&str]) -> Vec<Prefix> {
        list.iter().map(|text| read(text).expect(text)).collect()
    }

    #[test]
    fn prefixes_and_addresses_are_read() {
        let (config, _) = accepted(&with_interface(
            "[sources]\ntrusted = [\"192.0.2.0/24\", \"2001:db8::/32\", \"198.51.100.7\"]\n\
             deny = [\"0.0.0.0/0\", \"2001:db8::1\", \"192.0.2.0/25\", \"8000::/1\"]\n",
        ));
        assert_eq!(
            config.sources.trusted,
            prefixes(&["192.0.2.0/24", "2001:db8::/32", "198.51.100.7/32"])
        );
        assert_eq!(
            config.sources.denied,
            prefixes(&["0.0.0.0/0", "2001:db8::1/128", "192.0.2.0/25", "8000::/1"])
        );
        let bare = read("198.51.100.7").expect("host");
        assert_eq!(
            (bare.address, bare.length),
            ("198.51.100.7".parse().expect("address"), 32)
        );
    }

    #[test]
    fn what_is_no_prefix_is_told() {
        const NO_PREFIX: &str = "is no IP prefix; write one such as \"192.0.2.0/24\" or \"2001:db8::/32\", or the address of a host";
        let length = |most| format!("has no length from 0 to {most}; correct what follows the '/'");
        for (text, message) in [
            ("", format!("\"\" {NO_PREFIX}")),
            ("gw1.example.net", format!("\"gw1.example.net\" {NO_PREFIX}")),
            ("192.0.2/24", format!("\"192.0.2/24\" {NO_PREFIX}")),
            ("[2001:db8::1]", format!("\"[2001:db8::1]\" {NO_PREFIX}")),
            ("192.0.2.1:5060", format!("\"192.0.2.1:5060\" {NO_PREFIX}")),
            ("192.0.2.0/33", format!("\"192.0.2.0/33\" {}", length(32))),
            ("192.0.2.0/", format!("\"192.0.2.0/\" {}", length(32))),
            ("192.0.2.0/+24", format!("\"192.0.2.0/+24\" {}", length(32))),
            ("192.0.2.0/255.255.255.0", format!("\"192.0.2.0/255.255.255.0\" {}", length(32))),
            ("2001:db8::/129", format!("\"2001:db8::/129\" {}", length(128))),
            (
                "192.0.2.7/24",
                "192.0.2.7/24 is not the first address of its prefix; write 192.0.2.0/24 for all of it, or 192.0.2.7 for the host alone".to_owned(),
            ),
            (
                "2001:db8::1/32",
                "2001:db8::1/32 is not the first address of its prefix; write 2001:db8::/32 for all of it, or 2001:db8::1 for the host alone".to_owned(),
            ),
            (
                "::ffff:192.0.2.0/120",
                "\"::ffff:192.0.2.0/120\" is IPv4 in the form of IPv6; write it as IPv4, such as \"192.0.2.0/24\"".to_owned(),
            ),
            (
                "::/0",
                "::/0 covers IPv4 addresses too; write \"2000::/3\" for all global IPv6 addresses".to_owned(),
            ),
            (
                "::/80",
                "::/80 covers IPv4 addresses too; write \"2000::/3\" for all global IPv6 addresses".to_owned(),
            ),
        ] {
            let file = with_interface(&format!("[sources]\ndeny = [\"{text}\"]\n"));
            assert_eq!(messages(&file), [format!("c.toml:4:9: {message}")]);
        }
    }

    #[test]
    fn a_prefix_stands_once() {
        let file = with_interface(
            "[sources]\ntrusted = [\"192.0.2.1\",\n\"192.0.2.1/32\"]\ndeny = [\"192.0.2.1\"]\n",
        );
        assert_eq!(
            messages(&file),
            [
                "c.toml:5:1: prefix 192.0.2.1/32 is that of line 4 again; remove one",
                "c.toml:6:9: prefix 192.0.2.1/32 is trusted in line 4, and cannot be denied too; remove one",
            ]
        );
    }

    #[test]
    fn their_number_is_bounded() {
        let many = |trusted: u32, denied: u32| {
            let list = |first: u32, count: u32| {
                let mut text = String::new();
                for address in first..first + count {
                    let _ = write!(text, "\"{}\", ", std::net::Ipv4Addr::from(address));
                }
                text
            };
            with_interface(&format!(
                "[sources]\ntrusted = [{}]\ndeny = [\n{}]\n",
                list(0x0a00_0000, trusted),
                list(0x0b00_0000, denied)
            ))
        };
        let (config, _) = accepted(&many(16_383, 1));
        assert_eq!(
            config.sources.trusted.len() + config.sources.denied.len(),
            16_384
        );
        assert_eq!(
            messages(&many(16_384, 2)),
            ["c.toml:6:1: 16386 prefixes are more than the 16384 of one instance; remove some"]
        );
    }
}
