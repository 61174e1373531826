//! From what is written to what is meant: every rule that spans and types do not give.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use overload_common::{
    abi::{INTERFACE_SLOTS, MAX_ADDRESSES, MAX_CONTROLS, MAX_MACS, Mode},
    admit::gcra::default_burst,
};
use toml::Spanned;

use super::{
    Attach, Config, Destination, Interface, Limit, MAX_BURST, MAX_DESTINATION_NAME,
    MAX_INSTANCE_NAME, MAX_INTERFACE_NAME, MAX_RATE, Match, Position,
    document::{DestinationTable, Document, InterfaceTable, MetricsTable},
    emergency,
    fault::{Problem, Report, WarningKind},
    host, methods,
    number::Prefixes,
    replies, sources,
};
use crate::mac::Mac;

/// The SIP port (RFC 3261 18.1.1).
const SIP_PORT: u16 = 5060;
/// Default of `listen`: the port registered for OpenTelemetry's Prometheus exporter.
const METRICS_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9464);

/// `None` when something is missing that no default stands for; a fault is then in the report.
pub(super) fn check(document: &Document, report: &mut Report) -> Option<Config> {
    let instance = instance(document.instance.as_ref(), report);
    let mode = mode(document.mode.as_ref(), report);
    let ports = match &document.ports {
        Some(list) => ports(list, report),
        None => Some(vec![SIP_PORT]),
    };
    let interfaces = interfaces(&document.interfaces, report);
    let metrics_listen = metrics(&document.metrics, report);
    let sources = sources::check(&document.sources, report);
    let replies = replies::check(&document.replies, report);
    let emergency = emergency::check(&document.emergency, report);
    let methods = methods::check(&document.methods, report);
    let numbers = emergency.as_ref().map_or(0, |e| e.numbers.len());
    let destinations = destinations(&document.destinations, numbers, report);
    Some(Config {
        instance: instance?,
        mode: mode?,
        ports: ports?,
        interfaces: interfaces?,
        metrics_listen: metrics_listen?,
        sources: sources?,
        replies: replies?,
        emergency: emergency?,
        methods: methods?,
        destinations: destinations?,
    })
}

fn instance(written: Option<&Spanned<String>>, report: &mut Report) -> Option<String> {
    let Some(name) = written else {
        return Some("default".to_owned());
    };
    let text = name.get_ref();
    if is_instance_name(text) {
        return Some(text.clone());
    }
    report.fault(&name.span(), Problem::Instance(text.clone()));
    None
}

/// Whether the text can name an instance. The BPF file system takes no dots.
pub fn is_instance_name(text: &str) -> bool {
    // A leading '-' would make it an option of a command line.
    (1..=MAX_INSTANCE_NAME).contains(&text.len())
        && !text.starts_with('-')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

fn mode(written: Option<&Spanned<String>>, report: &mut Report) -> Option<Mode> {
    let Some(word) = written else {
        return Some(Mode::Enforce);
    };
    match word.get_ref().as_str() {
        "enforce" => Some(Mode::Enforce),
        "shadow" => Some(Mode::Shadow),
        "bypass" => Some(Mode::Bypass),
        found => {
            let problem = Problem::UnknownWord {
                what: "mode",
                found: found.to_owned(),
                valid: "\"enforce\", \"shadow\" and \"bypass\"",
            };
            report.fault(&word.span(), problem);
            None
        }
    }
}

fn interfaces(tables: &[Spanned<InterfaceTable>], report: &mut Report) -> Option<Vec<Interface>> {
    if tables.is_empty() {
        report.fault(&(0..0), Problem::NoInterface);
        return None;
    }
    if let Some(first_surplus) = tables.get(INTERFACE_SLOTS) {
        let found = tables.len();
        report.fault(&first_surplus.span(), Problem::TooManyInterfaces { found });
    }
    let mut names: HashMap<&str, Position> = HashMap::new();
    let mut list = Some(Vec::new());
    for table in tables {
        let name = &table.get_ref().name;
        if let Some(first) = names.get(name.get_ref().as_str()) {
            let (name_text, line) = (name.get_ref().clone(), first.line);
            let problem = Problem::DuplicateInterface {
                name: name_text,
                line,
            };
            report.fault(&name.span(), problem);
        } else {
            names.insert(name.get_ref(), report.position(&name.span()));
        }
        match (interface(table.get_ref(), report), &mut list) {
            (Some(interface), Some(list)) => list.push(interface),
            _ => list = None,
        }
    }
    list
}

fn interface(table: &InterfaceTable, report: &mut Report) -> Option<Interface> {
    let name = interface_name(&table.name, report);
    let attach = attach(table.attach.as_ref(), report);
    let addresses = match &table.addresses {
        Some(list) => addresses(list, report),
        None => Some(Vec::new()),
    };
    let macs = table
        .macs
        .as_ref()
        .map_or_else(Vec::new, |list| macs(list, report));
    Some(Interface {
        name: name?,
        attach: attach?,
        addresses: addresses?,
        macs,
    })
}

fn interface_name(name: &Spanned<String>, report: &mut Report) -> Option<String> {
    let text = name.get_ref();
    let problem = if text.is_empty() {
        Problem::InterfaceEmpty
    } else if text.len() > MAX_INTERFACE_NAME {
        Problem::InterfaceLong(text.clone())
    } else if text.contains(|c: char| matches!(c, '/' | ':') || c.is_whitespace() || c.is_control())
        || [".", ".."].contains(&text.as_str())
    {
        Problem::InterfaceCharacter(text.clone())
    } else {
        return Some(text.clone());
    };
    report.fault(&name.span(), problem);
    None
}

fn attach(written: Option<&Spanned<String>>, report: &mut Report) -> Option<Attach> {
    let Some(word) = written else {
        return Some(Attach::Native);
    };
    match word.get_ref().as_str() {
        "native" => Some(Attach::Native),
        "generic" => Some(Attach::Generic),
        "auto" => Some(Attach::Auto),
        found => {
            let problem = Problem::UnknownWord {
                what: "attach mode",
                found: found.to_owned(),
                valid: "\"native\", \"generic\" and \"auto\"",
            };
            report.fault(&word.span(), problem);
            None
        }
    }
}

fn addresses(list: &Spanned<Vec<Spanned<String>>>, report: &mut Report) -> Option<Vec<IpAddr>> {
    let written = list.get_ref();
    if written.is_empty() {
        report.fault(&list.span(), Problem::NoAddresses);
        return None;
    }
    if written.len() > MAX_ADDRESSES {
        report.fault(&list.span(), Problem::TooManyAddresses(written.len()));
    }
    let mut known = Vec::new();
    for item in written {
        match address(item.get_ref()) {
            Ok(address) if known.contains(&address) => {
                report.fault(&item.span(), Problem::DuplicateAddress(address));
            }
            Ok(address) => known.push(address),
            Err(problem) => report.fault(&item.span(), problem),
        }
    }
    Some(known)
}

fn address(text: &str) -> Result<IpAddr, Problem> {
    let address: IpAddr = text.parse().map_err(|_| no_address(text))?;
    if address.is_loopback() {
        return Err(Problem::LoopbackAddress(address));
    }
    match address {
        IpAddr::V4(v4) if !is_unicast(v4) => Err(Problem::NotUnicast(address)),
        IpAddr::V6(v6) if v6.is_unspecified() || v6.is_multicast() => {
            Err(Problem::NotUnicast(address))
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            // RFC 4291 2.5.5.2: never on the wire.
            Some(v4) => Err(Problem::MappedAddress { v6, v4 }),
            None => Ok(address),
        },
        IpAddr::V4(_) => Ok(address),
    }
}

/// What is wrong with a text that is no address, if it can be told.
fn no_address(text: &str) -> Problem {
    let is_address = |part: &str| part.parse::<IpAddr>().is_ok();
    let text_of = |text: &str| text.to_owned();
    if let Some((address, zone)) = text.split_once('%')
        && is_address(address)
    {
        let (address, zone) = (text_of(address), text_of(zone));
        return Problem::ScopedAddress { address, zone };
    }
    if let Some((address, _)) = text.split_once('/')
        && is_address(address)
    {
        return Problem::AddressPrefix(text_of(address));
    }
    if let Some(inside) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'))
        && is_address(inside)
    {
        return Problem::BracketedAddress(text_of(inside));
    }
    Problem::NoAddress(text_of(text))
}

/// Whether a host can have the address: not 0/8, multicast, class E or broadcast (RFC 1122 3.2.1.3).
fn is_unicast(address: Ipv4Addr) -> bool {
    (1..224).contains(&address.octets()[0])
}

fn macs(list: &Spanned<Vec<Spanned<String>>>, report: &mut Report) -> Vec<Mac> {
    let written = list.get_ref();
    // One is the interface's own.
    if written.len() > MAX_MACS - 1 {
        report.fault(&list.span(), Problem::TooManyMacs(written.len()));
    }
    let mut known = Vec::new();
    for item in written {
        let problem = match Mac::parse(item.get_ref()) {
            None => Problem::NoMac(item.get_ref().clone()),
            Some(mac) if !mac.is_unicast() => Problem::GroupMac(mac),
            Some(mac) if known.contains(&mac) => Problem::DuplicateMac(mac),
            Some(mac) => {
                known.push(mac);
                continue;
            }
        };
        report.fault(&item.span(), problem);
    }
    known
}

fn ports(list: &Spanned<Vec<Spanned<i64>>>, report: &mut Report) -> Option<Vec<u16>> {
    if list.get_ref().is_empty() {
        report.fault(&list.span(), Problem::NoPorts);
        return None;
    }
    let mut known = Vec::new();
    for item in list.get_ref() {
        let number = *item.get_ref();
        match u16::try_from(number) {
            Ok(port) if port != 0 && known.contains(&port) => {
                report.fault(&item.span(), Problem::DuplicatePort(port));
            }
            Ok(port) if port != 0 => known.push(port),
            _ => report.fault(&item.span(), Problem::Port(number)),
        }
    }
    Some(known)
}

fn metrics(table: &MetricsTable, report: &mut Report) -> Option<SocketAddr> {
    let Some(text) = &table.listen else {
        return Some(METRICS_LISTEN);
    };
    let problem = match text.get_ref().parse::<SocketAddr>() {
        Err(_) => Problem::Listen(text.get_ref().clone()),
        Ok(address) if !address.ip().is_loopback() && !table.allow_remote => {
            Problem::RemoteListen(address)
        }
        Ok(address) => return Some(address),
    };
    report.fault(&text.span(), problem);
    None
}

/// They and the emergency numbers share one table.
fn destinations(
    tables: &[Spanned<DestinationTable>],
    numbers: usize,
    report: &mut Report,
) -> Option<Vec<Destination>> {
    if let Some(first_surplus) = tables.get(MAX_CONTROLS - numbers) {
        let found = tables.len();
        report.fault(
            &first_surplus.span(),
            Problem::TooManyDestinations { found, numbers },
        );
        return None;
    }
    let mut seen = Seen::default();
    let mut list = Vec::with_capacity(tables.len());
    for (index, table) in tables.iter().enumerate() {
        let is_last = index + 1 == tables.len();
        let name = destination_name(table, &mut seen, report);
        let matches = destination_match(table, is_last, &mut seen, report);
        let limit = limit(table, report);
        if let (Some(name), Some(matches), Some(limit)) = (name, matches, limit) {
            list.push(Destination {
                name,
                matches,
                limit,
            });
        }
    }
    if seen.default.is_none() {
        report.warning(&(0..0), WarningKind::NoDefault);
    }
    Some(list)
}

/// Where a name, a host and the default stood first.
#[derive(Default)]
struct Seen {
    names: HashMap<String, Position>,
    hosts: HashMap<String, (String, Position)>,
    prefixes: Prefixes,
    default: Option<Position>,
}

fn destination_name(
    table: &Spanned<DestinationTable>,
    seen: &mut Seen,
    report: &mut Report,
) -> Option<String> {
    let name = &table.get_ref().name;
    let text = name.get_ref().clone();
    let problem = if text.is_empty() {
        Problem::NameEmpty
    } else if text.len() > MAX_DESTINATION_NAME || text.chars().any(char::is_control) {
        Problem::Name(text)
    } else if let Some(first) = seen.names.get(&text) {
        Problem::DuplicateName {
            name: text,
            line: first.line,
        }
    } else {
        seen.names
            .insert(text.clone(), report.position(&name.span()));
        return Some(text);
    };
    report.fault(&name.span(), problem);
    None
}

fn destination_match(
    table: &Spanned<DestinationTable>,
    is_last: bool,
    seen: &mut Seen,
    report: &mut Report,
) -> Option<Match> {
    let destination = table.get_ref();
    let name = destination.name.get_ref().clone();
    let default = destination.default.as_ref().filter(|d| *d.get_ref());
    match (&destination.host, &destination.number_prefix, default) {
        (None, None, None) => {
            report.fault(&table.span(), Problem::NoMatch(name));
            None
        }
        (Some(host), None, None) => destination_host(host, name, seen, report),
        (None, Some(prefix), None) => seen.prefixes.add(prefix, name, report),
        (None, None, Some(default)) => {
            let position = report.position(&default.span());
            if let Some(Position { line, .. }) = seen.default {
                report.fault(&default.span(), Problem::SecondDefault { name, line });
                return None;
            }
            seen.default = Some(position);
            if !is_last {
                report.fault(&default.span(), Problem::DefaultNotLast(name));
            }
            Some(Match::Default)
        }
        (_, prefix, default) => {
            let surplus = default.map(Spanned::span);
            let surplus = surplus.or_else(|| prefix.as_ref().map(Spanned::span));
            report.fault(&surplus.unwrap_or(table.span()), Problem::TwoMatches(name));
            None
        }
    }
}

fn destination_host(
    host: &Spanned<String>,
    name: String,
    seen: &mut Seen,
    report: &mut Report,
) -> Option<Match> {
    let canonical = match host::canonical(host.get_ref()) {
        Ok(canonical) => canonical,
        Err(fault) => {
            report.fault(&host.span(), fault.into());
            return None;
        }
    };
    if let Some((other, first)) = seen.hosts.get(&canonical) {
        let problem = Problem::DuplicateHost {
            host: canonical,
            other: other.clone(),
            line: first.line,
        };
        report.fault(&host.span(), problem);
        return None;
    }
    let position = report.position(&host.span());
    seen.hosts.insert(canonical.clone(), (name, position));
    Some(Match::Host(canonical))
}

fn limit(table: &Spanned<DestinationTable>, report: &mut Report) -> Option<Limit> {
    let destination = table.get_ref();
    let name = || destination.name.get_ref().clone();
    let (rate, percent) = (&destination.rate_per_second, &destination.accept_percent);
    if let (None, Some(burst)) = (rate, &destination.burst) {
        report.fault(&burst.span(), Problem::BurstWithoutRate(name()));
    }
    let limit = match (rate, percent) {
        (None, None) => {
            report.fault(&table.span(), Problem::NoLimit(name()));
            return None;
        }
        (Some(_), Some(percent)) => {
            report.fault(&percent.span(), Problem::TwoLimits(name()));
            return None;
        }
        (Some(rate), None) => rate_limit(rate, destination.burst.as_ref(), report)?,
        (None, Some(percent)) => {
            let value = *percent.get_ref();
            if !(0.0..=100.0).contains(&value) {
                report.fault(&percent.span(), Problem::Percent(value));
                return None;
            }
            Limit::AcceptPercent(value)
        }
    };
    if let Limit::Rate {
        rate_per_second: value,
        ..
    }
    | Limit::AcceptPercent(value) = limit
        && value <= 0.0
    {
        report.warning(&table.span(), WarningKind::RefusesAll(name()));
    }
    Some(limit)
}

fn rate_limit(
    rate: &Spanned<f64>,
    burst: Option<&Spanned<f64>>,
    report: &mut Report,
) -> Option<Limit> {
    let rate_per_second = *rate.get_ref();
    let rate_is_valid = (0.0..=MAX_RATE).contains(&rate_per_second);
    if !rate_is_valid {
        report.fault(&rate.span(), Problem::Rate(rate_per_second));
    }
    let advised = default_burst(rate_per_second);
    let burst = match burst {
        None => advised,
        Some(written) if !is_burst(*written.get_ref()) => {
            report.fault(&written.span(), Problem::Burst(*written.get_ref()));
            return None;
        }
        Some(written) => {
            let burst = *written.get_ref();
            if rate_is_valid && burst < advised {
                report.warning(&written.span(), WarningKind::SmallBurst { burst, advised });
            }
            burst
        }
    };
    rate_is_valid.then_some(Limit::Rate {
        rate_per_second,
        burst,
    })
}

/// Whether so many requests can come at once.
pub(super) fn is_burst(requests: f64) -> bool {
    (1.0..=MAX_BURST).contains(&requests) && requests.fract() == 0.0
}
