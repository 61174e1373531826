//! Map SOURCES: trusted and denied prefixes of one generation.

use std::net::IpAddr;

use aya::maps::{MapError, lpm_trie::Key};
use overload_common::abi::{SOURCE_DENIED, SOURCE_TRUSTED, SourceAddress};

use super::maps::{Maps, MapsError, map_error};
use crate::config::{Prefix, Sources};

/// Bits of an IPv4 address's IPv6 form before it.
const MAPPED_BITS: u32 = 96;

/// The entry of a prefix, as the kernel compares it.
fn key(prefix: Prefix, generation: u32) -> Key<SourceAddress> {
    let (address, offset) = match prefix.address {
        IpAddr::V4(address) => (address.to_ipv6_mapped(), MAPPED_BITS),
        IpAddr::V6(address) => (address, 0),
    };
    let source = SourceAddress {
        generation: generation.to_be_bytes(),
        address: address.octets(),
    };
    let length = SourceAddress::GENERATION_BITS + offset + u32::from(prefix.length);
    Key::new(length, source)
}

/// Writes the prefixes of a generation, in place of what an interrupted start left of it.
pub fn write(maps: &mut Maps, sources: &Sources, generation: u32) -> Result<(), MapsError> {
    remove(maps, |found| found == generation)?;
    let Sources { trusted, denied } = sources;
    for (list, flags) in [(trusted, SOURCE_TRUSTED), (denied, SOURCE_DENIED)] {
        for prefix in list {
            maps.sources
                .insert(&key(*prefix, generation), flags, 0)
                .map_err(map_error("write", "SOURCES"))?;
        }
    }
    Ok(())
}

/// Removes the prefixes of generations that are not wanted.
pub fn remove(maps: &mut Maps, unwanted: impl Fn(u32) -> bool) -> Result<(), MapsError> {
    let keys: Result<Vec<Key<SourceAddress>>, MapError> = maps.sources.keys().collect();
    for key in keys.map_err(map_error("read", "SOURCES"))? {
        if unwanted(u32::from_be_bytes(key.data().generation)) {
            maps.sources
                .remove(&key)
                .map_err(map_error("write", "SOURCES"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_compared_behind_its_generation() {
        for (address, length, bits, octets) in [
            (
                "192.0.2.0",
                24,
                32 + 96 + 24,
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 0],
            ),
            (
                "2001:db8::",
                32,
                32 + 32,
                [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            ),
        ] {
            let prefix = Prefix {
                address: address.parse().expect("address"),
                length,
            };
            let key = key(prefix, 0x0102_0304);
            assert_eq!(key.prefix_len(), bits);
            let expected = SourceAddress {
                generation: [1, 2, 3, 4],
                address: octets,
            };
            assert_eq!(key.data(), expected);
        }
    }
}
