//! Truncated and damaged messages: answered only where an independent reading agrees, never otherwise.

use std::{collections::HashSet, net::Ipv4Addr};

use anyhow::Result;
use overload_common::abi::{Reason, Verdict};
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{Datagram, Filter, Random, mutate, read_request, templates};

#[test]
fn templates_are_answered() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for template in templates() {
        assert!(read_request(template.as_bytes()).is_ok(), "{template}");
        let (reason, _) = filter.judge(&Datagram::new(5062, template.as_bytes()))?;
        assert_eq!(reason.verdict(), Verdict::Refuse, "{template}");
    }
    Ok(())
}

#[test]
fn datagrams_cut_at_every_length() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for template in templates() {
        let header_end = template.find("\r\n\r\n").unwrap_or_default() + 4;
        for length in 0..=template.len() {
            let datagram = Datagram::new(5062, &template.as_bytes()[..length]);
            let (reason, _) = filter.judge(&datagram)?;
            assert!(
                length >= header_end || reason.verdict() == Verdict::Pass,
                "{reason:?} at {length} of {template}"
            );
        }
    }
    Ok(())
}

#[test]
fn frames_cut_at_every_length_pass() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for template in templates() {
        let frame = Datagram::new(5062, template.as_bytes()).frame();
        for length in 14..frame.len() {
            let (reason, _) = filter.run(&frame[..length])?;
            let expected = if length < 42 {
                Reason::Unrelated
            } else {
                Reason::BadLength
            };
            assert_eq!(reason, expected, "{length}");
        }
        // Padding behind the datagram, as of a short Ethernet frame, is none of it.
        let mut padded = frame.clone();
        padded.extend([0x55; 18]);
        let (_, with) = filter.run(&padded)?;
        let (_, without) = filter.run(&frame)?;
        assert_eq!(with.action, Action::Transmit);
        assert_eq!(with.frame, without.frame);
    }
    Ok(())
}

#[test]
fn lengths_that_contradict_each_other_pass() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let template = &templates()[0];
    let frame = Datagram::new(5062, template.as_bytes()).frame();
    let ip = u16::from_be_bytes([frame[16], frame[17]]);
    let udp = u16::from_be_bytes([frame[38], frame[39]]);
    for (ip, udp) in [
        (ip + 1, udp),
        (ip, udp + 1),
        (ip - 1, udp),
        (0, udp),
        (19, udp),
        (ip, 0),
        (ip, 7),
        (u16::MAX, udp),
        (ip, u16::MAX),
        (u16::MAX, u16::MAX),
        (27, 7),
    ] {
        let mut frame = frame.clone();
        frame[16..18].copy_from_slice(&ip.to_be_bytes());
        frame[38..40].copy_from_slice(&udp.to_be_bytes());
        assert_eq!(filter.run(&frame)?.0, Reason::BadLength, "{ip} {udp}");
    }
    // A shorter UDP length is the datagram's end, wherever the packet ends.
    for cut in 1..template.len() as u16 {
        let mut frame = frame.clone();
        frame[38..40].copy_from_slice(&(udp - cut).to_be_bytes());
        assert_eq!(filter.run(&frame)?.0.verdict(), Verdict::Pass, "{cut}");
    }
    Ok(())
}

#[test]
fn twenty_thousand_damaged_messages() -> Result<()> {
    const SEED: u64 = 0x5eed_0bad_5119;
    let mut filter = Filter::refusing()?;
    let templates = templates();
    let mut reasons = HashSet::new();
    let (mut answered, mut faults) = (0, Vec::new());
    for number in 0..20_000u64 {
        // Each message has a seed of its own, by which it is repeated.
        let mut random = Random::new(SEED ^ number);
        let template = &templates[random.below(templates.len())];
        let damaged = mutate(template.as_bytes(), &mut random);
        let mut datagram = Datagram::new(1024 + random.below(60_000) as u16, &damaged);
        datagram.source = Ipv4Addr::new(198, 51, 100, random.below(256) as u8).into();
        match filter.judge(&datagram) {
            Ok((reason, _)) => {
                answered += u32::from(reason.verdict() == Verdict::Refuse);
                reasons.insert(reason);
            }
            Err(fault) => faults.push(format!("seed {SEED:#x} ^ {number}: {fault}")),
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults, the first:\n{}",
        faults.len(),
        faults[..faults.len().min(10)].join("\n\n")
    );
    // The damage reaches all parts of the filter and leaves enough to answer.
    assert!(answered > 2000, "{answered}");
    assert!(reasons.len() > 15, "{reasons:?}");
    Ok(())
}
