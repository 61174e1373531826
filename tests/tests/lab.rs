//! The lab itself, without the filter.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::Result;
use overload_tests::{
    CLIENT, CLIENT_INTERFACE, Capture, HOST, HOST_INTERFACE, Kamailio, Lab, Reply, Request, Route,
    Sink, Sipp, Socket, pace,
};

#[test]
fn datagrams_cross_with_partial_checksums_and_nothing_is_left() -> Result<()> {
    let lab = Lab::new()?;
    let (directory, names) = (
        lab.directory().to_owned(),
        [lab.client.name().to_owned(), lab.host.name().to_owned()],
    );
    let capture = Capture::start(&lab, &lab.host, HOST_INTERFACE, "host")?;
    let sink = Sink::start(&lab.host, &format!("{HOST}:5060"))?;
    let caller = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let sent = pace(&caller, &format!("{HOST}:5060"), 1000.0, 200, |number| {
        Request::invite("gw1.example.net", &number.to_string()).to_string()
    })?;
    assert_eq!(sent.sent_at.len(), 200);
    let received = sink.stop()?;
    assert_eq!(received.len(), 200);
    assert_eq!(
        received[7],
        Request::invite("gw1.example.net", "7").to_string()
    );
    let pcap = capture.stop()?;
    assert_eq!(pcap.count("sip.Method == INVITE")?, 200);
    // Only the pseudo-header sum: what a filter must cope with.
    assert_eq!(pcap.count("udp.checksum.status == Bad")?, 200);
    assert_eq!(pcap.count("_ws.malformed")?, 0);
    drop(lab);
    assert!(!directory.exists());
    for name in names {
        assert!(!Path::new("/run/netns").join(name).exists());
    }
    Ok(())
}

#[test]
fn the_client_end_has_a_native_program_unless_told_otherwise() -> Result<()> {
    let with = Lab::new()?;
    let show = ["-details", "link", "show", CLIENT_INTERFACE];
    assert!(with.client.run("ip", &show)?.contains(" xdp "));
    assert_eq!(with.attached_program()?, "");
    let without = Lab::without_peer_program()?;
    assert!(!without.client.run("ip", &show)?.contains("xdp"));
    Ok(())
}

#[test]
fn what_a_killed_run_left_behind_is_removed() -> Result<()> {
    // No process has this id: it is above the kernel's limit.
    let stale = "99999999-0";
    let namespace = format!("olc-host-{stale}");
    overload_tests::run(Command::new("ip").args(["netns", "add", &namespace]))?;
    let directory = std::env::temp_dir().join(format!("olc-{stale}"));
    fs::create_dir(&directory)?;
    let notes = Path::new("/run/overload-ctl");
    fs::create_dir_all(notes)?;
    let note = notes.join(format!("lab-{stale}.json"));
    fs::write(&note, "")?;
    let _lab = Lab::new()?;
    for path in [&Path::new("/run/netns").join(namespace), &directory, &note] {
        assert!(!path.exists(), "{} is still there", path.display());
    }
    Ok(())
}

#[test]
fn calls_complete_through_the_proxy() -> Result<()> {
    let lab = Lab::new()?;
    let callee = Sipp::answer(&lab, &lab.host, HOST, 5070)?;
    let listen = format!("{HOST}:5060");
    let proxy = Kamailio::start(
        &lab,
        &lab.host,
        "proxy",
        &listen,
        Route::Stateful("192.0.2.1:5070"),
    )?;
    let capture = Capture::start(&lab, &lab.client, CLIENT_INTERFACE, "client")?;
    let report = Sipp::call(&lab, "gw1.example.net", 50, 100)?.finish(Duration::from_secs(20))?;
    assert_eq!(
        (report.created, report.successful, report.failed),
        (100, 100, 0)
    );
    assert_eq!((report.received("200"), report.received("503")), (200, 0));
    assert_eq!(
        (
            report.sent("INVITE"),
            report.sent("ACK"),
            report.sent("BYE")
        ),
        (100, 100, 100)
    );
    assert_eq!(proxy.requests().len(), 300);
    let answered = callee.stop()?;
    assert_eq!((answered.successful, answered.failed), (100, 0));
    assert_eq!(answered.received("INVITE"), 100);
    let pcap = capture.stop()?;
    assert_eq!(
        pcap.count("sip.Status-Code == 200 && sip.CSeq.method == \"INVITE\"")?,
        100
    );
    Ok(())
}

#[test]
fn a_refused_caller_repeats_its_branch_in_the_ack() -> Result<()> {
    let lab = Lab::new()?;
    let server = lab.host.bind(&format!("{HOST}:5060"))?;
    for start in [Sipp::refused, Sipp::call] {
        let caller = start(&lab, "gw1.example.net", 10, 1)?;
        refuse_one(&server)?;
        let report = caller.finish(Duration::from_secs(5))?;
        assert_eq!((report.successful, report.received("503")), (1, 1));
    }
    Ok(())
}

fn refuse_one(server: &Socket) -> Result<()> {
    let (invite, source) = server.receive(Duration::from_secs(5))?.expect("an INVITE");
    let invite = Reply::new(&invite);
    let refusal = format!(
        "SIP/2.0 503 Service Unavailable\r\nVia: {}\r\nFrom: {}\r\nTo: {};tag=olc\r\n\
         Call-ID: {}\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n",
        invite.header("Via").unwrap_or_default(),
        invite.header("From").unwrap_or_default(),
        invite.header("To").unwrap_or_default(),
        invite.header("Call-ID").unwrap_or_default(),
    );
    server.send(refusal, &source)?;
    let (ack, _) = server.receive(Duration::from_secs(5))?.expect("an ACK");
    let ack = Reply::new(&ack);
    assert!(ack.text.starts_with("ACK "), "{}", ack.text);
    assert_eq!(ack.header("Via"), invite.header("Via"));
    assert_eq!(ack.to_tag(), Some("olc"));
    Ok(())
}

#[test]
fn processes_end_with_their_guard() -> Result<()> {
    let lab = Lab::new()?;
    let callee = Sipp::answer(&lab, &lab.host, HOST, 5070)?;
    let mut command = lab.host.command("sh");
    command.args(["-c", "sleep 1000 & echo child $!; wait"]);
    let mut process = overload_tests::Process::start(command, "shell", lab.directory())?;
    process.wait_for_log("child", Duration::from_secs(5))?;
    let child = process.log().trim().replace("child ", "/proc/");
    assert!(fs::exists(&child)?);
    drop(process);
    drop(callee);
    assert!(lab.host.run("ss", &["-Hlnu"])?.trim().is_empty());
    Ok(())
}
