//! The ACK to a refusal of ours is absorbed, any other passes (RFC 3261 17.1.1.3).

use anyhow::Result;
use overload_common::abi::Reason;
use overload_tests::packet::{Filter, ack, base, edit, tag};

#[test]
fn r3261_17_1_1_3_1_the_ack_of_a_real_client_is_absorbed() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let reply = filter.reply(base("a1"))?;
    let request = ack(&base("a1"), &reply);
    assert_eq!(
        request,
        format!(
            "ACK sip:+15551230001@gw1.example.net SIP/2.0\r\n\
             Via: SIP/2.0/UDP 192.0.2.10:5060;branch=z9hG4bK-a1;rport\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:alice@example.com>;tag=f1\r\n\
             To: <sip:+15551230001@gw1.example.net>;tag={}\r\n\
             Call-ID: a1@192.0.2.10\r\n\
             CSeq: 1 ACK\r\n\
             Content-Length: 0\r\n\r\n",
            tag(&reply)
        )
    );
    // Each copy of it.
    for _ in 0..3 {
        filter.expect(&request, Reason::OwnAck)?;
    }
    // Only the top Via comes back, whatever stood below.
    let vias = edit(
        &base("a2"),
        ";rport\r\n",
        ";rport,SIP/2.0/UDP b;branch=z9hG4bKb\r\nVia: SIP/2.0/TCP c;branch=z9hG4bKc\r\n",
    );
    let reply = filter.reply(&vias)?;
    let request = ack(&vias, &reply);
    assert_eq!(request.matches("SIP/2.0/").count(), 1);
    filter.expect(request, Reason::OwnAck)?;
    // Compact names, and the tag among other parameters.
    let reply = filter.reply(base("a3"))?;
    let request = ack(&base("a3"), &reply)
        .replace("Via:", "v:")
        .replace("Call-ID:", "i :")
        .replace("To:", "t:")
        .replace(";tag=olc", ";x=\"a;b\" ; Tag=olc")
        .replace("\r\nCall", ";y\r\nCall");
    filter.expect(request, Reason::OwnAck)
}

#[test]
fn r3261_17_1_an_ack_that_is_not_ours_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let reply = filter.reply(base("a1"))?;
    let own = ack(&base("a1"), &reply);
    let tag = tag(&reply).to_owned();
    let foreign = [
        edit(&own, &tag, "b4"),
        edit(&own, &format!(";tag={tag}"), ""),
        edit(&own, &tag, &format!("{tag}0")),
        edit(&own, &tag, &tag[..19]),
        edit(&own, &tag, &tag.to_uppercase()),
        edit(&own, "z9hG4bK-a1", "z9hG4bK-a2"),
        edit(&own, "a1@192.0.2.10", "a2@192.0.2.10"),
        edit(&own, "CSeq: 1", "CSeq: 2"),
        edit(&own, "UDP 192.0.2.10:5060", "UDP 192.0.2.11:5060"),
        edit(&own, "Call-ID", "X-Call-ID"),
        edit(&own, "CSeq: 1 ACK", "CSeq: 1 INVITE"),
        // In a place that is no tag.
        edit(&own, &format!(">;tag={tag}"), &format!(";tag={tag}>;tag=b")),
        edit(&own, &format!(";tag={tag}"), &format!(";x=\";tag={tag}\"")),
    ];
    for request in foreign {
        filter.expect(request, Reason::Ack)?;
    }
    // Each digit of the tag counts.
    for at in 0..tag.len() {
        let mut digits = tag.clone().into_bytes();
        digits[at] = if digits[at] == b'0' { b'1' } else { b'0' };
        let tampered = String::from_utf8(digits)?;
        filter.expect(edit(&own, &tag, &tampered), Reason::Ack)?;
    }
    filter.expect(own, Reason::OwnAck)?;
    // Nor does the tag of another host verify.
    let mut other_host = Filter::refusing()?;
    other_host.reply(base("a1"))?;
    other_host.expect(ack(&base("a1"), &reply), Reason::Ack)
}

#[test]
fn r3261_17_1_a_thousand_refusals_leave_no_ack() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for call in 0..1000 {
        let invite = base(&format!("k{call}"));
        let reply = filter.reply(&invite)?;
        filter.expect(ack(&invite, &reply), Reason::OwnAck)?;
    }
    assert_eq!(filter.sandbox.reason(Reason::OwnAck)?, 1000);
    assert_eq!(filter.sandbox.reason(Reason::Ack)?, 0);
    // A call that was admitted goes on: its ACK has the tag of the host behind.
    let mut filter = Filter::limited(1000.0, 10.0)?;
    filter.expect(base("a1"), Reason::WithinLimit)?;
    let answered = "To: <sip:+15551230001@gw1.example.net>;tag=as5f\r\n";
    filter.expect(ack(&base("a1"), answered), Reason::Ack)
}

#[test]
fn r3261_8_2_7_1_the_ack_of_a_client_behind_the_proxy_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    // The proxy sends a call back to itself: refused, and the tag travels on to the client.
    let spiral = edit(
        &base("a1"),
        "Via: ",
        "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK-proxy\r\nVia: ",
    );
    let reply = filter.reply(spiral)?;
    // The client's ACK has its own branch alone, and our tag.
    filter.expect(ack(&base("a1"), &reply), Reason::Ack)
}

#[test]
fn c16_the_ack_for_a_stateless_503() -> Result<()> {
    let mut filter = Filter::limited(0.001, 1.0)?;
    filter.expect(base("admitted"), Reason::WithinLimit)?;
    let reply = filter.reply(base("refused"))?;
    filter.expect(ack(&base("refused"), &reply), Reason::OwnAck)?;
    let foreign = edit(&reply, tag(&reply), "as77");
    filter.expect(ack(&base("refused"), &foreign), Reason::Ack)?;
    filter.expect(ack(&base("admitted"), &foreign), Reason::Ack)?;
    // Our tag under another transaction is no answer of ours.
    filter.expect(ack(&base("admitted"), &reply), Reason::Ack)?;
    assert_eq!(filter.sandbox.reason(Reason::OwnAck)?, 1);
    Ok(())
}

#[test]
fn r3261_8_2_7_3_ack_and_cancel_are_never_filtered() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for _ in 0..20 {
        filter.expect(base("a1").replace("INVITE", "ACK"), Reason::Ack)?;
        filter.expect(base("a1").replace("INVITE", "CANCEL"), Reason::Cancel)?;
    }
    assert_eq!(filter.counters()?.offered, 0);
    Ok(())
}

#[test]
fn r3261_9_2_1_cancel_passes_after_a_refusal() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let reply = filter.reply(base("a1"))?;
    let cancel = base("a1").replace("INVITE", "CANCEL");
    filter.expect(&cancel, Reason::Cancel)?;
    // Even with our tag, which a client must not put there (RFC 3261 9.1).
    let tagged = edit(
        &cancel,
        "net>\r\n",
        &format!("net>;tag={}\r\n", tag(&reply)),
    );
    filter.expect(tagged, Reason::Cancel)
}
