//! Rows of the grammar and of transaction sanity that need the whole filter, and cases about scanning.

use anyhow::Result;
use overload_common::abi::{Reason, Verdict};
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{Datagram, Filter, HOST, base, edit, sdp};

const LINE: &str = "INVITE sip:+15551230001@gw1.example.net SIP/2.0";

#[test]
fn r3261_7_3_1_3_what_compares_with_case_and_what_without() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let request = base("case");
    filter.expect(&request, Reason::RateLimit)?;
    // Without case: header and parameter names, scheme of the version.
    for (from, to) in [
        ("Call-ID:", "CALL-ID:"),
        (";branch=", ";BRANCH="),
        (";rport", ";RPort"),
        ("Via: SIP/2.0/UDP", "Via: sip/2.0/udp"),
        ("net SIP/2.0", "net sip/2.0"),
    ] {
        filter.expect(edit(&request, from, to), Reason::RefusedCopy)?;
    }
    // With case: Call-ID and userinfo. They name another request.
    for (from, to) in [
        ("Call-ID: case", "Call-ID: CASE"),
        ("INVITE sip:+1", "INVITE sip:a+1"),
    ] {
        filter.expect(edit(&request, from, to), Reason::RateLimit)?;
    }
    filter.expect(
        edit(&request, "INVITE sip:+1", "INVITE sip:A+1"),
        Reason::RateLimit,
    )?;
    // The method.
    filter.expect(
        edit(&request, "INVITE sip", "Invite sip"),
        Reason::Unrecognised,
    )?;
    filter.expect(edit(&request, "1 INVITE", "1 Invite"), Reason::BadCseq)
}

#[test]
fn r3261_25_1_1_blanks_around_separators() -> Result<()> {
    let mut filter = Filter::refusing()?;
    // Legal everywhere: answered rightly, or left to the proxy.
    for (number, via) in [
        "SIP / 2.0 / UDP 192.0.2.10:5060;branch=z9hG4bK{}",
        "SIP/2.0/UDP   192.0.2.10:5060;branch=z9hG4bK{}",
        "SIP/2.0/UDP\t192.0.2.10:5060;branch=z9hG4bK{}",
        "SIP/2.0/UDP\r\n 192.0.2.10:5060;branch=z9hG4bK{}",
        "SIP/2.0/UDP 192.0.2.10 : 5060;branch=z9hG4bK{}",
        "SIP/2.0/UDP 192.0.2.10 ;branch=z9hG4bK{}",
        "SIP/2.0/UDP 192.0.2.10; branch=z9hG4bK{}",
        "SIP/2.0/UDP 192.0.2.10;branch =z9hG4bK{}",
        "SIP/2.0/UDP 192.0.2.10;branch= z9hG4bK{}",
        "SIP/2.0/UDP 192.0.2.10;branch\r\n =\r\n z9hG4bK{};\r\n rport",
        "SIP/2.0/UDP 192.0.2.10;rport ;branch=z9hG4bK{}",
        "SIP/2.0/UDP 192.0.2.10;received = 192.0.2.7; branch=z9hG4bK{} , SIP / 2.0 / TCP b : 1 ; branch = z9hG4bK2",
        "SIP/2.0/UDP 192.0.2.10;\tbranch=z9hG4bK{}\t,\tSIP/2.0/TCP b",
    ]
    .iter()
    .enumerate()
    {
        let via = via.replace("{}", &format!("blank{number}"));
        let request = edit(&base("a1"), "SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK-a1;rport", &via);
        let (reason, outcome) = filter.judge(&Datagram::new(5062, request.as_bytes()))?;
        let refused = outcome.action == Action::Transmit;
        assert!(refused || reason.verdict() == Verdict::Pass, "{via:?} {reason:?}");
    }
    // In To, blanks hide no tag.
    for to in [
        "<sip:b@h> ; tag = 1",
        "<sip:b@h>\r\n ;\r\n tag\r\n =\r\n 1",
        "sip:b@h ;\ttag\t= 1",
    ] {
        let request = edit(&base("a2"), "<sip:+15551230001@gw1.example.net>", to);
        filter.expect(request, Reason::InDialog)?;
    }
    Ok(())
}

#[test]
fn r3261_8_2_2_3_1_required_extensions_do_not_keep_from_a_refusal() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (number, line) in [
        "Require: nothingSupportsThis",
        "Proxy-Require: noProxiesSupportThis",
        "Require: 100rel, path",
    ]
    .iter()
    .enumerate()
    {
        let request = edit(
            &base(&format!("q{number}")),
            "Contact:",
            &format!("{line}\r\nContact:"),
        );
        filter.expect(request, Reason::RateLimit)?;
    }
    Ok(())
}

#[test]
fn r3261_18_2_2_3_tcp_passes_and_is_counted() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let text = base("a1");
    for template in [
        Datagram::new(5062, text.as_bytes()),
        Datagram::new_v6(5062, text.as_bytes()),
    ] {
        let mut frame = template.frame();
        let (protocol, transport) = if template.source.is_ipv4() {
            (23, 34)
        } else {
            (20, 54)
        };
        frame[protocol] = 6;
        // Ports as UDP has them, then sequence numbers, offset and flags.
        let tcp = [0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0];
        frame.splice(transport + 4..transport + 8, tcp);
        assert_eq!(filter.run(&frame)?.0, Reason::Unrelated);
    }
    assert_eq!(filter.counters()?.offered, 0);
    Ok(())
}

#[test]
fn iana_1_each_registered_method_has_its_reason() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (method, reason) in [
        ("ACK", Reason::Ack),
        ("BYE", Reason::OtherMethod),
        ("CANCEL", Reason::Cancel),
        ("INFO", Reason::OtherMethod),
        ("INVITE", Reason::RateLimit),
        ("MESSAGE", Reason::RateLimit),
        ("NOTIFY", Reason::OtherMethod),
        ("OPTIONS", Reason::RateLimit),
        ("PRACK", Reason::OtherMethod),
        ("PUBLISH", Reason::RateLimit),
        ("REFER", Reason::OtherMethod),
        ("REGISTER", Reason::RateLimit),
        ("SUBSCRIBE", Reason::RateLimit),
        ("UPDATE", Reason::OtherMethod),
    ] {
        filter.expect(base("a1").replace("INVITE", method), reason)?;
        // Nothing but a blank ends a method, and case matters.
        for other in [
            method.to_lowercase(),
            format!("{method}S"),
            format!("{method}\t"),
            method[1..].to_owned(),
        ] {
            filter.expect(base("a1").replace("INVITE", &other), Reason::Unrecognised)?;
        }
    }
    Ok(())
}

#[test]
fn c07_telephone_numbers_with_separators_and_context_are_read() -> Result<()> {
    let mut filter = Filter::new()?;
    filter.rate(7, Some(HOST), 0.0, 1.0)?;
    for (number, (uri, reason)) in [
        ("tel:+1-555-123(0001)", Reason::NoControl),
        ("tel:5551230001;phone-context=+1", Reason::NoControl),
        (
            "tel:5551230001;phone-context=a@gw1.example.net",
            Reason::NoControl,
        ),
        (
            "sip:+1.555.123.0001@gw1.example.net;user=phone",
            Reason::RateLimit,
        ),
        (
            "sip:5551230001;phone-context=example.com@gw1.example.net;user=phone",
            Reason::RateLimit,
        ),
        (
            "sip:5551230001;phone-context=gw1.example.net@example.com;user=phone",
            Reason::NoControl,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let request = edit(
            &base(&format!("n{number}")),
            LINE,
            &format!("INVITE {uri} SIP/2.0"),
        );
        filter.expect(request, reason)?;
    }
    Ok(())
}

#[test]
fn c10_double_request_lines_and_a_call_id_of_4096_bytes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    // The second line is a header without a name that anyone knows.
    let twice = edit(&base("a1"), LINE, &format!("{LINE}\r\n{LINE}"));
    filter.judge(&Datagram::new(5062, twice.as_bytes()))?;
    let other = edit(
        &base("a2"),
        LINE,
        &format!("{LINE}\r\nOPTIONS sip:x@y SIP/2.0"),
    );
    filter.judge(&Datagram::new(5062, other.as_bytes()))?;
    for last in ["1", "2"] {
        let long = format!("Call-ID: {}{last}", "c".repeat(3_100));
        let request = edit(&base("a3"), "Call-ID: a3", &long);
        filter.expect(request, Reason::BadHeader)?;
    }
    Ok(())
}

#[test]
fn c12_a_fragmented_invite_is_not_judged() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let body = format!(
        "{}{}",
        sdp(),
        "a=candidate:1 1 UDP 2130706431 192.0.2.10 49170 typ host\r\n".repeat(34)
    );
    let text = edit(
        &base("a1"),
        "Content-Length: 0",
        &format!("Content-Length: {}", body.len()),
    ) + &body;
    let whole = Datagram::new(5062, text.as_bytes()).frame();
    assert!(text.len() > 2_300);
    let fragment = |offset: usize, length: usize, more: bool| {
        let mut frame = whole[..34].to_vec();
        frame.extend(&whole[34 + offset..34 + offset + length]);
        frame[16..18].copy_from_slice(&(20 + length as u16).to_be_bytes());
        let field = (offset / 8) as u16 | if more { 0x2000 } else { 0 };
        frame[20..22].copy_from_slice(&field.to_be_bytes());
        frame
    };
    let first = fragment(0, 1480, true);
    let last = fragment(1480, whole.len() - 34 - 1480, false);
    // In order, reversed, and the first alone.
    for frame in [&first, &last, &last, &first, &first] {
        assert_eq!(filter.run(frame)?.0, Reason::Fragment);
    }
    assert_eq!(filter.counters()?.offered, 0);
    // Whole, it is.
    filter.refusal(&Datagram::new(5062, text.as_bytes()))?;
    Ok(())
}

#[test]
fn c32_a_needed_header_as_the_last_of_64() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (number, needed) in ["Via", "From", "To", "Call-ID", "CSeq"].iter().enumerate() {
        // 64 header rows, the needed one last, in a short message and in one as long as the scan goes.
        for length in [2, 40] {
            let text = base(&format!("h{number}-{length}"));
            let line = text
                .split("\r\n")
                .find(|line| line.starts_with(&format!("{needed}:")));
            let line = line.unwrap_or_default().to_owned();
            let rest = edit(&text, &format!("{line}\r\n"), "");
            let fill = format!("X: {}\r\n", "y".repeat(length)).repeat(64 - 8);
            let request = rest.trim_end().to_owned() + "\r\n" + &fill + &line + "\r\n\r\n";
            assert_eq!(request.matches("\r\n").count(), 64 + 2);
            let reply = filter.reply(&request)?;
            assert!(reply.contains(&line[..line.len().min(20)]), "{reply}");
        }
    }
    Ok(())
}
