//! Exact SIP messages for single-message tests.

use std::fmt;

use crate::lab::CLIENT;

/// A request under construction; each field is the text of a header.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Request-URI.
    pub uri: String,
    /// Via values, the top one first.
    pub via: Vec<String>,
    /// From.
    pub from: String,
    /// To.
    pub to: String,
    /// Call-ID.
    pub call_id: String,
    /// CSeq number; the method is added.
    pub cseq: u32,
    /// Further header lines, without line ends.
    pub more: Vec<String>,
    /// Message body.
    pub body: String,
}

impl Request {
    /// A request to `host` with its own transaction for each `call`, from [`CLIENT`] port 5060.
    pub fn new(method: &str, host: &str, call: &str) -> Self {
        let user = "+15551230001";
        Self {
            method: method.to_owned(),
            uri: format!("sip:{user}@{host}"),
            via: vec![format!(
                "SIP/2.0/UDP {CLIENT}:5060;branch=z9hG4bK-{call};rport"
            )],
            from: format!("<sip:alice@example.com>;tag=f-{call}"),
            to: format!("<sip:{user}@{host}>"),
            call_id: format!("{call}@{CLIENT}"),
            cseq: 1,
            more: vec![format!("Contact: <sip:alice@{CLIENT}>")],
            body: String::new(),
        }
    }

    /// An INVITE; see [`Request::new`].
    pub fn invite(host: &str, call: &str) -> Self {
        Self::new("INVITE", host, call)
    }

    /// The ACK to a final answer other than 2xx: same top Via, To of the answer (RFC 3261 17.1.1.3).
    #[must_use]
    pub fn ack(&self, reply: &Reply) -> Self {
        let mut ack = self.clone();
        "ACK".clone_into(&mut ack.method);
        ack.via.truncate(1);
        reply
            .header("To")
            .unwrap_or_default()
            .clone_into(&mut ack.to);
        ack.more.clear();
        ack.body.clear();
        ack
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} SIP/2.0\r\n", self.method, self.uri)?;
        for via in &self.via {
            write!(f, "Via: {via}\r\n")?;
        }
        write!(
            f,
            "Max-Forwards: 70\r\nFrom: {}\r\nTo: {}\r\n",
            self.from, self.to
        )?;
        write!(f, "Call-ID: {}\r\n", self.call_id)?;
        write!(f, "CSeq: {} {}\r\n", self.cseq, self.method)?;
        for line in &self.more {
            write!(f, "{line}\r\n")?;
        }
        write!(
            f,
            "Content-Length: {}\r\n\r\n{}",
            self.body.len(),
            self.body
        )
    }
}

/// First line of a message.
pub fn start_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

/// A received response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Status code; 0 when the start line is not a status line.
    pub status: u16,
    /// The datagram.
    pub text: String,
}

impl Reply {
    /// Reads a datagram.
    pub fn new(datagram: &[u8]) -> Self {
        let text = String::from_utf8_lossy(datagram).into_owned();
        let status = text
            .strip_prefix("SIP/2.0 ")
            .and_then(|rest| rest.get(..3))
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_default();
        Self { status, text }
    }

    /// Value of the first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.text
            .lines()
            .take_while(|line| !line.is_empty())
            .find_map(|line| {
                let (found, value) = line.split_once(':')?;
                (found.trim() == name).then_some(value.trim())
            })
    }

    /// Tag of the To header.
    pub fn to_tag(&self) -> Option<&str> {
        let (_, tag) = self.header("To")?.rsplit_once(";tag=")?;
        Some(tag)
    }
}
