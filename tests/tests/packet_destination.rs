//! Which limit a request falls under: the host of its Request-URI.

use anyhow::Result;
use overload_common::abi::{Reason, Verdict};
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{Datagram, Filter, HOST, OTHER_HOST, base, edit};

const REQUEST_LINE: &str = "INVITE sip:+15551230001@gw1.example.net SIP/2.0\r\n";

fn to_uri(call: &str, uri: &str) -> String {
    edit(
        &base(call),
        REQUEST_LINE,
        &format!("INVITE {uri} SIP/2.0\r\n"),
    )
}

/// Refuses one host; others are admitted without a limit.
fn refusing_host(host: &str) -> Result<Filter> {
    let mut filter = Filter::new()?;
    filter.rate(7, Some(host), 0.0, 1.0)?;
    Ok(filter)
}

#[test]
fn the_host_compares_without_case() -> Result<()> {
    for configured in ["gw1.example.net", "GW1.Example.NET"] {
        let mut filter = refusing_host(configured)?;
        for (call, host) in [
            ("a", "gw1.example.net"),
            ("b", "GW1.EXAMPLE.NET"),
            ("c", "Gw1.eXample.net"),
        ] {
            filter.expect(to_uri(call, &format!("sip:x@{host}")), Reason::RateLimit)?;
            filter.expect(to_uri(call, &format!("SIPS:{host}")), Reason::RateLimit)?;
        }
    }
    Ok(())
}

#[test]
fn the_host_ends_where_port_parameters_or_headers_begin() -> Result<()> {
    let mut filter = refusing_host(HOST)?;
    for (call, uri) in [
        ("a", "sip:gw1.example.net"),
        ("b", "sip:x@gw1.example.net:5070"),
        ("c", "sip:x@gw1.example.net;user=phone"),
        ("d", "sip:x@gw1.example.net?Subject=y"),
        ("e", "sip:x@gw1.example.net:5070;lr?a=b"),
        ("f", "sips:x:pw@gw1.example.net"),
    ] {
        filter.expect(to_uri(call, uri), Reason::RateLimit)?;
    }
    for (call, uri) in [
        ("g", "sip:x@gw1.example.ne"),
        ("h", "sip:x@gw1.example.nett"),
        ("i", "sip:x@gw1.example.net.example.org"),
        ("j", "sip:x@xgw1.example.net"),
        ("k", "sip:gw1.example.net@gw2.example.net"),
        ("l", "sip:x@gw2.example.net;maddr=gw1.example.net"),
        ("m", "sip:x@[gw1.example.net]"),
    ] {
        filter.expect(to_uri(call, uri), Reason::NoControl)?;
    }
    Ok(())
}

#[test]
fn hosts_of_every_length_are_told_apart() -> Result<()> {
    for length in [1, 7, 8, 9, 15, 16, 17, 31, 64, 200, 230] {
        let host: String = ('a'..='z').cycle().take(length).collect();
        let mut filter = refusing_host(&host)?;
        filter.expect(to_uri("a", &format!("sip:{host}")), Reason::RateLimit)?;
        filter.expect(to_uri("b", &format!("sip:x@{host}:1;y")), Reason::RateLimit)?;
        filter.expect(to_uri("c", &format!("sip:{host}x")), Reason::NoControl)?;
        filter.expect(to_uri("d", &format!("sip:x{host}")), Reason::NoControl)?;
        if length > 1 {
            filter.expect(
                to_uri("e", &format!("sip:{}", &host[1..])),
                Reason::NoControl,
            )?;
            let cut = &host[..length - 1];
            filter.expect(to_uri("f", &format!("sip:{cut}")), Reason::NoControl)?;
        }
    }
    Ok(())
}

#[test]
fn address_literals_are_hosts() -> Result<()> {
    let mut filter = refusing_host("192.0.2.50")?;
    filter.expect(to_uri("a", "sip:x@192.0.2.50:5060"), Reason::RateLimit)?;
    filter.expect(to_uri("b", "sip:x@192.0.2.5"), Reason::NoControl)?;
    let mut filter = refusing_host("[2001:db8::1a]")?;
    for (call, uri) in [
        ("a", "sip:x@[2001:db8::1a]"),
        ("b", "sip:[2001:DB8::1A]:5061"),
        ("c", "sip:x@[2001:db8::1a];lr"),
    ] {
        filter.expect(to_uri(call, uri), Reason::RateLimit)?;
    }
    filter.expect(to_uri("d", "sip:x@[2001:db8::1b]"), Reason::NoControl)?;
    filter.expect(to_uri("e", "sip:x@[2001:db8::1]"), Reason::NoControl)
}

#[test]
fn a_host_comes_before_the_default() -> Result<()> {
    let mut filter = Filter::new()?;
    filter.rate(1, Some(HOST), 1000.0, 10.0)?;
    filter.rate(7, None, 0.0, 1.0)?;
    filter.expect(to_uri("a", &format!("sip:x@{HOST}")), Reason::WithinLimit)?;
    filter.expect(
        to_uri("b", &format!("sip:x@{OTHER_HOST}")),
        Reason::RateLimit,
    )?;
    assert_eq!(filter.counters()?.offered, 1);
    assert_eq!(filter.sandbox.control_counters(1)?.admitted, 1);
    Ok(())
}

#[test]
fn a_telephone_number_has_no_host() -> Result<()> {
    let mut filter = refusing_host(HOST)?;
    let numbers = [
        "tel:+15551230001",
        "TEL:+1-555-123(0001)",
        "tel:5551230001;phone-context=gw1.example.net",
        "tel:gw1.example.net",
    ];
    for (call, uri) in ["a", "b", "c", "d"].iter().zip(numbers) {
        filter.expect(to_uri(call, uri), Reason::NoControl)?;
    }
    filter.rate(8, None, 0.0, 1.0)?;
    for (call, uri) in ["e", "f", "g", "h"].iter().zip(numbers) {
        filter.expect(to_uri(call, uri), Reason::RateLimit)?;
    }
    for uri in [
        "mailto:x@gw1.example.net",
        "http://gw1.example.net",
        "sipx:gw1.example.net",
    ] {
        filter.expect(to_uri("i", uri), Reason::UnsupportedUri)?;
    }
    Ok(())
}

#[test]
fn without_a_control_all_are_admitted_and_remembered() -> Result<()> {
    let mut filter = Filter::new()?;
    for call in 0..100 {
        filter.expect(base(&format!("n{call}")), Reason::NoControl)?;
    }
    filter.at_ms(500)?;
    filter.expect(base("n0"), Reason::AdmittedCopy)?;
    assert_eq!(filter.sandbox.admitted_slots()?[0].controls, [u16::MAX; 4]);
    Ok(())
}

#[test]
fn a_percentage_accepts_its_share_and_copies_agree() -> Result<()> {
    for (percent, low, high) in [
        (0.0, 0, 0),
        (50.0, 1850, 2150),
        (90.0, 3500, 3700),
        (100.0, 4000, 4000),
    ] {
        let mut filter = Filter::new()?;
        filter.percent(7, None, percent)?;
        let mut admitted = Vec::new();
        for call in 0..4000 {
            let request = Datagram::new(5062, base(&format!("p{call}")).as_bytes());
            admitted.push(filter.flood(&request.frame())? == Action::Pass);
        }
        let count = admitted.iter().filter(|admitted| **admitted).count();
        assert!((low..=high).contains(&count), "{percent} %: {count}");
        let counters = filter.counters()?;
        assert_eq!((counters.offered, counters.admitted), (4000, count as u64));
        let refused = filter.sandbox.reason(Reason::PercentLimit)?;
        assert_eq!(refused, 4000 - count as u64);
        // Within the memory's life, and after it: the coin is the same.
        for ms in [500, 40_000] {
            filter.at_ms(ms)?;
            for (call, admitted) in admitted.iter().enumerate().take(200) {
                let reason = filter.reason(base(&format!("p{call}")))?;
                let expected = if *admitted {
                    Verdict::Admit
                } else {
                    Verdict::Refuse
                };
                assert_eq!(reason.verdict(), expected, "{reason:?} of call {call}");
            }
        }
    }
    Ok(())
}

#[test]
fn rate_0_refuses_all() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for second in 0..100 {
        filter.at_ms(second * 100_000)?;
        filter.expect(base(&format!("z{second}")), Reason::RateLimit)?;
    }
    assert_eq!(filter.counters()?.admitted, 0);
    Ok(())
}
