//! The oracle's own reading of a request: may it be answered without the proxy, and where to?

use super::sip::{Message, Param, Via, find, first_value, params, split_address, trim};

/// A request that may be answered.
#[derive(Clone, Debug)]
pub struct Request {
    /// The message from its request line on.
    pub message: Message,
    /// Method.
    pub method: String,
    /// The first Via value.
    pub top: Via,
}

/// Methods the filter may judge.
pub const JUDGED: [&str; 6] = [
    "INVITE",
    "MESSAGE",
    "REGISTER",
    "SUBSCRIBE",
    "OPTIONS",
    "PUBLISH",
];

/// Reads a datagram; an error says why nobody but the proxy may answer it.
pub fn read_request(datagram: &[u8]) -> Result<Request, &'static str> {
    // RFC 3261 7.5: line ends before the start line are ignored.
    let mut bytes = datagram;
    while let Some(rest) = bytes.strip_prefix(b"\r\n") {
        bytes = rest;
    }
    let message = Message::read(bytes)?;
    let method = request_line(&message.start)?;
    for name in ["from", "to", "call-id", "cseq"] {
        match message.values(name).len() {
            0 => return Err("a header is missing"),
            1 => {}
            _ => return Err("a header stands twice"),
        }
    }
    if message.values("max-forwards").len() > 1 {
        return Err("Max-Forwards twice");
    }
    if message.single("max-forwards") == Some(b"0") {
        return Err("Max-Forwards is 0");
    }
    let rows = message.values("via");
    let (top, _) = first_value(rows.first().ok_or("no Via")?).ok_or("the top Via is left open")?;
    let top = Via::read(top).ok_or("the top Via is malformed")?;
    check_top(&top)?;
    if message.single("call-id").is_none_or(<[u8]>::is_empty) {
        return Err("Call-ID is empty");
    }
    check_cseq(message.single("cseq").unwrap_or_default(), &method)?;
    address(message.single("from").unwrap_or_default()).ok_or("From is malformed")?;
    let to = address(message.single("to").unwrap_or_default()).ok_or("To is malformed")?;
    if to.iter().any(|(name, _)| name == b"tag") {
        return Err("To has a tag");
    }
    let event = message.single("event").unwrap_or_default();
    let package = event.split(|byte| *byte == b';').next().unwrap_or_default();
    if method == "SUBSCRIBE" && trim(package).eq_ignore_ascii_case(b"load-control") {
        return Err("a load-control subscription");
    }
    Ok(Request {
        message,
        method,
        top,
    })
}

/// The method of `Method SP Request-URI SP SIP/2.0`.
fn request_line(line: &[u8]) -> Result<String, &'static str> {
    let parts: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [method, uri, version] = parts[..] else {
        return Err("no request line");
    };
    if !version.eq_ignore_ascii_case(b"SIP/2.0") {
        return Err("another version");
    }
    let method = String::from_utf8_lossy(method).into_owned();
    if !JUDGED.contains(&method.as_str()) {
        return Err("a method that is not judged");
    }
    if uri.iter().any(|byte| *byte <= b' ') {
        return Err("blanks in the Request-URI");
    }
    let colon = find(uri, b":").ok_or("no scheme")?;
    let scheme = uri[..colon].to_ascii_lowercase();
    let rest = &uri[colon + 1..];
    let mut after_at = rest.split(|byte| *byte == b'@').skip(1);
    let (host, more) = (after_at.next().unwrap_or(rest), after_at.next());
    match &scheme[..] {
        b"sip" | b"sips" if host.is_empty() || more.is_some() => Err("no host in the Request-URI"),
        b"sip" | b"sips" | b"tel" => Ok(method),
        _ => Err("a foreign scheme"),
    }
}

/// What RFC 3261 18.2.2 needs, and what would turn a reply away from the sender.
fn check_top(top: &Via) -> Result<(), &'static str> {
    if top.transport != b"UDP" {
        return Err("the top Via is not UDP");
    }
    if !top.param("maddr").is_empty() {
        return Err("maddr");
    }
    if top.param("rport").len() > 1 || top.param("received").len() > 1 {
        return Err("a Via parameter stands twice");
    }
    match top.param("branch")[..] {
        [Some(branch)] if branch.len() > 7 && branch[..7].eq_ignore_ascii_case(b"z9hG4bK") => {
            Ok(())
        }
        _ => Err("no branch"),
    }
}

fn check_cseq(value: &[u8], method: &str) -> Result<(), &'static str> {
    let blank = |byte: &u8| *byte <= b' ';
    let end = value.iter().position(blank).ok_or("CSeq has one word")?;
    let number = std::str::from_utf8(&value[..end]).unwrap_or_default();
    if !number.bytes().all(|byte| byte.is_ascii_digit()) || number.parse::<u32>().is_err() {
        return Err("CSeq is no number");
    }
    if trim(&value[end..]) != method.as_bytes() {
        return Err("CSeq has another method");
    }
    Ok(())
}

/// Parameters of a From or To value (RFC 3261 20.10: without brackets all parameters are the header's);
/// `None` when it is empty, or quotes or brackets stay open.
fn address(value: &[u8]) -> Option<Vec<Param>> {
    if value.is_empty() {
        return None;
    }
    Some(params(&split_address(value)?[1..]))
}
