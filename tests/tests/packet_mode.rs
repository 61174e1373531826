//! Modes, validity and martian sources.

use std::net::Ipv4Addr;

use anyhow::Result;
use overload_common::abi::{Mode, Reason};
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{Datagram, Filter, T0, ack, base, edit};

#[test]
fn shadow_passes_and_counts_apart() -> Result<()> {
    let mut filter = Filter::limited(0.001, 2.0)?;
    filter.mode(Mode::Shadow)?;
    for (call, reason, shadow) in [
        ("a", Reason::WithinLimit, false),
        ("b", Reason::WithinLimit, false),
        ("c", Reason::RateLimit, true),
        ("d", Reason::RateLimit, true),
        ("c", Reason::RefusedCopy, true),
        ("a", Reason::SurplusCopy, true),
    ] {
        let frame = Datagram::new(5062, base(call).as_bytes()).frame();
        let (found, outcome) = filter.run(&frame)?;
        assert_eq!((found, outcome.action), (reason, Action::Pass));
        assert_eq!(outcome.reasons, [(reason, shadow)]);
        assert_eq!(outcome.frame, frame);
    }
    // What is not judged is counted as always.
    filter.expect("\r\n", Reason::Keepalive)?;
    let counters = filter.counters()?;
    assert_eq!(
        (counters.admitted, counters.refused, counters.shadow_refused),
        (2, 0, 2)
    );
    Ok(())
}

#[test]
fn what_shadow_let_through_is_a_known_call_when_enforcing_begins() -> Result<()> {
    let mut filter = Filter::limited(0.001, 1.0)?;
    filter.mode(Mode::Shadow)?;
    filter.expect(base("a"), Reason::WithinLimit)?;
    filter.expect(base("b"), Reason::RateLimit)?;
    filter.mode(Mode::Enforce)?;
    filter.at_ms(500)?;
    filter.expect(base("a"), Reason::AdmittedCopy)?;
    filter.expect(base("b"), Reason::AdmittedCopy)?;
    filter.expect(base("c"), Reason::RateLimit)?;
    filter.at_ms(1500)?;
    filter.expect(base("b"), Reason::AdmittedCopy)?;
    let counters = filter.counters()?;
    assert_eq!((counters.refused, counters.shadow_refused), (1, 1));
    Ok(())
}

#[test]
fn bypass_judges_nothing() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let reply = filter.reply(base("a"))?;
    filter.mode(Mode::Bypass)?;
    for payload in [
        base("a"),
        base("b"),
        ack(&base("a"), &reply),
        "\r\n".to_owned(),
        reply.clone(),
    ] {
        filter.expect(payload, Reason::Bypass)?;
    }
    assert_eq!(filter.counters()?.offered, 1);
    filter.mode(Mode::Enforce)?;
    assert_eq!(filter.reply(base("a"))?, reply);
    Ok(())
}

#[test]
fn a_control_is_inert_outside_its_validity() -> Result<()> {
    let mut filter = Filter::new()?;
    let second = 1_000_000_000;
    filter.rate_within(7, None, (0.0, 1.0), T0 + second..T0 + 2 * second)?;
    for (ns, reason) in [
        (0, Reason::WithinLimit),
        (second - 1, Reason::WithinLimit),
        (second, Reason::RateLimit),
        (2 * second - 1, Reason::RateLimit),
        (2 * second, Reason::WithinLimit),
        (3600 * second, Reason::WithinLimit),
    ] {
        filter.at(ns)?;
        filter.expect(base(&format!("v{ns}")), reason)?;
    }
    assert_eq!(filter.counters()?.refused, 2);
    Ok(())
}

fn from(source: [u8; 4], port: u16, via: &str) -> Datagram {
    let call = format!("m{}-{port}-{}", u32::from_be_bytes(source), via.len());
    let text = base(&call).replace(";rport", via);
    let mut datagram = Datagram::new(port, text.as_bytes());
    datagram.source = Ipv4Addr::from(source).into();
    datagram
}

#[test]
fn martian_sources_are_never_answered() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for source in [
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [127, 0, 0, 1],
        [127, 255, 255, 254],
        [224, 0, 1, 75],
        [239, 1, 2, 3],
        [240, 0, 0, 1],
        [255, 255, 255, 255],
    ] {
        let request = from(source, 5062, ";rport").frame();
        // First copy and second.
        assert_eq!(filter.run(&request)?.0, Reason::Martian, "{source:?}");
        assert_eq!(filter.run(&request)?.0, Reason::Martian, "{source:?}");
    }
    for source in [
        [1, 0, 0, 1],
        [126, 255, 255, 255],
        [128, 0, 0, 1],
        [223, 255, 255, 254],
    ] {
        filter.refusal(&from(source, 5062, ";rport"))?;
    }
    Ok(())
}

#[test]
fn a_refused_request_from_our_own_address_is_dropped() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let request = from([192, 0, 2, 1], 5060, ";rport").frame();
    assert_eq!(filter.run(&request)?.0, Reason::Martian);
    Ok(())
}

#[test]
fn martian_ports_are_never_answered() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for port in [0, 7, 19] {
        let request = from([192, 0, 2, 10], port, ";rport").frame();
        assert_eq!(filter.run(&request)?.0, Reason::Martian, "{port}");
        // The port that counts is the one the reply would go to.
        filter.refusal(&from([192, 0, 2, 10], port, ""))?;
        let mut request = from([192, 0, 2, 10], 5062, "");
        let text = String::from_utf8(request.payload)?;
        let sent_by = format!("192.0.2.10:{port};");
        request.payload = edit(&text, "192.0.2.10:5060;", &sent_by).into_bytes();
        assert_eq!(
            filter.run(&request.frame())?.0,
            Reason::Martian,
            "sent-by {port}"
        );
    }
    for port in [1, 6, 8, 18, 20, 65_535] {
        filter.refusal(&from([192, 0, 2, 10], port, ";rport"))?;
    }
    Ok(())
}

#[test]
fn martians_within_the_limit_pass() -> Result<()> {
    let mut filter = Filter::new()?;
    for (source, port) in [([127, 0, 0, 1], 5060), ([192, 0, 2, 10], 7)] {
        assert_eq!(
            filter.run(&from(source, port, ";rport").frame())?.0,
            Reason::NoControl
        );
    }
    Ok(())
}
