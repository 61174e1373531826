//! What must become of a datagram: its possible reasons, and the reply.

use std::net::IpAddr;

use overload_common::abi::{Reason, Verdict};

use super::{
    Datagram,
    oracle::{Reply, compare, compose},
    request::{JUDGED, Reading, read_request},
    sip::{ParamValue, first_value, read_response, trim},
};

/// What a reply may be longer than its request, bytes.
const GROWTH_MAX: usize = 100;
/// Longest UDP datagram that is built, bytes.
const DATAGRAM_MAX: usize = 3900;
/// Longest datagram that is a keep-alive.
const KEEPALIVE_MAX: usize = 64;

/// What the filter knows when a datagram comes.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// Reasons that a request to be judged may have: those of its control, or of a copy.
    pub judged: &'a [Reason],
    /// Verdicts are counted, and everything passes.
    pub shadow: bool,
    /// The request may be a copy of one that was admitted: it is told before it is read to its end.
    pub recalled: bool,
    /// Longest frame that may leave.
    pub max_frame: usize,
}

/// What only the first copy of a request is asked.
const FIRST_ONLY: [Reason; 7] = [
    Reason::BadRequestLine,
    Reason::UnsupportedUri,
    Reason::BadHeader,
    Reason::InDialog,
    Reason::ShortBody,
    Reason::MaxForwardsZero,
    Reason::LoadControl,
];

impl<'a> State<'a> {
    /// Enforcing, frames of an Ethernet's usual length.
    pub fn new(judged: &'a [Reason]) -> Self {
        Self {
            judged,
            shadow: false,
            recalled: false,
            max_frame: 1514,
        }
    }
}

/// What must become of a datagram.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Every reason that is right. Exactly one where one thing is wrong, or nothing is.
    pub reasons: Vec<Reason>,
    /// The reply, should the verdict be to refuse.
    pub reply: Option<Reply>,
    /// How the request was read, where it was.
    pub reading: Option<Reading>,
}

impl Prediction {
    fn pass(reasons: &[Reason]) -> Self {
        Self {
            reasons: reasons.to_vec(),
            reply: None,
            reading: None,
        }
    }
}

/// Predicts what becomes of a datagram to the protected address and port.
pub fn predict(datagram: &Datagram, state: &State) -> Prediction {
    let payload = &datagram.payload[..];
    if let Some(reasons) = not_a_request(payload) {
        return Prediction::pass(&reasons);
    }
    // RFC 3261 7.5: line ends before the start line are ignored.
    let skipped = leading_line_ends(payload).min(2) * 2;
    let request = &payload[skipped..];
    let Some(method) = method(request) else {
        return Prediction::pass(&foreign(payload, request));
    };
    match method {
        "CANCEL" => return Prediction::pass(&[Reason::Cancel]),
        "ACK" => return acknowledgement(request),
        _ if !JUDGED.contains(&method) => return Prediction::pass(&[Reason::OtherMethod]),
        _ => {}
    }
    let reading = read_request(request, method);
    let mut prediction = Prediction {
        reasons: reading.faults.clone(),
        reply: compose(datagram, &reading),
        reading: None,
    };
    if let Some(reply) = &prediction.reply {
        let refused = prevented(datagram, reply, request.len(), state);
        for reason in state.judged {
            let refuses = reason.verdict() == Verdict::Refuse && !state.shadow;
            prediction
                .reasons
                .push(refused.filter(|_| refuses).unwrap_or(*reason));
        }
    }
    if state.recalled
        && reading
            .faults
            .iter()
            .all(|fault| FIRST_ONLY.contains(fault))
    {
        prediction
            .reasons
            .extend([Reason::AdmittedCopy, Reason::SurplusCopy]);
    }
    prediction.reasons.extend(&reading.spared);
    prediction.reading = Some(reading);
    prediction
}

/// Why a refusal is not answered.
fn prevented(datagram: &Datagram, reply: &Reply, length: usize, state: &State) -> Option<Reason> {
    let foreign = match datagram.source {
        IpAddr::V4(source) => matches!(source.octets()[0], 0 | 127 | 224..=255),
        // Unspecified, loopback, IPv4 in IPv6, multicast.
        IpAddr::V6(source) => source.segments()[..4] == [0; 4] || source.is_multicast(),
    };
    if foreign || datagram.source == datagram.destination || matches!(reply.port, 0 | 7 | 19) {
        return Some(Reason::Martian);
    }
    let ip = if datagram.source.is_ipv4() { 20 } else { 40 };
    // VLAN tags do not count towards the MTU.
    let frame = 14 + ip + 8 + reply.text.len();
    let long = reply.text.len() > length + GROWTH_MAX
        || frame > state.max_frame
        || reply.text.len() + 8 > DATAGRAM_MAX;
    long.then_some(Reason::Unanswerable)
}

/// Checks the whole of a refusal, from the Ethernet header to its last byte; gives its text. An error says
/// what is wrong, also when `request` must not be answered at all.
pub fn check_reply(request: &Datagram, frame: &[u8], max_frame: usize) -> Result<String, String> {
    let state = State {
        max_frame,
        ..State::new(&[Reason::RateLimit])
    };
    let prediction = predict(request, &state);
    match &prediction.reply {
        Some(reply) if prediction.reasons.contains(&Reason::RateLimit) => {
            compare(request, reply, frame)
        }
        _ => Err(format!("answered, but {:?}", prediction.reasons)),
    }
}

/// An ACK is nobody's to answer; one that can be read as lines passes for what it is.
fn acknowledgement(request: &[u8]) -> Prediction {
    let reading = read_request(request, "ACK");
    let mut reasons = [&reading.faults[..], &reading.spared].concat();
    if reading.faults.is_empty() {
        reasons.push(Reason::Ack);
    }
    Prediction::pass(&reasons)
}

/// Responses, STUN, keep-alives and what is too short for SIP.
fn not_a_request(payload: &[u8]) -> Option<Vec<Reason>> {
    let Some(first) = payload.first() else {
        return Some(vec![Reason::Keepalive]);
    };
    let line_end = matches!(first, 0 | b'\r' | b'\n' | b' ');
    if payload.len() < 16 {
        return Some(vec![if line_end {
            Reason::Keepalive
        } else {
            Reason::Unrecognised
        }]);
    }
    if payload.starts_with(b"SIP/") {
        return Some(vec![response(payload)]);
    }
    if payload[0] & 0xc0 == 0
        && payload[4..8] == [0x21, 0x12, 0xa4, 0x42]
        && method(payload).is_none()
    {
        // A line end may lead, and what follows it be one too.
        let lead = leading_line_ends(payload) > 0;
        return Some(if lead {
            vec![Reason::Stun, Reason::Keepalive, Reason::Unrecognised]
        } else {
            vec![Reason::Stun]
        });
    }
    let blank = |byte: &u8| matches!(byte, 0 | b'\r' | b'\n' | b' ');
    if payload.len() <= KEEPALIVE_MAX && payload.iter().all(blank) {
        return Some(vec![Reason::Keepalive]);
    }
    // With line ends before it, no request is that short.
    (payload.len() < 20 && leading_line_ends(payload) > 0).then(|| vec![Reason::Keepalive])
}

fn response(payload: &[u8]) -> Reason {
    match payload.strip_prefix(b"SIP/2.0 ").and_then(<[u8]>::first) {
        Some(b'1') => Reason::Response1xx,
        Some(b'2') => Reason::Response2xx,
        Some(b'3') => Reason::Response3xx,
        Some(b'4') => Reason::Response4xx,
        Some(b'5') => Reason::Response5xx,
        Some(b'6') => Reason::Response6xx,
        _ => Reason::ResponseOther,
    }
}

/// Another protocol, an extension method, or line ends before either.
fn foreign(payload: &[u8], behind: &[u8]) -> Vec<Reason> {
    let line_end = |bytes: &[u8]| matches!(bytes.first(), None | Some(0 | b'\r' | b'\n' | b' '));
    let mut reasons = Vec::new();
    if payload.len() <= KEEPALIVE_MAX && line_end(payload) {
        reasons.push(Reason::Keepalive);
    }
    if payload.len() > KEEPALIVE_MAX || !line_end(behind) {
        reasons.push(Reason::Unrecognised);
    }
    if behind.len() >= 8 && behind[0] & 0xc0 == 0 && behind[4..8] == [0x21, 0x12, 0xa4, 0x42] {
        reasons.push(Reason::Stun);
    }
    reasons
}

fn leading_line_ends(payload: &[u8]) -> usize {
    payload
        .chunks(2)
        .take_while(|pair| *pair == b"\r\n")
        .count()
}

/// The registered method that a start line begins with (methods are case-sensitive).
fn method(bytes: &[u8]) -> Option<&'static str> {
    const OTHERS: [&str; 8] = [
        "ACK", "CANCEL", "BYE", "INFO", "NOTIFY", "PRACK", "REFER", "UPDATE",
    ];
    let begins = |method: &&str| {
        bytes
            .strip_prefix(method.as_bytes())
            .is_some_and(|rest| rest.starts_with(b" "))
    };
    JUDGED.into_iter().chain(OTHERS).find(begins)
}

/// The ACK that a client sends to the refusal of an INVITE (RFC 3261 17.1.1.3): the top Via alone, and the
/// reply's To. `None` for other requests, which no ACK follows.
pub fn acknowledge(reading: &Reading, reply: &str) -> Option<Vec<u8>> {
    if reading.method != "INVITE" {
        return None;
    }
    let reply = read_response(reply.as_bytes()).ok()?;
    let rows = &reading.message.rows;
    let row = |name: &str| rows.iter().find(|row| row.name == name);
    let mut ack = b"ACK".to_vec();
    ack.extend(reading.message.start.strip_prefix(b"INVITE")?);
    let via = &row("via")?.value;
    for (name, value) in [
        ("Via", trim(&via[..first_value(via)?])),
        ("From", &row("from")?.value),
        ("To", reply.single("to")?),
        ("Call-ID", &row("call-id")?.value),
    ] {
        ack.extend(format!("\r\n{name}: ").as_bytes());
        ack.extend(value);
    }
    let number = row("cseq")?
        .value
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    ack.extend(b"\r\nCSeq: ");
    ack.extend(number);
    ack.extend(b" ACK\r\nContent-Length: 0\r\n\r\n");
    Some(ack)
}

/// What tells requests apart: branch, sent-by, Call-ID, CSeq and method of the transaction, and source and
/// Request-URI. `None` for what is not judged.
pub fn transaction(datagram: &Datagram) -> Option<Vec<u8>> {
    let state = State::new(&[]);
    let reading = predict(datagram, &state).reading?;
    let top = reading.top.as_ref().filter(|_| reading.faults.is_empty())?;
    let mut key = format!("{:?}", datagram.source).into_bytes();
    for branch in top.param("branch") {
        if let ParamValue::Is(branch) = branch {
            // The cookie is the same in all, however it is spelt.
            key.extend(branch.get(7..)?);
        }
    }
    key.extend(trim(&top.sent_by));
    for part in [
        reading.message.single("call-id")?,
        cseq_number(&reading),
        &reading.message.start[..reading.message.start.len() - 8],
    ] {
        key.push(0);
        key.extend(part);
    }
    Some(key)
}

fn cseq_number(reading: &Reading) -> &[u8] {
    let value = reading.message.single("cseq").unwrap_or_default();
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit());
    &value[..digits.count()]
}
