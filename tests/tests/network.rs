//! Interfaces and their addresses, while the filter runs.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use overload_tests::{
    CLIENT, CLIENT_V6, Config, Controller, Destination, HOST, HOST_INTERFACE, HOST_V6, Interface,
    Lab, Request, Sink, Sipp,
};

const FULL: &str = "full.example.net";
const SOON: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_millis(300);

/// Refuses all, on the interface's own addresses.
fn refuse_all(macs: &'static [&'static str]) -> Config {
    let mut config = Config::new(&[Destination::host("full", FULL, 0.0, 10)]);
    config.interfaces = vec![Interface {
        name: HOST_INTERFACE,
        addresses: &[],
        macs,
    }];
    config
}

/// Waits until `status` says that the address is protected, or is not.
fn wait_for(controller: &Controller<'_>, address: &str, is_protected: bool) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let status = controller.status()?;
        let addresses = status.document()["interfaces"][0]["addresses"].as_array();
        let found = addresses.context("status has no addresses")?;
        if found.iter().any(|found| found == address) == is_protected {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{address}: {found:?}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_address_added_while_running_is_protected_and_a_removed_one_is_not() -> Result<()> {
    let lab = Lab::new()?;
    let controller = Controller::start(&lab, &refuse_all(&[]))?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let ask = |address: &str, call: &str, within| {
        client.ask(
            &Request::invite(FULL, call),
            &format!("{address}:5060"),
            within,
        )
    };
    assert_eq!(ask(HOST, "before", SOON)?.context("no answer")?.status, 503);

    lab.add_host_address("192.0.2.7", None)?;
    wait_for(&controller, "192.0.2.7", true)?;
    let reply = ask("192.0.2.7", "added", SOON)?.context("no answer")?;
    assert_eq!(reply.status, 503);

    let gone = format!("{HOST}/24");
    lab.host
        .run("ip", &["address", "del", &gone, "dev", HOST_INTERFACE])?;
    wait_for(&controller, HOST, false)?;
    assert_eq!(ask(HOST, "removed", QUIET)?, None);
    let status = controller.status()?;
    assert_eq!(status.destination("full")?.refused, 2);
    Ok(())
}

#[test]
fn ipv6_addresses_are_protected_by_default_and_calls_over_ipv6_are_refused() -> Result<()> {
    let lab = Lab::new()?;
    lab.add_ipv6()?;
    let controller = Controller::start(&lab, &refuse_all(&[]))?;
    wait_for(&controller, HOST_V6, true)?;
    wait_for(&controller, HOST, true)?;
    let proxy = Sink::start(&lab.host, &format!("[{HOST_V6}]:5060"))?;
    let calls = 100;
    let report = Sipp::refused_v6(&lab, FULL, 100, calls)?.finish(Duration::from_secs(20))?;
    let calls = u64::from(calls);
    assert_eq!((report.successful, report.failed), (calls, 0));
    assert_eq!(report.received("503"), calls);
    assert_eq!(proxy.stop()?, [""; 0]);
    let status = controller.status()?;
    assert_eq!(status.destination("full")?.refused, calls);
    assert_eq!(status.reason("own_ack")?, calls);

    let client = lab.client.bind(&format!("[{CLIENT_V6}]:5061"))?;
    let mut invite = Request::invite(FULL, "v6");
    invite.via = vec![format!(
        "SIP/2.0/UDP [{CLIENT_V6}]:5061;branch=z9hG4bK-v6;rport"
    )];
    let reply = client
        .ask(&invite, &format!("[{HOST_V6}]:5060"), SOON)?
        .context("no answer")?;
    assert_eq!(reply.status, 503);
    let via = reply.header("Via").context("no Via")?;
    assert!(via.contains(&format!("received={CLIENT_V6}")), "{via}");
    Ok(())
}

#[test]
fn frames_to_a_configured_mac_address_are_judged() -> Result<()> {
    let lab = Lab::new()?;
    let virtual_mac = "00:00:5e:00:01:05";
    lab.add_host_address("192.0.2.5", Some(virtual_mac))?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let ask =
        |call: &str, within| client.ask(&Request::invite(FULL, call), "192.0.2.5:5060", within);
    let without = Controller::start(&lab, &refuse_all(&[]))?;
    assert_eq!(ask("foreign", QUIET)?, None);
    assert_eq!(without.status()?.destination("full")?.offered, 0);
    drop(without);
    let _with = Controller::start(&lab, &refuse_all(&["00:00:5e:00:01:05"]))?;
    let reply = ask("virtual", SOON)?.context("no answer")?;
    assert_eq!(reply.status, 503);
    Ok(())
}

#[test]
fn a_changed_mac_address_is_followed() -> Result<()> {
    let lab = Lab::new()?;
    let mut controller = Controller::start(&lab, &refuse_all(&[]))?;
    let mac = "02:00:00:00:00:42";
    lab.host
        .run("ip", &["link", "set", HOST_INTERFACE, "address", mac])?;
    controller
        .process()
        .wait_for_log(&format!("its MAC address is {mac} now"), SOON * 5)?;
    lab.add_host_address("192.0.2.8", Some(mac))?;
    wait_for(&controller, "192.0.2.8", true)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let invite = Request::invite(FULL, "new-mac");
    let reply = client.ask(&invite, "192.0.2.8:5060", SOON)?;
    assert_eq!(reply.context("no answer")?.status, 503);
    Ok(())
}
