//! Who sends: denied, trusted and proven sources, and the budget of replies to all others.

use std::net::IpAddr;

use anyhow::Result;
use overload_common::{
    abi::{METHOD_PASSES, Reason, SOURCE_DENIED, SOURCE_TRUSTED},
    admit::gcra,
    sip::Method,
};
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{Datagram, Filter, ack, base, edit};

const SECOND: u64 = 1_000_000_000;

/// An INVITE with this call from this address.
fn from(source: &str, call: &str) -> Result<Datagram> {
    let source: IpAddr = source.parse()?;
    let text = base(call);
    Ok(if source.is_ipv4() {
        Datagram {
            source,
            ..Datagram::new(5062, text.as_bytes())
        }
    } else {
        Datagram {
            source,
            ..Datagram::new_v6(5062, text.as_bytes())
        }
    })
}

/// Refuses all, and answers `burst` requests of a prefix at once, then one a second.
fn with_budget(burst: f64) -> Result<Filter> {
    let mut filter = Filter::refusing()?;
    filter.sandbox.settings(|instance| {
        instance.reply_period_ticks = gcra::period_ticks(1.0);
        instance.reply_tolerance_ticks = gcra::tolerance_ticks(instance.reply_period_ticks, burst);
    })?;
    Ok(filter)
}

#[test]
fn denied_sources_are_left_to_the_host_and_charge_nobody() -> Result<()> {
    let mut filter = Filter::refusing()?;
    filter
        .sandbox
        .source("203.0.113.0".parse()?, 25, SOURCE_DENIED)?;
    filter
        .sandbox
        .source("2001:db8:bad::".parse()?, 48, SOURCE_DENIED)?;
    let cases = [
        ("203.0.113.7", Reason::Denied),
        ("203.0.113.127", Reason::Denied),
        ("203.0.113.128", Reason::RateLimit),
        ("2001:db8:bad::9", Reason::Denied),
        ("2001:db8:bae::9", Reason::RateLimit),
    ];
    for (number, (source, expected)) in cases.into_iter().enumerate() {
        let (reason, _) = filter.run(&from(source, &format!("a{number}"))?.frame())?;
        assert_eq!(reason, expected, "{source}");
    }
    assert_eq!(filter.counters()?.offered, 2);
    Ok(())
}

#[test]
fn the_longest_prefix_decides() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (prefix, length, flags) in [
        ("203.0.113.0", 24, SOURCE_DENIED),
        ("203.0.113.64", 26, SOURCE_TRUSTED),
        ("203.0.113.65", 32, SOURCE_DENIED),
    ] {
        filter.sandbox.source(prefix.parse()?, length, flags)?;
    }
    for (number, (source, expected)) in [
        ("203.0.113.1", Reason::Denied),
        ("203.0.113.64", Reason::RateLimit),
        ("203.0.113.65", Reason::Denied),
    ]
    .into_iter()
    .enumerate()
    {
        let (reason, _) = filter.run(&from(source, &format!("a{number}"))?.frame())?;
        assert_eq!(reason, expected, "{source}");
    }
    Ok(())
}

#[test]
fn what_a_prefix_of_another_generation_says_is_not_seen() -> Result<()> {
    let mut filter = Filter::refusing()?;
    filter
        .sandbox
        .source("192.0.2.0".parse()?, 24, SOURCE_DENIED)?;
    assert_eq!(filter.reason(base("a1"))?, Reason::Denied);
    filter
        .sandbox
        .settings(|instance| instance.generation = 2)?;
    assert_ne!(filter.reason(base("a2"))?, Reason::Denied);
    Ok(())
}

#[test]
fn an_unproven_prefix_has_a_budget_of_replies() -> Result<()> {
    let mut filter = with_budget(3.0)?;
    let mut answered = 0;
    for number in 0..20u8 {
        let datagram = from(&format!("198.51.100.{number}"), &format!("a{number}"))?;
        let (reason, outcome) = filter.run(&datagram.frame())?;
        match outcome.action {
            Action::Transmit => answered += 1,
            action => assert_eq!((action, reason), (Action::Drop, Reason::ReplyBudget)),
        }
    }
    assert_eq!(answered, 3);
    // Dropped or answered, they are refused.
    assert_eq!(filter.counters()?.refused, 20);
    // Another prefix has its own.
    let (reason, _) = filter.run(&from("198.51.101.1", "b1")?.frame())?;
    assert_eq!(reason, Reason::RateLimit);
    // Time brings one back.
    filter.at(2 * SECOND)?;
    let (reason, _) = filter.run(&from("198.51.100.99", "c1")?.frame())?;
    assert_eq!(reason, Reason::RateLimit);
    Ok(())
}

#[test]
fn the_prefix_of_ipv6_is_56_bits() -> Result<()> {
    let mut filter = with_budget(1.0)?;
    for (number, (source, expected)) in [
        ("2001:db8:1:100::1", Reason::RateLimit),
        ("2001:db8:1:1ff::2", Reason::ReplyBudget),
        ("2001:db8:1:200::1", Reason::RateLimit),
    ]
    .into_iter()
    .enumerate()
    {
        let (reason, _) = filter.run(&from(source, &format!("a{number}"))?.frame())?;
        assert_eq!(reason, expected, "{source}");
    }
    Ok(())
}

#[test]
fn trusted_sources_have_no_budget_of_replies() -> Result<()> {
    let mut filter = with_budget(1.0)?;
    filter
        .sandbox
        .source("198.51.100.0".parse()?, 24, SOURCE_TRUSTED)?;
    for number in 0..10 {
        let datagram = from("198.51.100.9", &format!("a{number}"))?;
        assert_eq!(filter.run(&datagram.frame())?.0, Reason::RateLimit);
    }
    Ok(())
}

#[test]
fn a_source_that_acknowledged_is_proven_for_an_hour_and_its_neighbour_is_not() -> Result<()> {
    let mut filter = with_budget(1.0)?;
    let first = from("198.51.100.9", "a1")?;
    let (_, reply) = filter.refusal(&first)?;
    let mut own = first.clone();
    own.payload = ack(&base("a1"), &reply).into_bytes();
    // A forged tag proves nothing.
    let mut forged = own.clone();
    let text = String::from_utf8(own.payload.clone())?;
    let at = text.find(";tag=olc").unwrap_or_default() + ";tag=olc0".len();
    let digit = if text[at..].starts_with('a') {
        "b"
    } else {
        "a"
    };
    forged.payload = format!("{}{digit}{}", &text[..at], &text[at + 1..]).into_bytes();
    assert_eq!(filter.run(&forged.frame())?.0, Reason::Ack);
    let (reason, _) = filter.run(&from("198.51.100.9", "a2")?.frame())?;
    assert_eq!(reason, Reason::ReplyBudget);

    assert_eq!(filter.run(&own.frame())?.0, Reason::OwnAck);
    for number in 3..9 {
        let datagram = from("198.51.100.9", &format!("a{number}"))?;
        assert_eq!(filter.run(&datagram.frame())?.0, Reason::RateLimit);
    }
    let (reason, _) = filter.run(&from("198.51.100.10", "b1")?.frame())?;
    assert_eq!(reason, Reason::ReplyBudget);

    filter.at(3_700 * SECOND)?;
    let reasons: Vec<Reason> = (0..3)
        .map(|number| {
            Ok(filter
                .run(&from("198.51.100.9", &format!("c{number}"))?.frame())?
                .0)
        })
        .collect::<Result<_>>()?;
    assert_eq!(
        reasons,
        [Reason::RateLimit, Reason::ReplyBudget, Reason::ReplyBudget]
    );
    Ok(())
}

#[test]
fn options_from_a_trusted_peer_has_the_thresholds_of_priority() -> Result<()> {
    let mut filter = Filter::limited(1.0, 4.0)?;
    filter
        .sandbox
        .source("198.51.100.0".parse()?, 24, SOURCE_TRUSTED)?;
    let request = |source: &str, method: &str, call: &str| -> Result<Datagram> {
        let mut datagram = from(source, call)?;
        datagram.payload = base(call).replace("INVITE", method).into_bytes();
        Ok(datagram)
    };
    // The burst of four is used up, by a stranger.
    for number in 0..6 {
        let datagram = request("203.0.113.5", "MESSAGE", &format!("a{number}"))?;
        let expected = if number < 4 {
            Reason::WithinLimit
        } else {
            Reason::RateLimit
        };
        assert_eq!(filter.run(&datagram.frame())?.0, expected, "{number}");
    }
    for (source, method, call, expected) in [
        ("203.0.113.5", "OPTIONS", "b1", Reason::RateLimit),
        ("198.51.100.5", "MESSAGE", "b2", Reason::RateLimit),
        ("198.51.100.5", "OPTIONS", "b3", Reason::WithinLimit),
    ] {
        let datagram = request(source, method, call)?;
        assert_eq!(
            filter.run(&datagram.frame())?.0,
            expected,
            "{source} {method}"
        );
    }
    Ok(())
}

#[test]
fn a_method_has_the_class_that_it_is_given() -> Result<()> {
    let mut filter = Filter::limited(1.0, 4.0)?;
    filter.sandbox.settings(|instance| {
        let give = |classes: u64, method: Method, class: u64| {
            classes & !(0xff << (8 * method as u64)) | class << (8 * method as u64)
        };
        // Low admits half of the burst.
        instance.method_classes = give(instance.method_classes, Method::Register, 3);
        instance.method_classes = give(instance.method_classes, Method::Publish, METHOD_PASSES);
    })?;
    let run = |filter: &mut Filter, method: &str, call: &str| {
        filter.reason(base(call).replace("INVITE", method))
    };
    for (number, expected) in [Reason::WithinLimit, Reason::WithinLimit, Reason::RateLimit]
        .into_iter()
        .enumerate()
    {
        assert_eq!(
            run(&mut filter, "REGISTER", &format!("a{number}"))?,
            expected
        );
    }
    assert_eq!(run(&mut filter, "MESSAGE", "b1")?, Reason::WithinLimit);
    let offered = filter.counters()?.offered;
    for number in 0..5 {
        let reason = run(&mut filter, "PUBLISH", &format!("c{number}"))?;
        assert_eq!(reason, Reason::ExemptMethod);
    }
    assert_eq!(filter.counters()?.offered, offered);
    Ok(())
}

#[test]
fn a_denied_source_gets_no_answer_to_a_copy_either() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let text = edit(&base("a1"), "Max-Forwards: 70", "Max-Forwards: 69");
    assert_eq!(filter.reason(&text)?, Reason::RateLimit);
    filter
        .sandbox
        .source("192.0.2.10".parse()?, 32, SOURCE_DENIED)?;
    assert_eq!(filter.reason(&text)?, Reason::Denied);
    Ok(())
}
