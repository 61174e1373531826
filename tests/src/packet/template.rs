//! Messages the tests start from.

/// An INVITE with the transaction `call`: the base message of the packet tests.
pub fn base(call: &str) -> String {
    format!(
        "INVITE sip:+15551230001@gw1.example.net SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK-{call};rport\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:alice@example.com>;tag=f1\r\n\
         To: <sip:+15551230001@gw1.example.net>\r\n\
         Call-ID: {call}@192.0.2.10\r\n\
         CSeq: 1 INVITE\r\n\
         Contact: <sip:alice@192.0.2.10>\r\n\
         Content-Length: 0\r\n\
         \r\n"
    )
}

/// A session description.
pub fn sdp() -> &'static str {
    "v=0\r\no=alice 2890844526 2890844526 IN IP4 192.0.2.10\r\ns=-\r\nc=IN IP4 192.0.2.10\r\n\
     t=0 0\r\nm=audio 49170 RTP/AVP 0 8\r\na=rtpmap:0 PCMU/8000\r\n"
}

/// Replaces the one occurrence of `from`.
///
/// # Panics
/// When `from` does not stand exactly once: the test would not test what it says.
pub fn edit(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "{from:?} in {text}");
    text.replacen(from, to, 1)
}

/// The ACK to a final answer other than 2xx (RFC 3261 17.1.1.3): top Via alone, To of the answer.
pub fn ack(invite: &str, reply: &str) -> String {
    let line = |text: &str, name: &str| {
        text.split("\r\n")
            .find(|line| line.starts_with(name))
            .unwrap_or_default()
            .to_owned()
    };
    let request_line = invite.split("\r\n").next().unwrap_or_default();
    let via = line(invite, "Via:");
    let first_via = via.split(',').next().unwrap_or_default();
    format!(
        "{}\r\n{first_via}\r\nMax-Forwards: 70\r\n{}\r\n{}\r\n{}\r\n{}\r\nContent-Length: 0\r\n\r\n",
        request_line.replacen("INVITE", "ACK", 1),
        line(invite, "From:"),
        line(reply, "To:"),
        line(invite, "Call-ID:"),
        line(invite, "CSeq:").replace("INVITE", "ACK"),
    )
}

/// Requests of many shapes that may all be answered, each with a transaction named "cut".
pub fn templates() -> Vec<String> {
    let base = base("cut");
    vec![
        base.clone(),
        format!(
            "{}{}",
            edit(
                &base,
                "Content-Length: 0",
                &format!("Content-Length: {}", sdp().len())
            ),
            sdp()
        ),
        // Compact names, odd cases and blanks, no rport, a folded To.
        "MESSAGE sip:bob@GW1.Example.NET;transport=udp SIP/2.0\r\n\
         v : SIP/2.0/UDP client.example.com:5070;branch=z9hG4bKcut\r\n\
         f: \"A. \\\"quoted\\\" name; with, marks <\" <sip:alice@example.com;x=y>;tag=f1\r\n\
         t:\r\n \"Bob;tag=no\" <sip:bob@gw1.example.net;tag=no>\r\n\
         i:cut.1\r\n\
         cSEQ: 4294967295   MESSAGE\r\n\
         l: 5\r\n\
         \r\n\
         hello"
            .to_owned(),
        // Five Vias over rows and lists, To in front, a forged received.
        "OPTIONS sip:gw1.example.net SIP/2.0\r\n\
         To: sip:gw1.example.net\r\n\
         Via: SIP/2.0/UDP 10.9.8.7;received=203.0.113.66;rport;branch=z9hG4bKcut;x=\"a;b,c\",SIP/2.0/TCP b.example.com;branch=z9hG4bK2\r\n\
         Accept: application/sdp\r\n\
         v: SIP/2.0/TLS c.example.com;branch=z9hG4bK3 , SIP/2.0/UDP d.example.com;branch=z9hG4bK4\r\n\
         Max-Forwards: 9\r\n\
         Call-ID: cut\r\n\
         Via: SIP/2.0/SCTP e.example.com\r\n\
         \t;branch=z9hG4bK5\r\n\
         CSeq: 0 OPTIONS\r\n\
         From: Anonymous <sip:c8oqz84zk7z@privacy.example.org>;tag=hyh8\r\n\
         \r\n"
            .to_owned(),
        "REGISTER tel:+1-555-123-0001 SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.10;rport;branch=z9hG4bKcut\r\n\
         From: sip:alice@example.com;tag=1\r\n\
         To: sip:alice@example.com\r\n\
         Call-ID: cut@[2001:db8::1]\r\n\
         CSeq: 17 REGISTER\r\n\
         Authorization: Digest username=\"alice\", realm=\"x\", nonce=\"n\", uri=\"sip:x\", response=\"0\"\r\n\
         Contact: <sip:alice@192.0.2.10>\r\n\
         Expires: 3600\r\n\
         Content-Length: 0\r\n\
         \r\n"
            .to_owned(),
    ]
}

/// The To tag of a reply of ours.
pub fn tag(reply: &str) -> &str {
    let (_, rest) = reply.split_once(";tag=olc").unwrap_or_default();
    let end = rest.find("\r\n").unwrap_or_default();
    let start = reply.len() - rest.len() - 3;
    &reply[start..start + 3 + end]
}
