//! Senders that are denied, trusted or proven.

use std::{sync::atomic::Ordering, thread, time::Duration};

use anyhow::{Context, Result, anyhow};
use overload_common::abi::{LOOKUP_EMERGENCY, LOOKUP_SOURCES};
use overload_ctl::datapath::{maps::Maps, settings::LOOKUPS_WORD};
use overload_tests::{CLIENT, Config, Controller, Destination, Lab, Request, Sink, pace};

const FULL: &str = "full.example.net";
const SERVER: &str = "192.0.2.1:5060";
const OTHER: &str = "192.0.2.66";
const SOON: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_millis(300);

/// One destination that refuses everything.
fn refuse_all(more: &str) -> Config {
    let mut config = Config::new(&[Destination::host("full", FULL, 0.0, 10)]);
    more.clone_into(&mut config.more);
    config
}

#[test]
fn a_denied_source_is_dropped_by_nftables_and_gets_no_answer() -> Result<()> {
    let lab = Lab::new()?;
    lab.add_client_address(OTHER)?;
    for command in [
        "add table inet lab".to_owned(),
        "add chain inet lab input { type filter hook input priority 0 ; }".to_owned(),
        format!("add rule inet lab input ip saddr {OTHER} counter drop"),
    ] {
        lab.host.run("nft", &[&command])?;
    }
    let config = refuse_all("\n[sources]\ndeny = [\"192.0.2.64/26\"]\n");
    let controller = Controller::start(&lab, &config)?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let denied = lab.client.bind(&format!("{OTHER}:5060"))?;
    for number in 0..20 {
        let invite = Request::invite(FULL, &format!("denied-{number}"));
        denied.send(invite.to_string(), SERVER)?;
    }
    // The cable has one queue: when this one is answered, all before it have been judged.
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let reply = client.ask(&Request::invite(FULL, "other"), SERVER, SOON)?;
    assert_eq!(reply.context("no answer")?.status, 503);
    assert_eq!(denied.receive(QUIET)?, None);
    assert_eq!(proxy.stop()?, [""; 0]);
    let status = controller.status()?;
    assert_eq!(status.reason("denied")?, 20);
    assert_eq!(status.destination("full")?.offered, 1);
    let rules = lab
        .host
        .run("nft", &["list", "chain", "inet", "lab", "input"])?;
    assert!(rules.contains("counter packets 20 "), "{rules}");
    let text = controller.command(&["status"])?;
    assert!(
        text.lines().any(|line| line.starts_with("denied ")),
        "{text}"
    );
    Ok(())
}

#[test]
fn a_takeover_replaces_what_is_known_of_sources() -> Result<()> {
    let lab = Lab::new()?;
    lab.add_client_address(OTHER)?;
    let _proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{OTHER}:5060"))?;
    let mut runs = Vec::new();
    for (number, sources, answered, entries) in [
        (
            1u32,
            "[sources]\ndeny = [\"192.0.2.66\", \"2001:db8::/32\"]\n",
            false,
            2,
        ),
        (2, "[sources]\ntrusted = [\"192.0.2.64/26\"]\n", true, 1),
        (
            3,
            "[sources]\ntrusted = [\"192.0.2.64/26\"]\ndeny = [\"192.0.2.66\"]\n",
            false,
            2,
        ),
        (4, "", true, 0),
    ] {
        let controller = Controller::start(&lab, &refuse_all(sources))?;
        let invite = Request::invite(FULL, &format!("takeover-{number}"));
        let within = if answered { SOON } else { QUIET };
        let reply = client.ask(&invite, SERVER, within)?;
        assert_eq!(reply.is_some(), answered, "run {number}");
        let maps = Maps::open(&lab.pins().join("maps"))?;
        let mut generations = Vec::new();
        for key in maps.sources.keys() {
            generations.push(u32::from_be_bytes(key?.data().generation));
        }
        assert_eq!(generations, vec![number; entries]);
        let lookups = maps.instance.words(0)[LOOKUPS_WORD].load(Ordering::Relaxed);
        let expected = if entries == 0 { 0 } else { LOOKUP_SOURCES };
        assert_eq!(lookups, LOOKUP_EMERGENCY | expected);
        runs.push(controller);
        if let Some(controller) = runs.last_mut() {
            controller.process().stop()?;
        }
    }
    Ok(())
}

#[test]
fn a_source_that_stays_denied_is_denied_throughout_a_takeover() -> Result<()> {
    let lab = Lab::new()?;
    lab.add_client_address(OTHER)?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{OTHER}:5060"))?;
    let answers = Sink::read(client.share()?)?;
    let mut first = Controller::start(&lab, &refuse_all("[sources]\ndeny = [\"192.0.2.66\"]\n"))?;
    let sent = 3000;
    let sender = thread::spawn(move || {
        pace(&client, SERVER, 500.0, sent, |number| {
            Request::invite(FULL, &format!("stays-{number}")).to_string()
        })
    });
    first.process().stop()?;
    let second = Controller::start(&lab, &refuse_all("[sources]\ndeny = [\"192.0.2.64/26\"]\n"))?;
    assert!(!sender.is_finished(), "the takeover came too late");
    sender
        .join()
        .map_err(|_| anyhow!("the sender panicked"))??;
    assert_eq!(answers.stop()?, [""; 0]);
    assert_eq!(proxy.stop()?.len(), sent as usize);
    let status = second.status()?;
    assert_eq!(status.reason("denied")?, u64::from(sent));
    assert_eq!(status.destination("full")?.offered, 0);
    Ok(())
}

#[test]
fn replies_to_a_prefix_are_budgeted_until_it_is_proven_or_trusted() -> Result<()> {
    let lab = Lab::new()?;
    lab.add_client_address(OTHER)?;
    let config = refuse_all(&format!(
        "\n[sources]\ntrusted = [\"{CLIENT}\"]\n[replies]\nrate_per_second = 0.0001\nburst = 1\n"
    ));
    let controller = Controller::start(&lab, &config)?;
    let stranger = lab.client.bind(&format!("{OTHER}:5060"))?;
    let first = Request::invite(FULL, "first");
    let reply = stranger.ask(&first, SERVER, SOON)?.context("no answer")?;
    assert_eq!(reply.status, 503);
    let second = Request::invite(FULL, "second");
    assert!(stranger.ask(&second, SERVER, QUIET)?.is_none());
    let trusted = lab.client.bind(&format!("{CLIENT}:5060"))?;
    for number in 0..5 {
        let invite = Request::invite(FULL, &format!("trusted-{number}"));
        assert!(trusted.ask(&invite, SERVER, SOON)?.is_some());
    }
    stranger.send(first.ack(&reply).to_string(), SERVER)?;
    let third = Request::invite(FULL, "third");
    assert!(stranger.ask(&third, SERVER, SOON)?.is_some());
    let status = controller.status()?;
    assert_eq!(status.reason("reply_budget")?, 1);
    assert_eq!(status.reason("own_ack")?, 1);
    assert_eq!(status.destination("full")?.refused, 8);
    Ok(())
}

#[test]
fn without_replies_only_trusted_sources_are_answered() -> Result<()> {
    let lab = Lab::new()?;
    lab.add_client_address(OTHER)?;
    let config = refuse_all(&format!(
        "\n[sources]\ntrusted = [\"{CLIENT}\"]\n[replies]\nrate_per_second = 0\n"
    ));
    let controller = Controller::start(&lab, &config)?;
    for (address, answered) in [(OTHER, false), (CLIENT, true)] {
        let socket = lab.client.bind(&format!("{address}:5060"))?;
        let invite = Request::invite(FULL, &format!("none-{answered}"));
        let within = if answered { SOON } else { QUIET };
        let reply = socket.ask(&invite, SERVER, within)?;
        assert_eq!(reply.is_some(), answered, "{address}");
    }
    assert_eq!(controller.status()?.reason("reply_budget")?, 1);
    Ok(())
}
