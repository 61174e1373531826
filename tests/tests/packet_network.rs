//! What is below the message: IPv6, extension headers, IPv4 options, VLAN tags, fragments, large frames.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Context, Result, ensure};
use overload_common::abi::Reason;
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{
    CLIENT, CLIENT_V6, Datagram, Filter, Random, SERVER_V6, ack, base, edit,
};

/// The base message with this call, as an IPv6 client would send it.
fn base_v6(call: &str) -> String {
    edit(
        &base(call),
        "192.0.2.10:5060;branch",
        "[2001:db8::9:ff]:5060;branch",
    )
}

/// Has a datagram refused, its answer checked in full, and gives the answer's text.
fn refusal(filter: &mut Filter, datagram: &Datagram) -> Result<String> {
    Ok(filter.refusal(datagram)?.1)
}

/// The datagram passes under this reason.
fn passes(filter: &mut Filter, datagram: &Datagram, expected: Reason) -> Result<()> {
    let (reason, outcome) = filter.run(&datagram.frame())?;
    ensure!(
        reason == expected && outcome.action == Action::Pass,
        "{reason:?} {:?} instead of {expected:?}",
        outcome.action
    );
    Ok(())
}

/// Eight bytes of padding as hop-by-hop or destination options; routing and fragment headers.
fn extension(kind: u8) -> (u8, Vec<u8>) {
    let bytes = match kind {
        43 => vec![0, 0, 4, 0, 0, 0, 0, 0],
        44 => vec![0, 0, 0, 0, 0, 0, 0, 7],
        _ => vec![0, 0, 1, 4, 0, 0, 0, 0],
    };
    (kind, bytes)
}

#[test]
fn c05_ipv6_references_in_via_with_and_without_brackets() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (call, via) in [
        (
            "a1",
            "[2001:db8::9:1]:5070;received=[2001:db8::9:255];branch=z9hG4bKas3",
        ),
        (
            "a2",
            "[2001:db8::9:1]:5070;received=2001:db8::9:255;branch=z9hG4bKas4",
        ),
        ("a3", "[2001:db8::9:1];branch=z9hG4bKas5;rport"),
    ] {
        let text = edit(
            &base(call),
            &format!("192.0.2.10:5060;branch=z9hG4bK-{call};rport"),
            via,
        );
        let reply = refusal(&mut filter, &Datagram::new_v6(5062, text.as_bytes()))?;
        ensure!(reply.contains(";received=2001:db8::9:ff"), "{reply}");
    }
    for via in ["[2001:db8::9:1", "[2001:db8::9:1:5070", "2001:db8::9:1"] {
        let text = edit(
            &base("a4"),
            "192.0.2.10:5060;branch",
            &format!("{via};branch"),
        );
        passes(
            &mut filter,
            &Datagram::new_v6(5062, text.as_bytes()),
            Reason::BadVia,
        )?;
    }
    Ok(())
}

#[test]
fn r5118_4_5_1_received_is_written_without_brackets_in_canonical_form() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let mut random = Random::new(5952);
    let mut sources: Vec<Ipv6Addr> = [
        "2001:db8::",
        "2001:0:0:1::1",
        "2001:db8:0:1:1:1:1:1",
        "2001:db8::1:0:0:1",
        "1::",
        "1:0:0:2::",
        "fe80::1",
        "fd00:a:b0:c00:d000::10",
        "1:2:3:4:5:6:7:8",
        "ffee:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ]
    .iter()
    .filter_map(|text| text.parse().ok())
    .filter(|address: &Ipv6Addr| !address.is_multicast())
    .collect();
    for _ in 0..400 {
        let mut groups = [0u16; 8];
        for group in &mut groups {
            *group = match random.below(4) {
                0 => random.below(0x1_0000) as u16,
                1 => random.below(0x100) as u16,
                _ => 0,
            };
        }
        groups[0] = 0x2000 + random.below(0x1000) as u16;
        sources.push(groups.into());
    }
    for (number, source) in sources.into_iter().enumerate() {
        let mut datagram = Datagram::new_v6(5062, base_v6(&format!("a{number}")).as_bytes());
        datagram.source = IpAddr::V6(source);
        // The oracle compares received with the standard library's text.
        refusal(&mut filter, &datagram).with_context(|| source.to_string())?;
    }
    Ok(())
}

#[test]
fn r3261_18_2_2_1_replies_over_ipv6_follow_via() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let cases = [
        (";rport", "[2001:db8::9:ff]:5070", 40_000),
        ("", "[2001:db8::9:ff]:5070", 5070),
        ("", "[2001:db8::9:ff]", 5060),
        ("", "client.example.net", 5060),
    ];
    for (number, (rport, sent_by, port)) in cases.into_iter().enumerate() {
        let text = edit(
            &base(&format!("a{number}")),
            &format!("192.0.2.10:5060;branch=z9hG4bK-a{number};rport"),
            &format!("{sent_by};branch=z9hG4bK-a{number}{rport}"),
        );
        let datagram = Datagram::new_v6(40_000, text.as_bytes());
        let (_, outcome) = filter.run(&datagram.frame())?;
        let reply = Datagram::read(&outcome.frame)
            .map_err(|error| anyhow::anyhow!("{sent_by}: {error:?}"))?;
        assert_eq!(
            (reply.destination, reply.destination_port),
            (CLIENT_V6, port),
            "{sent_by}"
        );
        assert_eq!((reply.source, reply.source_port), (SERVER_V6, 5060));
    }
    Ok(())
}

#[test]
fn r3261_17_1b_the_ack_over_ipv6_is_absorbed() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let invite = base_v6("a1");
    let reply = refusal(&mut filter, &Datagram::new_v6(5062, invite.as_bytes()))?;
    let ack = ack(&invite, &reply);
    let (reason, _) = filter.run(&Datagram::new_v6(5062, ack.as_bytes()).frame())?;
    assert_eq!(reason, Reason::OwnAck);
    Ok(())
}

#[test]
fn copies_over_ipv6_are_told_by_the_whole_source_address() -> Result<()> {
    let mut filter = Filter::limited(1.0, 1.0)?;
    let first = Datagram::new_v6(5062, base_v6("a1").as_bytes());
    assert_eq!(filter.run(&first.frame())?.0, Reason::WithinLimit);
    filter.at_ms(300)?;
    assert_eq!(filter.run(&first.frame())?.0, Reason::AdmittedCopy);
    for byte in [0, 7, 8, 15] {
        let IpAddr::V6(address) = CLIENT_V6 else {
            unreachable!("an IPv6 address");
        };
        let mut octets = address.octets();
        octets[byte] ^= 0x02;
        let mut other = first.clone();
        other.source = octets.into();
        assert_eq!(filter.run(&other.frame())?.0, Reason::RateLimit, "{byte}");
    }
    Ok(())
}

#[test]
fn c13_vlan_tags_come_back_with_the_reply() -> Result<()> {
    let (vlan, service) = ([0x81, 0x00, 0x60, 0x05], [0x88, 0xa8, 0x00, 0x64]);
    let priority = [0x81, 0x00, 0xe0, 0x00];
    let mut filter = Filter::refusing()?;
    let stacks = [
        vec![],
        vec![vlan],
        vec![priority],
        vec![service, vlan],
        vec![vlan, vlan],
    ];
    for (number, tags) in stacks.into_iter().enumerate() {
        let four = base(&format!("a{number}"));
        let six = base_v6(&format!("b{number}"));
        for mut datagram in [
            Datagram::new(5062, four.as_bytes()),
            Datagram::new_v6(5062, six.as_bytes()),
        ] {
            datagram.tags.clone_from(&tags);
            // The oracle wants the tags of the request.
            refusal(&mut filter, &datagram).with_context(|| format!("{tags:?}"))?;
        }
    }
    let mut three = Datagram::new(5062, base("c1").as_bytes());
    three.tags = vec![vlan; 3];
    passes(&mut filter, &three, Reason::Unrelated)
}

#[test]
fn a_tagged_reply_may_be_longer_than_the_mtu_by_its_tags() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let mut tagged = Datagram::new(5062, base("a1").as_bytes());
    let length = filter.refusal(&tagged)?.1.len() as u32 + 42;
    tagged.tags = vec![[0x81, 0x00, 0x00, 0x05]];
    filter.max_frame(length)?;
    refusal(&mut filter, &tagged)?;
    filter.max_frame(length - 1)?;
    assert_eq!(filter.run(&tagged.frame())?.0, Reason::Unanswerable);
    Ok(())
}

#[test]
fn ipv4_options_are_no_hiding_place_and_are_not_answered_with() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let options = [
        vec![148, 4, 0, 0],
        vec![1, 1, 1, 0],
        vec![7, 39, 4].into_iter().chain([0; 37]).collect(),
    ];
    for (number, option) in options.into_iter().enumerate() {
        let mut datagram = Datagram::new(5062, base(&format!("a{number}")).as_bytes());
        datagram.options = vec![(0, option)];
        refusal(&mut filter, &datagram)?;
    }
    Ok(())
}

#[test]
fn r3261_18_1b_extension_headers_are_walked_within_a_bound() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let chains: [&[u8]; 6] = [
        &[0],
        &[60],
        &[43],
        &[0, 60],
        &[0, 43, 60],
        &[60, 60, 60, 60],
    ];
    for (number, chain) in chains.into_iter().enumerate() {
        let mut datagram = Datagram::new_v6(5062, base_v6(&format!("a{number}")).as_bytes());
        datagram.options = chain.iter().map(|kind| extension(*kind)).collect();
        refusal(&mut filter, &datagram).with_context(|| format!("{chain:?}"))?;
    }
    let mut datagram = Datagram::new_v6(5062, base_v6("b1").as_bytes());
    datagram.options = vec![(0, [&[0, 3, 1, 28][..], &[0; 28]].concat())];
    refusal(&mut filter, &datagram)?;

    datagram.options = vec![extension(60); 5];
    passes(&mut filter, &datagram, Reason::ExtensionHeaders)?;
    let mut routed = extension(43);
    routed.1[3] = 1;
    datagram.options = vec![routed];
    passes(&mut filter, &datagram, Reason::ExtensionHeaders)?;
    for kind in [6, 50, 51, 58, 59, 139] {
        datagram.options = vec![extension(kind)];
        passes(&mut filter, &datagram, Reason::Unrelated)?;
    }
    // An extension header that claims to reach beyond the packet.
    datagram.options = vec![(0, vec![0, 255, 1, 4, 0, 0, 0, 0])];
    passes(&mut filter, &datagram, Reason::Unrelated)
}

#[test]
fn c12_fragments_pass_over_both_families() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let body = "v".repeat(1300);
    let text = edit(&base_v6("a1"), "Content-Length: 0\r\n\r\n", "");
    let text = format!("{text}Content-Length: 1300\r\n\r\n{body}");
    for (offset, more) in [(0u16, 1u16), (1280, 0), (0, 0)] {
        let mut datagram = Datagram::new_v6(5062, text.as_bytes());
        let mut fragment = extension(44);
        fragment.1[2..4].copy_from_slice(&(offset | more).to_be_bytes());
        datagram.options = vec![fragment.clone()];
        passes(&mut filter, &datagram, Reason::Fragment)?;
        datagram.options = vec![extension(60), fragment];
        passes(&mut filter, &datagram, Reason::Fragment)?;
        let mut frame = Datagram::new(5062, text.as_bytes()).frame();
        frame[20..22].copy_from_slice(&(offset / 8 | more << 13).to_be_bytes());
        if offset | more != 0 {
            assert_eq!(filter.run(&frame)?.0, Reason::Fragment);
        }
    }
    Ok(())
}

#[test]
fn a_frame_above_one_page_is_judged_and_answered() -> Result<()> {
    let mut filter = Filter::refusing()?;
    filter.max_frame(9014)?;
    for size in [3000usize, 5000, 8500] {
        let text = edit(&base(&format!("a{size}")), "Content-Length: 0\r\n\r\n", "");
        let text = format!("{text}Content-Length: {size}\r\n\r\n{}", "v".repeat(size));
        let four = Datagram::new(5062, text.as_bytes());
        let (reason, outcome) = filter.run(&four.frame())?;
        assert_eq!(reason, Reason::RateLimit, "{size}");
        let reply =
            Datagram::read(&outcome.frame).map_err(|error| anyhow::anyhow!("{size}: {error:?}"))?;
        assert_eq!(reply.destination, CLIENT);
    }
    Ok(())
}

#[test]
fn lengths_that_contradict_each_other_pass() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let six = Datagram::new_v6(5062, base_v6("a1").as_bytes()).frame();
    let udp_length = six.len() as u16 - 54;
    for (at, value) in [
        (18, udp_length + 1),
        (18, 0),
        (18, 7),
        (18, udp_length - 1),
        (58, udp_length + 1),
        (58, 7),
        (58, 0),
    ] {
        let mut frame = six.clone();
        frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
        let (reason, outcome) = filter.run(&frame)?;
        assert_eq!(reason, Reason::BadLength, "{at} {value}");
        assert_eq!(outcome.action, Action::Pass);
    }
    // Ethernet may pad, and IP may be longer than UDP.
    let mut padded = six;
    padded.extend([0; 6]);
    let (reason, _) = filter.run(&padded)?;
    assert_eq!(reason, Reason::RateLimit);
    Ok(())
}

#[test]
fn sources_that_must_not_be_answered_over_ipv6_are_dropped() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (number, source) in ["::", "::1", "::ffff:192.0.2.9", "ff02::1", "2001:db8::1"]
        .into_iter()
        .enumerate()
    {
        let mut datagram = Datagram::new_v6(5062, base_v6(&format!("a{number}")).as_bytes());
        datagram.source = source.parse()?;
        let (reason, outcome) = filter.run(&datagram.frame())?;
        assert_eq!(reason, Reason::Martian, "{source}");
        assert_eq!(outcome.action, Action::Drop);
    }
    let mut local = Datagram::new_v6(5062, base_v6("b1").as_bytes());
    local.source = "fe80::9".parse()?;
    refusal(&mut filter, &local)?;
    Ok(())
}

#[test]
fn an_address_of_the_other_family_with_the_same_last_bytes_is_not_ours() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let mut datagram = Datagram::new_v6(5062, base_v6("a1").as_bytes());
    for address in ["2001:db8::c000:201", "2001:db9::1", "2001:db8:1::1"] {
        datagram.destination = address.parse()?;
        passes(&mut filter, &datagram, Reason::Unrelated)?;
    }
    Ok(())
}

#[test]
fn c14_checksums_over_ipv6_are_right_at_every_length() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for length in 0..120 {
        let name = "x".repeat(length);
        let text = edit(
            &base_v6(&format!("a{length}")),
            "<sip:alice@example.com>",
            &format!("{name}<sip:alice@example.com>"),
        );
        refusal(&mut filter, &Datagram::new_v6(5062, text.as_bytes()))?;
    }
    Ok(())
}
