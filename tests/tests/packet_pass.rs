//! What must not be answered passes, each for its own reason, however full the limit.

use anyhow::Result;
use overload_common::abi::Reason;
use overload_tests::packet::{Datagram, Filter, base, edit};

const REQUEST_LINE: &str = "INVITE sip:+15551230001@gw1.example.net SIP/2.0\r\n";
const VIA: &str = "Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK-a1;rport\r\n";
const FROM: &str = "From: <sip:alice@example.com>;tag=f1\r\n";
const TO: &str = "To: <sip:+15551230001@gw1.example.net>\r\n";
const CALL_ID: &str = "Call-ID: a1@192.0.2.10\r\n";
const CSEQ: &str = "CSeq: 1 INVITE\r\n";

fn with_method(method: &str) -> String {
    base("a1").replace("INVITE", method)
}

#[test]
fn r3261_7_2_2_responses_are_never_answered() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (status, reason) in [
        ("SIP/2.0 100 Trying", Reason::Response1xx),
        ("SIP/2.0 180 Ringing", Reason::Response1xx),
        ("SIP/2.0 200 OK", Reason::Response2xx),
        ("SIP/2.0 302 Moved Temporarily", Reason::Response3xx),
        ("SIP/2.0 486 Busy Here", Reason::Response4xx),
        ("SIP/2.0 503 Service Unavailable", Reason::Response5xx),
        ("SIP/2.0 603 Decline", Reason::Response6xx),
        ("SIP/2.0 4294967301 Too big", Reason::Response4xx),
        ("SIP/2.0 099 x", Reason::ResponseOther),
        ("SIP/2.0 700 x", Reason::ResponseOther),
        ("SIP/2.1 200 OK", Reason::ResponseOther),
    ] {
        let response = edit(&base("a1"), REQUEST_LINE, &format!("{status}\r\n"));
        filter.expect(response, reason)?;
    }
    for line in [
        "INVITE\r\n",
        "INVITE sip:a@b\r\n",
        "INVITE sip:a@b SIP/3.0\r\n",
        "INVITE sip:a@b HTTP/1.1\r\n",
        "INVITE sip:a@b SIP/2.0 x\r\n",
        "SIP/2.0 INVITE sip:a@b\r\n",
        " INVITE sip:a@b SIP/2.0\r\n",
        "GET / HTTP/1.1\r\n",
    ] {
        let reason = filter.reason(edit(&base("a1"), REQUEST_LINE, line))?;
        assert_eq!(reason.verdict().name(), "pass", "{line} {reason:?}");
    }
    Ok(())
}

#[test]
fn r3261_16_3_1_max_forwards_0_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let line = "Max-Forwards: 70\r\n";
    for zero in [
        "Max-Forwards: 0\r\n",
        "MAX-FORWARDS :0 \r\n",
        "max-forwards:\r\n 0\r\n",
    ] {
        filter.expect(edit(&base("a1"), line, zero), Reason::MaxForwardsZero)?;
    }
    // Missing is fine, and so is any other number.
    filter.reply(edit(&base("a2"), line, ""))?;
    for (call, number) in [("a3", 1), ("a4", 10), ("a5", 255)] {
        let other = format!("Max-Forwards: {number}\r\n");
        filter.reply(edit(&base(call), line, &other))?;
    }
    // Another header whose name only begins alike.
    filter.reply(edit(&base("a6"), line, "Max-Forwarded: 0\r\n"))?;
    Ok(())
}

#[test]
fn r3261_8_1_1_1_each_missing_header_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for line in [VIA, FROM, TO, CALL_ID, CSEQ] {
        filter.expect(edit(&base("a1"), line, ""), Reason::MissingHeader)?;
        // A name that is not quite the header's.
        let (name, value) = line.split_once(':').unwrap_or_default();
        let other = format!("{name}x:{value}");
        filter.expect(edit(&base("a1"), line, &other), Reason::MissingHeader)?;
    }
    Ok(())
}

#[test]
fn r3261_8_1_1_1_each_duplicated_header_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for line in [FROM, TO, CALL_ID, CSEQ, "Max-Forwards: 70\r\n"] {
        let twice = edit(&base("a1"), line, &format!("{line}{line}"));
        filter.expect(twice, Reason::DuplicateHeader)?;
    }
    for (long, compact) in [(FROM, "f: sip:a@b"), (TO, "t: sip:a@b"), (CALL_ID, "i: x")] {
        let mixed = edit(&base("a1"), long, &format!("{long}{compact}\r\n"));
        filter.expect(mixed, Reason::DuplicateHeader)?;
    }
    Ok(())
}

#[test]
fn r3261_8_1_1_1_an_unparsable_via_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for value in [
        "",
        "SIP/2.0/UDP",
        "SIP/2.0/UDP ;branch=z9hG4bK-a1",
        "UDP 192.0.2.10;branch=z9hG4bK-a1",
        "SIP/1.0/UDP 192.0.2.10;branch=z9hG4bK-a1",
        "192.0.2.10;branch=z9hG4bK-a1",
        ";;,;,,",
        "SIP/2.0/UDP 192.0.2.10;branch=z9hG4bK-a1;x=\"open",
        "SIP/2.0/UDP 192.0.2.10;branch=z9hG4bK-a1;branch=z9hG4bK-a2",
        "SIP/2.0/UDP 192.0.2.10;branch=z9hG4bK-a1;rport;rport",
    ] {
        let request = edit(&base("a1"), VIA, &format!("Via: {value}\r\n"));
        let reason = filter.reason(request)?;
        assert!(
            matches!(reason, Reason::BadVia | Reason::MissingHeader),
            "{value:?} {reason:?}"
        );
    }
    filter.expect(edit(&base("a1"), "Via:", "Via"), Reason::BadHeader)
}

#[test]
fn r3261_8_1_1_1_an_unparsable_to_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for line in [
        "To:",
        "To",
        "To <sip:b@h>",
        "To: \"open <sip:b@h>",
        "To: <sip:b@h",
        "To: sip:b@h>",
        "To: \"a\\\" <sip:b@h>",
    ] {
        filter.expect(
            edit(&base("a1"), TO, &format!("{line}\r\n")),
            Reason::BadHeader,
        )?;
    }
    Ok(())
}

#[test]
fn r3261_8_1_1_1_an_unparsable_from_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for line in [
        "From:",
        "From",
        "From <sip:a@h>;tag=f1",
        "From: \"open <sip:a@h>;tag=f1",
        "From: <sip:a@h;tag=f1",
        "From: sip:a@h>;tag=f1",
        "From: \"a\\\" <sip:a@h>;tag=f1",
    ] {
        filter.expect(
            edit(&base("a1"), FROM, &format!("{line}\r\n")),
            Reason::BadHeader,
        )?;
    }
    Ok(())
}

#[test]
fn r3261_8_1_1_1_an_unparsable_call_id_or_cseq_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for line in ["Call-ID:", "Call-ID", "Call-ID a1", "i:  \t"] {
        let request = edit(&base("a1"), CALL_ID, &format!("{line}\r\n"));
        filter.expect(request, Reason::BadHeader)?;
    }
    for line in ["CSeq:", "CSeq", "CSeq 1 INVITE"] {
        let request = edit(&base("a1"), CSEQ, &format!("{line}\r\n"));
        filter.expect(request, Reason::BadHeader)?;
    }
    Ok(())
}

#[test]
fn r3261_8_1_1_5_1_cseq_must_be_the_requests() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for value in [
        "1 OPTIONS",
        "1 invite",
        "1 INVITEX",
        "1 INVIT",
        "INVITE",
        "1",
        "1INVITE",
        "x INVITE",
        "-1 INVITE",
        "1 INVITE x",
        "4294967296 INVITE",
        "36893488147419103232 INVITE",
        "00000000001 INVITE",
    ] {
        let request = edit(&base("a1"), "CSeq: 1 INVITE", &format!("CSeq: {value}"));
        filter.expect(request, Reason::BadCseq)?;
    }
    for (call, value) in [("a2", "0"), ("a3", "2147483647"), ("a4", "4294967295")] {
        let request = edit(&base(call), "CSeq: 1 ", &format!("CSeq: {value} "));
        filter.reply(request)?;
    }
    Ok(())
}

#[test]
fn r3261_12_1_a_tag_makes_a_dialog() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for tagged in [
        "<sip:b@c>;tag=1",
        "<sip:b@c>;x;tag=1;y",
        "<sip:b@c> ; TAG = 1",
        "<sip:b@c>\r\n ;tag=1",
        "\"a;tag=x\" <sip:b@c;tag=1>;tag=1",
        "sip:b@c;tag=1",
        "Bob <sip:b@c>;x=\"<;\";tag=olc00",
    ] {
        for name in ["To", "t", "TO "] {
            let line = format!("{name}: {tagged}\r\n");
            filter.expect(edit(&base("a1"), TO, &line), Reason::InDialog)?;
        }
    }
    for initial in ["\"a;tag=x\" <sip:b@c;tag=1>", "<sip:b@c?h=;tag=1>;tagx=1"] {
        filter.reply(edit(&base("a2"), TO, &format!("To: {initial}\r\n")))?;
    }
    Ok(())
}

#[test]
fn r3261_16_2_unknown_methods_pass() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for method in [
        "NEWMETHOD",
        "Invite",
        "INVITEX",
        "INVIT",
        "X-!.%*_+`'~",
        "SIP",
        "Via",
    ] {
        filter.expect(with_method(method), Reason::Unrecognised)?;
    }
    for method in ["BYE", "INFO", "NOTIFY", "PRACK", "REFER", "UPDATE"] {
        filter.expect(with_method(method), Reason::OtherMethod)?;
    }
    Ok(())
}

#[test]
fn r5626_3_5_1_stun_and_keep_alives_pass() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let stun = |kind: [u8; 2]| {
        let mut bytes = kind.to_vec();
        bytes.extend([0, 0, 0x21, 0x12, 0xa4, 0x42]);
        bytes.extend(b"transaction1");
        bytes
    };
    for kind in [[0x00, 0x01], [0x01, 0x01], [0x01, 0x11]] {
        filter.expect(stun(kind), Reason::Stun)?;
    }
    for ping in ["", "\r\n", "\r\n\r\n"] {
        filter.expect(ping, Reason::Keepalive)?;
    }
    Ok(())
}

#[test]
fn r3261_18_1_fragments_pass() -> Result<()> {
    let mut filter = Filter::refusing()?;
    // Don't fragment is no fragment; more fragments, an offset, and both are.
    for (bits, reason) in [
        ([0x40, 0x00], Reason::RateLimit),
        ([0x20, 0x00], Reason::Fragment),
        ([0x20, 0xb9], Reason::Fragment),
        ([0x00, 0xb9], Reason::Fragment),
        ([0x1f, 0xff], Reason::Fragment),
    ] {
        let mut frame = Datagram::new(5062, base("a1").as_bytes()).frame();
        frame[20..22].copy_from_slice(&bits);
        assert_eq!(filter.run(&frame)?.0, reason);
    }
    assert_eq!(filter.counters()?.offered, 1);
    Ok(())
}

#[test]
fn r3261_22_1_all_six_methods_get_the_same_503() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for method in [
        "INVITE",
        "MESSAGE",
        "REGISTER",
        "SUBSCRIBE",
        "OPTIONS",
        "PUBLISH",
    ] {
        let reply = filter.reply(with_method(method))?;
        let rows: Vec<_> = reply.split("\r\n").collect();
        assert_eq!(rows.len(), 9, "{reply}");
        assert_eq!(rows[0], "SIP/2.0 503 Service Unavailable");
        assert_eq!(rows[5], format!("CSeq: 1 {method}"));
        assert_eq!(rows[6..], ["Content-Length: 0", "", ""]);
        // No ACK follows but to an INVITE; if one came, it would not be taken for one of ours.
        let ack = overload_tests::packet::ack(&base("a1"), &reply);
        let expected = if method == "INVITE" {
            Reason::OwnAck
        } else {
            Reason::Ack
        };
        filter.expect(ack, expected)?;
    }
    Ok(())
}

#[test]
fn r4320_4_1b_other_requests_get_a_final_503_at_once_never_408() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for ms in [0, 500, 5000, 31_500] {
        filter.at_ms(ms)?;
        let reply = filter.reply(with_method("OPTIONS"))?;
        assert!(reply.starts_with("SIP/2.0 503 "), "{reply}");
    }
    Ok(())
}

#[test]
fn a_subscription_for_load_control_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for event in [
        "Event: load-control",
        "o: load-control;id=7",
        "EVENT :\tLoad-Control ;x",
    ] {
        let line = format!("{event}\r\nCSeq:");
        let request = edit(&with_method("SUBSCRIBE"), "CSeq:", &line);
        filter.expect(request, Reason::LoadControl)?;
    }
    for event in ["presence", "load-controls", "load-contro", "x;load-control"] {
        let line = format!("Event: {event}\r\nCSeq:");
        filter.reply(edit(&with_method("SUBSCRIBE"), "CSeq:", &line))?;
    }
    // The event alone is no subscription.
    let publish = edit(
        &with_method("PUBLISH"),
        "CSeq:",
        "Event: load-control\r\nCSeq:",
    );
    filter.reply(publish)?;
    Ok(())
}
