//! Truncated and damaged messages: answered only where an independent reading agrees, never otherwise.

use anyhow::Result;
use overload_common::abi::{Reason, Verdict};
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{Datagram, Filter, State, Stream, predict, templates};

#[test]
fn templates_are_answered() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for template in templates() {
        let datagram = Datagram::new(5062, template.as_bytes());
        // Nothing is wrong, and nothing is so rare that it may be left to the proxy.
        let prediction = predict(&datagram, &State::new(&[Reason::RateLimit]));
        assert_eq!(prediction.reasons, [Reason::RateLimit], "{template}");
        let (reason, _) = filter.judge(&datagram)?;
        assert_eq!(reason.verdict(), Verdict::Refuse, "{template}");
    }
    Ok(())
}

#[test]
fn datagrams_cut_at_every_length() -> Result<()> {
    let mut stream = Stream::new(Filter::refusing()?)?;
    let state = State::new(&[Reason::RateLimit, Reason::RefusedCopy]);
    for template in templates() {
        let header_end = template.find("\r\n\r\n").unwrap_or_default() + 4;
        for length in 0..=template.len() {
            let datagram = Datagram::new(5062, &template.as_bytes()[..length]);
            let reason = stream.send(&datagram, &state)?.reason;
            assert!(
                length >= header_end || reason.verdict() == Verdict::Pass,
                "{reason:?} at {length} of {template}"
            );
        }
    }
    stream.audit()
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
