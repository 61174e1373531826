//! A small SIP parser for the oracle: bytewise and by the grammar of RFC 3261 section 25, written for
//! clarity. It knows nothing of the filter.

/// One header row with its continuation lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Long name in lower case; empty when the row has no name and colon.
    pub name: String,
    /// Value without blanks around it.
    pub value: Vec<u8>,
    /// The row as it stands, with the line end that closes it.
    pub raw: Vec<u8>,
}

/// What is wrong with the lines of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// No blank line ends the headers.
    NoBlankLine,
    /// A line feed without carriage return.
    BareLineFeed,
    /// The start line is continued (RFC 3261 7.1).
    FoldedStart,
    /// A line begins with what can neither begin a name nor continue a line.
    NoName,
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
    /// Lines, the start line and the blank one among them.
    pub lines: usize,
    /// What is wrong with the lines.
    pub damage: Vec<Damage>,
}

impl Message {
    /// Cuts a datagram whose headers must end within `limit` bytes. Damaged ones are cut as far as that
    /// goes.
    pub fn read(bytes: &[u8], limit: usize) -> Self {
        let scanned = &bytes[..bytes.len().min(limit)];
        let mut damage = Vec::new();
        let end = find(scanned, b"\r\n\r\n");
        if end.is_none() {
            damage.push(Damage::NoBlankLine);
        }
        let head = &scanned[..end.map_or(scanned.len(), |end| end + 2)];
        let mut rows: Vec<Vec<u8>> = Vec::new();
        let mut lines = usize::from(end.is_some());
        for line in head.split_inclusive(|byte| *byte == b'\n') {
            lines += usize::from(line.ends_with(b"\n"));
            if line.ends_with(b"\n") && !line.ends_with(b"\r\n") {
                damage.push(Damage::BareLineFeed);
            }
            match rows.last_mut() {
                Some(row) if matches!(line[0], b' ' | b'\t') => row.extend(line),
                _ => rows.push(line.to_vec()),
            }
        }
        let rest = rows.split_off(rows.len().min(1));
        let mut start = rows.pop().unwrap_or_default();
        if start.ends_with(b"\r\n") {
            start.truncate(start.len() - 2);
        }
        if start.contains(&b'\n') {
            damage.push(Damage::FoldedStart);
        }
        if rest.iter().any(|row| row[0] <= b' ' || row[0] == b':') {
            damage.push(Damage::NoName);
        }
        Self {
            start,
            rows: rest.iter().map(|row| read_row(row)).collect(),
            body: end.map_or(Vec::new(), |end| bytes[end + 4..].to_vec()),
            lines,
            damage,
        }
    }

    /// The rows of a header.
    pub fn rows_of(&self, name: &str) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.name == name).collect()
    }

    /// The value of a header that stands once.
    pub fn single(&self, name: &str) -> Option<&[u8]> {
        match self.rows_of(name)[..] {
            [row] => Some(&row.value),
            _ => None,
        }
    }
}

/// The name stands on the first line; blanks may stand before its colon (RFC 3261 25.1 HCOLON).
fn read_row(row: &[u8]) -> Row {
    let malformed = Row {
        name: String::new(),
        value: row.to_vec(),
        raw: row.to_vec(),
    };
    let first = row.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(colon) = first.iter().position(|byte| *byte == b':') else {
        return malformed;
    };
    let name = &row[..colon];
    let blanks = name
        .iter()
        .rev()
        .take_while(|byte| matches!(byte, b' ' | b'\t'));
    let name = &name[..colon - blanks.count()];
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
        return malformed;
    }
    Row {
        name: long_name(&String::from_utf8_lossy(name).to_ascii_lowercase()),
        value: trim(&row[colon + 1..]).to_vec(),
        raw: row.to_vec(),
    }
}

/// The long form of a lower-case name (RFC 3261 7.3.3), as far as it matters here.
pub fn long_name(name: &str) -> String {
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

/// Blanks, and the line ends of folds.
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
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
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'<' => angle = true,
            b'>' | b'\\' => return None,
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

/// Length of the first value of a comma list; `None` when a string stays open in it.
pub fn first_value(row: &[u8]) -> Option<usize> {
    position(row, b',')
}

/// What follows the name of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamValue {
    /// Nothing.
    None,
    /// `=` and this, without blanks around it; it may be empty.
    Is(Vec<u8>),
    /// Something else.
    Malformed,
}

/// A header parameter; its name in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Up to the first blank or `=`.
    pub name: Vec<u8>,
    /// What follows.
    pub value: ParamValue,
}

/// The parameter between two semicolons. Characters within name and value are not judged.
pub fn read_param(piece: &[u8]) -> Param {
    let piece = trim(piece);
    let end = piece
        .iter()
        .position(|byte| *byte == b'=' || is_blank(*byte));
    let (name, rest) = piece.split_at(end.unwrap_or(piece.len()));
    let value = match trim(rest) {
        b"" => ParamValue::None,
        [b'=', value @ ..] => ParamValue::Is(trim(value).to_vec()),
        _ => ParamValue::Malformed,
    };
    Param {
        name: name.to_ascii_lowercase(),
        value,
    }
}

/// Parameters of a Via value, whatever stands before them.
pub fn via_params(value: &[u8]) -> Vec<Param> {
    let pieces = split_quoted(value, b';').unwrap_or_default();
    pieces
        .iter()
        .skip(1)
        .map(|piece| read_param(piece))
        .collect()
}

/// One Via value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// Transport in upper case.
    pub transport: Vec<u8>,
    /// sent-by as it stands.
    pub sent_by: Vec<u8>,
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
        let sent_by = &rest[blank..];
        let (host, port) = read_sent_by(trim(sent_by))?;
        Some(Self {
            transport: rest[..blank].to_ascii_uppercase(),
            sent_by: sent_by.to_vec(),
            host,
            port,
            params: via_params(value),
        })
    }

    /// Values of a parameter; one entry for each time it stands.
    pub fn param(&self, name: &str) -> Vec<&ParamValue> {
        self.params
            .iter()
            .filter(|param| param.name == name.as_bytes())
            .map(|param| &param.value)
            .collect()
    }
}

/// Host and port. Of the host only blanks, and the brackets around an IPv6 address, are judged.
fn read_sent_by(text: &[u8]) -> Option<(Vec<u8>, Option<u16>)> {
    if text.contains(&b'"') {
        return None;
    }
    let literal = match text.first()? {
        b'[' => text.iter().rposition(|byte| *byte == b']')? + 1,
        _ => 0,
    };
    let colon = text[literal..].iter().position(|byte| *byte == b':');
    let Some(colon) = colon.map(|colon| literal + colon) else {
        let alone = literal == 0 || literal == text.len();
        return (alone && !text.iter().any(|byte| is_blank(*byte))).then(|| (text.to_vec(), None));
    };
    let (host, port) = (trim(&text[..colon]), trim(&text[colon + 1..]));
    if host.is_empty()
        || host.iter().any(|byte| is_blank(*byte))
        || literal != 0 && host.len() != literal
        || port.is_empty()
        || !port.iter().all(u8::is_ascii_digit)
    {
        return None;
    }
    let port = std::str::from_utf8(port).ok()?.parse().ok()?;
    Some((host.to_vec(), Some(port)))
}

/// A response: its message, when every line is well-formed and the start line is a status line.
pub fn read_response(bytes: &[u8]) -> Result<Message, String> {
    let message = Message::read(bytes, bytes.len());
    if !message.damage.is_empty() || message.rows.iter().any(|row| row.name.is_empty()) {
        return Err(format!("damaged: {:?}", message.damage));
    }
    let status = message
        .start
        .strip_prefix(b"SIP/2.0 ")
        .ok_or("no status line")?;
    if status.len() < 4 || !status[..3].iter().all(u8::is_ascii_digit) || status[3] != b' ' {
        return Err("no status code".to_owned());
    }
    Ok(message)
}
