//! Called numbers: prefixes as destinations, emergency calls, and methods with a treatment of their own.

use std::time::Duration;

use anyhow::Result;
use overload_tests::{CLIENT, Config, Controller, Destination, Lab, Request, Sink, Socket};

const FULL: &str = "full.example.net";
const OPEN: &str = "open.example.net";
const SERVER: &str = "192.0.2.1:5060";
const SOON: Duration = Duration::from_secs(2);
const QUIET: Duration = Duration::from_millis(300);

/// Whether a request with this Request-URI is refused; one that is not reaches the sink.
fn is_refused(
    client: &Socket,
    method: &str,
    uri: &str,
    number: usize,
    expected: bool,
) -> Result<bool> {
    let mut request = Request::new(method, FULL, &format!("uri-{number}"));
    uri.clone_into(&mut request.uri);
    let within = if expected { SOON } else { QUIET };
    Ok(client.ask(&request, SERVER, within)?.is_some())
}

#[test]
fn c07_a_number_prefix_is_a_destination() -> Result<()> {
    let lab = Lab::new()?;
    let config = Config::new(&[
        Destination::prefix("premium", "0900", 0.0, 10),
        Destination::prefix("island", "+1-555", 0.0, 10),
        Destination::host("open", OPEN, 1000.0, 100),
    ]);
    let controller = Controller::start(&lab, &config)?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let cases = [
        ("tel:+1-555-123", true),
        ("sip:+1555123@open.example.net;user=phone", true),
        ("sip:+1555123@open.example.net", false),
        ("tel:0900123", true),
        ("tel:0900123;phone-context=+1", false),
        ("tel:+16", false),
    ];
    for (number, (uri, expected)) in cases.into_iter().enumerate() {
        let refused = is_refused(&client, "INVITE", uri, number, expected)?;
        assert_eq!(refused, expected, "{uri}");
    }
    assert_eq!(proxy.stop()?.len(), 3);
    let status = controller.status()?;
    let counts = |name: &str| -> Result<(u64, u64)> {
        let found = status.destination(name)?;
        Ok((found.admitted, found.refused))
    };
    assert_eq!(counts("premium")?, (0, 1));
    assert_eq!(counts("island")?, (0, 2));
    assert_eq!(counts("open")?, (1, 0));
    assert_eq!(status.reason("no_control")?, 2);
    Ok(())
}

#[test]
fn emergency_calls_pass_a_full_destination_within_their_share() -> Result<()> {
    let lab = Lab::new()?;
    let mut config = Config::new(&[Destination::default(0.0, 10)]);
    "\n[emergency]\nnumbers = [\"112\"]\nsource_rate_per_second = 0.0001\nsource_burst = 3\n"
        .clone_into(&mut config.more);
    let controller = Controller::start(&lab, &config)?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let cases = [
        ("sip:112@full.example.net", false),
        ("sip:911@full.example.net", true),
        ("urn:service:sos.fire", false),
        ("tel:1-1-2", false),
        ("sip:112@full.example.net", true),
    ];
    for (number, (uri, expected)) in cases.into_iter().enumerate() {
        let refused = is_refused(&client, "INVITE", uri, number, expected)?;
        assert_eq!(refused, expected, "{number}: {uri}");
    }
    assert_eq!(proxy.stop()?.len(), 3);
    let status = controller.status()?;
    assert_eq!(status.reason("emergency")?, 3);
    assert_eq!(status.reason("rate_limit")?, 2);
    assert_eq!(status.destination("default")?.admitted, 3);
    Ok(())
}

#[test]
fn nothing_is_reserved_with_a_share_of_zero() -> Result<()> {
    let lab = Lab::new()?;
    let mut config = Config::new(&[Destination::default(0.0, 10)]);
    "\n[emergency]\nshare_percent = 0\n".clone_into(&mut config.more);
    let controller = Controller::start(&lab, &config)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    assert!(is_refused(
        &client,
        "INVITE",
        "sip:112@full.example.net",
        0,
        true
    )?);
    assert_eq!(controller.status()?.reason("emergency")?, 0);
    Ok(())
}

#[test]
fn a_method_that_passes_is_not_judged() -> Result<()> {
    let lab = Lab::new()?;
    let mut config = Config::new(&[Destination::host("full", FULL, 0.0, 10)]);
    "\n[methods]\nOPTIONS = \"pass\"\nREGISTER = \"low\"\n".clone_into(&mut config.more);
    let controller = Controller::start(&lab, &config)?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    for (number, (method, expected)) in [("OPTIONS", false), ("REGISTER", true), ("INVITE", true)]
        .into_iter()
        .enumerate()
    {
        let uri = "sip:full.example.net";
        let refused = is_refused(&client, method, uri, number, expected)?;
        assert_eq!(refused, expected, "{method}");
    }
    assert_eq!(proxy.stop()?.len(), 1);
    let status = controller.status()?;
    assert_eq!(status.reason("exempt_method")?, 1);
    assert_eq!(status.destination("full")?.offered, 2);
    Ok(())
}
