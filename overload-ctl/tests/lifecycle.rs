//! The life of an instance in a network namespace of its own: start, takeover, faults, end.
//! Needs root; without, each test says so and is skipped.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use overload_common::abi::{ControlCounters, SCHEMA};
use overload_ctl::{
    datapath::{filter::Filter, maps::Maps, vlan},
    mac::Mac,
};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_overload-ctl");
const INTERFACE: &str = "olc0";
const SECOND: &str = "olc1.100";
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A namespace with a veth pair, and an instance name; both go away on drop.
struct Lab {
    name: String,
    directory: PathBuf,
}

fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .expect("ip starts");
    assert!(status.success(), "ip {arguments}");
}

impl Lab {
    /// `None`, with the reason on stderr, without root.
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("olc-life-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(&name);
        fs::create_dir(&directory).expect("directory");
        ip(&format!("netns add {name}"));
        let lab = Self { name, directory };
        ip(&format!("-n {} link set lo up", lab.name));
        lab.add_interface(INTERFACE, "192.0.2.1/24");
        Some(lab)
    }

    fn add_interface(&self, interface: &str, address: &str) {
        let name = &self.name;
        ip(&format!(
            "-n {name} link add {interface} type veth peer name peer-{interface}"
        ));
        ip(&format!("-n {name} addr add {address} dev {interface}"));
        ip(&format!("-n {name} link set {interface} up"));
    }

    fn remove_interface(&self, interface: &str) {
        ip(&format!("-n {} link del {interface}", self.name));
    }

    /// Number of the XDP program on an interface.
    fn program_on(&self, interface: &str) -> Option<u64> {
        let output = Command::new("ip")
            .args(["-n", &self.name, "-json", "link", "show", interface])
            .output()
            .expect("ip starts");
        let links: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        links[0]["xdp"]["prog"]["id"].as_u64()
    }

    fn enter(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.name))
            .arg(program);
        command
    }

    fn control(&self, arguments: &[&str]) -> Output {
        self.enter(BINARY)
            .args(arguments)
            .args(["--instance", &self.name])
            .output()
            .expect("starts")
    }

    fn config(&self, attach: &str, destinations: &str) -> PathBuf {
        self.config_on(&[(INTERFACE, attach)], destinations)
    }

    /// Interfaces with their attach modes.
    fn config_on(&self, interfaces: &[(&str, &str)], destinations: &str) -> PathBuf {
        let path = self.directory.join("overload.toml");
        let mut text = format!("instance = \"{}\"\nmode = \"shadow\"\n", self.name);
        for (name, attach) in interfaces {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "[[interface]]\nname = \"{name}\"\nattach = \"{attach}\""
            );
        }
        let _ = write!(
            text,
            "[metrics]\nlisten = \"127.0.0.1:9464\"\n{destinations}"
        );
        fs::write(&path, text).expect("configuration");
        path
    }

    /// Runs until the metrics are served.
    fn run(&self, config: &Path) -> Controller {
        let mut child = self
            .enter(BINARY)
            .arg("run")
            .arg("--config")
            .arg(config)
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut log = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        while !log.contains("metrics at") {
            let read = stderr.read_line(&mut log).expect("log");
            assert_ne!(read, 0, "ended with: {log}");
        }
        Controller { child, log, stderr }
    }

    /// `run` that ends by itself: its exit code and what it said.
    fn failed_run(&self, config: &Path) -> (Option<i32>, String) {
        let output = self
            .enter(BINARY)
            .arg("run")
            .arg("--config")
            .arg(config)
            .output()
            .expect("starts");
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(text.lines().count(), 1, "one sentence: {text}");
        (output.status.code(), text)
    }

    fn status(&self) -> Value {
        let output = self.control(&["status", "--json"]);
        serde_json::from_slice(&output.stdout).expect("status is JSON")
    }

    fn pins(&self) -> PathBuf {
        Path::new("/sys/fs/bpf/overload").join(&self.name)
    }

    /// The answer to an HTTP request, whole.
    fn get(&self, path: &str) -> String {
        let script = format!(
            "exec 3<>/dev/tcp/127.0.0.1/9464; \
             printf 'GET {path} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
        );
        let output = self.enter("bash").args(["-c", &script]).output();
        String::from_utf8(output.expect("bash starts").stdout).expect("text")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ended = self.control(&["detach"]);
        let _gone = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
        let _gone = fs::remove_dir_all(&self.directory);
    }
}

/// A running controller; stopped on drop.
struct Controller {
    child: Child,
    log: String,
    stderr: BufReader<ChildStderr>,
}

impl Controller {
    /// Stops it, and gives all that it wrote.
    fn stop(mut self) -> String {
        self.end();
        let mut log = std::mem::take(&mut self.log);
        self.stderr.read_to_string(&mut log).expect("log");
        log
    }

    fn end(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _status = self.child.wait();
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.end();
    }
}

const TWO: &str = "[[destination]]\nname = \"a\"\nhost = \"a.example.net\"\nrate_per_second = 100\n\
                   [[destination]]\nname = \"b\"\nhost = \"b.example.net\"\naccept_percent = 50\n";

fn names(status: &Value) -> Vec<&str> {
    let list = status["destinations"].as_array().expect("list");
    list.iter().filter_map(|d| d["name"].as_str()).collect()
}

#[test]
fn an_instance_lives_from_run_to_detach() {
    let Some(lab) = Lab::new() else { return };
    let config = lab.config("native", TWO);
    let controller = lab.run(&config);
    let status = lab.status();
    let interface = &status["interfaces"][0];
    assert_eq!(interface["name"], INTERFACE);
    assert_eq!(
        (&interface["attach"], &status["mode"]),
        (&"native".into(), &"shadow".into())
    );
    assert_eq!(interface["addresses"][0], "192.0.2.1");
    assert_eq!(names(&status), ["a", "b"]);
    assert_eq!(status["destinations"][0]["rate_per_second"], 100.0);

    assert!(lab.get("/health").starts_with("HTTP/1.1 200 "));
    let metrics = lab.get("/metrics");
    assert!(
        metrics.contains("overload_mode{mode=\"shadow\"} 1"),
        "{metrics}"
    );

    for (switch, mode) in [("on", "bypass"), ("off", "shadow")] {
        assert!(lab.control(&["bypass", switch]).status.success());
        assert_eq!(lab.status()["mode"], mode);
    }

    let (code, text) = lab.failed_run(&config);
    assert_eq!(code, Some(4), "{text}");
    let steered = lab.control(&["detach"]);
    assert_eq!(steered.status.code(), Some(4));
    let (text, pid) = (
        String::from_utf8_lossy(&steered.stderr),
        controller.child.id(),
    );
    assert!(
        text.contains(&format!("is running (pid {pid}): stop it first")),
        "{text}"
    );

    let full = fs::File::create("/dev/full").expect("device");
    let mut command = lab.enter(BINARY);
    command
        .args(["status", "--instance", &lab.name])
        .stdout(full);
    let output = command.output().expect("starts");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "overload-ctl: standard output goes to a device that is full; free some room, or write elsewhere\n"
    );

    drop(controller);
    assert_eq!(
        lab.status()["fault"],
        Value::Null,
        "stays without a controller"
    );
    assert!(lab.control(&["detach"]).status.success());
    assert!(!lab.pins().exists());
    let again = lab.control(&["detach"]);
    assert!(again.status.success());
    assert!(String::from_utf8_lossy(&again.stdout).contains("nothing to do"));
    assert_eq!(lab.control(&["status"]).status.code(), Some(1));
}

#[test]
fn a_taken_port_changes_nothing() {
    let Some(lab) = Lab::new() else { return };
    let config = lab.config("native", TWO);
    let _controller = lab.run(&config);
    let mut second = lab.name.clone();
    second.push_str("-b");
    let text = fs::read_to_string(&config).expect("configuration");
    fs::write(&config, text.replace(&lab.name, &second)).expect("configuration");
    let (code, text) = lab.failed_run(&config);
    assert_eq!(code, Some(4));
    assert!(text.contains("127.0.0.1:9464 is in use"), "{text}");
    assert!(!lab.pins().with_file_name(second).exists());
}

#[test]
fn a_takeover_keeps_what_has_the_same_name() {
    let Some(lab) = Lab::new() else { return };
    drop(lab.run(&lab.config("native", TWO)));
    let mut maps = Maps::open(&lab.pins().join("maps")).expect("maps");
    let secret = maps.keys.get(&3, 0).expect("key");
    for (control, offered) in [(0, 7), (1, 9)] {
        let mut counters = maps
            .control_counters
            .get(&control, 0)
            .expect("counters")
            .to_vec();
        counters[0] = ControlCounters {
            offered,
            ..ControlCounters::default()
        };
        let counters = counters.try_into().expect("one value a processor");
        maps.control_counters
            .set(control, counters, 0)
            .expect("counters");
    }
    drop(maps);

    let three = "[[destination]]\nname = \"c\"\nhost = \"c.example.net\"\nrate_per_second = 5\n\
                 [[destination]]\nname = \"a\"\nhost = \"other.example.net\"\nrate_per_second = 200\n\
                 [[destination]]\nname = \"rest\"\ndefault = true\naccept_percent = 25\n";
    let controller = lab.run(&lab.config("auto", three));
    assert!(
        controller.log.contains("took over without a gap"),
        "{}",
        controller.log
    );
    let status = lab.status();
    assert_eq!(status["fault"], Value::Null);
    assert_eq!(names(&status), ["c", "a", "rest"]);
    let destinations = &status["destinations"];
    assert_eq!(destinations[0]["offered"], 0);
    assert_eq!(destinations[1]["offered"], 7);
    assert_eq!(destinations[1]["rate_per_second"], 200.0);
    assert_eq!(destinations[2]["offered"], 0);
    let maps = Maps::open(&lab.pins().join("maps")).expect("maps");
    assert_eq!(maps.keys.get(&3, 0).expect("key"), secret);
    let generations: Vec<u32> = maps
        .destinations
        .keys()
        .map(|key| key.expect("key").generation)
        .collect();
    // Three destinations, two emergency numbers.
    assert_eq!(generations, [2; 5], "the first generation is gone");
    drop(controller);

    let (code, text) = lab.failed_run(&lab.config("generic", TWO));
    assert_eq!(code, Some(1));
    assert!(text.contains("in native mode"), "{text}");
    assert_eq!(
        names(&lab.status()),
        ["c", "a", "rest"],
        "a refused takeover changes nothing"
    );
}

#[test]
fn a_takeover_from_another_version_replaces_the_maps() {
    let Some(lab) = Lab::new() else { return };
    let config = lab.config("native", TWO);
    drop(lab.run(&config));
    let maps = Maps::open(&lab.pins().join("maps")).expect("maps");
    maps.instance.words(0)[0].store(999, Ordering::Release);
    let before = maps.instance_id;
    drop(maps);
    let status = lab.status();
    assert_eq!(
        status["fault"],
        format!("the maps have schema 999, not {SCHEMA}")
    );

    let controller = lab.run(&config);
    assert!(
        controller.log.contains("another version"),
        "{}",
        controller.log
    );
    let maps = Maps::open(&lab.pins().join("maps")).expect("maps");
    assert_ne!(maps.instance_id, before);
    assert!(!lab.pins().join("maps_new").exists());
    let status = lab.status();
    assert_eq!(status["fault"], Value::Null);
    assert_eq!(names(&status), ["a", "b"]);
}

#[test]
fn r3261_19_3_a_new_tag_key_leaves_the_last_one_valid() {
    let Some(lab) = Lab::new() else { return };
    drop(lab.run(&lab.config("native", TWO)));
    let keys = || {
        let maps = Maps::open(&lab.pins().join("maps")).expect("maps");
        let keys: Result<Vec<_>, _> = maps.keys.iter().collect();
        let epoch = maps.instance.words(0)[2].load(Ordering::Acquire);
        (keys.expect("keys"), epoch)
    };
    let (first, epoch) = keys();
    assert_eq!(epoch, 0);
    let mut filter = Filter::open(&lab.name).expect("attached");
    filter.rotate_key().expect("rotated");
    let (second, epoch) = keys();
    assert_eq!(epoch, 1);
    assert_ne!(second[1], first[1], "epoch 1 has a new key");
    assert_eq!((second[0], &second[2..]), (first[0], &first[2..]));
    filter.rotate_key().expect("rotated");
    let (third, epoch) = keys();
    assert_eq!(epoch, 0);
    assert_ne!(third[0], second[0], "epoch 0 has a new key");
    assert_eq!(third[1..], second[1..]);
}

#[test]
fn a_vanished_interface_is_told_and_healed() {
    let Some(lab) = Lab::new() else { return };
    let config = lab.config("native", TWO);
    let controller = lab.run(&config);
    lab.remove_interface(INTERFACE);
    let health = lab.get("/health");
    assert!(health.starts_with("HTTP/1.1 503 "), "{health}");
    assert!(health.contains("no longer on interface olc0"), "{health}");
    assert_eq!(lab.control(&["status"]).status.code(), Some(1));
    drop(controller);
    lab.add_interface(INTERFACE, "192.0.2.1/24");
    let _controller = lab.run(&config);
    assert!(lab.get("/health").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_half_removed_instance_can_be_detached() {
    let Some(lab) = Lab::new() else { return };
    drop(lab.run(&lab.config("native", TWO)));
    fs::remove_file(lab.pins().join("links/olc0")).expect("link");
    fs::remove_file(lab.pins().join("maps/EVENTS")).expect("map");
    assert_eq!(lab.control(&["status"]).status.code(), Some(1));
    let output = lab.control(&["detach"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("what was left of it is removed"));
    assert!(!lab.pins().exists());
}

#[test]
fn auto_says_when_it_falls_back() {
    let Some(lab) = Lab::new() else { return };
    // Its driver has no XDP.
    let (code, text) = lab.failed_run(&lab.config_on(&[("lo", "native")], TWO));
    assert_eq!(code, Some(1));
    assert!(text.contains("lo cannot run XDP programs"), "{text}");
    assert!(!lab.pins().exists());
    let controller = lab.run(&lab.config_on(&[("lo", "auto")], TWO));
    assert!(
        controller
            .log
            .contains("lo is in generic mode, because native mode failed"),
        "{}",
        controller.log
    );
    assert_eq!(interfaces(&lab.status()), [("lo", "generic")]);
}

fn interfaces(status: &Value) -> Vec<(&str, &str)> {
    let list = status["interfaces"].as_array().expect("list");
    list.iter()
        .map(|i| {
            let text = |key: &str| i[key].as_str().unwrap_or("none");
            (text("name"), text("attach"))
        })
        .collect()
}

#[test]
fn one_instance_protects_several_interfaces() {
    let Some(lab) = Lab::new() else { return };
    lab.add_interface(SECOND, "198.51.100.1/24");
    let both = [(INTERFACE, "native"), (SECOND, "generic")];
    let controller = lab.run(&lab.config_on(&both, TWO));
    let status = lab.status();
    assert_eq!(interfaces(&status), both);
    assert_eq!(status["interfaces"][1]["addresses"][0], "198.51.100.1");
    let health = lab.get("/health");
    assert!(
        health.contains("on olc0 in native mode, on olc1.100 in generic mode"),
        "{health}"
    );
    let records = |lab: &Lab| {
        let maps = Maps::open(&lab.pins().join("maps")).expect("maps");
        let records = maps.interface_records().expect("records");
        records.map(|record| (record.ifindex, record.mode))
    };
    let used = |lab: &Lab| records(lab).iter().filter(|(i, _)| *i != 0).count();
    assert_eq!(used(&lab), 2);
    assert!(lab.control(&["bypass", "on"]).status.success());
    assert_eq!(records(&lab)[0].1, 0);
    assert_eq!(records(&lab)[1].1, 0);
    assert!(lab.control(&["bypass", "off"]).status.success());
    assert_eq!(records(&lab)[1].1, 1);

    lab.remove_interface(SECOND);
    let health = lab.get("/health");
    assert!(health.starts_with("HTTP/1.1 503 "), "{health}");
    assert!(
        health.contains("the program is no longer on interface olc1.100"),
        "{health}"
    );
    let metrics = lab.get("/metrics");
    for line in [
        "overload_interface_attached{interface=\"olc0\"} 1",
        "overload_interface_attached{interface=\"olc1.100\"} 0",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    let text = lab.control(&["status"]);
    assert_eq!(text.status.code(), Some(1));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("interface  olc1.100 (lost)"), "{text}");
    drop(controller);
    let detached = lab.control(&["detach"]);
    assert_eq!(
        String::from_utf8_lossy(&detached.stdout),
        format!("instance {}: the filter is off olc0\n", lab.name)
    );
    assert_eq!(lab.program_on(INTERFACE), None);
}

#[test]
fn all_interfaces_or_none() {
    let Some(lab) = Lab::new() else { return };
    lab.add_interface(SECOND, "198.51.100.1/24");
    lab.add_interface("olc2", "203.0.113.1/24");
    // Somebody else's.
    let object = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/overload.o");
    ip(&format!(
        "-n {} link set dev olc2 xdpgeneric object {object} program overload_pass",
        lab.name
    ));
    let foreign = lab.program_on("olc2");
    assert!(foreign.is_some());
    let three = [
        (INTERFACE, "native"),
        (SECOND, "native"),
        ("olc2", "generic"),
    ];
    let (code, text) = lab.failed_run(&lab.config_on(&three, TWO));
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("olc2 is busy"), "{text}");
    assert_eq!(lab.program_on(INTERFACE), None);
    assert_eq!(lab.program_on(SECOND), None);
    assert_eq!(lab.program_on("olc2"), foreign);
    assert!(!lab.pins().exists());

    // Beside a filter of an earlier run, which stays as it was.
    drop(lab.run(&lab.config("native", TWO)));
    let before = (lab.program_on(INTERFACE), lab.status());
    let other = "[[destination]]\nname = \"a\"\nhost = \"a.example.net\"\nrate_per_second = 7\n";
    let (code, text) = lab.failed_run(&lab.config_on(&three, other));
    assert_eq!(code, Some(4), "{text}");
    assert_eq!(lab.program_on(SECOND), None);
    let after = (lab.program_on(INTERFACE), lab.status());
    assert_eq!(after.0, before.0);
    assert_eq!(after.1["destinations"], before.1["destinations"]);
    assert_eq!(interfaces(&after.1), [(INTERFACE, "native")]);
    assert_eq!(after.1["fault"], Value::Null);
}

#[test]
fn a_takeover_adds_interfaces_and_leaves_those_no_longer_configured() {
    let Some(lab) = Lab::new() else { return };
    lab.add_interface(SECOND, "198.51.100.1/24");
    lab.add_interface("olc2", "203.0.113.1/24");
    drop(lab.run(&lab.config_on(&[(INTERFACE, "native"), (SECOND, "native")], TWO)));
    let kept = lab.program_on(SECOND);
    let identity = |lab: &Lab| {
        let maps = Maps::open(&lab.pins().join("maps")).expect("maps");
        maps.instance_id
    };
    let before = identity(&lab);
    let next = [("olc2", "native"), (SECOND, "auto")];
    let controller = lab.run(&lab.config_on(&next, TWO));
    for text in [
        "took over without a gap from the filter that an earlier run left on olc1.100, olc0",
        "olc0 is no longer configured: the filter is off it",
    ] {
        assert!(controller.log.contains(text), "{text}: {}", controller.log);
    }
    assert_eq!(identity(&lab), before);
    assert_eq!(lab.program_on(INTERFACE), None);
    assert_ne!(lab.program_on(SECOND), kept);
    let status = lab.status();
    assert_eq!(status["fault"], Value::Null);
    assert_eq!(
        interfaces(&status),
        [(SECOND, "native"), ("olc2", "native")]
    );
    let maps = Maps::open(&lab.pins().join("maps")).expect("maps");
    let records = maps.interface_records().expect("records");
    assert_eq!(records.iter().filter(|r| r.ifindex != 0).count(), 2);
    drop(controller);

    // All others: nothing of the first ones is left.
    drop(lab.run(&lab.config("native", TWO)));
    assert_eq!(identity(&lab), before);
    assert_eq!(interfaces(&lab.status()), [(INTERFACE, "native")]);
    assert_eq!(
        (lab.program_on(SECOND), lab.program_on("olc2")),
        (None, None)
    );
}

#[test]
fn a_renamed_interface_keeps_its_filter() {
    let Some(lab) = Lab::new() else { return };
    lab.add_interface(SECOND, "198.51.100.1/24");
    drop(lab.run(&lab.config("native", TWO)));
    for (from, to) in [(INTERFACE, "olc9"), (SECOND, INTERFACE)] {
        ip(&format!("-n {} link set {from} down", lab.name));
        ip(&format!("-n {} link set {from} name {to}", lab.name));
        ip(&format!("-n {} link set {to} up", lab.name));
    }
    assert_eq!(interfaces(&lab.status()), [("olc9", "native")]);
    let both = [(INTERFACE, "native"), ("olc9", "native")];
    let controller = lab.run(&lab.config_on(&both, TWO));
    assert!(
        controller.log.contains("took over without a gap"),
        "{}",
        controller.log
    );
    assert_eq!(interfaces(&lab.status()), both);
    drop(controller);
    drop(lab.run(&lab.config_on(&both[1..], TWO)));
    assert_eq!(interfaces(&lab.status()), both[1..]);
    assert_eq!(lab.program_on(INTERFACE), None);
}

#[test]
fn a_filter_of_version_0_1_is_taken_over() {
    let Some(lab) = Lab::new() else { return };
    let config = lab.config("native", TWO);
    drop(lab.run(&config));
    // As that version pinned it.
    fs::rename(lab.pins().join("links/olc0"), lab.pins().join("link")).expect("renamed");
    fs::remove_dir(lab.pins().join("links")).expect("removed");
    let controller = lab.run(&config);
    assert!(
        controller.log.contains("took over without a gap"),
        "{}",
        controller.log
    );
    assert!(!lab.pins().join("link").exists());
    assert_eq!(interfaces(&lab.status()), [(INTERFACE, "native")]);
}

/// Looks until it is so; fails when it never is.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "not seen: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn protects(lab: &Lab, address: &str) -> bool {
    let status = lab.status();
    let addresses = status["interfaces"][0]["addresses"].as_array().cloned();
    addresses.expect("list").contains(&address.into())
}

#[test]
fn addresses_and_mac_and_mtu_are_followed() {
    let Some(lab) = Lab::new() else { return };
    let name = &lab.name;
    ip(&format!(
        "-n {name} addr add 2001:db8::1/64 dev {INTERFACE} nodad"
    ));
    ip(&format!(
        "-n {name} addr add fd00::1/64 dev {INTERFACE} nodad"
    ));
    ip(&format!(
        "-n {name} addr add fe80::1/64 dev {INTERFACE} nodad"
    ));
    let controller = lab.run(&lab.config("native", TWO));
    for address in ["192.0.2.1", "2001:db8::1", "fd00::1", "fe80::1"] {
        assert!(protects(&lab, address), "{address}");
    }
    // `bypass` and the controller write the same record.
    assert!(lab.control(&["bypass", "on"]).status.success());
    ip(&format!(
        "-n {name} addr add 2001:db8::2/64 dev {INTERFACE} nodad"
    ));
    wait_until("a new address", || protects(&lab, "2001:db8::2"));
    ip(&format!("-n {name} addr del 192.0.2.1/24 dev {INTERFACE}"));
    wait_until("an address less", || !protects(&lab, "192.0.2.1"));
    assert!(protects(&lab, "2001:db8::1"));
    ip(&format!(
        "-n {name} link set {INTERFACE} address 02:00:00:00:00:77"
    ));
    ip(&format!("-n {name} link set {INTERFACE} mtu 1400"));
    let record = || {
        let maps = Maps::open(&lab.pins().join("maps")).expect("maps");
        maps.interface_record(0).expect("record")
    };
    let mac = Mac([2, 0, 0, 0, 0, 0x77]).word();
    wait_until("MAC and MTU", || {
        (record().macs[0], record().max_frame) == (mac, 1414)
    });
    assert_eq!(lab.status()["mode"], "bypass");
    let metrics = lab.get("/metrics");
    for kind in [
        "address_added",
        "address_removed",
        "mac_changed",
        "mtu_changed",
    ] {
        let line =
            format!("overload_interface_changes_total{{interface=\"olc0\",change=\"{kind}\"}} 1\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let log = controller.stop();
    for line in [
        "olc0: 2001:db8::2 is protected from now on",
        "olc0: 192.0.2.1 is no longer protected",
        "olc0: its MAC address is 02:00:00:00:00:77 now",
        "olc0: its MTU is 1400 now",
    ] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
}

#[test]
fn of_more_than_eight_addresses_those_left_out_are_named_once() {
    let Some(lab) = Lab::new() else { return };
    let add = |n: u32| {
        ip(&format!(
            "-n {} addr add 192.0.2.{n}/24 dev {INTERFACE}",
            lab.name
        ));
    };
    (2..=9).for_each(add);
    let controller = lab.run(&lab.config("native", TWO));
    let named = "olc0 has more than 8 addresses, not protected: 192.0.2.9; write";
    assert!(controller.log.contains(named), "{}", controller.log);
    assert!(!protects(&lab, "192.0.2.9"));
    // Room for one.
    ip(&format!(
        "-n {} addr del 192.0.2.4/24 dev {INTERFACE}",
        lab.name
    ));
    wait_until("the ninth", || protects(&lab, "192.0.2.9"));
    add(10);
    wait_until("the count", || {
        let left_out =
            "overload_interface_changes_total{interface=\"olc0\",change=\"addresses_left_out\"} 1";
        lab.get("/metrics").contains(left_out)
    });
    let log = controller.stop();
    assert_eq!(log.matches("has more than 8 addresses").count(), 2, "{log}");
    assert!(log.contains("not protected: 192.0.2.10; write"), "{log}");
}

#[test]
fn configured_addresses_are_fixed_and_an_interface_may_get_its_first_one_later() {
    let Some(lab) = Lab::new() else { return };
    lab.add_interface(SECOND, "198.51.100.1/24");
    ip(&format!("-n {} addr flush dev {SECOND}", lab.name));
    let config = lab.config_on(&[(INTERFACE, "native"), (SECOND, "native")], TWO);
    let text = fs::read_to_string(&config).expect("configuration").replacen(
        "attach",
        "addresses = [\"192.0.2.200\", \"2001:db8::200\"]\nmacs = [\"00:00:5e:00:01:05\"]\nattach",
        1,
    );
    fs::write(&config, text).expect("configuration");
    let controller = lab.run(&config);
    assert!(
        controller
            .log
            .contains("olc1.100 has no address yet: nothing on it is judged"),
        "{}",
        controller.log
    );
    let addresses = |lab: &Lab, interface: usize| {
        lab.status()["interfaces"][interface]["addresses"].to_string()
    };
    assert_eq!(addresses(&lab, 0), "[\"192.0.2.200\",\"2001:db8::200\"]");
    let maps = Maps::open(&lab.pins().join("maps")).expect("maps");
    let macs = maps.interface_record(0).expect("record").macs;
    assert_eq!(macs[1], Mac([0, 0, 0x5e, 0, 1, 5]).word());
    assert_ne!(macs[0], macs[1]);
    ip(&format!(
        "-n {} addr add 192.0.2.3/24 dev {INTERFACE}",
        lab.name
    ));
    ip(&format!(
        "-n {} addr add 198.51.100.9/24 dev {SECOND}",
        lab.name
    ));
    wait_until("the first address", || {
        addresses(&lab, 1).contains("198.51.100.9")
    });
    assert_eq!(addresses(&lab, 0), "[\"192.0.2.200\",\"2001:db8::200\"]");
}

#[test]
fn vlan_receive_offload_is_read() {
    let Some(lab) = Lab::new() else { return };
    let namespace = fs::File::open(format!("/run/netns/{}", lab.name)).expect("namespace");
    for (word, expected) in [("off", false), ("on", true)] {
        let set = lab
            .enter("ethtool")
            .args(["-K", INTERFACE, "rxvlan", word])
            .status();
        assert!(set.expect("ethtool starts").success());
        let read = thread::scope(|scope| {
            let inside = scope.spawn(|| {
                nix::sched::setns(&namespace, nix::sched::CloneFlags::CLONE_NEWNET)
                    .expect("entered");
                vlan::receive_offload(INTERFACE)
            });
            inside.join().expect("no panic")
        });
        assert_eq!(read.expect("a flag"), expected);
    }
}
