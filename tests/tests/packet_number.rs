//! Called numbers: prefixes as destinations, and emergency calls.

use anyhow::{Context, Result};
use overload_common::{
    abi::{ALGORITHM_RATE, ControlRecord, Reason},
    admit::gcra,
    sip::Number,
};
use overload_tests::packet::{Datagram, Filter, HOST, base, edit};

const SECOND: u64 = 1_000_000_000;
const URI: &str = "sip:+15551230001@gw1.example.net";

fn number(text: &str) -> Result<Number> {
    Number::read(text).with_context(|| format!("{text} is no number"))
}

/// Refuses everything: told by `RateLimit`, where another control admits.
fn refusal() -> ControlRecord {
    limit(0.0, 1.0)
}

fn limit(rate: f64, burst: f64) -> ControlRecord {
    let period_ticks = gcra::period_ticks(rate);
    ControlRecord {
        algorithm: ALGORITHM_RATE,
        period_ticks,
        tolerance_ticks: gcra::class_tolerances(period_ticks, burst),
        valid_until_ns: u64::MAX,
        ..ControlRecord::default()
    }
}

/// The base message with this Request-URI.
fn to(uri: &str, call: &str) -> String {
    edit(
        &base(call),
        &format!("INVITE {URI} SIP"),
        &format!("INVITE {uri} SIP"),
    )
}

/// Whether each of these Request-URIs is refused by the prefixes, which refuse everything.
fn refused(filter: &mut Filter, cases: &[(&str, bool)]) -> Result<()> {
    for (at, (uri, expected)) in cases.iter().enumerate() {
        let reason = filter.reason(to(uri, &format!("n{at}")))?;
        let found = match reason {
            Reason::RateLimit => true,
            Reason::NoControl | Reason::WithinLimit => false,
            other => anyhow::bail!("{uri}: {other:?}"),
        };
        assert_eq!(found, *expected, "{uri}");
    }
    Ok(())
}

#[test]
fn c07_numbers_with_separators_and_phone_context() -> Result<()> {
    let mut filter = Filter::new()?;
    filter
        .sandbox
        .control_prefix(7, number("+1555123")?, refusal())?;
    refused(
        &mut filter,
        &[
            ("tel:+1-555-123(0001)", true),
            ("tel:5551230001;phone-context=+1", false),
            ("sip:+1.555.123.0001@gw1.example.net;user=phone", true),
            (
                "sip:5551230001;phone-context=example.com@gw1.example.net;user=phone",
                false,
            ),
            ("tel:+1555123", true),
            ("tel:+155512", false),
            ("tel:+1555124", false),
            ("TEL:+15551239", true),
            ("tel:+15551239;ext=7", true),
            ("tel:15551239", false),
            ("sips:+15551239@gw1.example.net;user=phone", true),
            // RFC 3261 19.1.1: only user=phone says that the user is a number.
            ("sip:+15551239@gw1.example.net", false),
            ("sip:+15551239@gw1.example.net;user=ip", false),
            (
                "sip:+15551239@gw1.example.net;transport=udp;USER=Phone",
                true,
            ),
            ("sip:+15551239@gw1.example.net;user=phones", false),
            ("sip:+15551239:secret@gw1.example.net;user=phone", false),
            ("sip:+1555123x@gw1.example.net;user=phone", false),
            ("sip:gw1.example.net;user=phone", false),
            ("tel:+1555123000000000", false),
            ("tel:+155512300000000", true),
        ],
    )
}

#[test]
fn a_local_prefix_matches_numbers_without_plus_and_without_context() -> Result<()> {
    let mut filter = Filter::new()?;
    filter
        .sandbox
        .control_prefix(7, number("0900")?, refusal())?;
    refused(
        &mut filter,
        &[
            ("tel:0900123", true),
            ("sip:0900-123@gw1.example.net;user=phone", true),
            ("tel:0900123;phone-context=+49", false),
            ("tel:+0900123", false),
            ("tel:090", false),
        ],
    )
}

#[test]
fn the_first_destination_of_the_configuration_that_matches_decides() -> Result<()> {
    for host_first in [true, false] {
        let mut filter = Filter::new()?;
        let open = limit(1000.0, 100.0);
        if host_first {
            filter.sandbox.control(1, Some(HOST), open)?;
            filter
                .sandbox
                .control_prefix(2, number("+1555")?, refusal())?;
        } else {
            filter
                .sandbox
                .control_prefix(2, number("+1555")?, refusal())?;
            filter.sandbox.control(1, Some(HOST), open)?;
        }
        // Longer prefixes have no precedence of their own.
        filter.sandbox.control_prefix(3, number("+15551")?, open)?;
        filter.sandbox.control(4, None, open)?;
        refused(
            &mut filter,
            &[
                ("sip:+15551239@gw1.example.net;user=phone", !host_first),
                ("sip:+15551239@gw9.example.net;user=phone", true),
                ("tel:+15551", true),
                ("tel:+1666", false),
            ],
        )?;
    }
    Ok(())
}

/// An emergency call is admitted under its own reason where a normal one is refused.
fn with_reserve(rate: f64, share: f64, numbers: &[&str]) -> Result<Filter> {
    let mut filter = Filter::new()?;
    filter.reserve(rate, share)?;
    for text in numbers {
        filter.sandbox.emergency_number(number(text)?)?;
    }
    Ok(filter)
}

#[test]
fn r5031_4_2_1_the_whole_label_sos_is_an_emergency() -> Result<()> {
    let cases = [
        ("urn:service:sos", Reason::Emergency),
        ("URN:service:SOS.fire", Reason::Emergency),
        ("urn:service:sos.ecall.automatic", Reason::Emergency),
        ("urn:service:sosx", Reason::UnsupportedUri),
        ("urn:service:so", Reason::UnsupportedUri),
        ("urn:service:counseling", Reason::UnsupportedUri),
        // R6881-1: a test of the service is none.
        ("urn:service:test.sos.fire", Reason::UnsupportedUri),
        ("urn:nena:service:sos", Reason::UnsupportedUri),
    ];
    for (uri, expected) in cases {
        let mut filter = with_reserve(0.0, 1.0, &[])?;
        assert_eq!(filter.reason(to(uri, "a1"))?, expected, "{uri}");
    }
    Ok(())
}

#[test]
fn r6881_1_a_test_of_the_service_is_no_emergency() -> Result<()> {
    let mut filter = with_reserve(0.0, 1.0, &[])?;
    let reason = filter.reason(to("urn:service:test.sos.police", "a1"))?;
    assert_eq!(reason, Reason::UnsupportedUri);
    Ok(())
}

#[test]
fn local_1_emergency_numbers_match_exactly() -> Result<()> {
    for (uri, expected) in [
        ("sip:911@gw1.example.net", Reason::Emergency),
        ("sip:112@gw1.example.net;user=phone", Reason::Emergency),
        ("tel:112;phone-context=+49", Reason::Emergency),
        ("tel:1-1-2", Reason::Emergency),
        ("sip:9112@gw1.example.net", Reason::RateLimit),
        ("sip:91@gw1.example.net", Reason::RateLimit),
        ("sip:911x@gw1.example.net", Reason::RateLimit),
        ("sip:x911@gw1.example.net", Reason::RateLimit),
        ("sip:911.example.net", Reason::RateLimit),
        ("sip:0@112", Reason::RateLimit),
    ] {
        let mut filter = with_reserve(0.0, 1.0, &["112", "911"])?;
        assert_eq!(filter.reason(to(uri, "a1"))?, expected, "{uri}");
    }
    Ok(())
}

#[test]
fn the_emergency_share_is_bounded_in_total_and_for_each_source_prefix() -> Result<()> {
    let mut filter = with_reserve(0.0, 10.0, &["112"])?;
    let mut call = 0;
    let mut emergency = |filter: &mut Filter, source: [u8; 4]| -> Result<bool> {
        call += 1;
        let text = to("sip:112@gw1.example.net", &format!("e{call}"));
        let mut datagram = Datagram::new(5062, text.as_bytes());
        datagram.source = source.into();
        Ok(filter.run(&datagram.frame())?.0 == Reason::Emergency)
    };
    // Two at once in total, whoever sends them.
    let admitted: Vec<bool> = (0..4)
        .map(|prefix| emergency(&mut filter, [198, 51, prefix, 1]))
        .collect::<Result<_>>()?;
    assert_eq!(admitted, [true, true, false, false]);
    // Ten a second in total, one a second and five at once for a prefix.
    let mut admitted = 0;
    for tenth in 1..=100u64 {
        filter.at(10 * SECOND + tenth * SECOND / 10)?;
        admitted += u32::from(emergency(&mut filter, [203, 0, 113, tenth as u8])?);
    }
    assert!((14..=16).contains(&admitted), "{admitted}");
    Ok(())
}

#[test]
fn the_emergency_share_is_part_of_the_limit() -> Result<()> {
    let mut filter = with_reserve(1.0, 1.0, &["112"])?;
    let emergency = to("sip:112@gw1.example.net", "e1");
    assert_eq!(filter.reason(emergency)?, Reason::Emergency);
    // The next normal call waits for the second that the emergency call used.
    assert_eq!(filter.reason(base("a1"))?, Reason::RateLimit);
    filter.at(SECOND + 1000)?;
    assert_eq!(filter.reason(base("a2"))?, Reason::WithinLimit);
    let counters = filter.counters()?;
    assert_eq!(
        (counters.offered, counters.admitted, counters.refused),
        (3, 2, 1)
    );
    Ok(())
}

#[test]
fn copies_of_an_emergency_call_are_free() -> Result<()> {
    let mut filter = with_reserve(0.0, 1.0, &["112"])?;
    let emergency = to("sip:112@gw1.example.net", "e1");
    assert_eq!(filter.reason(&emergency)?, Reason::Emergency);
    filter.at_ms(500)?;
    assert_eq!(filter.reason(&emergency)?, Reason::AdmittedCopy);
    Ok(())
}
