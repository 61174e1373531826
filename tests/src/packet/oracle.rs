//! Is this frame the right refusal of that one?

use super::{
    Datagram,
    request::read_request,
    sip::{Message, Param, Via, first_value, read_response, trim},
};

/// What a reply may be longer than its request, bytes.
const GROWTH_MAX: usize = 100;

/// Checks the whole of a reply, from the Ethernet header to its last byte; gives its text. An error says
/// what is wrong, also when `request` must not be answered at all.
pub fn check_reply(request: &Datagram, frame: &[u8], max_frame: usize) -> Result<String, String> {
    let reply = Datagram::read(frame).map_err(|error| format!("{error:?}"))?;
    let asked = read_request(&request.payload).map_err(|why| format!("answered, but {why}"))?;
    let port = if asked.top.param("rport").is_empty() {
        asked.top.port.unwrap_or(5060)
    } else {
        request.source_port
    };
    let expected = Datagram {
        source_mac: request.destination_mac,
        destination_mac: request.source_mac,
        tags: request.tags.clone(),
        source: request.destination,
        source_port: request.destination_port,
        destination: request.source,
        destination_port: port,
        options: Vec::new(),
        payload: reply.payload.clone(),
    };
    if reply != expected {
        return Err(format!("routed wrongly: {reply:?}"));
    }
    if reply.payload.len() > request.payload.len() + GROWTH_MAX
        || frame.len() > max_frame + 4 * request.tags.len()
    {
        return Err("too long".to_owned());
    }
    let response = read_response(&reply.payload)?;
    check_headers(&asked.message, &response)?;
    check_vias(request, &asked.message.values("via"), &asked.top, &response)?;
    Ok(String::from_utf8_lossy(&reply.payload).into_owned())
}

fn check_headers(asked: &Message, response: &Message) -> Result<(), String> {
    if response.start != b"SIP/2.0 503 Service Unavailable" || !response.body.is_empty() {
        return Err("no 503 without body".to_owned());
    }
    let allowed = ["via", "from", "to", "call-id", "cseq", "content-length"];
    for row in &response.rows {
        if !allowed.contains(&row.name.as_str()) {
            return Err(format!("{} in the reply", row.name));
        }
    }
    for name in ["from", "call-id", "cseq"] {
        if asked.single(name) != response.single(name) || asked.single(name).is_none() {
            return Err(format!("{name} differs"));
        }
    }
    if response.single("content-length") != Some(b"0") {
        return Err("no Content-Length: 0".to_owned());
    }
    let to = response.single("to").ok_or("no To")?;
    let tag = asked
        .single("to")
        .and_then(|asked| to.strip_prefix(asked))
        .ok_or("To differs")?;
    let tag = trim(tag).strip_prefix(b";tag=").ok_or("no tag in To")?;
    let hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    if tag.len() != 20 || !tag.starts_with(b"olc") || !tag[3..].iter().all(hex) {
        return Err("the tag is none of ours".to_owned());
    }
    Ok(())
}

/// All Vias in order, the top one with received, and rport where it was asked for (RFC 3581 4).
fn check_vias(
    request: &Datagram,
    asked: &[&[u8]],
    asked_top: &Via,
    response: &Message,
) -> Result<(), String> {
    let rows = response.values("via");
    if rows.len() != asked.len() || rows[1..] != asked[1..] {
        return Err("other Via rows below the top".to_owned());
    }
    let (top, below) = first_value(rows[0]).ok_or("the reply's top Via is left open")?;
    if Some(below) != first_value(asked[0]).map(|(_, below)| below) {
        return Err("other Vias behind the top".to_owned());
    }
    let top = Via::read(top).ok_or("the reply's top Via is malformed")?;
    let source = request.source.to_string();
    if top.param("received") != [Some(source.as_bytes())] {
        return Err("received is not the source".to_owned());
    }
    let port = request.source_port.to_string();
    let rport: &[Option<&[u8]>] = if asked_top.param("rport").is_empty() {
        &[]
    } else {
        &[Some(port.as_bytes())]
    };
    if top.param("rport") != rport {
        return Err("rport is wrong".to_owned());
    }
    let rest = |via: &Via| -> Vec<Param> {
        let filled = [&b"received"[..], b"rport"];
        let kept = via
            .params
            .iter()
            .filter(|(name, _)| !filled.contains(&&name[..]));
        kept.cloned().collect()
    };
    let same = top.transport == asked_top.transport
        && top.host == asked_top.host
        && top.port == asked_top.port
        && rest(&top) == rest(asked_top);
    if same {
        Ok(())
    } else {
        Err("the top Via differs".to_owned())
    }
}
