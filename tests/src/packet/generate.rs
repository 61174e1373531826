//! Messages by the grammar of RFC 3261 section 25, from a seed.

use overload_common::abi::Reason;

use super::{
    Random,
    headers::{
        OPEN_ADDRESSES, address, call_id, colon, header_name, lower_via, other_row, request_uri,
        routing_params, sent_by, spell, token, via_param,
    },
};

/// A generated message.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The datagram's payload.
    pub bytes: Vec<u8>,
    /// The reason that the one thing wrong with it has, or that it is not to be judged; `None` when it is
    /// a request that must be judged.
    pub fault: Option<Reason>,
}

/// Methods that are judged, with unequal weights.
const JUDGED: [&str; 8] = [
    "INVITE",
    "INVITE",
    "INVITE",
    "MESSAGE",
    "REGISTER",
    "SUBSCRIBE",
    "OPTIONS",
    "PUBLISH",
];
const PASSED: [&str; 7] = [
    "CANCEL", "BYE", "INFO", "NOTIFY", "PRACK", "REFER", "UPDATE",
];

/// What is made wrong with a request, each for one reason.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    Version,
    Scheme,
    TwoAts,
    NoHost,
    Missing(&'static str),
    Twice(&'static str),
    CseqMethod,
    CseqNumber,
    EmptyCallId,
    ToTag,
    EmptyToTag,
    OpenTo,
    OpenFrom,
    Transport,
    ViaVersion,
    Maddr,
    NoBranch,
    CookieAlone,
    BadPort,
    TwoRports,
    OpenVia,
    MaxForwards,
    LoadControl,
    ShortBody,
    BadLength,
    NoColon,
    NoName,
    Control,
}

const FAULTS: [(Fault, Reason); 38] = [
    (Fault::Version, Reason::BadRequestLine),
    (Fault::Scheme, Reason::UnsupportedUri),
    (Fault::TwoAts, Reason::UnsupportedUri),
    (Fault::NoHost, Reason::UnsupportedUri),
    (Fault::Missing("via"), Reason::MissingHeader),
    (Fault::Missing("from"), Reason::MissingHeader),
    (Fault::Missing("to"), Reason::MissingHeader),
    (Fault::Missing("call-id"), Reason::MissingHeader),
    (Fault::Missing("cseq"), Reason::MissingHeader),
    (Fault::Twice("from"), Reason::DuplicateHeader),
    (Fault::Twice("to"), Reason::DuplicateHeader),
    (Fault::Twice("call-id"), Reason::DuplicateHeader),
    (Fault::Twice("cseq"), Reason::DuplicateHeader),
    (Fault::Twice("max-forwards"), Reason::DuplicateHeader),
    (Fault::Twice("content-length"), Reason::DuplicateHeader),
    (Fault::CseqMethod, Reason::BadCseq),
    (Fault::CseqNumber, Reason::BadCseq),
    (Fault::EmptyCallId, Reason::BadHeader),
    (Fault::ToTag, Reason::InDialog),
    (Fault::ToTag, Reason::InDialog),
    (Fault::ToTag, Reason::InDialog),
    (Fault::EmptyToTag, Reason::BadHeader),
    (Fault::OpenTo, Reason::BadHeader),
    (Fault::OpenFrom, Reason::BadHeader),
    (Fault::Transport, Reason::ViaTransport),
    (Fault::ViaVersion, Reason::BadVia),
    (Fault::Maddr, Reason::ViaMaddr),
    (Fault::NoBranch, Reason::NoBranch),
    (Fault::CookieAlone, Reason::NoBranch),
    (Fault::BadPort, Reason::BadVia),
    (Fault::TwoRports, Reason::BadVia),
    (Fault::OpenVia, Reason::BadVia),
    (Fault::MaxForwards, Reason::MaxForwardsZero),
    (Fault::LoadControl, Reason::LoadControl),
    (Fault::ShortBody, Reason::ShortBody),
    (Fault::BadLength, Reason::BadHeader),
    (Fault::NoColon, Reason::BadHeader),
    (Fault::NoName, Reason::BadHeader),
];

/// Makes one message, whose transaction is named by `number`: mostly requests to judge, some with one
/// fault, some that are nobody's to judge.
pub fn generate(number: u64, random: &mut Random) -> Generated {
    let (method, other) = method(random);
    let mut fault = (Fault::None, None);
    if other.is_none() && random.one_in(4) {
        let (kind, reason) = FAULTS[random.below(FAULTS.len())];
        fault = (kind, Some(reason));
    }
    let method = if fault.0 == Fault::LoadControl {
        "SUBSCRIBE".to_owned()
    } else {
        method
    };
    let text = Draft {
        method,
        number,
        fault: fault.0,
        random,
    };
    Generated {
        bytes: text.write(),
        fault: other.or(fault.1),
    }
}

/// A method, and the reason that requests with it pass for.
fn method(random: &mut Random) -> (String, Option<Reason>) {
    match random.below(20) {
        0 => ("ACK".to_owned(), Some(Reason::Ack)),
        1 | 2 => match random.pick(&PASSED) {
            "CANCEL" => ("CANCEL".to_owned(), Some(Reason::Cancel)),
            other => (other.to_owned(), Some(Reason::OtherMethod)),
        },
        3 => (extension_method(random), Some(Reason::Unrecognised)),
        _ => (random.pick(&JUDGED).to_owned(), None),
    }
}

/// A token that is no registered method.
fn extension_method(random: &mut Random) -> String {
    let registered = random.pick(&JUDGED);
    match random.below(4) {
        0 => registered.to_lowercase(),
        1 => format!("{registered}X"),
        2 => "RE%47IST%45R".to_owned(),
        _ => format!("X{}", token(random, 8)),
    }
}

/// A message being written.
struct Draft<'a> {
    method: String,
    number: u64,
    fault: Fault,
    random: &'a mut Random,
}

impl Draft<'_> {
    fn write(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..self.random.rarely(2, 20) {
            bytes.extend(b"\r\n");
        }
        bytes.extend(self.request_line().as_bytes());
        let body = self.body();
        for row in self.rows(body.len()) {
            bytes.extend(row);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"\r\n");
        bytes.extend(body);
        bytes
    }

    fn request_line(&mut self) -> String {
        let uri = match self.fault {
            Fault::Scheme => format!(
                "{}:{}",
                self.random.pick(&["im", "http", "nobodyKnowsThisScheme"]),
                "opaque//content"
            ),
            Fault::TwoAts => "sip:a@b@gw1.example.net".to_owned(),
            Fault::NoHost => "sips:alice@".to_owned(),
            _ => request_uri(self.random),
        };
        let version = match self.fault {
            Fault::Version => self
                .random
                .pick(&["SIP/2.1", "SIP/7.0", "SIP/20", "HTTP/1.1"]),
            _ => self
                .random
                .pick(&["SIP/2.0", "SIP/2.0", "SIP/2.0", "sip/2.0", "SiP/2.0"]),
        };
        format!("{} {uri} {version}\r\n", self.method)
    }

    fn body(&mut self) -> Vec<u8> {
        match self.random.below(6) {
            0 => super::sdp().as_bytes().to_vec(),
            1 => (0..self.random.below(200))
                .map(|_| self.random.next_u64() as u8)
                .collect(),
            2 => "Zürich, 東京\r\n\r\nVia: none\r\n".as_bytes().to_vec(),
            _ => Vec::new(),
        }
    }

    /// All rows, in an order of their own; Vias keep theirs among themselves.
    fn rows(&mut self, body: usize) -> Vec<Vec<u8>> {
        let mut rows: Vec<Vec<u8>> = Vec::new();
        for (name, value) in self.single_headers(body) {
            if self.fault == Fault::Missing(name) {
                continue;
            }
            rows.push(self.row(name, &value));
            if self.fault == Fault::Twice(name) {
                rows.push(self.row(name, &value));
            }
        }
        for _ in 0..self.random.below(9) {
            let other = other_row(self.random);
            rows.push(other);
        }
        if self.fault == Fault::NoName {
            rows.push(self.random.pick(&[": x", ":", "\u{1}x: y", "\0"]).into());
        }
        shuffle(&mut rows, self.random);
        let mut place = 0;
        if self.fault != Fault::Missing("via") {
            for via in self.via_rows() {
                place += self.random.below(rows.len() - place + 1);
                rows.insert(place, via);
                place += 1;
            }
        }
        self.damage(&mut rows);
        rows
    }

    /// Takes the colon from a row that is copied, or puts a control character in its value.
    fn damage(&mut self, rows: &mut [Vec<u8>]) {
        if self.fault != Fault::NoColon && self.fault != Fault::Control {
            return;
        }
        let copied = |row: &&mut Vec<u8>| {
            let name = String::from_utf8_lossy(row).to_lowercase();
            let name = name
                .split([' ', '\t', ':'])
                .next()
                .unwrap_or_default()
                .to_owned();
            ["call-id", "i", "cseq"].contains(&name.as_str())
        };
        let Some(row) = rows.iter_mut().find(copied) else {
            return;
        };
        if self.fault == Fault::NoColon {
            let colon = row.iter().position(|byte| *byte == b':');
            row[colon.unwrap_or_default()] = b' ';
        } else {
            row.push(1 + self.random.below(8) as u8);
        }
    }

    /// The headers that stand once.
    fn single_headers(&mut self, body: usize) -> Vec<(&'static str, String)> {
        let from = self.from();
        let to = self.to();
        let call_id = match self.fault {
            Fault::EmptyCallId => String::new(),
            _ => call_id(self.number, self.random),
        };
        let mut headers = vec![
            ("from", from),
            ("to", to),
            ("call-id", call_id),
            ("cseq", self.cseq()),
        ];
        let hops = match self.fault {
            Fault::MaxForwards => "0".to_owned(),
            _ => (1 + self.random.below(300)).to_string(),
        };
        let needed = [Fault::MaxForwards, Fault::Twice("max-forwards")].contains(&self.fault);
        if needed || !self.random.one_in(8) {
            headers.push(("max-forwards", hops));
        }
        let length = match self.fault {
            Fault::ShortBody => body + 1 + self.random.below(1000),
            // Bytes behind the body are noise (RFC 3261 18.3).
            _ if self.random.one_in(10) => self.random.below(body + 1),
            _ => body,
        };
        let length = match self.fault {
            Fault::BadLength => self
                .random
                .pick(&["", "-1", "0x0", "1 2", "ten"])
                .to_owned(),
            _ => length.to_string(),
        };
        let needed = [
            Fault::ShortBody,
            Fault::BadLength,
            Fault::Twice("content-length"),
        ]
        .contains(&self.fault);
        if needed || !self.random.one_in(6) {
            headers.push(("content-length", length));
        }
        let package = match self.fault {
            Fault::LoadControl => "load-control",
            _ => self
                .random
                .pick(&["presence", "reg", "load-controls", "dialog;id=7"]),
        };
        if self.method == "SUBSCRIBE" || self.method == "PUBLISH" {
            headers.push(("event", package.to_owned()));
        }
        headers
    }

    fn from(&mut self) -> String {
        if self.fault == Fault::OpenFrom {
            return self.random.pick(OPEN_ADDRESSES).to_owned();
        }
        // An old client's From has no tag.
        let tag = token(self.random, 12);
        let tag = if self.random.one_in(12) {
            None
        } else {
            Some(&*tag)
        };
        address(tag, self.random)
    }

    fn to(&mut self) -> String {
        match self.fault {
            Fault::OpenTo => self.random.pick(OPEN_ADDRESSES).to_owned(),
            Fault::EmptyToTag => self
                .random
                .pick(&["<sip:b@h>;tag=", "<sip:b@h>;tag", "sip:b@h;tag=;x=1"])
                .to_owned(),
            Fault::ToTag => {
                let tag = token(self.random, 12);
                address(Some(&tag), self.random)
            }
            _ => address(None, self.random),
        }
    }

    fn cseq(&mut self) -> String {
        let blank = self.random.pick(&[" ", " ", " ", "  ", "\t", "\r\n "]);
        let number = match self.fault {
            Fault::CseqNumber => self
                .random
                .pick(&["4294967296", "36893488147419103232", "-1", "x", "1x"])
                .to_owned(),
            _ => (self.random.next_u64() as u32).to_string(),
        };
        let method = match self.fault {
            Fault::CseqMethod => format!("{}X", self.method),
            _ => self.method.clone(),
        };
        format!("{number}{blank}{method}")
    }

    /// Via values in rows and lists, the top one first.
    fn via_rows(&mut self) -> Vec<Vec<u8>> {
        let mut values = vec![self.top_via()];
        for _ in 0..self.random.rarely(9, 2) {
            values.push(lower_via(self.random));
        }
        let mut lists: Vec<String> = Vec::new();
        for value in values {
            match lists.last_mut() {
                Some(list) if self.fault != Fault::OpenVia && self.random.one_in(3) => {
                    list.push_str(self.random.pick(&[",", ", ", " , ", ",\r\n "]));
                    list.push_str(&value);
                }
                _ => lists.push(value),
            }
        }
        lists.iter().map(|list| self.row("via", list)).collect()
    }

    fn top_via(&mut self) -> String {
        let version = if self.fault == Fault::ViaVersion {
            "SIP/3.0"
        } else {
            self.random.pick(&["SIP/2.0", "SIP/2.0", "sip/2.0"])
        };
        let transport = match self.fault {
            Fault::Transport => self.random.pick(&["TCP", "TLS", "SCTP", "UDP6", "WS"]),
            _ => self.random.pick(&["UDP", "UDP", "UDP", "udp", "Udp"]),
        };
        let mut sent_by = sent_by(self.random);
        if self.fault == Fault::BadPort {
            sent_by = format!(
                "192.0.2.10:{}",
                self.random.pick(&["65536", "", "sip", "-1"])
            );
        }
        let branch = match self.fault {
            Fault::CookieAlone => "branch=z9hG4bK".to_owned(),
            Fault::NoBranch => "branches=z9hG4bKx".to_owned(),
            _ => format!(
                "{}=z9hG4bK{}{}",
                spell("branch", self.random),
                token(self.random, 20),
                self.number
            ),
        };
        let mut params = vec![branch];
        match self.fault {
            Fault::Maddr => params.push("maddr=203.0.113.9".to_owned()),
            Fault::TwoRports => params.extend(["rport".to_owned(), "rport=1".to_owned()]),
            _ => params.extend(routing_params(self.random)),
        }
        for _ in 0..self.random.rarely(3, 3) {
            params.push(via_param(self.random));
        }
        shuffle(&mut params, self.random);
        let mut value = format!("{version}/{transport} {sent_by}");
        for (number, param) in params.iter().enumerate() {
            // No blank before the first semicolon: that is rare enough to be left to the proxy.
            let before = if number > 0 && self.random.one_in(12) {
                " "
            } else {
                ""
            };
            let after = if self.random.one_in(12) {
                self.random.pick(&[" ", "\t", "\r\n "])
            } else {
                ""
            };
            value.extend([before, ";", after, param]);
        }
        if self.fault == Fault::OpenVia {
            value.push_str(";x=\"open");
        }
        value
    }

    fn row(&mut self, name: &str, value: &str) -> Vec<u8> {
        let mut row = header_name(name, self.random).into_bytes();
        row.extend(colon(self.random).as_bytes());
        row.extend(value.as_bytes());
        if self.random.one_in(15) {
            row.extend(self.random.pick(&[" ", "\t", "  ", "\r\n "]).as_bytes());
        }
        row
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    if random.one_in(3) {
        return;
    }
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last + 1));
    }
}
