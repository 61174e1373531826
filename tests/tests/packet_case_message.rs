//! Messages that real software stumbled over: what they mean, and what the answer is.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use overload_common::abi::{Reason, Verdict};
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{Datagram, Filter, HOST, Random, base, checksum, edit, sdp, tag};

const TO: &str = "To: <sip:+15551230001@gw1.example.net>\r\n";

#[test]
fn c01_compact_names_are_the_same_request() -> Result<()> {
    let mut filter = Filter::new()?;
    filter.rate(7, Some(HOST), 0.0, 1.0)?;
    let long = filter.reply(base("a1"))?;
    let compact = base("a1")
        .replace("\nVia:", "\nv:")
        .replace("\nFrom:", "\nf:")
        .replace("\nTo:", "\nt:")
        .replace("\nCall-ID:", "\ni:")
        .replace("\nContact:", "\nm:")
        .replace("\nContent-Length:", "\nl:");
    let mixed = compact
        .replace("\nv:", "\nV:")
        .replace("\nf:", "\nF :")
        .replace("\ni:", "\nI\t :")
        .replace("\nl:", "\nL:");
    for request in [compact, mixed] {
        let (reason, reply) = filter.refusal(&Datagram::new(5062, request.as_bytes()))?;
        // Same destination, same transaction, same verdict: a copy.
        assert_eq!(reason, Reason::RefusedCopy);
        assert_eq!(tag(&reply), tag(&long));
        let value = "SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK-a1;rport=5062;received=192.0.2.10";
        assert!(
            reply
                .to_lowercase()
                .contains(&format!("\r\nv: {}\r\n", value.to_lowercase()))
        );
    }
    assert_eq!(filter.counters()?.offered, 1);
    Ok(())
}

#[test]
fn c02_keep_alives_and_leading_line_ends() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for ping in ["\r\n", "\r\n\r\n", "\0\0\0\0", &" ".repeat(20), ""] {
        filter.expect(ping, Reason::Keepalive)?;
    }
    // And what is alike.
    for ping in [
        "\0",
        "\n",
        "\r",
        "\r\n\r\n\r\n",
        &"\0".repeat(40),
        &"\r\n".repeat(20),
    ] {
        filter.expect(ping, Reason::Keepalive)?;
    }
    assert_eq!(filter.counters()?.offered, 0);
    let reply = filter.reply(base("a1"))?;
    for lead in ["\r\n", "\r\n\r\n"] {
        assert_eq!(filter.reply(format!("{lead}{}", base("a1")))?, reply);
    }
    Ok(())
}

#[test]
fn c02_a_request_behind_many_line_ends_is_no_keep_alive() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for line_ends in 3..8 {
        let lead = "\r\n".repeat(line_ends);
        let reason = filter.reason(format!("{lead}{}", base("a1")))?;
        assert_ne!(reason, Reason::Keepalive, "{line_ends}");
    }
    Ok(())
}

#[test]
fn c03_no_content_length() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (call, body) in [("a1", ""), ("a2", sdp())] {
        let request = edit(&base(call), "Content-Length: 0\r\n", "");
        filter.expect(format!("{request}{body}"), Reason::RateLimit)?;
    }
    Ok(())
}

#[test]
fn c04_several_vias_in_one_line() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let vias = |second: &str| {
        edit(
            &base("a1"),
            "Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK-a1;rport\r\n",
            &format!(
                "Via: SIP/2.0/UDP 192.0.2.10;branch=z9hG4bK-1;rport,SIP/2.0/TCP 10.0.0.9;branch={second}\r\n\
                 Via: SIP/2.0/UDP 198.51.100.4;branch=z9hG4bK-3\r\n"
            ),
        )
    };
    let reply = filter.reply(vias("z9hG4bK-2"))?;
    assert_eq!(
        reply.replace(tag(&reply), "{tag}"),
        "SIP/2.0 503 Service Unavailable\r\n\
         Via: SIP/2.0/UDP 192.0.2.10;branch=z9hG4bK-1;rport=5062;received=192.0.2.10,SIP/2.0/TCP 10.0.0.9;branch=z9hG4bK-2\r\n\
         Via: SIP/2.0/UDP 198.51.100.4;branch=z9hG4bK-3\r\n\
         From: <sip:alice@example.com>;tag=f1\r\n\
         To: <sip:+15551230001@gw1.example.net>;tag={tag}\r\n\
         Call-ID: a1@192.0.2.10\r\n\
         CSeq: 1 INVITE\r\n\
         Content-Length: 0\r\n\r\n"
    );
    // The key is of the first value only.
    let other = Datagram::new(5062, vias("z9hG4bK-9").as_bytes()).frame();
    assert_eq!(filter.run(&other)?.0, Reason::RefusedCopy);
    Ok(())
}

#[test]
fn c06_received_is_the_source_never_the_local_address() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (rport, port) in [(";rport", 6000), ("", 5078)] {
        let text = edit(
            &base("a1"),
            "192.0.2.10:5060;branch=z9hG4bK-a1;rport",
            &format!("10.99.99.99:5078;branch=z9hG4bK-a1{rport}"),
        );
        let mut request = Datagram::new(6000, text.as_bytes());
        request.source = Ipv4Addr::new(192, 0, 2, 77).into();
        let (_, reply) = filter.refusal(&request)?;
        assert!(reply.contains(";received=192.0.2.77\r\n"), "{reply}");
        assert!(!reply.contains("192.0.2.1\r\n"), "{reply}");
        let (_, outcome) = filter.run(&request.frame())?;
        let frame = Datagram::read(&outcome.frame).expect("a datagram");
        assert_eq!(
            (frame.destination, frame.destination_port),
            (request.source, port)
        );
    }
    Ok(())
}

#[test]
fn c09_to_tag_place() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (call, line) in [
        ("a1", "To: \"x;tag=1\" <sip:b@h>"),
        ("a2", "To: <sip:b@h;tag=1>"),
    ] {
        filter.expect(
            edit(&base(call), TO, &format!("{line}\r\n")),
            Reason::RateLimit,
        )?;
    }
    for line in ["To: sip:b@h;tag=1", "t:<sip:b@h>;Tag=1"] {
        filter.expect(
            edit(&base("a3"), TO, &format!("{line}\r\n")),
            Reason::InDialog,
        )?;
    }
    for line in [
        "To: <sip:b@h>;tag=",
        "To: <sip:b@h>;tag",
        "To: sip:b@h;tag=;x",
    ] {
        filter.expect(
            edit(&base("a4"), TO, &format!("{line}\r\n")),
            Reason::BadHeader,
        )?;
    }
    // A From without tag is an old client's (RFC 2543): judged. A BYE without To tag passes.
    filter.expect(edit(&base("a5"), ";tag=f1", ""), Reason::RateLimit)?;
    filter.expect(base("a6").replace("INVITE", "BYE"), Reason::OtherMethod)
}

#[test]
fn c10_torture_scalars_and_request_lines() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (from, to, reason) in [
        ("CSeq: 1 ", "CSeq: 36893488147419103232 ", Reason::BadCseq),
        ("CSeq: 1 INVITE", "CSeq: 1 OPTIONS", Reason::BadCseq),
        ("net SIP/2.0", "net SIP / 2.0", Reason::BadRequestLine),
        ("Via: SIP/2.0/UDP", "Via: SIP / 2.0 / UDP", Reason::BadVia),
        ("Max-Forwards: 70", "Max-Forwards: 300", Reason::RateLimit),
    ] {
        filter.expect(edit(&base("a1"), from, to), reason)?;
    }
    // Only the first request of a datagram counts.
    filter.expect(format!("{}{}", base("a2"), base("a3")), Reason::RateLimit)?;
    filter.expect(base("a2"), Reason::RefusedCopy)?;
    filter.expect(base("a3"), Reason::RateLimit)
}

#[test]
fn c10_long_key_fields_share_no_key() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for length in [100, 400, 511, 512, 513, 600, 1000, 2900] {
        let pad = "p".repeat(length);
        for (from, to) in [
            ("Call-ID: a1", format!("Call-ID: {pad}a1")),
            ("branch=z9hG4bK-a1", format!("branch=z9hG4bK-{pad}a1")),
            ("UDP 192.0.2.10:5060", format!("UDP {pad}.example.com:5060")),
            ("INVITE sip:+1", format!("INVITE sip:{pad}+1")),
        ] {
            let first = edit(&base("a1"), from, &to);
            // Another last letter: another request, or one nobody judges.
            let second = first.replacen(&format!("{pad}a1"), &format!("{pad}a2"), 1);
            let second = second.replacen(&format!("{pad}+1"), &format!("{pad}+2"), 1);
            let second = second.replacen(&format!("{pad}.e"), &format!("{pad}.f"), 1);
            assert_ne!(first, second);
            let reason = filter.reason(&first)?;
            if reason.verdict() == Verdict::Pass {
                assert!(length > 100, "{reason:?} at {length}");
                assert_eq!(filter.reason(&second)?, reason);
            } else {
                assert_eq!(reason, Reason::RateLimit, "{length} {from}");
                filter.expect(&second, Reason::RateLimit)?;
                filter.expect(&first, Reason::RefusedCopy)?;
            }
        }
    }
    Ok(())
}

#[test]
fn c11_other_protocols_on_the_port() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let mut stun = vec![0x00, 0x01, 0x00, 0x00, 0x21, 0x12, 0xa4, 0x42];
    stun.extend(b"0123456789ab");
    filter.expect(&stun, Reason::Stun)?;
    let mut rtp = vec![0x80, 0x00];
    rtp.extend((0..170u8).map(|byte| byte ^ 0x5a));
    filter.expect(&rtp, Reason::Unrecognised)?;
    let mut dtls = vec![0x16, 0xfe, 0xfd];
    dtls.extend([0x11; 60]);
    filter.expect(&dtls, Reason::Unrecognised)?;
    filter.expect("INVITE", Reason::Unrecognised)?;
    let uri = format!("sip:{}@gw1.example.net", "u".repeat(100));
    assert_eq!(uri.len(), 120);
    let long = edit(
        &base("a1"),
        "sip:+15551230001@gw1.example.net SIP",
        &format!("{uri} SIP"),
    );
    filter.expect(long, Reason::RateLimit)
}

#[test]
fn c14_checksums_are_right_at_every_length() -> Result<()> {
    let mut filter = Filter::refusing()?;
    // The oracle sums each reply anew: odd and even lengths, around the 508 bytes that are summed at once.
    for length in (0..60).chain(200..460).chain(700..760).chain(1000..1020) {
        let lower = format!("Via: SIP/2.0/UDP {}\r\nFrom: <sip", "n".repeat(length));
        let request = edit(&base(&format!("s{length}")), "From: <sip", &lower);
        filter.reply(request)?;
    }
    Ok(())
}

#[test]
fn c14_a_sum_of_0_is_sent_as_ffff() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let request = |name: &str| {
        let from = format!("From: \"{name}\" <sip");
        Datagram::new(5062, edit(&base("a1"), "From: <sip", &from).as_bytes())
    };
    // From is not part of the transaction: the replies differ in it alone. Look for one that sums to 0.
    let blank = "-".repeat(16);
    let (_, text) = filter.refusal(&request(&blank))?;
    let sums_to_zero = |name: &str| {
        let payload = text.replace(&blank, name);
        let length = (8 + payload.len() as u16).to_be_bytes();
        let pseudo = [192, 0, 2, 1, 192, 0, 2, 10, 0, 17, length[0], length[1]];
        let udp = [0x13, 0xc4, 0x13, 0xc6, length[0], length[1], 0, 0];
        checksum(&[&pseudo, &udp, payload.as_bytes()]) == 0
    };
    let mut random = Random::new(14);
    let name = (0..2_000_000)
        .map(|_| {
            let letters = (0..16).map(|_| char::from(b'0' + random.below(75) as u8));
            letters.collect::<String>().replace('\\', "x")
        })
        .find(|name| sums_to_zero(name))
        .context("one in 65,536 sums to zero")?;
    let (_, outcome) = filter.run(&request(&name).frame())?;
    assert_eq!(outcome.action, Action::Transmit);
    assert_eq!(outcome.frame[40..42], [0xff, 0xff]);
    filter.refusal(&request(&name))?;
    Ok(())
}

#[test]
fn c14_a_request_without_udp_checksum() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let mut frame = Datagram::new(5062, base("a1").as_bytes()).frame();
    let (_, with) = filter.run(&frame)?;
    frame[40..42].copy_from_slice(&[0, 0]);
    let (_, without) = filter.run(&frame)?;
    assert_eq!(without.frame, with.frame);
    assert!(Datagram::read(&without.frame).is_ok());
    Ok(())
}

#[test]
fn c17_responses_are_not_rejected() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let line = "INVITE sip:+15551230001@gw1.example.net SIP/2.0\r\n";
    for (start, reason) in [
        ("SIP/2.0 180 Ringing", Reason::Response1xx),
        ("SIP/2.0 503 Service Unavailable", Reason::Response5xx),
        ("SIP/3.0 200 OK", Reason::ResponseOther),
        ("SIP sip:b@h SIP/2.0", Reason::Unrecognised),
    ] {
        filter.expect(edit(&base("a1"), line, &format!("{start}\r\n")), reason)?;
    }
    // Our own refusal, sent back to us.
    let reply = filter.reply(base("a1"))?;
    filter.expect(reply, Reason::Response5xx)?;
    assert_eq!(filter.counters()?.offered, 1);
    Ok(())
}
