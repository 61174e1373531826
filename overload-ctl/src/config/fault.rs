//! Faults and warnings with their place in the file.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::Range,
    path::{Path, PathBuf},
};

use overload_common::abi::{INTERFACE_SLOTS, MAX_ADDRESSES, MAX_CONTROLS, MAX_MACS};
use thiserror::Error;

use super::{
    HostFault, MAX_BURST, MAX_DESTINATION_NAME, MAX_INSTANCE_NAME, MAX_INTERFACE_NAME, MAX_RATE,
    NumberFault, SourceFault, document::KEYS,
};
use crate::mac::Mac;

/// A place in a text, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column in characters.
    pub column: usize,
}

/// One fault, printed as `file:line:column: what is wrong; remedy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub position: Position,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.position;
        write!(
            f,
            "{}:{line}:{column}: {}",
            self.path.display(),
            self.problem
        )
    }
}

/// What can be wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum Problem {
    #[error("not valid TOML: {0}")]
    Syntax(String),
    #[error("byte {0:#04x} is no UTF-8; save the file as UTF-8")]
    NotUtf8(u8),
    #[error("{found} is of the wrong type; write {wanted}")]
    Type { found: String, wanted: &'static str },
    #[error("key `{0}` is missing; add it")]
    MissingKey(String),
    #[error("unknown key `{key}`; did you mean `{nearest}`?")]
    UnknownKeyNear { key: String, nearest: &'static str },
    #[error("unknown key `{key}`; the keys known here are {known}")]
    UnknownKey { key: String, known: String },
    #[error("`rate` does not say its unit; use rate_per_second")]
    BareRate,
    #[error("unknown {what} {found:?}; valid are {valid}")]
    UnknownWord {
        what: &'static str,
        found: String,
        valid: &'static str,
    },
    #[error(
        "instance {0:?} cannot name a directory; use 1 to {MAX_INSTANCE_NAME} letters, digits, '-' or '_', and no '-' first"
    )]
    Instance(String),
    #[error("interface name is empty; write a name that `ip link` shows")]
    InterfaceEmpty,
    #[error(
        "interface name {0:?} has more than {MAX_INTERFACE_NAME} bytes; write a name that `ip link` shows"
    )]
    InterfaceLong(String),
    #[error(
        "interface name {0:?} cannot be one, it has a blank, '/' or ':', or dots alone; write a name that `ip link` shows"
    )]
    InterfaceCharacter(String),
    #[error("no interface is named; add an [[interface]] table with its name")]
    NoInterface,
    #[error(
        "[{0}] in single brackets is one table; write [[{0}]], also when there is only one of them"
    )]
    SingleTable(&'static str),
    #[error("{found} interfaces are more than the {INTERFACE_SLOTS} of one instance; remove some")]
    TooManyInterfaces { found: usize },
    #[error("interface {name:?} is that of line {line}; remove one")]
    DuplicateInterface { name: String, line: usize },
    #[error("addresses is empty; leave the key out to protect the interface's own addresses")]
    NoAddresses,
    #[error(
        "{0} addresses are more than the {MAX_ADDRESSES} one interface can protect; remove some"
    )]
    TooManyAddresses(usize),
    #[error("{0:?} is no IP address; write one such as \"192.0.2.1\" or \"2001:db8::1\"")]
    NoAddress(String),
    #[error("address {0} has brackets, which belong to URIs; remove them")]
    BracketedAddress(String),
    #[error("address {0} has a prefix length; remove it, one address is protected, not a network")]
    AddressPrefix(String),
    #[error(
        "address {address} has a scope id; remove %{zone}, the address belongs to the interface of its table"
    )]
    ScopedAddress { address: String, zone: String },
    #[error("{v6} is an IPv4 address in IPv6 form; write {v4}")]
    MappedAddress { v6: Ipv6Addr, v4: Ipv4Addr },
    #[error("{0} is a loopback address; its traffic crosses no network card, protect another")]
    LoopbackAddress(IpAddr),
    #[error("{0} is no address of one host; write the address that callers send to")]
    NotUnicast(IpAddr),
    #[error("address {0} stands twice; remove one")]
    DuplicateAddress(IpAddr),
    #[error(
        "{0} MAC addresses are more than the {max} that one interface can have beside its own; remove some", max = MAX_MACS - 1
    )]
    TooManyMacs(usize),
    #[error("{0:?} is no MAC address; write six pairs of digits, such as \"02:00:00:00:00:05\"")]
    NoMac(String),
    #[error("{0} is no MAC address of one host; write the one that callers' frames are sent to")]
    GroupMac(Mac),
    #[error("MAC address {0} stands twice; remove one")]
    DuplicateMac(Mac),
    #[error(
        "ports are those of all interfaces together; move the line to the top of the file, before the first table"
    )]
    PortsPlace,
    #[error("ports is empty; leave the key out to protect port 5060")]
    NoPorts,
    #[error("{0} is no UDP port; write a number from 1 to 65535")]
    Port(i64),
    #[error("port {0} stands twice; remove one")]
    DuplicatePort(u16),
    #[error(
        "{0:?} is no address with port; write a numeric one, such as \"127.0.0.1:9464\" or \"[::1]:9464\""
    )]
    Listen(String),
    #[error(
        "{0} is reachable from other hosts; listen on 127.0.0.1, or add allow_remote = true to accept that"
    )]
    RemoteListen(std::net::SocketAddr),
    #[error(
        "{found} destinations and {numbers} emergency numbers are more than the {MAX_CONTROLS} of one instance; remove some"
    )]
    TooManyDestinations { found: usize, numbers: usize },
    #[error("destination name is empty; write a label for status and metrics")]
    NameEmpty,
    #[error(
        "destination name {0:?} has control characters or more than {MAX_DESTINATION_NAME} bytes; shorten it"
    )]
    Name(String),
    #[error("destination name {name:?} is taken by line {line}; choose another")]
    DuplicateName { name: String, line: usize },
    #[error("host {host:?} is that of destination {other:?} in line {line}; remove one")]
    DuplicateHost {
        host: String,
        other: String,
        line: usize,
    },
    #[error(transparent)]
    Host(#[from] HostFault),
    #[error(
        "destination {0:?} says not what it matches; add host, number_prefix, or default = true"
    )]
    NoMatch(String),
    #[error("destination {0:?} has more than one of host, number_prefix and default; keep one")]
    TwoMatches(String),
    #[error("number_prefix {prefix:?} is that of destination {other:?} in line {line}; remove one")]
    DuplicatePrefix {
        prefix: String,
        other: String,
        line: usize,
    },
    #[error(transparent)]
    Number(#[from] NumberFault),
    #[error(transparent)]
    Source(#[from] SourceFault),
    #[error("{key} = {value} is out of range; write a number from 0 to {most}")]
    OutOfRange {
        key: &'static str,
        value: f64,
        most: f64,
    },
    #[error("{key} = {value} is no burst; write a whole number from 1 to {MAX_BURST}")]
    NoBurst { key: &'static str, value: f64 },
    #[error("destination {name:?} is a second default, after line {line}; remove one")]
    SecondDefault { name: String, line: usize },
    #[error("the default destination {0:?} is not the last one; move it to the end of the file")]
    DefaultNotLast(String),
    #[error("destination {0:?} has no limit; add rate_per_second or accept_percent")]
    NoLimit(String),
    #[error(
        "destination {0:?} has both rate_per_second and accept_percent; remove one, a destination has one limit"
    )]
    TwoLimits(String),
    #[error("rate_per_second = {0} is out of range; write a number from 0 to {MAX_RATE}")]
    Rate(f64),
    #[error("accept_percent = {0} is out of range; write a number from 0 to 100")]
    Percent(f64),
    #[error("burst = {0} is no number of requests; write a whole number from 1 to {MAX_BURST}")]
    Burst(f64),
    #[error("burst belongs to rate_per_second, which destination {0:?} has not; remove burst")]
    BurstWithoutRate(String),
}

/// Something lawful that is seldom meant, printed as `file:line:column: …`.
#[derive(Clone, Debug, PartialEq)]
pub struct Warning {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub position: Position,
    /// What it is.
    pub kind: WarningKind,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.position;
        write!(f, "{}:{line}:{column}: {}", self.path.display(), self.kind)
    }
}

/// What is seldom meant.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum WarningKind {
    #[error(
        "burst = {burst} is less than {advised} (10, or 20 ms of the rate): calls that arrive together are refused below the rate"
    )]
    SmallBurst { burst: f64, advised: f64 },
    #[error("no default destination: requests to hosts not named here are all admitted")]
    NoDefault,
    #[error(
        "destination {0:?} admits nothing: every new request to it is refused, but for emergency calls"
    )]
    RefusesAll(String),
    #[error(
        "destination {name:?} matches nothing: all its numbers belong to {other:?} in line {line}, which stands before it; move it up"
    )]
    Shadowed {
        name: String,
        other: String,
        line: usize,
    },
}

/// Collects what is found in one text.
pub(super) struct Report<'a> {
    path: &'a Path,
    text: &'a str,
    /// Offset of each line's first byte.
    lines: Vec<usize>,
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
}

impl<'a> Report<'a> {
    pub(super) fn new(path: &'a Path, text: &'a str) -> Self {
        let ends = text.match_indices('\n').map(|(offset, _)| offset + 1);
        Self {
            path,
            text,
            lines: std::iter::once(0).chain(ends).collect(),
            faults: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn position(&self, span: &Range<usize>) -> Position {
        let line = self.lines.partition_point(|start| *start <= span.start);
        let line_start = self.lines[line - 1];
        let before = self.text.get(line_start..span.start).unwrap_or_default();
        Position {
            line,
            column: before.chars().count() + 1,
        }
    }

    pub(super) fn fault(&mut self, span: &Range<usize>, problem: Problem) {
        self.faults.push(Fault {
            path: self.path.to_owned(),
            position: self.position(span),
            problem,
        });
    }

    pub(super) fn warning(&mut self, span: &Range<usize>, kind: WarningKind) {
        self.warnings.push(Warning {
            path: self.path.to_owned(),
            position: self.position(span),
            kind,
        });
    }

    /// What the TOML reader stopped at.
    pub(super) fn syntax(&mut self, error: &toml::de::Error) {
        let span = error.span().unwrap_or(0..0);
        let written = self.text.get(span.clone()).unwrap_or_default();
        self.fault(&span, explain(error.message(), written));
    }

    pub(super) fn finish(mut self) -> (Vec<Fault>, Vec<Warning>) {
        self.faults.sort_by_key(|f| f.position);
        self.warnings.sort_by_key(|w| w.position);
        (self.faults, self.warnings)
    }
}

/// Tables of which there may be several.
const LISTED_TABLES: [&str; 2] = ["interface", "destination"];

/// Sorts the reader's messages about what is `written`; those of `serde::de::Error` have a fixed form.
fn explain(message: &str, written: &str) -> Problem {
    let header = written.strip_prefix('[').and_then(|w| w.split_once(']'));
    if message.starts_with("invalid type: map, expected a sequence")
        && let Some(name) =
            header.and_then(|(name, _)| LISTED_TABLES.into_iter().find(|t| *t == name.trim()))
    {
        return Problem::SingleTable(name);
    }
    let message = message.trim().replace('\n', ", ");
    if let Some((key, known)) = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split_once('`'))
    {
        let known = known
            .trim_start_matches(", expected ")
            .trim_start_matches("one of ");
        return unknown_key(key, known);
    }
    if let Some(key) = message
        .strip_prefix("missing field `")
        .and_then(|rest| rest.strip_suffix('`'))
    {
        return Problem::MissingKey(key.to_owned());
    }
    wrong_type(&message).unwrap_or(Problem::Syntax(message))
}

/// `invalid type: FOUND, expected WANTED` in the words of the file, not of the reader.
fn wrong_type(message: &str) -> Option<Problem> {
    let (found, wanted) = message
        .strip_prefix("invalid type: ")?
        .rsplit_once(", expected ")?;
    let wanted = match wanted {
        "a string" => "a text in double quotes",
        "f64" => "a number",
        "i64" => "a whole number",
        "a boolean" => "true or false",
        "a sequence" => "a list in square brackets",
        _ if wanted.starts_with("struct ") => "a table",
        _ => return None,
    };
    let (kind, value) = found.split_once(' ').unwrap_or((found, ""));
    let value = value.trim_start_matches("point ").trim_matches('`');
    let found = match kind {
        "string" => format!("the text {value}"),
        "integer" | "floating" => format!("the number {value}"),
        "boolean" => value.to_owned(),
        "sequence" => "a list".to_owned(),
        "map" => "what stands here".to_owned(),
        _ => return None,
    };
    Some(Problem::Type { found, wanted })
}

fn unknown_key(key: &str, known: &str) -> Problem {
    if key == "rate" && known.contains("`rate_per_second`") {
        return Problem::BareRate;
    }
    // Ports of an interface were a key of version 0.1.
    if key == "ports" && known.contains("`attach`") {
        return Problem::PortsPlace;
    }
    let nearest = KEYS
        .iter()
        .filter(|candidate| known.contains(&format!("`{candidate}`")))
        .map(|candidate| {
            (
                distance(&key.to_lowercase(), &candidate.to_lowercase()),
                *candidate,
            )
        })
        .min();
    match nearest {
        Some((distance, nearest)) if distance <= 1 + key.len() / 4 => Problem::UnknownKeyNear {
            key: key.to_owned(),
            nearest,
        },
        _ => Problem::UnknownKey {
            key: key.to_owned(),
            known: known.to_owned(),
        },
    }
}

/// Levenshtein distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
