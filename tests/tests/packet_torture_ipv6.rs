//! IPv6 references in messages, after RFC 5118, in datagrams over both IP versions.

use anyhow::Result;
use overload_common::abi::Reason;
use overload_tests::packet::{Datagram, Filter, base, edit};

const LINE: &str = "INVITE sip:+15551230001@gw1.example.net SIP/2.0";
const SENT_BY: &str = "192.0.2.10:5060";

/// The same payload over IPv4 and IPv6.
fn both(payload: &str) -> [Datagram; 2] {
    [
        Datagram::new(5062, payload.as_bytes()),
        Datagram::new_v6(5062, payload.as_bytes()),
    ]
}

#[test]
fn r5118_4_1_4_4_references_in_the_request_uri() -> Result<()> {
    let mut filter = Filter::new()?;
    filter.rate(7, Some("[2001:db8::10]"), 0.0, 1.0)?;
    for (number, (uri, judged)) in [
        ("sip:[2001:db8::10]", true),
        ("sip:[2001:db8::10]:5070", true),
        ("sip:alice@[2001:DB8::10];transport=udp", true),
        // The port within the brackets is a group of the address (4.3).
        ("sip:[2001:db8::10:5070]", false),
        ("sip:[2001:db8::1]", false),
    ]
    .into_iter()
    .enumerate()
    {
        let request = edit(
            &base(&format!("u{number}")),
            LINE,
            &format!("INVITE {uri} SIP/2.0"),
        );
        for datagram in both(&request) {
            let (reason, _) = filter.run(&datagram.frame())?;
            let expected = if judged {
                Reason::RateLimit
            } else {
                Reason::NoControl
            };
            assert_eq!(reason, expected, "{uri}");
        }
    }
    Ok(())
}

#[test]
fn r5118_4_1_references_in_via_and_address_headers() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (number, (sent_by, port)) in [
        ("[2001:db8::9:1]", 5060),
        ("[2001:db8::9:1]:5070", 5070),
        ("[::ffff:192.0.2.10]:5071", 5071),
        ("[2001:DB8:0:0:0:0:0:1]:5072", 5072),
    ]
    .into_iter()
    .enumerate()
    {
        let request = edit(&base(&format!("v{number}")), SENT_BY, sent_by);
        let request = edit(&request, ";rport", "");
        let request = edit(
            &request,
            "<sip:alice@example.com>",
            "<sip:user@[2001:db8::20]>",
        );
        for datagram in both(&request) {
            let (_, text) = filter.refusal(&datagram)?;
            let received = format!(";received={}\r\n", datagram.source);
            assert!(
                text.contains(&received) && !text.contains("received=["),
                "{text}"
            );
            let (_, outcome) = filter.run(&datagram.frame())?;
            let reply = Datagram::read(&outcome.frame).expect("a datagram");
            assert_eq!(reply.destination_port, port, "{sent_by}");
        }
    }
    Ok(())
}

#[test]
fn r5118_4_5_received_with_and_without_brackets() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (number, received) in ["[2001:db8::9:255]", "2001:db8::9:255"]
        .into_iter()
        .enumerate()
    {
        let request = edit(
            &base(&format!("r{number}")),
            SENT_BY,
            &format!("[2001:db8::9:1]:5070;received={received}"),
        );
        for datagram in both(&request) {
            let (_, text) = filter.refusal(&datagram)?;
            let received = format!("[2001:db8::9:1]:5070;received={};branch", datagram.source);
            assert!(text.contains(&received), "{text}");
        }
    }
    // Below the top, both forms are another hop's and stay.
    let lower = "Via: SIP/2.0/UDP [2001:db8::9:1];received=[2001:db8::9:255];branch=z9hG4bKas3\r\n\
                 Via: SIP/2.0/UDP [2001:db8::9:2];received=2001:db8::9:256;branch=z9hG4bKas4\r\n";
    let request = edit(&base("r9"), "Max-Forwards", &format!("{lower}Max-Forwards"));
    assert!(filter.reply(request)?.contains(lower));
    Ok(())
}

#[test]
fn r5118_a_reference_left_open_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for sent_by in [
        "[2001:db8::9:1",
        "[2001:db8::9:1:5070",
        "2001:db8::9:1]",
        "2001:db8::9:1",
        "[2001:db8::9:1]5070",
        "[2001:db8::9:1]:",
        "[",
    ] {
        let request = edit(&base("a1"), SENT_BY, sent_by);
        for datagram in both(&request) {
            assert_eq!(filter.judge(&datagram)?.0, Reason::BadVia, "{sent_by}");
        }
    }
    Ok(())
}

#[test]
fn r5118_4_6_to_4_10_a_body_with_addresses_of_both_families_is_not_read() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let body = "v=0\r\no=assistant 971731711378798081 0 IN IP6 2001:db8::20\r\ns=-\r\nt=0 0\r\n\
                m=audio 6000 RTP/AVP 97\r\nc=IN IP6 2001:db8::1\r\n\
                m=video 6024 RTP/AVP 107\r\nc=IN IP4 192.0.2.1\r\nc=IN IP6 ::ffff:192.0.2.2\r\n";
    let length = format!("Content-Length: {}", body.len());
    let request = edit(&base("b1"), "Content-Length: 0", &length) + body;
    for datagram in both(&request) {
        filter.refusal(&datagram)?;
    }
    Ok(())
}
