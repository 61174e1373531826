//! A small SIP parser for the oracle: bytewise and by the grammar of RFC 3261 section 25, written for
//! clarity. It knows nothing of the filter.

/// One header row with its continuation lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Long name in lower case; empty when the row has no name and colon.
    pub name: String,
    /// Value without blanks around it.
    pub value: Vec<u8>,
}

/// A message cut into its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The start line.
    pub start: Vec<u8>,
    /// Header rows in order.
    pub rows: Vec<Row>,
    /// What follows the blank line.
    pub body: Vec<u8>,
}

impl Message {
    /// Cuts a datagram; an error says what is wrong with its lines.
    pub fn read(bytes: &[u8]) -> Result<Self, &'static str> {
        let end = find(bytes, b"\r\n\r\n").ok_or("no blank line")?;
        let head = &bytes[..end];
        let mut lines: Vec<&[u8]> = head.split(|byte| *byte == b'\n').collect();
        let last = lines.len() - 1;
        for line in &mut lines[..last] {
            *line = line
                .strip_suffix(b"\r")
                .ok_or("a line feed without carriage return")?;
        }
        let start = lines.remove(0).to_vec();
        let mut rows: Vec<(Vec<u8>, &[u8])> = Vec::new();
        for line in lines {
            if line.starts_with(b" ") || line.starts_with(b"\t") {
                let (row, _) = rows.last_mut().ok_or("the start line is folded")?;
                row.extend(b"\r\n");
                row.extend(line);
            } else {
                rows.push((line.to_vec(), line));
            }
        }
        let rows = rows
            .iter()
            .map(|(row, first)| read_row(row, first))
            .collect();
        Ok(Self {
            start,
            rows,
            body: bytes[end + 4..].to_vec(),
        })
    }

    /// Values of all rows of a header.
    pub fn values(&self, name: &str) -> Vec<&[u8]> {
        self.rows
            .iter()
            .filter(|row| row.name == name)
            .map(|row| &row.value[..])
            .collect()
    }

    /// The value of a header that stands once.
    pub fn single(&self, name: &str) -> Option<&[u8]> {
        match self.values(name)[..] {
            [value] => Some(value),
            _ => None,
        }
    }
}

/// The name stands on the first line; blanks may stand before its colon (RFC 3261 25.1 HCOLON).
fn read_row(row: &[u8], first: &[u8]) -> Row {
    let malformed = Row {
        name: String::new(),
        value: row.to_vec(),
    };
    let Some(colon) = first.iter().position(|byte| *byte == b':') else {
        return malformed;
    };
    let name = trim(&row[..colon]);
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) || row[0] == b' ' {
        return malformed;
    }
    Row {
        name: long_name(&String::from_utf8_lossy(name).to_ascii_lowercase()),
        value: trim(&row[colon + 1..]).to_vec(),
    }
}

fn long_name(name: &str) -> String {
    let long = match name {
        "v" => "via",
        "f" => "from",
        "t" => "to",
        "i" => "call-id",
        "l" => "content-length",
        "m" => "contact",
        "o" => "event",
        other => other,
    };
    long.to_owned()
}

/// Characters of RFC 3261 25.1 `token`.
pub fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte)
}

/// Blanks, line ends of folds and what else is no text.
fn is_blank(byte: u8) -> bool {
    byte <= b' '
}

/// Without blanks and line ends around it.
pub fn trim(bytes: &[u8]) -> &[u8] {
    let Some(start) = bytes.iter().position(|byte| !is_blank(*byte)) else {
        return &[];
    };
    let end = bytes.iter().rposition(|byte| !is_blank(*byte));
    &bytes[start..=end.unwrap_or(start)]
}

/// Place of `needle`.
pub fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
}

/// Cuts at `separator` outside quoted strings; `None` when one stays open.
pub fn split_quoted(bytes: &[u8], separator: u8) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    loop {
        let at = position(rest, separator)?;
        parts.push(&rest[..at]);
        if at == rest.len() {
            return Some(parts);
        }
        rest = &rest[at + 1..];
    }
}

/// Place of the first `mark` outside quoted strings, or the end; `None` when a string stays open.
fn position(bytes: &[u8], mark: u8) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            _ if byte == mark && !quoted => return Some(at),
            _ => {}
        }
    }
    if quoted { None } else { Some(bytes.len()) }
}

/// Cuts an address header at the semicolons outside quoted strings and angle brackets; `None` when one
/// of them stays open.
pub fn split_address(value: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    let (mut start, mut quoted, mut escaped, mut angle) = (0, false, false, false);
    for (at, &byte) in value.iter().enumerate() {
        match byte {
            b'>' if angle => angle = false,
            _ if angle => {}
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'<' => angle = true,
            b'>' => return None,
            b';' => {
                parts.push(&value[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&value[start..]);
    if quoted || angle { None } else { Some(parts) }
}

/// The first value of a comma list, and what follows it; `None` when a string stays open in it.
pub fn first_value(row: &[u8]) -> Option<(&[u8], &[u8])> {
    Some(row.split_at(position(row, b',')?))
}

/// A header parameter; its name in lower case.
pub type Param = (Vec<u8>, Option<Vec<u8>>);

/// Parameters from pieces between semicolons. Characters within names and values are not judged.
pub fn params(pieces: &[&[u8]]) -> Vec<Param> {
    pieces
        .iter()
        .map(|piece| {
            let piece = trim(piece);
            let name = piece.split(|byte| *byte == b'=' || is_blank(*byte)).next();
            let value = piece.iter().position(|byte| *byte == b'=');
            (
                name.unwrap_or_default().to_ascii_lowercase(),
                value.map(|equals| trim(&piece[equals + 1..]).to_vec()),
            )
        })
        .collect()
}

/// One Via value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// Transport in upper case.
    pub transport: Vec<u8>,
    /// Host of sent-by.
    pub host: Vec<u8>,
    /// Port of sent-by.
    pub port: Option<u16>,
    /// Parameters.
    pub params: Vec<Param>,
}

impl Via {
    /// Reads one value (RFC 3261 25.1 `via-parm`, which allows blanks around its separators).
    pub fn read(value: &[u8]) -> Option<Self> {
        let pieces = split_quoted(value, b';')?;
        let mut protocol = pieces[0].splitn(3, |byte| *byte == b'/').map(trim);
        let (name, version, rest) = (protocol.next()?, protocol.next()?, protocol.next()?);
        if !name.eq_ignore_ascii_case(b"SIP") || version != b"2.0" {
            return None;
        }
        let blank = rest.iter().position(|byte| is_blank(*byte))?;
        let (host, port) = sent_by(trim(&rest[blank..]))?;
        Some(Self {
            transport: rest[..blank].to_ascii_uppercase(),
            host,
            port,
            params: params(&pieces[1..]),
        })
    }

    /// Values of a parameter; one entry for each time it stands.
    pub fn param(&self, name: &str) -> Vec<Option<&[u8]>> {
        self.params
            .iter()
            .filter(|(found, _)| found == name.as_bytes())
            .map(|(_, value)| value.as_deref())
            .collect()
    }
}

/// Host and port. The host is not judged, but for the brackets around an IPv6 address.
fn sent_by(text: &[u8]) -> Option<(Vec<u8>, Option<u16>)> {
    let literal = match text.first()? {
        b'[' => text.iter().position(|byte| *byte == b']')? + 1,
        _ => 0,
    };
    let colon = text[literal..].iter().rposition(|byte| *byte == b':');
    let Some(colon) = colon.map(|colon| literal + colon) else {
        let alone = literal == 0 || literal == text.len();
        return alone.then(|| (text.to_vec(), None));
    };
    let port = trim(&text[colon + 1..]);
    if port.is_empty() || !port.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let port = std::str::from_utf8(port).ok()?.parse().ok()?;
    Some((trim(&text[..colon]).to_vec(), Some(port)))
}

/// A response: its message, when every line is well-formed and the start line is a status line.
pub fn read_response(bytes: &[u8]) -> Result<Message, &'static str> {
    let message = Message::read(bytes)?;
    let status = message
        .start
        .strip_prefix(b"SIP/2.0 ")
        .ok_or("no status line")?;
    if status.len() < 4 || !status[..3].iter().all(u8::is_ascii_digit) || status[3] != b' ' {
        return Err("no status code");
    }
    if message.rows.iter().any(|row| row.name.is_empty()) {
        return Err("a row without a name");
    }
    Ok(message)
}
