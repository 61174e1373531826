//! Every reason is provoked by a frame, and counted once.

use std::collections::HashMap;

use anyhow::{Context, Result};
use overload_common::abi::{Mode, Reason};
use overload_tests::packet::{Datagram, Filter, ack, base, edit};

/// A reason, what must be done before, and the frame.
type Row = (Reason, Setting, Vec<u8>);

/// What must be done before the frame is sent.
#[derive(Clone)]
enum Setting {
    /// A limit of 0.
    Refusing,
    /// The same, and this datagram was sent before.
    After(Vec<u8>),
    /// A limit that admits one.
    One,
    /// That, and this datagram so many milliseconds before.
    Later(u64, Vec<u8>),
    /// No control.
    NoControl,
    /// A percentage of 0.
    Percent0,
    /// Mode bypass.
    Bypass,
    /// A frame may be no longer than this.
    MaxFrame(u32),
}

use Setting::{After, Bypass, Later, MaxFrame, NoControl, One, Percent0, Refusing};

fn frame(text: impl AsRef<[u8]>) -> Vec<u8> {
    Datagram::new(5062, text.as_ref()).frame()
}

/// The base message with one change.
fn changed(from: &str, to: &str) -> Vec<u8> {
    frame(edit(&base("a1"), from, to))
}

fn with_bytes(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = frame(base("a1"));
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}

fn response(status: &str) -> Vec<u8> {
    changed("INVITE sip:+15551230001@gw1.example.net SIP/2.0", status)
}

/// IPv6 with one extension header more than is walked.
fn extension_headers() -> Vec<u8> {
    let mut datagram = Datagram::new_v6(5062, base("a1").as_bytes());
    datagram.options = vec![(60, vec![0, 0, 1, 4, 0, 0, 0, 0]); 5];
    datagram.frame()
}

/// Told by the first bytes.
fn not_requests() -> Vec<Row> {
    vec![
        (Reason::Unrelated, Refusing, with_bytes(36, &[0x13, 0xc5])),
        (Reason::ExtensionHeaders, Refusing, extension_headers()),
        (Reason::Fragment, Refusing, with_bytes(20, &[0x20, 0x00])),
        (Reason::BadLength, Refusing, with_bytes(38, &[0x00, 0x07])),
        (Reason::Keepalive, Refusing, frame("\r\n\r\n")),
        (
            Reason::Stun,
            Refusing,
            frame(b"\0\x01\0\0\x21\x12\xa4\x42tttttttttttt"),
        ),
        (
            Reason::Response1xx,
            Refusing,
            response("SIP/2.0 180 Ringing"),
        ),
        (Reason::Response2xx, Refusing, response("SIP/2.0 200 OK")),
        (
            Reason::Response3xx,
            Refusing,
            response("SIP/2.0 302 Moved Temporarily"),
        ),
        (
            Reason::Response4xx,
            Refusing,
            response("SIP/2.0 486 Busy Here"),
        ),
        (
            Reason::Response5xx,
            Refusing,
            response("SIP/2.0 503 Service Unavailable"),
        ),
        (
            Reason::Response6xx,
            Refusing,
            response("SIP/2.0 603 Decline"),
        ),
        (Reason::ResponseOther, Refusing, response("SIP/3.0 200 OK")),
    ]
}

/// Requests that are not judged.
fn exempt() -> Vec<Row> {
    vec![
        (
            Reason::Unrecognised,
            Refusing,
            frame(base("a1").replace("INVITE", "NEWMETHOD")),
        ),
        (
            Reason::Ack,
            Refusing,
            frame(base("a1").replace("INVITE", "ACK")),
        ),
        (
            Reason::Cancel,
            Refusing,
            frame(base("a1").replace("INVITE", "CANCEL")),
        ),
        (
            Reason::OtherMethod,
            Refusing,
            frame(base("a1").replace("INVITE", "REFER")),
        ),
        (
            Reason::InDialog,
            Refusing,
            changed("net>\r\n", "net>;tag=b\r\n"),
        ),
        (
            Reason::LoadControl,
            Refusing,
            frame(edit(
                &base("a1").replace("INVITE", "SUBSCRIBE"),
                "Contact",
                "Event: load-control\r\nContact",
            )),
        ),
        (
            Reason::MaxForwardsZero,
            Refusing,
            changed("Max-Forwards: 70", "Max-Forwards: 0"),
        ),
    ]
}

/// Requests that cannot be judged.
fn malformed() -> Vec<Row> {
    vec![
        (Reason::NoHeaderEnd, Refusing, frame(base("a1").trim_end())),
        (
            Reason::TooManyLines,
            Refusing,
            changed("Contact", &format!("{}Contact", "X: y\r\n".repeat(300))),
        ),
        (Reason::BareLineFeed, Refusing, changed("70\r\n", "70\n")),
        (
            Reason::BadRequestLine,
            Refusing,
            changed("net SIP/2.0", "net SIP/2.1"),
        ),
        (
            Reason::UnsupportedUri,
            Refusing,
            changed("INVITE sip:+15551230001", "INVITE urn:x"),
        ),
        (
            Reason::MissingHeader,
            Refusing,
            changed("Call-ID", "X-Call-ID"),
        ),
        (
            Reason::DuplicateHeader,
            Refusing,
            changed("Contact", "To: sip:x@y\r\nContact"),
        ),
        (
            Reason::BadHeader,
            Refusing,
            changed("To: <sip", "To: \"<sip"),
        ),
        (Reason::BadCseq, Refusing, changed("1 INVITE", "1 OPTIONS")),
        (
            Reason::BadVia,
            Refusing,
            changed("SIP/2.0/UDP", "SIP/1.0/UDP"),
        ),
        (
            Reason::ShortBody,
            Refusing,
            changed("Content-Length: 0", "Content-Length: 1"),
        ),
        (
            Reason::ViaTransport,
            Refusing,
            changed("SIP/2.0/UDP", "SIP/2.0/TCP"),
        ),
        (
            Reason::ViaMaddr,
            Refusing,
            changed(";rport", ";maddr=203.0.113.9"),
        ),
        (
            Reason::NoBranch,
            Refusing,
            changed("branch=z9hG4bK-a1", "branch=z9hG4bK"),
        ),
    ]
}

/// Judged requests.
fn judged() -> Vec<Row> {
    let mut martian = Datagram::new(5062, base("a1").as_bytes());
    martian.source = std::net::Ipv4Addr::LOCALHOST.into();
    vec![
        (Reason::Bypass, Bypass, frame(base("a1"))),
        (Reason::WithinLimit, One, frame(base("a1"))),
        (Reason::NoControl, NoControl, frame(base("a1"))),
        (
            Reason::AdmittedCopy,
            Later(500, frame(base("a1"))),
            frame(base("a1")),
        ),
        (Reason::RateLimit, Refusing, frame(base("a1"))),
        (Reason::PercentLimit, Percent0, frame(base("a1"))),
        (
            Reason::RefusedCopy,
            After(frame(base("a1"))),
            frame(base("a1")),
        ),
        (
            Reason::SurplusCopy,
            Later(100, frame(base("a1"))),
            frame(base("a1")),
        ),
        (Reason::Unanswerable, MaxFrame(200), frame(base("a1"))),
        (Reason::Martian, Refusing, martian.frame()),
    ]
}

/// A frame for each reason but two: an ACK of ours needs the filter's own tag, see the test, and
/// `Unconfigured` means that the kernel lost one of the filter's array entries, which no packet can do.
fn table() -> Vec<Row> {
    [not_requests(), exempt(), malformed(), judged()].concat()
}

/// A filter of its own, or none where the common one will do.
fn prepare(setting: Setting) -> Result<Option<Filter>> {
    let filter = match setting {
        Refusing => return Ok(None),
        NoControl => Filter::new()?,
        One => Filter::limited(1.0, 1.0)?,
        After(first) => {
            let mut filter = Filter::refusing()?;
            filter.run(&first)?;
            filter
        }
        Later(ms, first) => {
            let mut filter = Filter::limited(1.0, 1.0)?;
            filter.run(&first)?;
            filter.at_ms(ms)?;
            filter
        }
        Percent0 => {
            let mut filter = Filter::new()?;
            filter.percent(7, None, 0.0)?;
            filter
        }
        Bypass => {
            let mut filter = Filter::refusing()?;
            filter.mode(Mode::Bypass)?;
            filter
        }
        MaxFrame(bytes) => {
            let mut filter = Filter::refusing()?;
            filter.max_frame(bytes)?;
            filter
        }
    };
    Ok(Some(filter))
}

#[test]
fn every_reason_has_its_frame() -> Result<()> {
    let mut found = HashMap::new();
    let mut refusing = Filter::refusing()?;
    for (reason, setting, frame) in table() {
        let mut prepared = prepare(setting)?;
        let filter = prepared.as_mut().unwrap_or(&mut refusing);
        let (counted, _) = filter
            .run(&frame)
            .with_context(|| format!("{reason:?} {:?}", String::from_utf8_lossy(&frame)))?;
        assert_eq!(counted, reason);
        assert!(found.insert(reason, frame).is_none(), "{reason:?} twice");
    }
    let mut filter = Filter::refusing()?;
    let reply = filter.reply(base("a1"))?;
    filter.expect(ack(&base("a1"), &reply), Reason::OwnAck)?;
    found.insert(Reason::OwnAck, Vec::new());
    let missing: Vec<_> = Reason::ALL
        .iter()
        .filter(|reason| !found.contains_key(reason))
        .collect();
    assert_eq!(missing, [&Reason::Unconfigured]);
    Ok(())
}

#[test]
fn what_is_not_for_the_protected_host_is_unrelated() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (at, bytes) in [
        // Another MAC address, broadcast, multicast; ARP; TCP; another address; another port.
        (0, &[0x02, 0x5e, 0x12, 0x4e, 0x12, 0x02][..]),
        (0, &[0xff; 6]),
        (0, &[0x01, 0x00, 0x5e, 0x00, 0x01, 0x4b]),
        (12, &[0x08, 0x06]),
        (23, &[6]),
        (30, &[192, 0, 2, 2]),
        (36, &[0x13, 0xc5]),
        (36, &[0xc4, 0x13]),
    ] {
        let frame = with_bytes(at, bytes);
        assert_eq!(filter.run(&frame)?.0, Reason::Unrelated, "{at} {bytes:?}");
    }
    assert_eq!(filter.counters()?.offered, 0);
    Ok(())
}
