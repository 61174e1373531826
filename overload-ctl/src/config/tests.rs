//! Input on the left, the exact message on the right.

use std::{fmt::Write as _, fs, path::Path};

use super::*;
use crate::mac::Mac;

const INTERFACE: &str = "[[interface]]\nname = \"eth0\"\n";

pub(super) fn messages(text: &str) -> Vec<String> {
    match parse(Path::new("c.toml"), text.as_bytes()) {
        Ok((config, _)) => panic!("accepted: {config:?}"),
        Err(ConfigError::Faults { faults }) => faults.iter().map(ToString::to_string).collect(),
        Err(other) => panic!("{other}"),
    }
}

pub(super) fn accepted(text: &str) -> (Config, Vec<String>) {
    match parse(Path::new("c.toml"), text.as_bytes()) {
        Ok((config, warnings)) => (config, warnings.iter().map(ToString::to_string).collect()),
        Err(error) => panic!("refused: {error}"),
    }
}

/// A destination that is right, from line 3 on, then what is to be tested.
pub(super) fn with_interface(rest: &str) -> String {
    format!("{INTERFACE}{rest}")
}

fn check_each(cases: &[(&str, &str)]) {
    for (text, message) in cases {
        assert_eq!(messages(text), [*message], "for\n{text}");
    }
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let (config, warnings) = accepted(&with_interface(
        "[[destination]]\nname = \"rest\"\ndefault = true\nrate_per_second = 100\n",
    ));
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(
        config,
        Config {
            instance: "default".to_owned(),
            mode: Mode::Enforce,
            ports: vec![5060],
            interfaces: vec![Interface {
                name: "eth0".to_owned(),
                attach: Attach::Native,
                addresses: Vec::new(),
                macs: Vec::new(),
            }],
            metrics_listen: "127.0.0.1:9464".parse().expect("address"),
            sources: Sources::default(),
            replies: Replies {
                rate_per_second: 200.0,
                burst: 400.0,
            },
            emergency: Emergency {
                numbers: ["112", "911"]
                    .map(|n| Number::read(n).expect("number"))
                    .to_vec(),
                share_percent: 5.0,
                source_rate_per_second: 1.0,
                source_burst: 5.0,
            },
            methods: [Treatment::Normal; 6],
            destinations: vec![Destination {
                name: "rest".to_owned(),
                matches: Match::Default,
                limit: Limit::Rate {
                    rate_per_second: 100.0,
                    burst: 10.0
                },
            }],
        }
    );
}

#[test]
fn every_key_is_read() {
    let (config, warnings) = accepted(
        "instance = \"edge_1\"\nmode = \"shadow\"\nports = [5060, 5062]\n\
         [[interface]]\nname = \"ens1f0\"\nattach = \"auto\"\n\
         addresses = [\"192.0.2.1\", \"2001:DB8::2\"]\nmacs = [\"00:00:5e:00:01:05\"]\n\
         [[interface]]\nname = \"ens1f0.100\"\nattach = \"generic\"\n\
         [metrics]\nlisten = \"192.0.2.1:80\"\nallow_remote = true\n\
         [[destination]]\nname = \"a\"\nhost = \"GW1.Example.net\"\nrate_per_second = 2000.0\n\
         [[destination]]\nname = \"b\"\nhost = \"gw2.example.net\"\nrate_per_second = 5\nburst = 12\n\
         [[destination]]\nname = \"c\"\ndefault = true\naccept_percent = 80.5\n",
    );
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(config.instance, "edge_1");
    assert_eq!(config.mode, Mode::Shadow);
    assert_eq!(config.ports, [5060, 5062]);
    let [first, second] = &config.interfaces[..] else {
        panic!("two interfaces: {:?}", config.interfaces);
    };
    assert_eq!((&*first.name, first.attach), ("ens1f0", Attach::Auto));
    let addresses: Vec<String> = first.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["192.0.2.1", "2001:db8::2"]);
    assert_eq!(first.macs, [Mac([0, 0, 0x5e, 0, 1, 5])]);
    assert_eq!(
        (&*second.name, second.attach),
        ("ens1f0.100", Attach::Generic)
    );
    assert_eq!(config.metrics_listen.to_string(), "192.0.2.1:80");
    let limits: Vec<Limit> = config.destinations.iter().map(|d| d.limit).collect();
    let rate = |rate_per_second, burst| Limit::Rate {
        rate_per_second,
        burst,
    };
    assert_eq!(
        limits,
        [
            rate(2000.0, 40.0),
            rate(5.0, 12.0),
            Limit::AcceptPercent(80.5)
        ]
    );
    assert_eq!(
        config.destinations[0].matches,
        Match::Host("gw1.example.net".to_owned())
    );
}

#[test]
fn syntax_and_keys() {
    check_each(&[
        (
            "[interface\nname = \"eth0\"\n",
            "c.toml:1:11: not valid TOML: unclosed table, expected `]`",
        ),
        (
            "[[interface]]\nname = \"eth0\"\nname = \"eth1\"\n",
            "c.toml:3:1: not valid TOML: duplicate key",
        ),
        (
            "",
            "c.toml:1:1: no interface is named; add an [[interface]] table with its name",
        ),
        (
            "[interface]\nname = \"eth0\"\n",
            "c.toml:1:1: [interface] in single brackets is one table; write [[interface]], also when there is only one of them",
        ),
        (
            "[[interface]]\nname = \"eth0\"\n[destination]\nname = \"a\"\n",
            "c.toml:3:1: [destination] in single brackets is one table; write [[destination]], also when there is only one of them",
        ),
        (
            "[[interface]]\nname = \"eth0\"\nports = [5060]\n",
            "c.toml:3:1: ports are those of all interfaces together; move the line to the top of the file, before the first table",
        ),
        (
            "[[interface]]\nattach = \"native\"\n",
            "c.toml:1:1: key `name` is missing; add it",
        ),
        (
            "[[interface]]\nname = 7\n",
            "c.toml:2:8: the number 7 is of the wrong type; write a text in double quotes",
        ),
        (
            "mod = \"shadow\"\n",
            "c.toml:1:1: unknown key `mod`; did you mean `mode`?",
        ),
        (
            "[[interface]]\nname = \"eth0\"\nadresses = []\n",
            "c.toml:3:1: unknown key `adresses`; did you mean `addresses`?",
        ),
        (
            "[[interface]]\nname = \"eth0\"\nvlan = 7\n",
            "c.toml:3:1: unknown key `vlan`; the keys known here are `name`, `attach`, `addresses`, `macs`",
        ),
        (
            "[[destination]]\nname = \"a\"\nrate = 5\n",
            "c.toml:3:1: `rate` does not say its unit; use rate_per_second",
        ),
        (
            "[[destination]]\nname = \"a\"\nacept_percent = 5\n",
            "c.toml:3:1: unknown key `acept_percent`; did you mean `accept_percent`?",
        ),
        (
            "[[destination]]\nname = \"a\"\nrate_per_second = \"5\"\n",
            "c.toml:3:19: the text \"5\" is of the wrong type; write a number",
        ),
    ]);
}

#[test]
fn a_wrong_type_is_told_in_plain_words() {
    let limit = |line: &str| {
        with_interface(&format!(
            "[[destination]]\nname = \"a\"\ndefault = true\n{line}\n"
        ))
    };
    for (text, message) in [
        (
            format!("ports = [5060.5]\n{INTERFACE}"),
            "c.toml:1:10: the number 5060.5 is of the wrong type; write a whole number",
        ),
        (
            format!("ports = 5060\n{INTERFACE}"),
            "c.toml:1:9: the number 5060 is of the wrong type; write a list in square brackets",
        ),
        (
            with_interface("addresses = \"192.0.2.1\"\n"),
            "c.toml:3:13: the text \"192.0.2.1\" is of the wrong type; write a list in square brackets",
        ),
        (
            with_interface("[metrics]\nallow_remote = \"yes\"\n"),
            "c.toml:4:16: the text \"yes\" is of the wrong type; write true or false",
        ),
        (
            format!("metrics = true\n{INTERFACE}"),
            "c.toml:1:11: true is of the wrong type; write a table",
        ),
        (
            limit("accept_percent = [5]"),
            "c.toml:6:18: a list is of the wrong type; write a number",
        ),
        (
            limit("accept_percent = { x = 5 }"),
            "c.toml:6:18: what stands here is of the wrong type; write a number",
        ),
        (
            limit("rate_per_second = 2026-11-30"),
            "c.toml:6:19: what stands here is of the wrong type; write a number",
        ),
    ] {
        assert_eq!(messages(&text), [message], "{text}");
    }
}

#[test]
fn what_is_no_text_has_a_place() {
    for (bytes, place) in [
        (
            &b"instance = \"a\"\nmode = \"\xe9\"\n"[..],
            "2:9: byte 0xe9",
        ),
        (b"# \xc3\xa9\xff", "1:4: byte 0xff"),
        (b"\x80", "1:1: byte 0x80"),
        // Cut off in the middle of a character.
        (b"# \xc3", "1:3: byte 0xc3"),
    ] {
        let error = parse(Path::new("c.toml"), bytes).expect_err("no text");
        assert_eq!(
            error.to_string(),
            format!("c.toml:{place} is no UTF-8; save the file as UTF-8")
        );
    }
}

#[test]
fn words_and_names() {
    let long = format!("instance = \"{}\"\n{INTERFACE}", "x".repeat(33));
    let long_message = format!(
        "c.toml:1:12: instance \"{}\" cannot name a directory; use 1 to 32 letters, digits, '-' or '_', and no '-' first",
        "x".repeat(33)
    );
    check_each(&[
        (
            "mode = \"enfroce\"\n[[interface]]\nname = \"eth0\"\n",
            "c.toml:1:8: unknown mode \"enfroce\"; valid are \"enforce\", \"shadow\" and \"bypass\"",
        ),
        (
            "[[interface]]\nname = \"eth0\"\nattach = \"Native\"\n",
            "c.toml:3:10: unknown attach mode \"Native\"; valid are \"native\", \"generic\" and \"auto\"",
        ),
        (
            "instance = \"a.b\"\n[[interface]]\nname = \"eth0\"\n",
            "c.toml:1:12: instance \"a.b\" cannot name a directory; use 1 to 32 letters, digits, '-' or '_', and no '-' first",
        ),
        (
            "instance = \"../x\"\n[[interface]]\nname = \"eth0\"\n",
            "c.toml:1:12: instance \"../x\" cannot name a directory; use 1 to 32 letters, digits, '-' or '_', and no '-' first",
        ),
        (
            "instance = \"\"\n[[interface]]\nname = \"eth0\"\n",
            "c.toml:1:12: instance \"\" cannot name a directory; use 1 to 32 letters, digits, '-' or '_', and no '-' first",
        ),
        (&long, &long_message),
        (
            "instance = \"-x\"\n[[interface]]\nname = \"eth0\"\n",
            "c.toml:1:12: instance \"-x\" cannot name a directory; use 1 to 32 letters, digits, '-' or '_', and no '-' first",
        ),
        (
            "[[interface]]\nname = \"\"\n",
            "c.toml:2:8: interface name is empty; write a name that `ip link` shows",
        ),
        (
            "[[interface]]\nname = \"abcdefghijklmnop\"\n",
            "c.toml:2:8: interface name \"abcdefghijklmnop\" has more than 15 bytes; write a name that `ip link` shows",
        ),
        (
            "[[interface]]\nname = \"eth 0\"\n",
            "c.toml:2:8: interface name \"eth 0\" cannot be one, it has a blank, '/' or ':', or dots alone; write a name that `ip link` shows",
        ),
    ]);
}

#[test]
fn addresses_and_macs() {
    for (list, message) in [
        (
            "addresses = []",
            "c.toml:3:13: addresses is empty; leave the key out to protect the interface's own addresses",
        ),
        (
            "addresses = [\"192.0.2.1\", \"192.0.2.2\", \"192.0.2.3\", \"192.0.2.4\", \"192.0.2.5\", \"192.0.2.6\", \"192.0.2.7\", \"192.0.2.8\", \"192.0.2.9\"]",
            "c.toml:3:13: 9 addresses are more than the 8 one interface can protect; remove some",
        ),
        (
            "addresses = [\"192.0.2\"]",
            "c.toml:3:14: \"192.0.2\" is no IP address; write one such as \"192.0.2.1\" or \"2001:db8::1\"",
        ),
        (
            "addresses = [\"[2001:db8::1]\"]",
            "c.toml:3:14: address 2001:db8::1 has brackets, which belong to URIs; remove them",
        ),
        (
            "addresses = [\"192.0.2.1/24\"]",
            "c.toml:3:14: address 192.0.2.1 has a prefix length; remove it, one address is protected, not a network",
        ),
        (
            "addresses = [\"fe80::1%eth0\"]",
            "c.toml:3:14: address fe80::1 has a scope id; remove %eth0, the address belongs to the interface of its table",
        ),
        (
            "addresses = [\"::ffff:192.0.2.1\"]",
            "c.toml:3:14: ::ffff:192.0.2.1 is an IPv4 address in IPv6 form; write 192.0.2.1",
        ),
        (
            "addresses = [\"::1\"]",
            "c.toml:3:14: ::1 is a loopback address; its traffic crosses no network card, protect another",
        ),
        (
            "addresses = [\"::\"]",
            "c.toml:3:14: :: is no address of one host; write the address that callers send to",
        ),
        (
            "addresses = [\"ff02::1\"]",
            "c.toml:3:14: ff02::1 is no address of one host; write the address that callers send to",
        ),
        (
            "addresses = [\"2001:db8::1\", \"2001:DB8:0::1\"]",
            "c.toml:3:29: address 2001:db8::1 stands twice; remove one",
        ),
        (
            "addresses = [\"127.0.0.1\"]",
            "c.toml:3:14: 127.0.0.1 is a loopback address; its traffic crosses no network card, protect another",
        ),
        (
            "addresses = [\"192.0.2.1\", \"224.0.1.75\"]",
            "c.toml:3:27: 224.0.1.75 is no address of one host; write the address that callers send to",
        ),
        (
            "addresses = [\"0.0.0.0\"]",
            "c.toml:3:14: 0.0.0.0 is no address of one host; write the address that callers send to",
        ),
        (
            "addresses = [\"255.255.255.255\"]",
            "c.toml:3:14: 255.255.255.255 is no address of one host; write the address that callers send to",
        ),
        (
            "addresses = [\"192.0.2.1\", \"192.0.2.1\"]",
            "c.toml:3:27: address 192.0.2.1 stands twice; remove one",
        ),
        (
            "macs = [\"02:00:00:00:00\"]",
            "c.toml:3:9: \"02:00:00:00:00\" is no MAC address; write six pairs of digits, such as \"02:00:00:00:00:05\"",
        ),
        (
            "macs = [\"01:00:5e:00:00:01\"]",
            "c.toml:3:9: 01:00:5e:00:00:01 is no MAC address of one host; write the one that callers' frames are sent to",
        ),
        (
            "macs = [\"02:00:00:00:00:05\", \"02:00:00:00:00:05\"]",
            "c.toml:3:30: MAC address 02:00:00:00:00:05 stands twice; remove one",
        ),
        (
            "macs = [\"02:00:00:00:00:01\", \"02:00:00:00:00:02\", \"02:00:00:00:00:03\", \"02:00:00:00:00:04\"]",
            "c.toml:3:8: 4 MAC addresses are more than the 3 that one interface can have beside its own; remove some",
        ),
    ] {
        assert_eq!(messages(&with_interface(list)), [message]);
    }
}

#[test]
fn ports_of_the_instance() {
    for (list, message) in [
        (
            "ports = []",
            "c.toml:1:9: ports is empty; leave the key out to protect port 5060",
        ),
        (
            "ports = [0]",
            "c.toml:1:10: 0 is no UDP port; write a number from 1 to 65535",
        ),
        (
            "ports = [5060, 65536]",
            "c.toml:1:16: 65536 is no UDP port; write a number from 1 to 65535",
        ),
        (
            "ports = [-1]",
            "c.toml:1:10: -1 is no UDP port; write a number from 1 to 65535",
        ),
        (
            "ports = [5060, 5060]",
            "c.toml:1:16: port 5060 stands twice; remove one",
        ),
    ] {
        assert_eq!(messages(&format!("{list}\n{INTERFACE}")), [message]);
    }
}

#[test]
fn interfaces_are_bounded_and_have_different_names() {
    let many = |count: usize| {
        let mut text = String::new();
        for i in 0..count {
            let _ = writeln!(text, "[[interface]]\nname = \"eth{i}\"");
        }
        text
    };
    assert_eq!(accepted(&many(16)).0.interfaces.len(), 16);
    assert_eq!(
        messages(&many(18)),
        ["c.toml:33:1: 18 interfaces are more than the 16 of one instance; remove some"]
    );
    assert_eq!(
        messages(&format!("{INTERFACE}{INTERFACE}")),
        ["c.toml:4:8: interface \"eth0\" is that of line 2; remove one"]
    );
}

#[test]
fn metrics_listener() {
    for (line, message) in [
        (
            "listen = \"localhost:9464\"",
            "c.toml:4:10: \"localhost:9464\" is no address with port; write a numeric one, such as \"127.0.0.1:9464\" or \"[::1]:9464\"",
        ),
        (
            "listen = \"127.0.0.1\"",
            "c.toml:4:10: \"127.0.0.1\" is no address with port; write a numeric one, such as \"127.0.0.1:9464\" or \"[::1]:9464\"",
        ),
        (
            "listen = \"0.0.0.0:9464\"",
            "c.toml:4:10: 0.0.0.0:9464 is reachable from other hosts; listen on 127.0.0.1, or add allow_remote = true to accept that",
        ),
        (
            "listen = \"192.0.2.1:9464\"\nallow_remote = false",
            "c.toml:4:10: 192.0.2.1:9464 is reachable from other hosts; listen on 127.0.0.1, or add allow_remote = true to accept that",
        ),
    ] {
        assert_eq!(
            messages(&with_interface(&format!("[metrics]\n{line}\n"))),
            [message]
        );
    }
    for listen in ["127.0.0.1:0", "[::1]:9464"] {
        let (config, _) = accepted(&with_interface(&format!(
            "[metrics]\nlisten = \"{listen}\"\n"
        )));
        assert_eq!(config.metrics_listen.to_string(), listen);
    }
}

#[test]
fn limits() {
    for (limit, message) in [
        (
            "",
            "c.toml:3:1: destination \"a\" has no limit; add rate_per_second or accept_percent",
        ),
        (
            "rate_per_second = 1\naccept_percent = 50",
            "c.toml:7:18: destination \"a\" has both rate_per_second and accept_percent; remove one, a destination has one limit",
        ),
        (
            "rate_per_second = -1",
            "c.toml:6:19: rate_per_second = -1 is out of range; write a number from 0 to 1000000",
        ),
        (
            "rate_per_second = nan",
            "c.toml:6:19: rate_per_second = NaN is out of range; write a number from 0 to 1000000",
        ),
        (
            "rate_per_second = inf",
            "c.toml:6:19: rate_per_second = inf is out of range; write a number from 0 to 1000000",
        ),
        (
            "rate_per_second = 1_000_001",
            "c.toml:6:19: rate_per_second = 1000001 is out of range; write a number from 0 to 1000000",
        ),
        (
            "accept_percent = -0.1",
            "c.toml:6:18: accept_percent = -0.1 is out of range; write a number from 0 to 100",
        ),
        (
            "accept_percent = 100.5",
            "c.toml:6:18: accept_percent = 100.5 is out of range; write a number from 0 to 100",
        ),
        (
            "accept_percent = nan",
            "c.toml:6:18: accept_percent = NaN is out of range; write a number from 0 to 100",
        ),
        (
            "rate_per_second = 5\nburst = 0.5",
            "c.toml:7:9: burst = 0.5 is no number of requests; write a whole number from 1 to 1000000",
        ),
        (
            "rate_per_second = 5\nburst = 20.5",
            "c.toml:7:9: burst = 20.5 is no number of requests; write a whole number from 1 to 1000000",
        ),
        (
            "rate_per_second = 5\nburst = inf",
            "c.toml:7:9: burst = inf is no number of requests; write a whole number from 1 to 1000000",
        ),
        (
            "accept_percent = 5\nburst = 10",
            "c.toml:7:9: burst belongs to rate_per_second, which destination \"a\" has not; remove burst",
        ),
    ] {
        let text = with_interface(&format!(
            "[[destination]]\nname = \"a\"\ndefault = true\n{limit}\n"
        ));
        assert_eq!(messages(&text), [message], "{limit}");
    }
}

#[test]
fn matches() {
    let first = "[[destination]]\nname = \"a\"\nhost = \"gw1.example.net\"\naccept_percent = 50\n";
    for (second, message) in [
        (
            "name = \"a\"\nhost = \"gw2\"",
            "c.toml:8:8: destination name \"a\" is taken by line 4; choose another",
        ),
        (
            "name = \"b\"\nhost = \"GW1.example.NET\"",
            "c.toml:9:8: host \"gw1.example.net\" is that of destination \"a\" in line 5; remove one",
        ),
        (
            "name = \"\"\nhost = \"gw2\"",
            "c.toml:8:8: destination name is empty; write a label for status and metrics",
        ),
        (
            "name = \"b\\u0007\"\nhost = \"gw2\"",
            "c.toml:8:8: destination name \"b\\u{7}\" has control characters or more than 64 bytes; shorten it",
        ),
        (
            "name = \"b\"",
            "c.toml:7:1: destination \"b\" says not what it matches; add host, number_prefix, or default = true",
        ),
        (
            "name = \"b\"\ndefault = false",
            "c.toml:7:1: destination \"b\" says not what it matches; add host, number_prefix, or default = true",
        ),
        (
            "name = \"b\"\nhost = \"gw2\"\ndefault = true",
            "c.toml:10:11: destination \"b\" has more than one of host, number_prefix and default; keep one",
        ),
        (
            "name = \"b\"\nhost = \"\"",
            "c.toml:9:8: host is empty; write the host of the Request-URI, such as \"gw1.example.net\"",
        ),
        (
            "name = \"b\"\nhost = \"gw2:5060\"",
            "c.toml:9:8: host \"gw2:5060\" contains a port; leave it out, a destination is a host at all its ports",
        ),
        (
            "name = \"b\"\nhost = \"sip:gw2\"",
            "c.toml:9:8: host \"sip:gw2\" begins with a URI scheme; write the host alone",
        ),
        (
            "name = \"b\"\nhost = \"bob@gw2\"",
            "c.toml:9:8: host \"bob@gw2\" contains a user part; write only what stands after '@'",
        ),
        (
            "name = \"b\"\nhost = \"2001:db8::1\"",
            "c.toml:9:8: host \"2001:db8::1\" is an IPv6 address without brackets; write \"[2001:db8::1]\"",
        ),
        (
            "name = \"b\"\nhost = \"gw 2\"",
            "c.toml:9:8: host \"gw 2\" contains a blank or control character; remove it",
        ),
    ] {
        let text = with_interface(&format!(
            "{first}[[destination]]\n{second}\naccept_percent = 5\n"
        ));
        assert_eq!(messages(&text), [message], "{second}");
    }
}

#[test]
fn default_is_last_and_single() {
    let default = |name: &str| {
        format!("[[destination]]\nname = \"{name}\"\ndefault = true\naccept_percent = 50\n")
    };
    let host = "[[destination]]\nname = \"h\"\nhost = \"gw1\"\naccept_percent = 50\n";
    assert_eq!(
        messages(&with_interface(&format!("{}{host}", default("rest")))),
        [
            "c.toml:5:11: the default destination \"rest\" is not the last one; move it to the end of the file"
        ]
    );
    assert_eq!(
        messages(&with_interface(&format!(
            "{}{}",
            default("rest"),
            default("other")
        ))),
        [
            "c.toml:5:11: the default destination \"rest\" is not the last one; move it to the end of the file",
            "c.toml:9:11: destination \"other\" is a second default, after line 5; remove one",
        ]
    );
}

#[test]
fn number_of_destinations_is_bounded() {
    let many = |count: usize| {
        let mut text = INTERFACE.to_owned();
        for i in 0..count {
            let _ = write!(
                text,
                "[[destination]]\nname = \"d{i}\"\nhost = \"h{i}.example\"\naccept_percent = 5\n"
            );
        }
        text
    };
    assert_eq!(accepted(&many(16_382)).0.destinations.len(), 16_382);
    assert_eq!(
        messages(&many(16_384)),
        [
            "c.toml:65531:1: 16384 destinations and 2 emergency numbers are more than the 16384 of one instance; remove some"
        ]
    );
}

#[test]
fn all_faults_of_a_file_are_reported_in_order_of_place() {
    let text = "mode = \"on\"\nports = [0, 70000]\n[[interface]]\nname = \"\"\n[[destination]]\nname = \"a\"\nhost = \"é\"\nrate_per_second = -5\nburst = 0\n";
    let places: Vec<String> = messages(text)
        .iter()
        .map(|m| m.split(' ').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        places,
        [
            "c.toml:1:8:",
            "c.toml:2:10:",
            "c.toml:2:13:",
            "c.toml:4:8:",
            "c.toml:7:8:",
            "c.toml:8:19:",
            "c.toml:9:9:"
        ]
    );
}

#[test]
fn columns_count_characters() {
    let text = "instance = \"é.\" # é\n[[interface]]\nname = \"eth0\" #é\naddresses = [\"é\", \"127.0.0.1\"]\n";
    let found = messages(text);
    assert!(found[2].starts_with("c.toml:4:19: "), "{found:?}");
}

#[test]
fn warnings() {
    let destination = |limit: &str| {
        with_interface(&format!(
            "[[destination]]\nname = \"a\"\ndefault = true\n{limit}\n"
        ))
    };
    for (text, expected) in [
        (
            destination("rate_per_second = 5\nburst = 9"),
            "c.toml:7:9: burst = 9 is less than 10 (10, or 20 ms of the rate): calls that arrive together are refused below the rate",
        ),
        (
            destination("rate_per_second = 1000\nburst = 19"),
            "c.toml:7:9: burst = 19 is less than 20 (10, or 20 ms of the rate): calls that arrive together are refused below the rate",
        ),
        (
            destination("rate_per_second = 0"),
            "c.toml:3:1: destination \"a\" admits nothing: every new request to it is refused, but for emergency calls",
        ),
        (
            destination("accept_percent = 0.0"),
            "c.toml:3:1: destination \"a\" admits nothing: every new request to it is refused, but for emergency calls",
        ),
        (
            INTERFACE.to_owned(),
            "c.toml:1:1: no default destination: requests to hosts not named here are all admitted",
        ),
    ] {
        assert_eq!(accepted(&text).1, [expected]);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = load(Path::new("/nonexistent/c.toml")).expect_err("no such file");
    assert_eq!(
        error.to_string(),
        "cannot read configuration /nonexistent/c.toml: No such file or directory (os error 2)"
    );
}

#[test]
fn every_sample_file_is_fit_for_use() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
    let mut checked = 0;
    for entry in fs::read_dir(&directory).expect("config directory") {
        let path = entry.expect("entry").path();
        if path.extension().is_some_and(|e| e == "toml") {
            let (_, warnings) = load(&path).expect("sample is valid");
            assert_eq!(warnings, [], "{}", path.display());
            checked += 1;
        }
    }
    assert!(checked >= 1, "no sample in {}", directory.display());
}

#[test]
fn every_key_stands_in_the_table_and_in_the_sample() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |name: &str| fs::read_to_string(root.join(name)).expect(name);
    let (table, sample) = (read("docs/configuration.md"), read("config/overload.toml"));
    for key in document::KEYS {
        let in_table = [
            format!("`{key}`"),
            format!("`[{key}]`"),
            format!("`[[{key}]]`"),
        ];
        assert!(in_table.iter().any(|form| table.contains(form)), "{key}");
        let in_sample = [
            format!("\n{key} = "),
            format!("\n#{key} = "),
            format!("\n[{key}]\n"),
            format!("\n[[{key}]]\n"),
        ];
        assert!(in_sample.iter().any(|form| sample.contains(form)), "{key}");
    }
}
