//! What is protected on one interface: what is configured, else what the interface has. Pure.

use std::net::IpAddr;

use overload_common::abi::{InterfaceRecord, MAX_ADDRESSES, MAX_MACS, Mode};
use thiserror::Error;

use super::interface::Interface;
use crate::{config, mac::Mac};

/// Bytes before the IP packet in a frame without VLAN tags.
const ETHERNET_HEADER: u32 = 14;

/// Addresses of one interface, as the packet filter is to know them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Name of the interface.
    pub name: String,
    /// The kernel's number of it.
    pub index: u32,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Protected addresses.
    pub addresses: Vec<IpAddr>,
    /// Addresses of the interface for which there is no room.
    pub left_out: Vec<IpAddr>,
    /// The interface's own MAC address, then those configured.
    pub macs: Vec<Mac>,
}

impl Protected {
    /// What is wanted of an interface as it is now.
    pub fn new(wanted: &config::Interface, interface: &Interface) -> Self {
        let mut addresses = if wanted.addresses.is_empty() {
            interface.addresses.clone()
        } else {
            wanted.addresses.clone()
        };
        let left_out = addresses.split_off(addresses.len().min(MAX_ADDRESSES));
        let mut macs = vec![interface.mac];
        macs.extend(wanted.macs.iter().filter(|mac| **mac != interface.mac));
        Self {
            name: interface.name.clone(),
            index: interface.index,
            mtu: interface.mtu,
            addresses,
            left_out,
            macs,
        }
    }

    /// Whether the kernel must be told, now that another time's is known.
    pub fn record_differs(&self, before: &Self) -> bool {
        self.record(Mode::Bypass) != before.record(Mode::Bypass)
    }

    /// From this to what is there now.
    pub fn changes(&self, now: &Self) -> Vec<Change> {
        let interface = || self.name.clone();
        let added = now.addresses.iter().filter(|a| !self.addresses.contains(a));
        let removed = self.addresses.iter().filter(|a| !now.addresses.contains(a));
        let mut changes: Vec<Change> = added
            .map(|address| Change::AddressAdded {
                interface: interface(),
                address: *address,
            })
            .collect();
        changes.extend(removed.map(|address| Change::AddressRemoved {
            interface: interface(),
            address: *address,
        }));
        if now.macs.first() != self.macs.first() {
            changes.extend(now.macs.first().map(|mac| Change::Mac {
                interface: interface(),
                mac: *mac,
            }));
        }
        if now.mtu != self.mtu {
            changes.push(Change::Mtu {
                interface: interface(),
                mtu: now.mtu,
            });
        }
        if !now.left_out.is_empty() && now.left_out != self.left_out {
            changes.push(Change::LeftOut {
                interface: interface(),
                addresses: now.left_out.clone(),
            });
        }
        changes
    }

    /// The record for the kernel.
    pub fn record(&self, mode: Mode) -> InterfaceRecord {
        let own = self.macs.first().map_or(0, |mac| mac.word());
        let mut record = InterfaceRecord {
            mode: mode as u32,
            address_count: self.addresses.len().min(MAX_ADDRESSES) as u32,
            macs: [own; MAX_MACS],
            max_frame: self.mtu.saturating_add(ETHERNET_HEADER),
            ifindex: self.index,
            ..InterfaceRecord::default()
        };
        for (slot, address) in record.addresses.iter_mut().zip(&self.addresses) {
            *slot = match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
        }
        for (slot, mac) in record.macs.iter_mut().zip(&self.macs) {
            *slot = mac.word();
        }
        record
    }
}

/// What changed on an interface.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Change {
    /// An address is protected now.
    #[error("{interface}: {address} is protected from now on")]
    AddressAdded {
        /// The interface.
        interface: String,
        /// The address.
        address: IpAddr,
    },
    /// An address is not protected any more.
    #[error("{interface}: {address} is no longer protected")]
    AddressRemoved {
        /// The interface.
        interface: String,
        /// The address.
        address: IpAddr,
    },
    /// The interface's own MAC address is another one.
    #[error("{interface}: its MAC address is {mac} now")]
    Mac {
        /// The interface.
        interface: String,
        /// The new one.
        mac: Mac,
    },
    /// The longest packet is another one.
    #[error("{interface}: its MTU is {mtu} now")]
    Mtu {
        /// The interface.
        interface: String,
        /// Bytes of an IP packet.
        mtu: u32,
    },
    /// There is no room for all addresses, or for others than before.
    #[error("{}", left_out(interface, addresses))]
    LeftOut {
        /// The interface.
        interface: String,
        /// Those not protected.
        addresses: Vec<IpAddr>,
    },
}

impl Change {
    /// Names of the kinds that are counted.
    pub const KINDS: [&str; 5] = [
        "address_added",
        "address_removed",
        "mac_changed",
        "mtu_changed",
        "addresses_left_out",
    ];

    /// Name of its kind.
    pub fn kind(&self) -> &'static str {
        Self::KINDS[match self {
            Self::AddressAdded { .. } => 0,
            Self::AddressRemoved { .. } => 1,
            Self::Mac { .. } => 2,
            Self::Mtu { .. } => 3,
            Self::LeftOut { .. } => 4,
        }]
    }

    /// The interface.
    pub fn interface(&self) -> &str {
        match self {
            Self::AddressAdded { interface, .. }
            | Self::AddressRemoved { interface, .. }
            | Self::Mac { interface, .. }
            | Self::Mtu { interface, .. }
            | Self::LeftOut { interface, .. } => interface,
        }
    }
}

/// The sentence for addresses for which there is no room.
pub fn left_out(interface: &str, addresses: &[IpAddr]) -> String {
    format!(
        "{interface} has more than {MAX_ADDRESSES} addresses, not protected: {}; write those that callers send to as addresses in its [[interface]] table",
        list(addresses)
    )
}

/// Addresses with blanks between.
pub fn list(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    texts.join(" ")
}

/// The addresses that a record protects.
pub fn addresses_of(record: &InterfaceRecord) -> Vec<IpAddr> {
    record
        .addresses
        .iter()
        .take(record.address_count as usize)
        .map(|octets| IpAddr::from(*octets).to_canonical())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Attach;

    fn wanted(addresses: &[&str], macs: &[Mac]) -> config::Interface {
        config::Interface {
            name: "eth0".to_owned(),
            attach: Attach::Native,
            addresses: parse(addresses),
            macs: macs.to_vec(),
        }
    }

    fn parse(addresses: &[&str]) -> Vec<IpAddr> {
        let parsed = addresses.iter().map(|a| a.parse().expect("address"));
        parsed.collect()
    }

    fn interface(addresses: &[&str]) -> Interface {
        Interface {
            name: "eth0".to_owned(),
            index: 9,
            mac: Mac([2, 0, 0, 0, 0, 0xaa]),
            mtu: 1500,
            is_veth: false,
            vlans: Vec::new(),
            addresses: parse(addresses),
            program: None,
        }
    }

    #[test]
    fn an_interface_is_described_to_the_kernel() {
        let vrrp = Mac([0, 0, 0x5e, 0, 1, 5]);
        let own = interface(&["192.0.2.1", "2001:db8::1"]);
        let protected = Protected::new(&wanted(&[], &[vrrp]), &own);
        let record = protected.record(Mode::Shadow);
        assert_eq!((record.mode, record.address_count), (1, 2));
        assert_eq!(
            record.addresses[0],
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1]
        );
        assert_eq!(
            record.addresses[1],
            [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
        );
        assert_eq!(record.addresses[2], [0; 16]);
        let own_word = 0xaa00_0000_0002;
        assert_eq!(
            record.macs,
            [own_word, 0x0501_005e_0000, own_word, own_word]
        );
        assert_eq!((record.max_frame, record.ifindex), (1514, 9));
        assert_eq!(addresses_of(&record), protected.addresses);
    }

    #[test]
    fn configured_addresses_stand_for_those_of_the_interface() {
        let own = interface(&["192.0.2.1"]);
        let protected = Protected::new(&wanted(&["198.51.100.7"], &[]), &own);
        assert_eq!(protected.addresses, parse(&["198.51.100.7"]));
        assert_eq!(protected.macs, [own.mac]);
    }

    #[test]
    fn of_more_than_eight_addresses_the_last_are_left_out() {
        let many: Vec<String> = (1..=10).map(|n| format!("192.0.2.{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let protected = Protected::new(&wanted(&[], &[]), &interface(&many));
        assert_eq!(protected.addresses, parse(&many[..8]));
        assert_eq!(protected.left_out, parse(&many[8..]));
        assert_eq!(protected.record(Mode::Enforce).address_count, 8);
    }

    #[test]
    fn changes_are_told_one_by_one() {
        let wanted = wanted(&[], &[Mac([2, 0, 0, 0, 0, 5])]);
        let before = Protected::new(&wanted, &interface(&["192.0.2.1", "192.0.2.2"]));
        assert_eq!(before.changes(&before), []);
        assert!(!before.record_differs(&before));
        let mut later = interface(&["192.0.2.2", "2001:db8::1"]);
        later.mac = Mac([2, 0, 0, 0, 0, 0xbb]);
        later.mtu = 9000;
        let now = Protected::new(&wanted, &later);
        assert!(now.record_differs(&before));
        let told: Vec<String> = before.changes(&now).iter().map(Change::to_string).collect();
        assert_eq!(
            told,
            [
                "eth0: 2001:db8::1 is protected from now on",
                "eth0: 192.0.2.1 is no longer protected",
                "eth0: its MAC address is 02:00:00:00:00:bb now",
                "eth0: its MTU is 9000 now",
            ]
        );
    }

    #[test]
    fn what_is_left_out_is_told_when_it_changes() {
        let many: Vec<String> = (1..=11).map(|n| format!("192.0.2.{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let protected = |count| Protected::new(&wanted(&[], &[]), &interface(&many[..count]));
        let told = |from, to| -> Vec<String> {
            let changes = protected(from).changes(&protected(to));
            changes.iter().map(Change::to_string).collect()
        };
        assert_eq!(
            told(8, 10),
            [
                "eth0 has more than 8 addresses, not protected: 192.0.2.9 192.0.2.10; write those that callers send to as addresses in its [[interface]] table"
            ]
        );
        assert_eq!(told(10, 10), [""; 0]);
        assert_eq!(told(10, 11).len(), 1);
        assert_eq!(told(11, 8), [""; 0]);
        assert!(!protected(8).record_differs(&protected(11)));
    }

    #[test]
    fn each_kind_of_change_has_its_name() {
        let interface = || "eth0".to_owned();
        let address = IpAddr::from([192, 0, 2, 1]);
        let all = [
            Change::AddressAdded {
                interface: interface(),
                address,
            },
            Change::AddressRemoved {
                interface: interface(),
                address,
            },
            Change::Mac {
                interface: interface(),
                mac: Mac::default(),
            },
            Change::Mtu {
                interface: interface(),
                mtu: 0,
            },
            Change::LeftOut {
                interface: interface(),
                addresses: Vec::new(),
            },
        ];
        assert_eq!(all.each_ref().map(Change::kind), Change::KINDS);
        assert!(all.iter().all(|change| change.interface() == "eth0"));
    }

    #[test]
    fn an_interface_without_address_protects_nothing() {
        let record = Protected::new(&wanted(&[], &[]), &interface(&[])).record(Mode::Enforce);
        assert_eq!(record.address_count, 0);
        assert_eq!(addresses_of(&record), Vec::<IpAddr>::new());
    }
}
