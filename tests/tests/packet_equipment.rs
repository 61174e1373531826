//! Messages shaped like those of common equipment: `tests/messages`, lines ended by a line feed there.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use overload_common::abi::{Mode, Reason, Verdict};
use overload_tests::packet::{Datagram, Filter, State, Stream, predict};

/// What is not to be judged; all others are.
const PASSED: [(&str, Reason); 3] = [
    ("asterisk-reinvite", Reason::InDialog),
    ("freeswitch-bye", Reason::OtherMethod),
    ("cube-ringing", Reason::Response1xx),
];

/// Name and datagram of each file.
fn messages() -> Result<Vec<(String, Vec<u8>)>> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("messages");
    let mut messages = Vec::new();
    for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        messages.push((name, text.replace('\n', "\r\n").into_bytes()));
    }
    messages.sort();
    ensure!(messages.len() >= 15, "{} messages", messages.len());
    for (name, _) in PASSED {
        ensure!(messages.iter().any(|(found, _)| found == name), "no {name}");
    }
    Ok(messages)
}

/// The reason a message has, whatever the limit is.
fn exempt(name: &str) -> Option<Reason> {
    PASSED
        .iter()
        .find(|(passed, _)| *passed == name)
        .map(|(_, reason)| *reason)
}

/// Both IP versions, from port 5060 and another.
fn datagrams(text: &[u8]) -> [Datagram; 2] {
    [Datagram::new(5060, text), Datagram::new_v6(49_152, text)]
}

#[test]
fn equipment_is_refused_with_the_right_reply_and_so_are_copies() -> Result<()> {
    let mut stream = Stream::new(Filter::refusing()?)?;
    for (name, text) in messages()? {
        for datagram in datagrams(&text) {
            let reason = exempt(&name).unwrap_or(Reason::RateLimit);
            // Nothing about it is so rare that the filter may leave it to the proxy.
            assert_eq!(
                predict(&datagram, &State::new(&[reason])).reasons,
                [reason],
                "{name}"
            );
            let first = stream.send(&datagram, &State::new(&[reason]))?;
            assert_eq!(
                first.reply.is_some(),
                reason.verdict() == Verdict::Refuse,
                "{name}"
            );
            let reply = stream.frame().to_vec();
            let again = if first.reply.is_some() {
                Reason::RefusedCopy
            } else {
                reason
            };
            stream.send(&datagram, &State::new(&[again]))?;
            assert_eq!(stream.frame(), reply, "{name}");
        }
    }
    stream.audit()
}

#[test]
fn equipment_is_admitted_within_the_limit_and_so_are_copies() -> Result<()> {
    let mut stream = Stream::new(Filter::new()?)?;
    for (name, text) in messages()? {
        stream.filter.reset()?;
        stream.filter.limit(1.0, 10.0)?;
        let before = stream.filter.counters()?.offered;
        let [datagram, _] = datagrams(&text);
        let first = exempt(&name).unwrap_or(Reason::WithinLimit);
        stream.send(&datagram, &State::new(&[first]))?;
        for (ms, copy) in [(100, Reason::SurplusCopy), (500, Reason::AdmittedCopy)] {
            stream.filter.at_ms(ms)?;
            let copy = exempt(&name).unwrap_or(copy);
            stream.send(&datagram, &State::new(&[copy]))?;
        }
        let offered = u64::from(exempt(&name).is_none());
        assert_eq!(
            stream.filter.counters()?.offered,
            before + offered,
            "{name}"
        );
    }
    stream.audit()
}

#[test]
fn equipment_passes_in_shadow_mode() -> Result<()> {
    let mut filter = Filter::refusing()?;
    filter.mode(Mode::Shadow)?;
    let mut stream = Stream::new(filter)?;
    for (name, text) in messages()? {
        let [datagram, _] = datagrams(&text);
        let reason = exempt(&name).unwrap_or(Reason::RateLimit);
        let reasons = [reason];
        let state = State {
            shadow: true,
            ..State::new(&reasons)
        };
        let judged = stream.send(&datagram, &state)?;
        assert_eq!((judged.reason, judged.reply), (reason, None), "{name}");
    }
    stream.audit()
}

#[test]
fn equipment_messages_cut_anywhere_get_no_malformed_reply() -> Result<()> {
    let mut stream = Stream::new(Filter::refusing()?)?;
    let judged = [Reason::RateLimit, Reason::RefusedCopy];
    for (name, text) in messages()? {
        let headers = text
            .windows(4)
            .position(|at| at == b"\r\n\r\n")
            .context("no blank line")?
            + 4;
        let behind = (headers..text.len()).step_by(16);
        for length in (0..headers).chain(behind).chain([text.len()]) {
            let datagram = Datagram::new(5062, &text[..length]);
            let became = stream.send(&datagram, &State::new(&judged))?;
            assert!(
                length >= headers || became.reply.is_none(),
                "{name} {length}"
            );
        }
    }
    stream.audit()
}
