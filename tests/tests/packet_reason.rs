//! Every reason is provoked by a frame, and counted once.

use std::collections::HashSet;

use anyhow::Result;
use overload_common::abi::Reason;
use overload_tests::packet::{Datagram, Filter, base, fixture};

#[test]
fn every_reason_has_its_frame() -> Result<()> {
    let mut filter = Filter::new()?;
    let mut found = HashSet::new();
    for fixture in fixture::reasons() {
        let reason = fixture.run(&mut filter)?.reason;
        assert!(found.insert(reason), "{reason:?} twice");
    }
    let missing: Vec<_> = Reason::ALL
        .iter()
        .filter(|reason| !found.contains(reason))
        .collect();
    assert_eq!(missing, [&Reason::Unconfigured]);
    Ok(())
}

#[test]
fn what_is_not_for_the_protected_host_is_unrelated() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (at, bytes) in [
        // Another MAC address, broadcast, multicast; ARP; TCP; another address; another port.
        (0, &[0x02, 0x5e, 0x12, 0x4e, 0x12, 0x02][..]),
        (0, &[0xff; 6]),
        (0, &[0x01, 0x00, 0x5e, 0x00, 0x01, 0x4b]),
        (12, &[0x08, 0x06]),
        (23, &[6]),
        (30, &[192, 0, 2, 2]),
        (36, &[0x13, 0xc5]),
        (36, &[0xc4, 0x13]),
    ] {
        let mut frame = Datagram::new(5062, base("a1").as_bytes()).frame();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(filter.run(&frame)?.0, Reason::Unrelated, "{at} {bytes:?}");
    }
    assert_eq!(filter.counters()?.offered, 0);
    Ok(())
}
