//! The life of an instance in a network namespace of its own: start, takeover, faults, end.
//! Needs root; without, each test says so and is skipped.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use overload_common::abi::{ControlCounters, SCHEMA};
use overload_ctl::datapath::{filter::Filter, maps::Maps};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_overload-ctl");
const INTERFACE: &str = "olc0";
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
        lab.add_interface();
        Some(lab)
    }

    fn add_interface(&self) {
        let name = &self.name;
        ip(&format!(
            "-n {name} link add {INTERFACE} type veth peer name peer"
        ));
        ip(&format!("-n {name} addr add 192.0.2.1/24 dev {INTERFACE}"));
        ip(&format!("-n {name} link set {INTERFACE} up"));
    }

    fn remove_interface(&self) {
        ip(&format!("-n {} link del {INTERFACE}", self.name));
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
        let path = self.directory.join("overload.toml");
        let text = format!(
            "instance = \"{}\"\nmode = \"shadow\"\n[interface]\nname = \"{INTERFACE}\"\n\
             attach = \"{attach}\"\n[metrics]\nlisten = \"127.0.0.1:9464\"\n{destinations}",
            self.name
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
        Controller { child, log }
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
}

impl Drop for Controller {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _status = self.child.wait();
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
    assert_eq!(status["interface"], INTERFACE);
    assert_eq!(
        (&status["attach"], &status["mode"]),
        (&"native".into(), &"shadow".into())
    );
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
    assert_eq!(generations, [2, 2, 2], "the first generation is gone");
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
    lab.remove_interface();
    let health = lab.get("/health");
    assert!(health.starts_with("HTTP/1.1 503 "), "{health}");
    assert!(health.contains("no longer on its interface"), "{health}");
    assert_eq!(lab.control(&["status"]).status.code(), Some(1));
    drop(controller);
    lab.add_interface();
    let _controller = lab.run(&config);
    assert!(lab.get("/health").starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_half_removed_instance_can_be_detached() {
    let Some(lab) = Lab::new() else { return };
    drop(lab.run(&lab.config("native", TWO)));
    fs::remove_file(lab.pins().join("link")).expect("link");
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
    // More than veth's native mode takes from its peer.
    ip(&format!("-n {} link set peer mtu 9000", lab.name));
    ip(&format!("-n {} link set {INTERFACE} mtu 9000", lab.name));
    let (code, text) = lab.failed_run(&lab.config("native", TWO));
    assert_eq!(code, Some(1));
    assert!(text.contains("at MTU 9000"), "{text}");
    assert!(!lab.pins().exists());
    let controller = lab.run(&lab.config("auto", TWO));
    assert!(
        controller.log.contains("is in generic mode, because"),
        "{}",
        controller.log
    );
    assert_eq!(lab.status()["attach"], "generic");
}
