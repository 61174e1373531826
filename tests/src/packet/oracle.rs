//! Is this frame the right refusal of that one?

use super::{
    Datagram,
    request::{COPIED, Reading},
    sip::{Row, first_value, is_blank, read_param, read_response, split_quoted, trim},
};

/// Bytes of a To tag of ours.
const TAG_LEN: usize = 20;
/// Stands for the tag in an expected reply: no message has it.
const TAG: [u8; TAG_LEN] = [0; TAG_LEN];

/// The refusal of a request without faults, `TAG` in place of the tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Port that it goes to.
    pub port: u16,
    /// The message.
    pub text: Vec<u8>,
}

/// Composes the refusal (RFC 3261 8.2.6, 18.2; RFC 3581 4); `None` when nobody may answer.
pub fn compose(request: &Datagram, reading: &Reading) -> Option<Reply> {
    let top = reading.top.as_ref().filter(|_| reading.faults.is_empty())?;
    let port = if top.param("rport").is_empty() {
        top.port.unwrap_or(5060)
    } else {
        request.source_port
    };
    let mut text = b"SIP/2.0 503 Service Unavailable\r\n".to_vec();
    let mut is_top = true;
    for row in &reading.message.rows {
        match row.name.as_str() {
            "via" if is_top => {
                text.extend(top_via(request, row)?);
                is_top = false;
            }
            "to" => {
                let end = value_end(&row.raw);
                text.extend(&row.raw[..end]);
                text.extend(b";tag=");
                text.extend(TAG);
                text.extend(&row.raw[end..]);
            }
            name if COPIED.contains(&name) => text.extend(&row.raw),
            _ => {}
        }
    }
    text.extend(b"Content-Length: 0\r\n\r\n");
    Some(Reply { port, text })
}

/// The row of the top Via: rport and received filled where they stand, received added where it does not.
fn top_via(request: &Datagram, row: &Row) -> Option<Vec<u8>> {
    let raw = &row.raw;
    let start = raw.iter().position(|byte| *byte == b':')? + 1;
    let end = value_end(raw);
    let end = start + first_value(&raw[start..end])?;
    let mut text = raw[..start].to_vec();
    let mut received = false;
    for (number, piece) in split_quoted(&raw[start..end], b';')?
        .into_iter()
        .enumerate()
    {
        if number == 0 {
            text.extend(piece);
            continue;
        }
        text.push(b';');
        let blanks = piece.iter().take_while(|byte| is_blank(**byte)).count();
        let filled = match &read_param(piece).name[..] {
            b"rport" => format!("rport={}", request.source_port),
            b"received" => {
                received = true;
                format!("received={}", request.source)
            }
            _ => {
                text.extend(piece);
                continue;
            }
        };
        text.extend(&piece[..blanks]);
        text.extend(filled.as_bytes());
    }
    if !received {
        text.extend(format!(";received={}", request.source).as_bytes());
    }
    text.extend(&raw[end..]);
    Some(text)
}

/// Where the value of a row ends, before the blanks at its end.
fn value_end(raw: &[u8]) -> usize {
    let end = raw.iter().rposition(|byte| !is_blank(*byte));
    end.map_or(raw.len(), |end| end + 1)
}

/// Checks the whole of a reply, from the Ethernet header to its last byte; gives its text.
pub fn compare(request: &Datagram, expected: &Reply, frame: &[u8]) -> Result<String, String> {
    let reply = Datagram::read(frame).map_err(|error| format!("{error:?}"))?;
    let routed = Datagram {
        source_mac: request.destination_mac,
        destination_mac: request.source_mac,
        tags: request.tags.clone(),
        source: request.destination,
        source_port: request.destination_port,
        destination: request.source,
        destination_port: expected.port,
        options: Vec::new(),
        payload: reply.payload.clone(),
    };
    if reply != routed {
        return Err(format!("routed wrongly: {reply:?}"));
    }
    let response = read_response(&reply.payload)?;
    let tag = response
        .single("to")
        .and_then(|to| {
            to.windows(8)
                .rposition(|at| at == b";tag=olc")
                .map(|at| &to[at + 5..])
        })
        .ok_or("no tag of ours in To")?;
    let hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    if tag.len() != TAG_LEN || !matches!(tag[3], b'0' | b'1') || !tag[4..].iter().all(hex) {
        return Err("the tag is none of ours".to_owned());
    }
    let mut text = expected.text.clone();
    let place = text
        .windows(TAG_LEN)
        .position(|at| at == TAG)
        .ok_or("no place for a tag")?;
    text[place..place + TAG_LEN].copy_from_slice(tag);
    // Of many blanks at the end of a value, text may be put before some.
    if text != reply.payload
        && !(ends_in_blanks(&text) && squeeze(&text) == squeeze(&reply.payload))
    {
        return Err(format!("not {:?}", String::from_utf8_lossy(&text)));
    }
    Ok(String::from_utf8_lossy(&reply.payload).into_owned())
}

/// Has a row many blanks at its end?
fn ends_in_blanks(text: &[u8]) -> bool {
    text.windows(6)
        .any(|run| run.iter().all(|byte| is_blank(*byte)))
}

fn squeeze(text: &[u8]) -> Vec<u8> {
    let kept = text.iter().filter(|byte| !is_blank(**byte));
    trim(&kept.copied().collect::<Vec<u8>>()).to_vec()
}
