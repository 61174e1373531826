//! What the refusal contains (RFC 3261 8.2.6).

use std::{collections::HashSet, net::Ipv4Addr};

use anyhow::Result;
use overload_common::abi::{Reason, Verdict};
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{
    CLIENT_MAC, Datagram, Filter, SERVER_MAC, base, checksum, edit, sdp, tag, templates,
};

/// Asserts the whole text of a reply; `{tag}` stands for the To tag, which is new each time.
fn assert_text(reply: &str, expected: &str) {
    assert_eq!(reply.replace(tag(reply), "{tag}"), expected);
}

const BASE_REPLY: &str = "SIP/2.0 503 Service Unavailable\r\n\
    Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK-a1;rport=5062;received=192.0.2.10\r\n\
    From: <sip:alice@example.com>;tag=f1\r\n\
    To: <sip:+15551230001@gw1.example.net>;tag={tag}\r\n\
    Call-ID: a1@192.0.2.10\r\n\
    CSeq: 1 INVITE\r\n\
    Content-Length: 0\r\n\
    \r\n";

#[test]
fn r3261_7_2_1_the_whole_frame_of_a_refusal() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let request = Datagram::new(5062, base("a1").as_bytes());
    let (reason, outcome) = filter.run(&request.frame())?;
    assert_eq!(
        (reason, outcome.action),
        (Reason::RateLimit, Action::Transmit)
    );
    let text = String::from_utf8(outcome.frame[42..].to_vec())?;
    assert_text(&text, BASE_REPLY);
    assert!(text.starts_with("SIP/2.0 503 Service Unavailable\r\n"));

    let length = text.len() as u16;
    let mut expected = CLIENT_MAC.to_vec();
    expected.extend(SERVER_MAC);
    expected.extend([0x08, 0x00]);
    // Version 4, no options, default DSCP; no identification, don't fragment; TTL 64, UDP.
    let mut ip = vec![0x45, 0x00];
    ip.extend((28 + length).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 10]);
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    expected.extend(&ip);
    expected.extend([0x13, 0xc4, 0x13, 0xc6]);
    expected.extend((8 + length).to_be_bytes());
    assert_eq!(outcome.frame[..40], expected);
    // The UDP checksum, over the pseudo header too.
    assert!(Datagram::read(&outcome.frame).is_ok());
    Ok(())
}

#[test]
fn r3261_8_2_6_2_1_copies_all_vias() -> Result<()> {
    let top = "Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK-a1;rport\r\n";
    let filled =
        "Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK-a1;rport=5062;received=192.0.2.10";
    let lists = [
        // One, two, five, over rows, lists and compact names.
        ("\r\n", ""),
        (
            "\r\n",
            "Via: SIP/2.0/TCP b.example.com;branch=z9hG4bK-b\r\n",
        ),
        (
            "\r\n",
            "Via: SIP/2.0/UDP b.example.com;branch=z9hG4bK-b\r\n\
             v: SIP/2.0/TLS c.example.com;branch=z9hG4bK-c\r\n\
             Via: SIP/2.0/SCTP d.example.com;branch=z9hG4bK-d\r\n\
             VIA  : SIP/2.0/WSS e.invalid;branch=z9hG4bK-e;keep\r\n",
        ),
        (
            ", SIP/2.0/UDP b.example.com;branch=z9hG4bK-b,SIP/2.0/UDP c.example.com;branch=z9hG4bK-c\r\n",
            "v: SIP/2.0/TLS [2001:db8::d]:5061;branch=z9hG4bK-d;received=2001:db8::d, SIP/2.0/UDP e.example.com;branch=z9hG4bK-e\r\n",
        ),
        // Folds, at a parameter and between list values.
        (
            "\r\n ,SIP/2.0/UDP b.example.com\r\n\t;branch=z9hG4bK-b\r\n",
            "Via:\r\n  SIP/2.0/TLS c.example.com\r\n ;branch=z9hG4bK-c\r\n",
        ),
    ];
    let mut filter = Filter::refusing()?;
    for (rest, below) in lists {
        let request = base("a1").replace(top, &format!("{}{rest}{below}", top.trim_end()));
        let reply = filter.reply(&request)?;
        let one = format!("{filled}\r\n");
        // A fold behind rport goes with what rport is replaced by.
        let rest = rest.strip_prefix("\r\n ").unwrap_or(rest);
        let expected = BASE_REPLY.replace(&one, &format!("{filled}{rest}{below}"));
        assert_text(&reply, &expected);
    }
    Ok(())
}

#[test]
fn r3261_8_2_6_2_1_copies_from_call_id_and_cseq_as_they_stand() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let reply = filter.reply(
        "OPTIONS sip:gw1.example.net SIP/2.0\r\n\
         Subject: first\r\n\
         f:   \"A. \\\"Lice\\\"; x, y\" <sip:alice@example.com;user=phone?a=b>;x=\"1;2\" ; tag=f2  \r\n\
         Call-ID:a1@[2001:db8::1]\r\n\
         Supported: timer\r\n\
         CSEQ :\t4294967295\r\n OPTIONS\r\n\
         To: sip:bob@example.com;x=1\r\n\
         v: SIP/2.0/UDP h.example.com;branch=z9hG4bKa1\r\n\
         l: 3\r\n\
         \r\n\
         abc",
    )?;
    assert_text(
        &reply,
        "SIP/2.0 503 Service Unavailable\r\n\
         f:   \"A. \\\"Lice\\\"; x, y\" <sip:alice@example.com;user=phone?a=b>;x=\"1;2\" ; tag=f2  \r\n\
         Call-ID:a1@[2001:db8::1]\r\n\
         CSEQ :\t4294967295\r\n OPTIONS\r\n\
         To: sip:bob@example.com;x=1;tag={tag}\r\n\
         v: SIP/2.0/UDP h.example.com;branch=z9hG4bKa1;received=192.0.2.10\r\n\
         Content-Length: 0\r\n\
         \r\n",
    );
    Ok(())
}

#[test]
fn r3261_8_2_6_2_2_to_gets_a_tag_in_every_form() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for to in [
        "<sip:bob@example.com>",
        "<sip:bob@example.com>;x=1",
        "<sip:bob@example.com>;x=\"a;tag=b\";y",
        "sip:bob@example.com",
        "sip:bob@example.com;x=y",
        "Bob <sip:bob@example.com>",
        "Bob<sip:bob@example.com>",
        "\"Bob \\\" ;tag=1\" <sip:bob@example.com;tag=1>",
        "<tel:+1-555-123-0001;phone-context=example.com>",
        "<sip:bob@example.com>;tags=1",
        "<sip:bob@example.com> ;x",
    ] {
        let line = "To: <sip:+15551230001@gw1.example.net>\r\n";
        let request = edit(&base("a1"), line, &format!("To: {to}\r\n"));
        let reply = filter.reply(&request)?;
        let expected = edit(
            BASE_REPLY,
            "To: <sip:+15551230001@gw1.example.net>;",
            &format!("To: {to};"),
        );
        assert_text(&reply, &expected);
    }
    // What already has a tag is in a dialog and passes, so that no tag of ours stands beside another.
    let tagged = edit(
        &base("a1"),
        "gw1.example.net>\r\n",
        "gw1.example.net>;tag=b\r\n",
    );
    filter.expect(tagged, Reason::InDialog)
}

#[test]
fn r3261_18_2_1_1_received_is_always_the_source() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (via, expected) in [
        (
            "192.0.2.10:5060;branch=z9hG4bK-a1",
            "192.0.2.10:5060;branch=z9hG4bK-a1;received=192.0.2.10",
        ),
        (
            "ua.example.com;branch=z9hG4bK-a1;x",
            "ua.example.com;branch=z9hG4bK-a1;x;received=192.0.2.10",
        ),
        (
            "ua.example.com;received=6.6.6.6;branch=z9hG4bK-a1",
            "ua.example.com;received=192.0.2.10;branch=z9hG4bK-a1",
        ),
        (
            "ua.example.com;branch=z9hG4bK-a1;Received=[2001:db8::66]",
            "ua.example.com;branch=z9hG4bK-a1;received=192.0.2.10",
        ),
        (
            "ua.example.com;branch=z9hG4bK-a1;rport=1;received=6.6.6.6",
            "ua.example.com;branch=z9hG4bK-a1;rport=5062;received=192.0.2.10",
        ),
    ] {
        let usual = "192.0.2.10:5060;branch=z9hG4bK-a1;rport\r\n";
        let request = edit(&base("a1"), usual, &format!("{via}\r\n"));
        let reply = filter.reply(&request)?;
        assert!(
            reply.contains(&format!("\r\nVia: SIP/2.0/UDP {expected}\r\n")),
            "{reply}"
        );
        assert!(!reply.contains("6.6.6.6"));
    }
    Ok(())
}

#[test]
fn r3261_18_2_1_1_a_parameter_that_only_begins_like_received_is_kept() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for name in [
        "receivedx",
        "received-by",
        "rportx",
        "rpor",
        "branchx",
        "maddrx",
    ] {
        let request = edit(&base("a1"), ";rport", &format!(";{name}=1"));
        let reply = filter.reply(&request)?;
        let via = format!(";branch=z9hG4bK-a1;{name}=1;received=192.0.2.10\r\n");
        assert!(reply.contains(&via), "{reply}");
    }
    Ok(())
}

#[test]
fn r3581_4_1_rport_is_filled_with_the_source_port() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for port in [1u16, 9, 10, 99, 100, 999, 1000, 5060, 9999, 10_000, 65_535] {
        let call = format!("p{port}");
        let mut request = Datagram::new(port, base(&call).as_bytes());
        request.source = Ipv4Addr::new(203, 0, 113, 200).into();
        let (_, reply) = filter.refusal(&request)?;
        let filled = format!(";rport={port};received=203.0.113.200\r\n");
        assert!(reply.contains(&filled), "{reply}");
    }
    // Received is added even where it equals sent-by.
    assert!(filter.reply(base("a1"))?.contains(";received=192.0.2.10"));
    Ok(())
}

#[test]
fn r3261_19_3_1_tags_are_long_and_differ() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let mut tags = HashSet::new();
    for call in 0..500 {
        let reply = filter.reply(base(&format!("t{call}")))?;
        let tag = tag(&reply).to_owned();
        // Prefix, epoch and 64 bits as hexadecimal digits.
        assert_eq!(tag.len(), 20, "{tag}");
        assert!(tag.starts_with("olc0"), "{tag}");
        assert!(u64::from_str_radix(&tag[4..], 16).is_ok(), "{tag}");
        assert_ne!(tag, "f1");
        assert!(tags.insert(tag));
    }
    let halves: HashSet<_> = tags.iter().map(|tag| tag[12..].to_owned()).collect();
    assert_eq!(halves.len(), tags.len());
    Ok(())
}

#[test]
fn r3261_8_2_7_1_same_request_same_answer() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let request = Datagram::new(5062, base("a1").as_bytes()).frame();
    let (_, first) = filter.run(&request)?;
    for _ in 0..4 {
        let (reason, again) = filter.run(&request)?;
        assert_eq!(reason.verdict(), Verdict::Refuse);
        assert_eq!(again.action, first.action);
        assert_eq!(again.frame, first.frame);
    }
    let text = String::from_utf8_lossy(&first.frame).into_owned();
    let tag_of = |filter: &mut Filter, request: String| -> Result<String> {
        Ok(tag(&filter.reply(request)?).to_owned())
    };
    for other in [
        edit(&base("a1"), "z9hG4bK-a1", "z9hG4bK-a2"),
        edit(&base("a1"), "a1@192.0.2.10", "a2@192.0.2.10"),
        edit(&base("a1"), "CSeq: 1", "CSeq: 2"),
        edit(&base("a1"), "UDP 192.0.2.10:5060", "UDP 192.0.2.10:5061"),
    ] {
        assert_ne!(tag_of(&mut filter, other)?, tag(&text));
    }
    // Another host answers with another tag, though its request is the same.
    let mut other_host = Filter::refusing()?;
    assert_ne!(tag_of(&mut other_host, base("a1"))?, tag(&text));
    Ok(())
}

#[test]
fn r3261_20_14_1_content_length_is_0_whatever_the_body() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (call, length) in [("b1", sdp().len()), ("b2", 0)] {
        let request = edit(
            &base(call),
            "Content-Length: 0",
            &format!("Content-Type: application/sdp\r\nContent-Length: {length}"),
        );
        let reply = filter.reply(format!("{request}{}", &sdp()[..length]))?;
        assert!(reply.ends_with("\r\nContent-Length: 0\r\n\r\n"), "{reply}");
        assert_eq!(reply.matches("Content-Length").count(), 1);
    }
    Ok(())
}

#[test]
fn r3261_20_33_1b_no_retry_after() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let request = edit(&base("a1"), "CSeq", "Retry-After: 5\r\nCSeq");
    assert!(!filter.reply(request)?.contains("Retry-After"));
    Ok(())
}

#[test]
fn r3261_20_1_nothing_else_is_copied() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let request = edit(
        &base("a1"),
        "Call-ID",
        "Route: <sip:r.example.com;lr>\r\nRecord-Route: <sip:rr.example.com;lr>\r\nTimestamp: 54\r\n\
         Tolerance: x\r\nViable: y\r\nFromage: z\r\nCall-Info: <http://example.com>\r\nCSeq2: 1\r\nCall-ID",
    );
    assert_text(&filter.reply(request)?, BASE_REPLY);
    Ok(())
}

/// The shortest headers and the longest additions.
fn smallest() -> Datagram {
    let mut request = Datagram::new(
        65_535,
        b"INVITE sip:a SIP/2.0\r\nv:SIP/2.0/UDP a;branch=z9hG4bKa;rport\r\nf:sip:a\r\nt:sip:a\r\ni:a\r\nCSeq:1 INVITE\r\n\r\n",
    );
    request.source = Ipv4Addr::new(198, 51, 100, 200).into();
    request
}

#[test]
fn r3261_18_1_1_2_a_reply_is_at_most_100_bytes_longer() -> Result<()> {
    let mut filter = Filter::refusing()?;
    // The oracle compares the lengths.
    let (_, reply) = filter.refusal(&smallest())?;
    assert!(reply.len() > smallest().payload.len());
    for template in templates() {
        filter.reply(template)?;
    }
    Ok(())
}

#[test]
fn r3261_18_1_1_2_a_reply_above_the_mtu_is_not_sent() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let request = Datagram::new(5062, base("a1").as_bytes()).frame();
    let (_, outcome) = filter.run(&request)?;
    let length = outcome.frame.len() as u32;
    filter.max_frame(length)?;
    assert_eq!(filter.run(&request)?.1.frame, outcome.frame);
    filter.max_frame(length - 1)?;
    let (reason, dropped) = filter.run(&request)?;
    assert_eq!(
        (reason, dropped.action),
        (Reason::Unanswerable, Action::Drop)
    );
    // A new one is dropped too, and a copy of it gets no other verdict.
    let other = Datagram::new(5062, base("a2").as_bytes()).frame();
    assert_eq!(filter.run(&other)?.0, Reason::Unanswerable);
    assert_eq!(filter.run(&other)?.0, Reason::Unanswerable);
    assert_eq!(filter.counters()?.refused, 2);
    Ok(())
}

#[test]
fn a_frame_without_room_behind_it_grows_at_its_head() -> Result<()> {
    let mut filter = Filter::refusing()?;
    filter.max_frame(9000)?;
    let text = String::from_utf8(smallest().payload)?;
    // Up to the 3,520 bytes that fit a page of the test run beside what the driver keeps there.
    for padding in 3293..3376 {
        // A lower Via is copied as it stands.
        let text = edit(
            &text,
            "f:sip:a",
            &format!("v:{}\r\nf:sip:a", "x".repeat(padding - 2)),
        );
        let datagram = Datagram::new(65_535, text.as_bytes());
        let (_, reply) = filter.refusal(&datagram)?;
        assert!(reply.len() > datagram.payload.len());
    }
    Ok(())
}
