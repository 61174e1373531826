//! Refusals as the client sees them, and their ACKs.

use std::{thread::sleep, time::Duration};

use anyhow::{Context, Result};
use overload_tests::{
    CLIENT, CLIENT_INTERFACE, Capture, Config, Controller, Destination, DestinationCounters, HOST,
    HOST_INTERFACE, Lab, Pcap, Reply, Request, Sink, Sipp, start_line,
};

const FULL: &str = "full.example.net";
const OPEN: &str = "open.example.net";
const SERVER: &str = "192.0.2.1:5060";
const SOON: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_millis(300);

/// One destination that refuses everything, one that admits all a test sends.
fn destinations() -> Config {
    Config::new(&[
        Destination::host("full", FULL, 0.0, 10),
        Destination::host("open", OPEN, 1000.0, 100),
    ])
}

#[test]
fn r3261_17_1_ack_of_every_refusal_is_absorbed() -> Result<()> {
    let lab = Lab::new()?;
    let controller = Controller::start(&lab, &destinations())?;
    let capture = Capture::start(&lab, &lab.host, HOST_INTERFACE, "host")?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let calls = 300;
    let report = Sipp::refused(&lab, FULL, 100, calls)?.finish(Duration::from_secs(20))?;
    let calls = u64::from(calls);
    assert_eq!((report.successful, report.failed), (calls, 0));
    assert_eq!((report.sent("ACK"), report.received("503")), (calls, calls));
    assert_eq!(proxy.stop()?, [""; 0]);
    assert_eq!(capture.stop()?.count("udp.dstport == 5060")?, 0);
    let status = controller.status()?;
    assert_eq!(status.reason("rate_limit")?, calls);
    // SIPp acknowledges the answer to a retransmission too.
    assert_eq!(
        status.reason("own_ack")?,
        calls + status.reason("refused_copy")?
    );
    let full = status.destination("full")?;
    assert_eq!((full.offered, full.refused), (calls, calls));
    Ok(())
}

#[test]
fn c16_only_the_ack_of_our_own_refusal_is_absorbed() -> Result<()> {
    let lab = Lab::new()?;
    let controller = Controller::start(&lab, &destinations())?;
    let server = lab.host.bind(SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;

    let refused = Request::invite(FULL, "c16-refused");
    let reply = client.ask(&refused, SERVER, SOON)?.context("no answer")?;
    assert_eq!(reply.status, 503, "{}", reply.text);
    client.send(refused.ack(&reply).to_string(), SERVER)?;
    assert_eq!(server.receive(QUIET)?, None);

    // Our prefix, but not our hash.
    let mut foreign = refused.ack(&reply);
    foreign.to = format!("{}x", foreign.to);
    client.send(foreign.to_string(), SERVER)?;
    let (passed, _) = server.receive(SOON)?.context("a foreign tag must pass")?;
    assert_eq!(passed, foreign.to_string().into_bytes());

    // Our tag, but of another transaction.
    let mut other = refused.ack(&reply);
    other.via = Request::invite(FULL, "c16-other").via;
    client.send(other.to_string(), SERVER)?;
    let (passed, _) = server.receive(SOON)?.context("another branch must pass")?;
    assert_eq!(passed, other.to_string().into_bytes());

    let admitted = Request::invite(OPEN, "c16-admitted");
    client.send(admitted.to_string(), SERVER)?;
    server.receive(SOON)?.context("not admitted")?;
    let mut ack = admitted.clone();
    "ACK".clone_into(&mut ack.method);
    ack.to += ";tag=callee";
    client.send(ack.to_string(), SERVER)?;
    let (passed, _) = server.receive(SOON)?.context("an ordinary ACK must pass")?;
    assert_eq!(passed, ack.to_string().into_bytes());

    let status = controller.status()?;
    assert_eq!((status.reason("own_ack")?, status.reason("ack")?), (1, 3));
    Ok(())
}

#[test]
fn c18_client_that_never_acks_gets_the_identical_answer() -> Result<()> {
    let lab = Lab::new()?;
    let controller = Controller::start(&lab, &destinations())?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let invite = Request::invite(FULL, "c18");
    let first = client.ask(&invite, SERVER, SOON)?.context("no answer")?;
    assert_eq!(first.status, 503);
    assert!(first.to_tag().is_some_and(|tag| tag.starts_with("olc")));
    for interval in [500, 1000, 2000] {
        // R3261-8.2.7-2: nothing comes by itself.
        assert_eq!(client.receive(Duration::from_millis(interval))?, None);
        let again = client.ask(&invite, SERVER, SOON)?.context("no answer")?;
        assert_eq!(again, first);
    }
    let status = controller.status()?;
    assert_eq!(
        status.destination("full")?,
        DestinationCounters {
            offered: 1,
            admitted: 0,
            refused: 1,
            shadow_refused: 0
        }
    );
    assert_eq!(
        (status.reason("rate_limit")?, status.reason("refused_copy")?),
        (1, 3)
    );
    assert_eq!(proxy.stop()?, [""; 0]);
    Ok(())
}

#[test]
fn r3261_8_2_7_1_another_branch_or_call_gets_another_tag() -> Result<()> {
    let lab = Lab::new()?;
    let _controller = Controller::start(&lab, &destinations())?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let invite = Request::invite(FULL, "tag");
    let mut branch = invite.clone();
    branch.via = Request::invite(FULL, "tag2").via;
    let mut call = invite.clone();
    call.call_id = "tag2".to_owned();
    let mut tags = Vec::new();
    for request in [invite, branch, call] {
        let reply = client.ask(&request, SERVER, SOON)?.context("no answer")?;
        tags.push(reply.to_tag().context("no tag")?.to_owned());
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3);
    Ok(())
}

#[test]
fn r3261_8_2_7_4_a_refused_copy_stays_refused_when_requests_are_admitted_again() -> Result<()> {
    let lab = Lab::new()?;
    let config = Config::new(&[Destination::host("gw", OPEN, 4.0, 6)]);
    let controller = Controller::start(&lab, &config)?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let mut refused = None;
    for number in 0..20 {
        let invite = Request::invite(OPEN, &format!("r8274-{number}"));
        if let Some(reply) = client.ask(&invite, SERVER, Duration::from_millis(50))? {
            refused = Some((invite, reply));
            break;
        }
    }
    let (invite, reply) = refused.context("twenty requests at once were all admitted")?;
    sleep(Duration::from_secs(1));
    let fresh = Request::invite(OPEN, "r8274-fresh");
    assert_eq!(client.ask(&fresh, SERVER, QUIET)?, None);
    assert_eq!(client.ask(&invite, SERVER, SOON)?, Some(reply));
    let passed = proxy.stop()?;
    assert_eq!(passed.last(), Some(&fresh.to_string()));
    let gateway = controller.status()?.destination("gw")?;
    assert_eq!(gateway.admitted, passed.len() as u64);
    assert_eq!(
        (gateway.refused, gateway.offered),
        (1, gateway.admitted + 1)
    );
    Ok(())
}

#[test]
fn r6357_12_1_copies_of_an_admitted_request_pass_and_cost_nothing() -> Result<()> {
    let lab = Lab::new()?;
    let controller = Controller::start(&lab, &destinations())?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let invite = Request::invite(OPEN, "admitted").to_string();
    for pause in [0, 500, 1000] {
        sleep(Duration::from_millis(pause));
        client.send(&invite, SERVER)?;
    }
    assert_eq!(proxy.stop()?, [&invite[..]; 3]);
    let status = controller.status()?;
    let open = status.destination("open")?;
    assert_eq!((open.offered, open.admitted), (1, 1));
    assert_eq!(
        (
            status.reason("within_limit")?,
            status.reason("admitted_copy")?
        ),
        (1, 2)
    );
    Ok(())
}

#[test]
fn r3261_18_2_2_1_answer_goes_where_the_top_via_says() -> Result<()> {
    let lab = Lab::new()?;
    let _controller = Controller::start(&lab, &destinations())?;
    let capture = Capture::start(&lab, &lab.client, CLIENT_INTERFACE, "client")?;
    let ports = [40_000, 5070, 5060];
    let sockets = ports.map(|port| lab.client.bind(&format!("{CLIENT}:{port}")));
    let [source, sent_by, default] = sockets;
    let (source, sent_by, default) = (source?, sent_by?, default?);
    for (via, receiver, expected) in [
        // No rport: the port of sent-by.
        ("192.0.2.10:5070;branch=z9hG4bK-1", &sent_by, ""),
        // Neither: 5060.
        ("192.0.2.10;branch=z9hG4bK-2", &default, ""),
        // R3581-4-1: the source port, and both parameters filled.
        (
            "192.0.2.10:5070;rport;branch=z9hG4bK-3",
            &source,
            "192.0.2.10:5070;rport=40000;branch=z9hG4bK-3;received=192.0.2.10",
        ),
        // C06: the true source, whatever sent-by and a forged received say.
        (
            "10.99.99.99:5070;branch=z9hG4bK-4",
            &sent_by,
            "10.99.99.99:5070;branch=z9hG4bK-4;received=192.0.2.10",
        ),
        (
            "10.99.99.99:5070;received=203.0.113.6;rport;branch=z9hG4bK-5",
            &source,
            "10.99.99.99:5070;received=192.0.2.10;rport=40000;branch=z9hG4bK-5",
        ),
    ] {
        let mut invite = Request::invite(FULL, "route");
        invite.via = vec![format!("SIP/2.0/UDP {via}")];
        source.send(invite.to_string(), SERVER)?;
        let (datagram, from) = receiver.receive(SOON)?.with_context(|| via.to_owned())?;
        // R3581-4-2: from the address and port the request came in on.
        assert_eq!(from, SERVER);
        let reply = Reply::new(&datagram);
        assert_eq!(reply.status, 503);
        let filled = reply.header("Via").context("no Via")?;
        assert!(filled.contains("received=192.0.2.10"), "{filled}");
        if !expected.is_empty() {
            assert_eq!(filled, format!("SIP/2.0/UDP {expected}"));
        }
    }
    for socket in [&source, &sent_by, &default] {
        assert_eq!(socket.receive(QUIET)?, None);
    }
    assert_clean(&capture.stop()?, 5)
}

/// There are so many answers, all refusals, with right checksums, decoded without a complaint.
fn assert_clean(pcap: &Pcap, answers: usize) -> Result<()> {
    let fields = [
        "sip.Status-Code",
        "ip.checksum.status",
        "udp.checksum.status",
        "_ws.malformed",
        // Missing when there is nothing to say.
        "_ws.expert.severity",
        "_ws.expert.message",
    ];
    let found = pcap.fields(&format!("ip.src == {HOST}"), &fields)?;
    assert_eq!(found.len(), answers);
    for answer in found {
        // 1 is good.
        assert_eq!(answer, ["503", "1", "1", "", "", ""]);
    }
    Ok(())
}

#[test]
fn c14_checksums_of_answers_are_right() -> Result<()> {
    let lab = Lab::new()?;
    let _controller = Controller::start(&lab, &destinations())?;
    let capture = Capture::start(&lab, &lab.client, CLIENT_INTERFACE, "client")?;
    let with = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let without = lab.client.bind(&format!("{CLIENT}:5061"))?;
    without.without_checksum()?;
    let mut answers = 0;
    for client in [&with, &without] {
        for length in 0..40 {
            let mut invite = Request::invite(FULL, &format!("c14-{answers}"));
            invite.from = format!("\"{}\" {}", "n".repeat(length), invite.from);
            invite.body = "v=0\r\n".repeat(length);
            let reply = client.ask(&invite, SERVER, SOON)?.context("no answer")?;
            assert_eq!(reply.status, 503);
            assert_eq!(reply.header("From"), Some(&invite.from[..]));
            answers += 1;
        }
    }
    let pcap = capture.stop()?;
    assert_eq!(
        pcap.count("sip.Method == INVITE && udp.checksum == 0")?,
        answers / 2
    );
    assert_clean(&pcap, answers)
}

#[test]
fn c14_a_checksum_that_folds_to_zero_is_sent_as_ffff() -> Result<()> {
    let lab = Lab::new()?;
    let _controller = Controller::start(&lab, &destinations())?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    // The tag does not depend on From, so a name can be chosen that makes up the sum.
    let name = "a".repeat(60);
    let mut invite = Request::invite(FULL, "c14-zero");
    invite.from = format!("{name} {}", invite.from);
    let reply = client.ask(&invite, SERVER, SOON)?.context("no answer")?;
    let at = reply.text.find(&name).context("the name is not copied")?;
    let missing = 0xffff - ones_complement_sum(reply.text.as_bytes());
    let chosen = raise(&name, at, missing);
    invite.from = invite.from.replace(&name, &chosen);
    let capture = Capture::start(&lab, &lab.client, CLIENT_INTERFACE, "client")?;
    let again = client.ask(&invite, SERVER, SOON)?.context("no answer")?;
    assert_eq!(again.text, reply.text.replace(&name, &chosen));
    assert_eq!(ones_complement_sum(again.text.as_bytes()), 0xffff);
    let pcap = capture.stop()?;
    let checksum = pcap.fields("sip.Status-Code == 503", &["udp.checksum"])?;
    assert_eq!(checksum, [["0xffff"]]);
    assert_clean(&pcap, 1)
}

/// The sum a UDP checksum is the complement of, for an answer from port 5060 to port 5060 of the client.
fn ones_complement_sum(payload: &[u8]) -> u32 {
    let length = payload.len() as u32 + 8;
    // Addresses, protocol and length of the pseudo-header, then ports and length of the header.
    let mut sum = 2 * 0xc000 + 0x0201 + 0x020a + 17 + length + 5060 + 5060 + length;
    for pair in payload.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// Raises letters of `name`, which stands at byte `at` of the payload, so that the sum grows by `missing`.
fn raise(name: &str, at: usize, missing: u32) -> String {
    let mut left = [missing >> 8, missing & 0xff];
    name.bytes()
        .enumerate()
        .map(|(index, letter)| {
            let column = &mut left[(at + index) % 2];
            let step = (*column).min(u32::from(b'z' - letter));
            *column -= step;
            (u32::from(letter) + step) as u8 as char
        })
        .collect()
}

#[test]
fn every_judged_method_is_refused_and_no_other() -> Result<()> {
    let lab = Lab::new()?;
    let _controller = Controller::start(&lab, &destinations())?;
    let server = lab.host.bind(SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    for method in [
        "INVITE",
        "MESSAGE",
        "REGISTER",
        "SUBSCRIBE",
        "OPTIONS",
        "PUBLISH",
    ] {
        let request = Request::new(method, FULL, &format!("method-{method}"));
        let reply = client.ask(&request, SERVER, SOON)?.context(method)?;
        assert_eq!(reply.status, 503, "{method}");
        assert_eq!(reply.header("CSeq"), Some(&*format!("1 {method}")));
        assert_eq!(server.receive(Duration::from_millis(50))?, None, "{method}");
    }
    let mut passing = Vec::new();
    for method in [
        "ACK", "CANCEL", "BYE", "INFO", "NOTIFY", "PRACK", "REFER", "UPDATE", "NEW",
    ] {
        passing.push(Request::new(method, FULL, &format!("method-{method}")));
    }
    let mut in_dialog = Request::invite(FULL, "method-in-dialog");
    in_dialog.to += ";tag=callee";
    passing.push(in_dialog);
    for request in passing {
        let text = request.to_string();
        client.send(&text, SERVER)?;
        let (datagram, _) = server
            .receive(SOON)?
            .with_context(|| start_line(&text).to_owned())?;
        assert_eq!(datagram, text.as_bytes());
    }
    assert_eq!(client.receive(QUIET)?, None);
    Ok(())
}
