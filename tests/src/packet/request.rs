//! The oracle's own reading of a request: may it be answered without the proxy, and where to?
//!
//! A reading collects every fault, each under the reason it has. Apart from faults it knows where the
//! filter may give up on a request that is none: beyond a bound, or at a shape that is legal and rare.

use overload_common::abi::Reason;

use super::sip::{
    Damage, Message, Param, ParamValue, Row, Via, find, first_value, is_blank, long_name,
    read_param, split_address, trim, via_params,
};

/// Bytes within which the headers must end.
const HEADERS_MAX: usize = 4032;
/// Lines that are always scanned, and lines that never are.
const LINES: std::ops::Range<usize> = 64..128;
/// Rows that a reply copies at most.
const COPIED_MAX: usize = 64;
/// Longest branch, Call-ID and sent-by, bytes.
const FIELD_MAX: usize = 256;
/// Longest From, To, Via value and Request-URI, bytes.
const VALUE_MAX: usize = 512;
/// Blanks in a row that are always stepped over.
const BLANKS_MAX: usize = 5;
/// Special characters of an address or a Via value that are always looked at, and its blocks of 64 bytes.
const STEPS_MAX: usize = 22;

/// Headers whose lines a reply copies.
pub const COPIED: [&str; 5] = ["via", "from", "to", "call-id", "cseq"];

/// Methods the filter may judge.
pub const JUDGED: [&str; 6] = [
    "INVITE",
    "MESSAGE",
    "REGISTER",
    "SUBSCRIBE",
    "OPTIONS",
    "PUBLISH",
];

/// What a request is, as far as an answer goes.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The message from its request line on.
    pub message: Message,
    /// Method.
    pub method: String,
    /// The first Via value, when it can be read.
    pub top: Option<Via>,
    /// Why nobody but the proxy may answer; empty when the filter may.
    pub faults: Vec<Reason>,
    /// Reasons under which the filter may pass it though nothing is wrong.
    pub spared: Vec<Reason>,
}

/// Reads a datagram from its request line on, which begins with a method that is judged, or ACK.
pub fn read_request(bytes: &[u8], method: &str) -> Reading {
    let mut reading = Reading {
        message: Message::read(bytes, HEADERS_MAX),
        method: method.to_owned(),
        top: None,
        faults: Vec::new(),
        spared: Vec::new(),
    };
    reading.lines();
    // Nobody reads on in an ACK (RFC 3261 8.2.7).
    if method != "ACK" {
        reading.request_line();
        reading.presence();
        reading.exempt();
        reading.content_length();
        reading.call_id();
        reading.cseq();
        reading.address("from");
        reading.address("to");
        reading.via();
    }
    reading
}

impl Reading {
    fn fault(&mut self, reason: Reason) {
        self.faults.push(reason);
    }

    fn spare(&mut self, condition: bool, reason: Reason) {
        if condition {
            self.spared.push(reason);
        }
    }

    fn rows(&self, name: &str) -> Vec<Row> {
        self.message.rows_of(name).into_iter().cloned().collect()
    }

    /// RFC 3261 7: lines, names, and how many of them.
    fn lines(&mut self) {
        for damage in self.message.damage.clone() {
            self.fault(match damage {
                Damage::NoBlankLine => Reason::NoHeaderEnd,
                Damage::BareLineFeed => Reason::BareLineFeed,
                Damage::FoldedStart => Reason::BadRequestLine,
                Damage::NoName => Reason::BadHeader,
            });
        }
        // Behind the request line, it may be taken for a line that continues it.
        let first = self.message.rows.first().map(|row| row.raw[0]);
        self.spare(
            first.is_some_and(|byte| byte <= b' ' || byte == b':'),
            Reason::BadRequestLine,
        );
        let mut copied = 0;
        for row in self.message.rows.clone() {
            let is_copied = COPIED.contains(&first_word(&row.raw).as_str());
            copied += usize::from(is_copied);
            if is_copied && (row.name.is_empty() || has_control(&row.raw)) {
                self.fault(Reason::BadHeader);
            }
            if is_copied {
                self.spare(blanks(&row.raw) > BLANKS_MAX, Reason::BadHeader);
                self.spare(has_bare_return(&row.raw), Reason::BadHeader);
            }
        }
        if copied > COPIED_MAX || self.message.lines >= LINES.end {
            self.fault(Reason::TooManyLines);
        }
        self.spare(self.message.lines > LINES.start, Reason::TooManyLines);
    }

    /// `Method SP Request-URI SP SIP/2.0`.
    fn request_line(&mut self) {
        let line = self.message.start.clone();
        let rest = &line[(self.method.len() + 1).min(line.len())..];
        let Some(blank) = rest.iter().rposition(|byte| *byte == b' ') else {
            return self.fault(Reason::BadRequestLine);
        };
        let uri = &rest[..blank];
        if !rest[blank + 1..].eq_ignore_ascii_case(b"SIP/2.0") {
            self.fault(Reason::BadRequestLine);
        }
        if uri.iter().any(|byte| *byte <= b' ') {
            self.fault(Reason::BadRequestLine);
        }
        self.spare(
            uri.len() > VALUE_MAX || uri.len() < 5,
            Reason::BadRequestLine,
        );
        let (scheme, rest) = uri.split_at(find(uri, b":").unwrap_or(uri.len()));
        let rest = rest.get(1..).unwrap_or_default();
        let mut after_at = rest.split(|byte| *byte == b'@').skip(1);
        let (host, more) = (after_at.next().unwrap_or(rest), after_at.next());
        let whole = match &scheme.to_ascii_lowercase()[..] {
            b"sip" | b"sips" => !host.is_empty() && more.is_none(),
            b"tel" => true,
            _ => false,
        };
        if !whole {
            self.fault(Reason::UnsupportedUri);
        }
    }

    /// RFC 3261 8.1.1: what must stand, and what only once.
    fn presence(&mut self) {
        for name in COPIED {
            if self.rows(name).is_empty() {
                self.fault(Reason::MissingHeader);
            }
        }
        for name in [
            "from",
            "to",
            "call-id",
            "cseq",
            "max-forwards",
            "content-length",
        ] {
            if self.rows(name).len() > 1 {
                self.fault(Reason::DuplicateHeader);
            }
        }
        // Names that begin alike may be taken for one more.
        for start in ["max-forw", "content-length"] {
            let alike = |row: &&Row| first_word(&row.raw).starts_with(start);
            let alike = self.message.rows.iter().filter(alike).count();
            self.spare(alike > 1, Reason::DuplicateHeader);
        }
    }

    /// What the proxy must see whatever the load.
    fn exempt(&mut self) {
        for row in self.rows("max-forwards") {
            if row.value == b"0" {
                self.fault(Reason::MaxForwardsZero);
            }
            self.spare(row.value.starts_with(b"0"), Reason::MaxForwardsZero);
            self.spare(blanks(&row.raw) > BLANKS_MAX, Reason::BadHeader);
        }
        if self.method != "SUBSCRIBE" {
            return;
        }
        let events = self.rows("event");
        for row in &events {
            let package = row.value.split(|byte| *byte == b';').next();
            let package = trim(package.unwrap_or_default()).to_ascii_lowercase();
            if package == b"load-control" && events.len() == 1 && blanks(&row.raw) <= BLANKS_MAX {
                self.fault(Reason::LoadControl);
            }
            let unclear = events.len() > 1 || has_control(&row.raw) || blanks(&row.raw) > 0;
            self.spare(
                unclear && package.starts_with(b"load-control"),
                Reason::LoadControl,
            );
        }
    }

    /// RFC 3261 18.3: the datagram carries what Content-Length states.
    fn content_length(&mut self) {
        let damaged = |row: &Row| {
            row.name.is_empty() && long_name(&first_word(&row.raw)) == "content-length"
                || row.name == "content-length" && has_control(&row.raw)
        };
        let damaged = self.message.rows.iter().any(damaged);
        self.spare(damaged, Reason::BadHeader);
        for row in self.rows("content-length") {
            let digits = row.value.iter().all(u8::is_ascii_digit);
            self.spare(
                row.value.len() > 10 || blanks(&row.raw) > BLANKS_MAX,
                Reason::BadHeader,
            );
            if row.value.is_empty() || !digits {
                self.fault(Reason::BadHeader);
            } else if number(&row.value)
                .is_none_or(|length| length > self.message.body.len() as u64)
            {
                self.fault(Reason::ShortBody);
            }
        }
    }

    fn call_id(&mut self) {
        for row in self.rows("call-id") {
            if row.value.is_empty() {
                self.fault(Reason::BadHeader);
            }
            self.spare(row.value.len() > FIELD_MAX, Reason::BadHeader);
        }
    }

    /// RFC 3261 8.1.1.5: a 32-bit number and the request's method.
    fn cseq(&mut self) {
        for row in self.rows("cseq") {
            if row.value.is_empty() {
                self.fault(Reason::BadHeader);
                continue;
            }
            let digits = row.value.iter().take_while(|byte| byte.is_ascii_digit());
            let (number_text, rest) = row.value.split_at(digits.count());
            let blank = rest.first().is_some_and(|byte| is_blank(*byte));
            let fits = number(number_text).is_some_and(|number| u32::try_from(number).is_ok());
            if !fits || !blank || trim(rest) != self.method.as_bytes() {
                self.fault(Reason::BadCseq);
            }
            self.spare(
                number_text.len() > 10 || blanks(&row.raw) > BLANKS_MAX,
                Reason::BadCseq,
            );
        }
    }

    /// From and To (RFC 3261 20.10: without brackets all parameters are the header's).
    fn address(&mut self, name: &str) {
        for row in self.rows(name) {
            let marks = |byte: &&u8| b"\"<>;\\".contains(byte);
            let steps = row.value.iter().filter(marks).count() + row.value.len() / 64;
            self.spare(
                row.value.len() > VALUE_MAX || steps > STEPS_MAX,
                Reason::BadHeader,
            );
            let pieces = split_address(&row.value).filter(|_| !row.value.is_empty());
            let Some(pieces) = pieces else {
                self.fault(Reason::BadHeader);
                let mentions = find(&row.value.to_ascii_lowercase(), b"tag").is_some();
                self.spare(name == "to" && mentions, Reason::InDialog);
                continue;
            };
            // Behind a semicolon at the row's end, the next line may be read on.
            self.spare(row.value.ends_with(b";"), Reason::BadHeader);
            let params: Vec<_> = pieces[1..].iter().map(|piece| read_param(piece)).collect();
            for tag in params.iter().filter(|param| param.name == b"tag") {
                match &tag.value {
                    ParamValue::Is(value) if !value.is_empty() => {
                        if name == "to" {
                            self.fault(Reason::InDialog);
                        }
                    }
                    ParamValue::Malformed => {}
                    _ => self.fault(Reason::BadHeader),
                }
            }
        }
    }

    /// What RFC 3261 18.2.2 needs of the top Via, and what would turn a reply away from the sender.
    fn via(&mut self) {
        let Some(row) = self.rows("via").into_iter().next() else {
            return;
        };
        let Some(length) = first_value(&row.value) else {
            self.spare(true, Reason::ViaTransport);
            return self.fault(Reason::BadVia);
        };
        let value = &row.value[..length];
        let params = via_params(value);
        self.via_params(&params);
        let Some(top) = Via::read(value) else {
            self.spare(true, Reason::ViaTransport);
            return self.fault(Reason::BadVia);
        };
        self.rare_via(&row, value, &top);
        if top.transport != b"UDP" {
            self.fault(Reason::ViaTransport);
        }
        self.top = Some(top);
    }

    fn via_params(&mut self, params: &[Param]) {
        let values = |name: &[u8]| -> Vec<ParamValue> {
            let named = params.iter().filter(|param| param.name == name);
            named.map(|param| param.value.clone()).collect()
        };
        if !values(b"maddr").is_empty() {
            self.fault(Reason::ViaMaddr);
        }
        for single in [&b"branch"[..], b"rport", b"received"] {
            if values(single).len() > 1 {
                self.fault(Reason::BadVia);
            }
        }
        if values(b"branch").is_empty() {
            self.fault(Reason::NoBranch);
        }
        for branch in values(b"branch") {
            match branch {
                ParamValue::Is(branch) if is_rfc3261(&branch) => {}
                ParamValue::Is(_) => self.fault(Reason::NoBranch),
                _ => self.fault(Reason::BadVia),
            }
        }
    }

    /// Shapes of a Via value that the grammar allows and nobody sends.
    fn rare_via(&mut self, row: &Row, value: &[u8], top: &Via) {
        let marks = |byte: &&u8| **byte < b'-' || b";:".contains(byte);
        let steps = value.iter().filter(marks).count() + value.len() / 64;
        let branch = |param: &ParamValue| matches!(param, ParamValue::Is(branch) if branch.len() > FIELD_MAX);
        let host_end = find(value, b";").unwrap_or(value.len());
        let blank_behind_host = value[..host_end].last().is_some_and(|byte| is_blank(*byte));
        let blank_in_sent_by = trim(&top.sent_by).iter().any(|byte| is_blank(*byte));
        let equals = find(&value.to_ascii_lowercase(), b"branch");
        let equals = equals.is_none_or(|at| value.get(at + 6) != Some(&b'='));
        let rare = value.len() > VALUE_MAX - 16
            || steps > STEPS_MAX
            || find(value, b"\\\"").is_some()
            || blank_behind_host
            || blank_in_sent_by
            || equals
            || top.sent_by.len() > FIELD_MAX
            || top.port.is_some() && digits_of_port(&top.sent_by) > 8
            || top.param("branch").into_iter().any(branch)
            || blanks(&row.raw) > BLANKS_MAX;
        self.spare(rare, Reason::BadVia);
        if !value
            .get(..8)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"SIP/2.0/"))
        {
            self.spare(true, Reason::BadVia);
        }
        self.spare(
            value.get(8).is_none_or(|byte| is_blank(*byte)),
            Reason::ViaTransport,
        );
        let equals = find(&value.to_ascii_lowercase(), b"branch=");
        let blank = equals
            .and_then(|at| value.get(at + 7))
            .is_some_and(|byte| is_blank(*byte));
        self.spare(blank || blanks(&row.raw) > BLANKS_MAX, Reason::NoBranch);
    }
}

/// A branch that names a transaction (RFC 3261 8.1.1.7): more than the cookie, RFC 4475 3.1.2.19.
fn is_rfc3261(branch: &[u8]) -> bool {
    branch.len() > 7 && branch[..7].eq_ignore_ascii_case(b"z9hG4bK")
}

/// The long form of what a row begins with, up to a colon, a blank or a control character.
fn first_word(row: &[u8]) -> String {
    let word = row
        .iter()
        .take_while(|byte| **byte != b':' && **byte > b' ');
    let word: Vec<u8> = word.copied().collect();
    long_name(&String::from_utf8_lossy(&word).to_ascii_lowercase())
}

/// The longest run of blanks and line ends within a row, its own line end apart.
fn blanks(row: &[u8]) -> usize {
    let row = row.strip_suffix(b"\r\n").unwrap_or(row);
    let runs = row.split(|byte| !is_blank(*byte));
    runs.map(<[u8]>::len).max().unwrap_or_default()
}

/// A control character that is no blank and no line end.
fn has_control(row: &[u8]) -> bool {
    row.iter().any(|byte| *byte < b' ' && !is_blank(*byte))
}

/// A carriage return without line feed.
fn has_bare_return(row: &[u8]) -> bool {
    row.windows(2)
        .any(|pair| pair[0] == b'\r' && pair[1] != b'\n')
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn digits_of_port(sent_by: &[u8]) -> usize {
    let port = sent_by.rsplit(|byte| *byte == b':').next();
    trim(port.unwrap_or_default()).len()
}
