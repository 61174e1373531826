//! Modes of the filter, and ways of attaching it.

use std::{
    thread::{self, sleep},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use overload_tests::{
    CLIENT, CLIENT_INTERFACE, Config, Controller, Destination, Lab, Request, Sink, pace, start_line,
};

const FULL: &str = "full.example.net";
const SERVER: &str = "192.0.2.1:5060";
const SOON: Duration = Duration::from_secs(2);

fn refuse_all() -> Config {
    Config::new(&[Destination::host("full", FULL, 0.0, 10)])
}

#[test]
fn shadow_counts_what_it_would_refuse_and_passes_everything() -> Result<()> {
    let lab = Lab::new()?;
    let mut config = refuse_all();
    config.mode = "shadow";
    let controller = Controller::start(&lab, &config)?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    pace(&client, SERVER, 100.0, 50, |number| {
        Request::invite(FULL, &format!("shadow-{number}")).to_string()
    })?;
    let passed = proxy.stop()?;
    assert_eq!(passed.len(), 50);
    assert_eq!(client.receive(Duration::from_millis(300))?, None);
    let status = controller.status()?;
    assert_eq!(
        (status.shadow("rate_limit")?, status.reason("rate_limit")?),
        (50, 0)
    );
    let full = status.destination("full")?;
    assert_eq!((full.offered, full.shadow_refused), (50, 50));
    assert_eq!((full.admitted, full.refused), (0, 0));
    Ok(())
}

#[test]
fn bypass_opens_and_closes_under_traffic() -> Result<()> {
    let lab = Lab::new()?;
    let controller = Controller::start(&lab, &refuse_all())?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let answers = Sink::read(client.share()?)?;
    let offered = 1500;
    let sender = thread::spawn(move || {
        pace(&client, SERVER, 500.0, offered, |number| {
            Request::invite(FULL, &format!("bypass-{number}")).to_string()
        })
    });
    sleep(Duration::from_millis(800));
    controller.command(&["bypass", "on"])?;
    sleep(Duration::from_millis(800));
    controller.command(&["bypass", "off"])?;
    sender
        .join()
        .map_err(|_| anyhow!("the sender panicked"))??;
    let answers = answers.stop()?;
    let passed = proxy.stop()?;
    assert_eq!(passed.len() + answers.len(), offered as usize);
    let numbers = passed
        .iter()
        .map(|request| {
            let (_, rest) = request.split_once("Call-ID: bypass-")?;
            rest.split_once('@')?.0.parse::<u32>().ok()
        })
        .collect::<Option<Vec<_>>>()
        .context("a foreign request")?;
    // One stretch in the middle: refused before, refused after.
    let (first, last) = (numbers[0], numbers[numbers.len() - 1]);
    assert!(first > 0 && last < offered - 1, "{first} to {last}");
    assert!(numbers.iter().copied().eq(first..=last), "{numbers:?}");
    let status = controller.status()?;
    assert_eq!(status.reason("bypass")?, numbers.len() as u64);
    assert_eq!(status.destination("full")?.refused, answers.len() as u64);
    Ok(())
}

#[test]
fn c15_without_a_program_on_the_peer_answers_vanish_and_run_warns() -> Result<()> {
    let lab = Lab::without_peer_program()?;
    let mut controller = Controller::start(&lab, &refuse_all())?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    // GRO gives the peer a receiver too, but not one that takes these frames.
    for (number, gro) in (1..).zip(["off", "on"]) {
        lab.client
            .run("ethtool", &["-K", CLIENT_INTERFACE, "gro", gro])?;
        let invite = Request::invite(FULL, &format!("c15-{gro}"));
        let quiet = Duration::from_millis(500);
        assert_eq!(client.ask(&invite, SERVER, quiet)?, None, "GRO {gro}");
        assert_eq!(controller.status()?.destination("full")?.refused, number);
    }
    let log = controller.process().log();
    assert!(log.contains("WARN") && log.contains("veth"), "{log}");
    Ok(())
}

#[test]
fn c15_with_a_program_on_the_peer_answers_arrive() -> Result<()> {
    let lab = Lab::new()?;
    let _controller = Controller::start(&lab, &refuse_all())?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let invite = Request::invite(FULL, "c15");
    let reply = client.ask(&invite, SERVER, SOON)?.context("no answer")?;
    assert_eq!(start_line(&reply.text), "SIP/2.0 503 Service Unavailable");
    let attached = lab.attached_program()?;
    assert!(attached.contains("prog/xdp"), "{attached}");
    Ok(())
}

#[test]
fn generic_mode_needs_nothing_of_the_peer() -> Result<()> {
    let lab = Lab::without_peer_program()?;
    let mut config = refuse_all();
    config.attach = "generic";
    let controller = Controller::start(&lab, &config)?;
    let server = lab.host.bind(SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    for length in 0..20 {
        let mut invite = Request::invite(FULL, &format!("generic-{length}"));
        invite.from = format!("\"{}\" {}", "n".repeat(length), invite.from);
        let reply = client.ask(&invite, SERVER, SOON)?.context("no answer")?;
        assert_eq!(reply.status, 503);
        client.send(invite.ack(&reply).to_string(), SERVER)?;
    }
    let other = Request::invite("other.example.net", "generic-other").to_string();
    client.send(&other, SERVER)?;
    let (passed, _) = server.receive(SOON)?.context("not admitted")?;
    assert_eq!(passed, other.into_bytes());
    assert_eq!(controller.status()?.reason("own_ack")?, 20);
    Ok(())
}
