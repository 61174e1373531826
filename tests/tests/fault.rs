//! What operators do wrong, and controllers that die.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::Output,
    thread::{self, sleep},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use overload_tests::{
    CLIENT, Config, Controller, Destination, Lab, Process, Request, Sink, controller_binary, pace,
};

const FULL: &str = "full.example.net";
const SERVER: &str = "192.0.2.1:5060";
const SOON: Duration = Duration::from_secs(2);

fn refuse_all() -> Config {
    Config::new(&[Destination::host("full", FULL, 0.0, 10)])
}

/// `run` ended by itself, with a failure and one line that names what is wrong; gives that line.
fn assert_one_sentence(output: &Output, names: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(output.status.code().is_some(), "killed by a signal: {text}");
    assert_eq!(text.trim().lines().count(), 1, "{text}");
    // Not the complaint of a program that should have started it.
    assert!(text.starts_with("overload-ctl: "), "{text}");
    for name in names {
        assert!(text.contains(name), "{name} is not named: {text}");
    }
}

fn run_with(lab: &Lab, text: &str) -> Result<Output> {
    let path = Controller::write_config(lab, "fault.toml", text)?;
    let path = path.to_str().context("the path is not UTF-8")?;
    Controller::output(lab, &["run", "--config", path])
}

fn assert_nothing_left(lab: &Lab) -> Result<()> {
    assert_eq!(lab.attached_program()?, "");
    assert!(!lab.pins().exists());
    Ok(())
}

#[test]
fn a_second_controller_of_the_instance_is_refused() -> Result<()> {
    let lab = Lab::new()?;
    let config = refuse_all();
    let mut controller = Controller::start(&lab, &config)?;
    let before = lab.attached_program()?;
    let same = config.text(lab.instance());
    assert_one_sentence(&run_with(&lab, &same)?, &[]);
    let other_listener = format!("{same}\n[metrics]\nlisten = \"127.0.0.1:9465\"\n");
    assert_one_sentence(&run_with(&lab, &other_listener)?, &[lab.instance()]);
    assert!(controller.process().running());
    assert_eq!(lab.attached_program()?, before);
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let invite = Request::invite(FULL, "second");
    assert!(client.ask(&invite, SERVER, SOON)?.is_some());
    Ok(())
}

#[test]
fn an_unknown_interface_is_named() -> Result<()> {
    let lab = Lab::new()?;
    let mut config = refuse_all();
    config.interfaces[0].name = "nosuch0";
    let output = run_with(&lab, &config.text(lab.instance()))?;
    assert_one_sentence(&output, &["nosuch0"]);
    assert_nothing_left(&lab)
}

#[test]
fn a_foreign_program_is_left_alone() -> Result<()> {
    let lab = Lab::new()?;
    let foreign = lab.attach_foreign_program()?;
    let before = lab.attached_program()?;
    assert!(!before.is_empty());
    let output = run_with(&lab, &refuse_all().text(lab.instance()))?;
    assert_one_sentence(&output, &["sip0"]);
    assert_eq!(lab.attached_program()?, before);
    drop(foreign);
    assert_nothing_left(&lab)
}

#[test]
fn c33_a_missing_capability_is_named_and_locked_memory_does_not_matter() -> Result<()> {
    let lab = Lab::new()?;
    // A copy, as the build directory may be closed to others.
    let binary = lab.directory().join("overload-ctl");
    fs::copy(controller_binary()?, &binary)?;
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755))?;
    let config = Controller::write_config(&lab, "fault.toml", &refuse_all().text(lab.instance()))?;
    let run_as = |privileges: &[&str]| {
        // Before Linux 5.11 this much locked memory was too little for the maps.
        let mut command = lab.host.command("prlimit");
        command
            .args(["--memlock=65536", "setpriv"])
            .args(privileges)
            .arg(&binary)
            .args(["run", "--config"])
            .arg(&config);
        command
    };
    let user = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    for (privileges, missing) in [
        (&user[..], "CAP_BPF"),
        (&["--bounding-set", "-all,+net_admin,+perfmon"], "CAP_BPF"),
        (&["--bounding-set", "-all,+bpf,+perfmon"], "CAP_NET_ADMIN"),
        (&["--bounding-set", "-all,+bpf,+net_admin"], "CAP_PERFMON"),
    ] {
        assert_one_sentence(&run_as(privileges).output()?, &[missing]);
        assert_nothing_left(&lab)?;
    }
    let enough = run_as(&["--bounding-set", "-all,+bpf,+net_admin,+perfmon"]);
    let mut process = Process::start(enough, "capabilities", lab.directory())?;
    process.wait_for_log("protecting", Duration::from_secs(20))?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let invite = Request::invite(FULL, "c33");
    assert!(client.ask(&invite, SERVER, SOON)?.is_some());
    Ok(())
}

#[test]
fn a_wrong_configuration_is_refused_with_the_key_that_is_wrong() -> Result<()> {
    let lab = Lab::new()?;
    let right = refuse_all().text(lab.instance());
    for (wrong, named) in [
        // C19: a bare rate has no unit.
        (right.replace("rate_per_second", "rate"), "rate"),
        (
            right.replace("rate_per_second = 0.0", ""),
            "rate_per_second",
        ),
        (right.replace("0.0", "-1.0"), "rate_per_second"),
        (right.replace("\"enforce\"", "\"enforced\""), "enforced"),
        (
            right.replace("[[interface]]", "[interface]"),
            "[[interface]]",
        ),
        (
            format!(
                "{right}\n[[destination]]\nname = \"full\"\nhost = \"x\"\nrate_per_second = 1.0\n"
            ),
            "full",
        ),
    ] {
        assert_ne!(wrong, right);
        let output = run_with(&lab, &wrong)?;
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{wrong}");
        assert!(text.contains(named), "{named} is not named: {text}");
        assert_nothing_left(&lab)?;
    }
    let output = Controller::output(&lab, &["run", "--config", "/nonexistent.toml"])?;
    assert_one_sentence(&output, &["/nonexistent.toml"]);
    assert_nothing_left(&lab)
}

#[test]
fn the_filter_outlives_a_killed_controller() -> Result<()> {
    let lab = Lab::new()?;
    let mut controller = Controller::start(&lab, &refuse_all())?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let invite = Request::invite(FULL, "killed");
    let first = client.ask(&invite, SERVER, SOON)?.context("no answer")?;
    assert_eq!(first.status, 503);
    let attached = lab.attached_program()?;
    controller.process().kill()?;

    assert_eq!(lab.attached_program()?, attached);
    let again = client.ask(&invite, SERVER, SOON)?.context("no answer")?;
    assert_eq!(again, first);
    let fresh = Request::invite(FULL, "killed-fresh");
    assert!(client.ask(&fresh, SERVER, SOON)?.is_some());
    let status = controller.status()?;
    assert_eq!(status.destination("full")?.refused, 2);
    assert_eq!(status.reason("refused_copy")?, 1);

    controller.command(&["detach"])?;
    assert_nothing_left(&lab)?;
    let server = lab.host.bind(SERVER)?;
    client.send(invite.to_string(), SERVER)?;
    assert!(server.receive(SOON)?.is_some());
    Ok(())
}

#[test]
fn a_new_controller_takes_over_without_a_gap() -> Result<()> {
    let lab = Lab::new()?;
    let mut controller = Controller::start(&lab, &refuse_all())?;
    let proxy = Sink::start(&lab.host, SERVER)?;
    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let invite = Request::invite(FULL, "takeover");
    let first = client.ask(&invite, SERVER, SOON)?.context("no answer")?;

    let load = lab.client.bind(&format!("{CLIENT}:5061"))?;
    let answers = Sink::read(load.share()?)?;
    let offered = 3000;
    let sender = thread::spawn(move || {
        pace(&load, SERVER, 1000.0, offered, |number| {
            Request::invite(FULL, &format!("takeover-{number}")).to_string()
        })
    });
    sleep(Duration::from_millis(500));
    controller.process().kill()?;
    sleep(Duration::from_millis(500));
    let successor = Controller::start_with(&lab, controller.config().clone())?;
    sender
        .join()
        .map_err(|_| anyhow!("the sender panicked"))??;
    assert_eq!(answers.stop()?.len(), offered as usize);

    // Keys, memory and counters go on: a copy gets the same answer and is charged to nobody, the ACK to a
    // refusal from before is known.
    let after = client.ask(&invite, SERVER, SOON)?.context("no answer")?;
    assert_eq!(after, first);
    client.send(invite.ack(&first).to_string(), SERVER)?;
    assert_eq!(proxy.stop()?, [""; 0]);
    let status = successor.status()?;
    assert_eq!(status.reason("own_ack")?, 1);
    assert_eq!(status.reason("refused_copy")?, 1);
    let full = status.destination("full")?;
    assert_eq!(
        (full.offered, full.refused),
        (u64::from(offered) + 1, u64::from(offered) + 1)
    );
    Ok(())
}

#[test]
fn run_with_detach_takes_the_filter_with_it() -> Result<()> {
    let lab = Lab::new()?;
    let mut controller = Controller::start(&lab, &refuse_all())?;
    controller.process().stop()?;
    assert_ne!(lab.attached_program()?, "");
    drop(controller);
    assert_nothing_left(&lab)?;
    let path = Controller::write_config(&lab, "detach.toml", &refuse_all().text(lab.instance()))?;
    let mut command = lab.host.command(&controller_binary()?.to_string_lossy());
    command.args(["run", "--detach", "--config"]).arg(path);
    let mut process = Process::start(command, "detaching", lab.directory())?;
    process.wait_for_log("protecting", Duration::from_secs(20))?;
    assert_ne!(lab.attached_program()?, "");
    assert!(process.stop()?.success());
    assert_nothing_left(&lab)
}
