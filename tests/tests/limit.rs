//! Limits under load, and what passes beside them.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use overload_tests::{
    CLIENT, CLIENT_2, Config, Controller, Destination, HOST, HOST_2, HOST_INTERFACE_2, Interface,
    Kamailio, Lab, Paced, Request, Route, Sink, Sipp, Socket, pace,
};

const GATEWAY: &str = "gw1.example.net";
const SERVER: &str = "192.0.2.1:5060";

/// What the bucket of a limit admits of requests that are judged at the times they were sent.
fn least_admitted(sent: &Paced, rate: f64, burst: f64) -> u64 {
    let period = 1.0 / rate;
    let mut arrival = f64::MIN;
    let mut admitted = 0;
    for at in &sent.sent_at {
        let now = at.as_secs_f64();
        if arrival.max(now) - now <= period * (burst - 1.0) {
            arrival = arrival.max(now) + period;
            admitted += 1;
        }
    }
    admitted
}

#[test]
fn admitted_calls_complete_through_the_proxy() -> Result<()> {
    let lab = Lab::new()?;
    let config = Config::new(&[Destination::host("gw1", GATEWAY, 1000.0, 100)]);
    let controller = Controller::start(&lab, &config)?;
    let callee = Sipp::answer(&lab, &lab.host, HOST, 5070)?;
    let _proxy = Kamailio::start(
        &lab,
        &lab.host,
        "proxy",
        SERVER,
        Route::Stateful("192.0.2.1:5070"),
    )?;
    let report = Sipp::call(&lab, GATEWAY, 50, 150)?.finish(Duration::from_secs(30))?;
    assert_eq!((report.successful, report.failed), (150, 0));
    assert_eq!((report.received("200"), report.received("503")), (300, 0));
    let answered = callee.stop()?;
    assert_eq!((answered.successful, answered.failed), (150, 0));
    let status = controller.status()?;
    let gateway = status.destination("gw1")?;
    assert_eq!(
        (gateway.offered, gateway.admitted, gateway.refused),
        (150, 150, 0)
    );
    assert_eq!(status.reason("within_limit")?, 150);
    assert_eq!(status.reason("ack")?, 150);
    // BYE.
    assert_eq!(status.reason("other_method")?, 150);
    Ok(())
}

#[test]
fn r7415_3_5_limit_is_exact_at_five_times_the_rate() -> Result<()> {
    let (rate, burst) = (200.0, 20);
    let lab = Lab::new()?;
    let config = Config::new(&[
        Destination::host("gw1", GATEWAY, rate, burst),
        Destination::host("full", "full.example.net", 0.0, 10),
    ]);
    let controller = Controller::start(&lab, &config)?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let answers = Sink::read(client.share()?)?;
    let offered = 4000;
    let sent = pace(&client, SERVER, 5.0 * rate, offered, |number| {
        Request::invite(GATEWAY, &format!("exact-{number}")).to_string()
    })?;
    settle(&lab)?;
    let until = sent.started.elapsed();
    let answers = answers.stop()?;
    let passed = proxy.stop()?;
    let gateway = controller.status()?.destination("gw1")?;
    assert_eq!(gateway.offered, u64::from(offered));
    assert_eq!(gateway.offered, gateway.admitted + gateway.refused);
    assert_eq!(gateway.admitted, passed.len() as u64);
    assert_eq!(gateway.refused, answers.len() as u64);
    assert!(
        answers
            .iter()
            .all(|answer| answer.starts_with("SIP/2.0 503 "))
    );
    assert_within(gateway.admitted, &sent, until, rate, f64::from(burst));
    Ok(())
}

/// Returns once everything sent before has been judged: the cable has one queue, and the refusal of a
/// last request shows that its turn has come.
fn settle(lab: &Lab) -> Result<()> {
    let socket = lab.client.bind(&format!("{CLIENT}:5099"))?;
    let last = Request::invite("full.example.net", "settle");
    let answer = socket.ask(&last, SERVER, Duration::from_secs(5))?;
    answer.context("the last request was not refused")?;
    Ok(())
}

/// At most `rate * t + burst`, where `t` runs from before the first request was sent to after the last one
/// was judged. At least what the bucket gives at the times of sending, less 2 %: where the receiving CPU
/// stalls for longer than the burst lasts, requests are judged later than sent, and the excess is lost.
fn assert_within(admitted: u64, sent: &Paced, until: Duration, rate: f64, burst: f64) {
    let most = rate * until.as_secs_f64() + burst;
    let least = least_admitted(sent, rate, burst) as f64 * 0.98 - 1.0;
    let count = admitted as f64;
    assert!(count <= most, "{count} admitted, at most {most}");
    assert!(count >= least, "{count} admitted, at least {least}");
}

#[test]
fn r7415_3_5_one_limit_holds_for_two_interfaces_together() -> Result<()> {
    let (rate, burst) = (200.0, 20);
    let lab = Lab::new()?;
    let _passes = lab.add_cable()?;
    let mut config = Config::new(&[Destination::host("gw1", GATEWAY, rate, burst)]);
    config.interfaces.push(Interface {
        name: HOST_INTERFACE_2,
        addresses: &[],
        macs: &[],
    });
    let controller = Controller::start(&lab, &config)?;
    let first = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let second = lab.client.bind(&format!("{CLIENT_2}:5060"))?;
    let second_server = format!("{HOST_2}:5060");
    let proxies = [
        Sink::start(&lab.host, SERVER)?,
        Sink::start(&lab.host, &second_server)?,
    ];
    let each = 2000;
    let offer = |socket: &Socket, server: &str, name: &str| {
        pace(socket, server, 2.5 * rate, each, |number| {
            Request::invite(GATEWAY, &format!("{name}-{number}")).to_string()
        })
    };
    let (one, other) = thread::scope(|scope| {
        let other = scope.spawn(|| offer(&second, &second_server, "second"));
        (offer(&first, SERVER, "first"), other.join())
    });
    let (one, other) = (one?, other.map_err(|_| anyhow!("the sender panicked"))??);
    // Each cable has a queue of its own.
    let offered = 2 * u64::from(each);
    let deadline = Instant::now() + Duration::from_secs(10);
    while controller.status()?.destination("gw1")?.offered < offered && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    let started = one.started.min(other.started);
    let until = started.elapsed();
    let mut sent_at: Vec<Duration> = [&one, &other]
        .into_iter()
        .flat_map(|paced| paced.sent_at.iter().map(|at| paced.started + *at - started))
        .collect();
    sent_at.sort();
    let gateway = controller.status()?.destination("gw1")?;
    assert_eq!(gateway.offered, offered);
    assert_eq!(gateway.offered, gateway.admitted + gateway.refused);
    let mut passed = Vec::new();
    for proxy in proxies {
        passed.push(proxy.stop()?.len() as u64);
    }
    assert_eq!(gateway.admitted, passed.iter().sum::<u64>());
    // Both had their part of it.
    assert!(passed.iter().all(|count| *count > 0), "{passed:?}");
    let sent = Paced { started, sent_at };
    assert_within(gateway.admitted, &sent, until, rate, f64::from(burst));
    Ok(())
}

#[test]
fn r7415_3_5_callers_and_filter_count_alike_at_five_times_the_rate() -> Result<()> {
    let lab = Lab::new()?;
    let config = Config::new(&[Destination::host("gw1", GATEWAY, 40.0, 10)]);
    let controller = Controller::start(&lab, &config)?;
    let callee = Sipp::answer(&lab, &lab.host, HOST, 5070)?;
    let _proxy = Kamailio::start(
        &lab,
        &lab.host,
        "proxy",
        SERVER,
        Route::Stateful("192.0.2.1:5070"),
    )?;
    let calls = 800;
    let report = Sipp::call(&lab, GATEWAY, 200, calls)?.finish(Duration::from_secs(40))?;
    let calls = u64::from(calls);
    assert_eq!((report.successful, report.failed), (calls, 0));
    let answered = callee.stop()?;
    let status = controller.status()?;
    let gateway = status.destination("gw1")?;
    assert_eq!(gateway.offered, calls);
    assert_eq!(gateway.offered, gateway.admitted + gateway.refused);
    assert_eq!(gateway.refused, report.received("503"));
    assert_eq!(gateway.admitted, report.sent("BYE"));
    assert_eq!(
        (answered.successful, answered.failed),
        (gateway.admitted, 0)
    );
    // 800 calls at 200/s take 4 s.
    assert!(gateway.admitted > 100, "{gateway:?}");
    assert!(gateway.refused > 400, "{gateway:?}");
    Ok(())
}

#[test]
fn c19_the_rate_is_per_second() -> Result<()> {
    let lab = Lab::new()?;
    let config = Config::new(&[
        Destination::host("spread", "spread.example.net", 10.0, 10),
        Destination::host("burst", "burst.example.net", 10.0, 10),
        Destination::host("full", "full.example.net", 0.0, 10),
    ]);
    let controller = Controller::start(&lab, &config)?;
    let _proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let send = |host: &str, rate: f64| {
        pace(&client, SERVER, rate, 100, |number| {
            Request::invite(host, &format!("c19-{rate}-{number}")).to_string()
        })
    };
    send("spread.example.net", 10.0)?;
    let second = send("burst.example.net", 100.0)?;
    settle(&lab)?;
    let until = second.started.elapsed();
    let status = controller.status()?;
    assert_eq!(status.destination("spread")?.admitted, 100);
    let burst = status.destination("burst")?;
    assert_eq!(burst.offered, 100);
    assert_within(burst.admitted, &second, until, 10.0, 10.0);
    Ok(())
}

#[test]
fn limit_zero_under_load_lets_only_the_unlimited_through() -> Result<()> {
    let lab = Lab::new()?;
    let config = Config::new(&[
        Destination::host("full", "full.example.net", 0.0, 10),
        Destination::host("open", "open.example.net", 1000.0, 100),
    ]);
    let controller = Controller::start(&lab, &config)?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let answers = Sink::read(client.share()?)?;
    let message = |number: u32| {
        let call = format!("load-{number}");
        // Every hundredth is one that must pass, of four kinds by turns.
        let request = match (number % 100, number / 100 % 4) {
            (0, 0) => Request::new("CANCEL", "full.example.net", &call),
            (0, 1) => Request::new("OPTIONS", "open.example.net", &call),
            (0, kind) => {
                let method = if kind == 2 { "ACK" } else { "INVITE" };
                let mut request = Request::new(method, "full.example.net", &call);
                request.to += ";tag=callee";
                request
            }
            _ => Request::invite("full.example.net", &call),
        };
        request.to_string()
    };
    let offered = 15_000;
    pace(&client, SERVER, 5000.0, offered, message)?;
    let answers = answers.stop()?;
    let passed = proxy.stop()?;
    let expected: Vec<String> = (0..offered).step_by(100).map(message).collect();
    assert_eq!(passed, expected);
    let refused = u64::from(offered) - expected.len() as u64;
    let status = controller.status()?;
    let full = status.destination("full")?;
    assert_eq!(
        (full.offered, full.admitted, full.refused),
        (refused, 0, refused)
    );
    assert_eq!(answers.len() as u64, refused);
    assert_eq!(status.destination("open")?.admitted, 38);
    Ok(())
}

#[test]
fn percentage_and_default_destination_judge_what_is_theirs() -> Result<()> {
    let lab = Lab::new()?;
    let config = Config::new(&[
        Destination::percent("share", "share.example.net", 80.0),
        Destination::default(0.0, 10),
    ]);
    let controller = Controller::start(&lab, &config)?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let answers = Sink::read(client.share()?)?;
    let message = |number: u32| {
        // Each fifth is for a host that is not configured.
        let host = if number.is_multiple_of(5) {
            "other.example.net"
        } else {
            "share.example.net"
        };
        Request::invite(host, &format!("percent-{number}")).to_string()
    };
    pace(&client, SERVER, 2000.0, 2500, message)?;
    let refused = answers.stop()?.len() as u64;
    let passed = proxy.stop()?;
    let status = controller.status()?;
    let (share, default) = (status.destination("share")?, status.destination("default")?);
    assert_eq!((default.offered, default.refused), (500, 500));
    assert_eq!(share.offered, 2000);
    assert_eq!(share.admitted, passed.len() as u64);
    assert_eq!(share.refused + 500, refused);
    assert_eq!(status.reason("percent_limit")?, share.refused);
    // 1600 are expected; five standard deviations are 90.
    assert!((1510..=1690).contains(&share.admitted), "{share:?}");
    Ok(())
}
