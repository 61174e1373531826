//! Header syntax (RFC 3261 7.3, 19.1, 25.1).

use anyhow::Result;
use overload_common::abi::{Reason, Verdict};
use overload_tests::packet::{Datagram, Filter, HOST, base, edit, tag};

const REQUEST_LINE: &str = "INVITE sip:+15551230001@gw1.example.net SIP/2.0\r\n";

/// Passes because nothing can be made of it: a reason of verdict "pass" that is no exemption.
fn expect_passed(filter: &mut Filter, request: &str) -> Result<Reason> {
    let reason = filter.reason(request)?;
    assert_eq!(reason.verdict(), Verdict::Pass, "{reason:?} {request}");
    Ok(reason)
}

#[test]
fn r3261_7_1_1_a_bad_request_line_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for line in [
        "INVITE  sip:a@gw1.example.net SIP/2.0",
        "INVITE sip:a@gw1.example.net  SIP/2.0",
        "INVITE sip:a@gw1.example.net SIP/2.0 ",
        "INVITE sip:a@gw1.example.net SIP/2.0\t",
        "INVITE sip:a@gw1.example.net; lr SIP/2.0",
        "INVITE sip:a@gw1.example.net\tSIP/2.0",
        "INVITE\tsip:a@gw1.example.net SIP/2.0",
        "INVITE <sip:a@gw1.example.net> SIP/2.0",
        "INVITE sip:a@gw1.example.net SIP / 2.0",
        "INVITE sip:a@gw1.example.net SIP/2.1",
        "INVITE sip:a@gw1.example.net SIP/7.0",
        "INVITE sip:a@gw1.example.net",
        "INVITE SIP/2.0",
        "INVITE  SIP/2.0",
        "INVITE sip: SIP/2.0",
        "INVITE sip:a@ SIP/2.0",
        "invite sip:a@gw1.example.net SIP/2.0",
    ] {
        let request = edit(&base("a1"), REQUEST_LINE, &format!("{line}\r\n"));
        expect_passed(&mut filter, &request)?;
    }
    // The version's case does not matter.
    let lower = edit(&base("a2"), "net SIP/2.0\r\nVia", "net sIp/2.0\r\nVia");
    filter.reply(lower)?;
    Ok(())
}

#[test]
fn r3261_7_1_1_a_folded_request_line_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for line in [
        "INVITE\r\n sip:a@gw1.example.net SIP/2.0",
        "INVITE sip:a@gw1.example.net\r\n SIP/2.0",
        "INVITE sip:a@gw1.example.net SIP/2.0\r\n ",
        "INVITE sip:a@gw1.example.net SIP/2.0\r\n\tmore",
    ] {
        let request = edit(&base("a1"), REQUEST_LINE, &format!("{line}\r\n"));
        expect_passed(&mut filter, &request)?;
    }
    Ok(())
}

#[test]
fn r3261_7_3_1_1_names_in_any_case_blanks_and_folds() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let plain = filter.reply(base("a1"))?;
    for (from, to) in [
        ("Via: ", "vIA  : "),
        ("Via: ", "VIA\t:"),
        ("From: ", "FROM :\r\n "),
        ("To: ", "TO :\r\n\t"),
        ("Call-ID: ", "CALL-id:  \t "),
        ("CSeq: ", "cseq :"),
        ("CSeq: 1 ", "CSeq:\r\n 1\r\n "),
    ] {
        let request = Datagram::new(5062, edit(&base("a1"), from, to).as_bytes());
        let (reason, reply) = filter.refusal(&request)?;
        // The same transaction, and the line copied as it stands.
        assert_eq!(reason, Reason::RefusedCopy);
        assert_eq!(reply, edit(&plain, from, to));
    }
    // A line end before the colon is none of these.
    expect_passed(&mut filter, &edit(&base("a1"), "To:", "To\r\n :"))?;
    Ok(())
}

#[test]
fn r3261_7_3_1_1_only_a_blank_or_tab_continues_a_line() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let plain = filter.reply(base("a1"))?;
    for start in [
        ":", ": x", ":x: y", "\0", "\u{1}x", "\r", "\rX: y", "\u{b}", "\u{c}z",
    ] {
        // Behind a line that is copied: such a line is not copied with it.
        let (request, at) = (base("a1"), base("a1").find("Max-Forwards"));
        let mut request = request;
        request.insert_str(at.unwrap_or_default(), &format!("{start}\r\n"));
        let datagram = Datagram::new(5062, request.as_bytes());
        let (reason, outcome) = filter.run(&datagram.frame())?;
        let reply = String::from_utf8_lossy(outcome.frame.get(42..).unwrap_or_default());
        assert!(
            reason.verdict() == Verdict::Pass || reply == plain,
            "{start:?} {reason:?} {reply}"
        );
    }
    Ok(())
}

#[test]
fn r3261_8_1_1_1_a_lower_via_without_colon_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for row in [
        "Via",
        "Via SIP/2.0/UDP b.example.com;branch=z9hG4bKb",
        "v SIP/2.0/UDP b.example.com;branch=z9hG4bKb",
        "Via\u{1}: SIP/2.0/UDP b.example.com;branch=z9hG4bKb",
        "V\r SIP/2.0/UDP b.example.com;branch=z9hG4bKb",
    ] {
        let request = edit(
            &base("a1"),
            "Max-Forwards",
            &format!("{row}\r\nMax-Forwards"),
        );
        expect_passed(&mut filter, &request)?;
    }
    Ok(())
}

#[test]
fn r3261_7_3_1_2_rows_and_lists_are_the_same() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let below = "SIP/2.0/UDP b.example.com;branch=z9hG4bKb";
    let rows = edit(
        &base("a1"),
        ";rport\r\n",
        &format!(";rport\r\nVia: {below}\r\n"),
    );
    let list = edit(&base("a1"), ";rport\r\n", &format!(";rport, {below}\r\n"));
    let first = filter.reply(&rows)?;
    let (reason, second) = filter.refusal(&Datagram::new(5062, list.as_bytes()))?;
    assert_eq!(reason, Reason::RefusedCopy);
    assert_eq!(tag(&first), tag(&second));
    assert_eq!(
        first.replace("\r\nVia: SIP/2.0/UDP b", ", SIP/2.0/UDP b"),
        second
    );
    Ok(())
}

#[test]
fn r3261_7_3_1_2_empty_elements_of_a_via_list_move_nothing() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for list in [",,SIP/2.0/UDP b;branch=z9hG4bKb", ", ,", ","] {
        // The top Via is whole: answered with the list as it stands, by the oracle's comparison.
        let request = edit(&base("a1"), ";rport\r\n", &format!(";rport{list}\r\n"));
        let reply = filter.reply(request)?;
        let via = format!(";rport=5062;received=192.0.2.10{list}\r\n");
        assert!(reply.contains(&via), "{reply}");
    }
    // The first element is empty: there is no top Via to answer to.
    for lead in [",", " , ", ",,"] {
        let request = edit(&base("a1"), "Via: ", &format!("Via: {lead}"));
        filter.expect(request, Reason::BadVia)?;
    }
    Ok(())
}

#[test]
fn r3261_7_3_1_2_a_list_of_single_headers_is_no_two_of_them() -> Result<()> {
    let mut filter = Filter::refusing()?;
    filter.expect(
        edit(&base("a1"), "CSeq: 1 INVITE", "CSeq: 1 INVITE, 2 INVITE"),
        Reason::BadCseq,
    )
}

#[test]
fn r3261_7_3_3_1_long_and_compact_names_mix() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let plain = filter.reply(base("a1"))?;
    let pairs = [
        ("Via:", "v:"),
        ("From:", "f:"),
        ("To:", "t:"),
        ("Call-ID:", "i:"),
        ("Contact:", "m:"),
        ("Content-Length:", "l:"),
    ];
    for mask in 0..64 {
        let (mut request, mut expected) = (base("a1"), plain.clone());
        for (bit, (long, compact)) in pairs.iter().enumerate() {
            if mask >> bit & 1 == 1 {
                request = edit(&request, &format!("\n{long}"), &format!("\n{compact}"));
                let line = format!("\n{compact}");
                expected = match *long {
                    // The one we write ourselves.
                    "Content-Length:" => expected,
                    _ => expected.replace(&format!("\n{long}"), &line),
                };
            }
        }
        assert_eq!(filter.reply(&request)?, expected);
    }
    // Other one-letter names mean other headers: they hide nothing and add nothing.
    for letter in ('a'..='z').filter(|letter| !"ftivol".contains(*letter)) {
        let line = format!("{letter}: <sip:x@y>;tag=1\r\nVia:");
        assert_eq!(filter.reply(edit(&base("a1"), "Via:", &line))?, plain);
    }
    Ok(())
}

#[test]
fn r3261_25_1_2_quoted_text_is_data() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for to in [
        "\"a\\\";tag=1\" <sip:b@h>",
        "\"a\\\\\" <sip:b@h>",
        "\"<sip:x@y>;tag=1, z\" <sip:b@h>",
        "<sip:b@h;x=,>",
        "<sip:b@h>;x=\"\\\\\\\";tag=1\"",
    ] {
        let line = format!("To: {to}\r\n");
        let request = edit(
            &base("a1"),
            "To: <sip:+15551230001@gw1.example.net>\r\n",
            &line,
        );
        let reply = filter.reply(request)?;
        assert!(reply.contains(&format!("To: {to};tag=olc")), "{reply}");
    }
    for to in [
        "\"a\\\\\" <sip:b@h>;tag=1",
        "\"a\\\"\" <sip:b@h>;tag=1",
        "<sip:b@h>;x=\"\\\\\";tag=1",
    ] {
        let line = format!("To: {to}\r\n");
        let request = edit(
            &base("a1"),
            "To: <sip:+15551230001@gw1.example.net>\r\n",
            &line,
        );
        filter.expect(request, Reason::InDialog)?;
    }
    // In a Via: comma and semicolon within quotes end nothing.
    let quoted = edit(&base("a2"), ";rport", ";x=\"a,b;maddr=1;rport\"");
    let reply = filter.reply(quoted)?;
    assert!(
        reply.contains(";x=\"a,b;maddr=1;rport\";received=192.0.2.10\r\n"),
        "{reply}"
    );
    Ok(())
}

#[test]
fn r3261_20_10_1_without_brackets_parameters_are_the_headers() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let line = "To: <sip:+15551230001@gw1.example.net>\r\n";
    filter.expect(
        edit(&base("a1"), line, "To: sip:b@h;tag=1\r\n"),
        Reason::InDialog,
    )?;
    let reply = filter.reply(edit(&base("a1"), line, "To: sip:b@h;x=1\r\n"))?;
    assert!(reply.contains("\r\nTo: sip:b@h;x=1;tag=olc"), "{reply}");
    // In From a tag is always the header's, and changes nothing.
    let from = edit(
        &base("a1"),
        "<sip:alice@example.com>;tag=f1",
        "sip:a@b;tag=f1",
    );
    let reply = filter.reply(from)?;
    assert!(reply.contains("\r\nFrom: sip:a@b;tag=f1\r\n"), "{reply}");
    Ok(())
}

#[test]
fn r3261_19_1_1_1_userinfo_ends_at_the_at_sign() -> Result<()> {
    let mut filter = Filter::new()?;
    filter.rate(7, Some(HOST), 0.0, 1.0)?;
    for (number, user) in [
        "user;par=u%40example.net@",
        "a:secret@",
        "a;b:c?d/e&f=g+h$i,j@",
        "sip:x@",
        "[2001:db8::1]@",
        "gw2.example.net;x@",
        "%00%40@",
        "",
    ]
    .iter()
    .enumerate()
    {
        for tail in [
            "",
            ":5060",
            ";lr",
            ":5061;transport=tcp",
            "?subject=x",
            ";x=y?a=b",
        ] {
            let call = format!("u{number}-{}", tail.len());
            let uri = format!("sip:{user}{HOST}{tail}");
            let request = edit(
                &base(&call),
                REQUEST_LINE,
                &format!("INVITE {uri} SIP/2.0\r\n"),
            );
            filter.expect(&request, Reason::RateLimit)?;
        }
    }
    // Two of them are none of SIP's.
    let twice = format!("INVITE sip:a@b@{HOST} SIP/2.0\r\n");
    filter.expect(
        edit(&base("a1"), REQUEST_LINE, &twice),
        Reason::UnsupportedUri,
    )
}

#[test]
fn r3261_18_3_1b_bytes_behind_the_body_are_noise() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let plain = filter.reply(base("a1"))?;
    for noise in [
        "x",
        "\r\n",
        "INVITE sip:x@y SIP/2.0\r\nVia: z\r\n\r\n",
        "\0\0\0\0",
    ] {
        assert_eq!(filter.reply(format!("{}{noise}", base("a1")))?, plain);
    }
    Ok(())
}

#[test]
fn r3261_18_3_1b_a_bare_line_feed_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let text = base("a1");
    for (at, _) in text.match_indices("\r\n") {
        let mut bare = text.clone();
        bare.remove(at);
        let reason = expect_passed(&mut filter, &bare)?;
        assert!(
            matches!(reason, Reason::BareLineFeed | Reason::NoHeaderEnd),
            "{reason:?} {bare}"
        );
    }
    expect_passed(&mut filter, &text.replace("\r\n", "\n"))?;
    expect_passed(&mut filter, &text.replace("\r\n", "\r"))?;
    Ok(())
}

#[test]
fn r3261_18_3_1b_a_body_shorter_than_stated_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for length in ["1", "5", "9999", "-1", "x", ""] {
        let line = format!("Content-Length: {length}\r\n");
        let request = edit(&base("a1"), "Content-Length: 0\r\n", &line);
        expect_passed(&mut filter, &request)?;
    }
    Ok(())
}

#[test]
fn a_header_section_longer_than_the_scan_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let with_rows = |call: &str, rows: usize| {
        edit(
            &base(call),
            "CSeq:",
            &format!("{}CSeq:", "X: y\r\n".repeat(rows)),
        )
    };
    // The base message has eight header rows.
    filter.reply(with_rows("a1", 64 - 8))?;
    filter.expect(with_rows("a2", 400), Reason::TooManyLines)?;
    // Long rows reach further with fewer lines.
    let long = format!("X: {}\r\nCSeq:", "y".repeat(3100));
    filter.reply(edit(&base("a3"), "CSeq:", &long))?;
    filter.expect("INVITE sip:a@b SIP/2.0\r\nX: y\r\nZ:", Reason::NoHeaderEnd)?;
    Ok(())
}

/// Rows that a reply copies stand anywhere among others; it copies 64 at most.
#[test]
fn copied_rows_may_be_scattered() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let with_vias = |call: &str, between: &str, vias: usize| {
        let via = format!("{between}v: SIP/2.0/UDP b;branch=z9hG4bKb\r\n");
        edit(&base(call), "CSeq:", &format!("{}CSeq:", via.repeat(vias)))
    };
    filter.reply(with_vias("a1", "X: y\r\n", 20))?;
    filter.reply(with_vias("a2", "", 25))?;
    let short = edit(
        &base("a3"),
        "CSeq:",
        &format!("{}CSeq:", "v: a\r\n".repeat(60)),
    );
    filter.expect(short, Reason::TooManyLines)?;
    Ok(())
}
