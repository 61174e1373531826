//! Where the refusal goes (RFC 3261 18.2.2, RFC 3581 4).

use std::net::Ipv4Addr;

use anyhow::Result;
use overload_common::abi::Reason;
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{Datagram, Filter, base, edit};

const VIA: &str = "192.0.2.10:5060;branch=z9hG4bK-a1;rport\r\n";

/// The base message with another top Via, from 198.51.100.7 port 40000.
fn from_afar(via: &str) -> Datagram {
    let request = edit(&base("a1"), VIA, &format!("{via}\r\n"));
    let mut datagram = Datagram::new(40_000, request.as_bytes());
    datagram.source = Ipv4Addr::new(198, 51, 100, 7).into();
    datagram
}

/// Address and port the reply goes to, and those it comes from.
fn route(filter: &mut Filter, via: &str) -> Result<(Datagram, String)> {
    let request = from_afar(via);
    let (_, text) = filter.refusal(&request)?;
    let (_, outcome) = filter.run(&request.frame())?;
    let reply = Datagram::read(&outcome.frame).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    assert_eq!(reply.destination, request.source);
    Ok((reply, text))
}

#[test]
fn r3261_18_2_2_1_rport_goes_to_the_source_port() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for via in [
        "192.0.2.10:5070;branch=z9hG4bK-a1;rport",
        "192.0.2.10:5070;rport;branch=z9hG4bK-a1",
        "ua.example.com;branch=z9hG4bK-a1;RPORT=1",
    ] {
        assert_eq!(route(&mut filter, via)?.0.destination_port, 40_000, "{via}");
    }
    Ok(())
}

#[test]
fn r3261_18_2_2_1_without_rport_to_the_port_of_sent_by() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for (via, port) in [
        ("192.0.2.10:5070;branch=z9hG4bK-a1", 5070),
        ("192.0.2.10:1;branch=z9hG4bK-a1", 1),
        ("192.0.2.10:65535;branch=z9hG4bK-a1", 65_535),
        (
            "ua.example.com:5071;branch=z9hG4bK-a1;received=6.6.6.6",
            5071,
        ),
        ("[2001:db8::7]:5072;branch=z9hG4bK-a1", 5072),
    ] {
        assert_eq!(route(&mut filter, via)?.0.destination_port, port, "{via}");
    }
    Ok(())
}

#[test]
fn r3261_18_2_2_1_without_any_port_to_5060() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for via in [
        "192.0.2.10;branch=z9hG4bK-a1",
        "ua.example.com;branch=z9hG4bK-a1",
        "ua5070;branch=z9hG4bK-a1",
        "[2001:db8::5070];branch=z9hG4bK-a1",
    ] {
        assert_eq!(route(&mut filter, via)?.0.destination_port, 5060, "{via}");
    }
    Ok(())
}

/// RFC 3261 25.1 allows blanks around colon and semicolon. Passing them is right, and so is answering to
/// the port they name; another port is not.
#[test]
fn r3261_18_2_2_1_blanks_around_the_port_do_not_hide_it() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for via in [
        "192.0.2.10:5070 ;branch=z9hG4bK-a1",
        "192.0.2.10:5070\r\n ;branch=z9hG4bK-a1",
        "192.0.2.10: 5070;branch=z9hG4bK-a1",
        "192.0.2.10 :5070;branch=z9hG4bK-a1",
        "192.0.2.10 : 5070 ; branch=z9hG4bK-a1",
        "192.0.2.10:5070;branch=z9hG4bK-a1 ;x",
        "192.0.2.10:005070;branch=z9hG4bK-a1",
    ] {
        let request = from_afar(via);
        let (reason, outcome) = filter.run(&request.frame())?;
        if outcome.action == Action::Pass {
            assert_eq!(reason, Reason::BadVia, "{via}");
        } else {
            let reply = Datagram::read(&outcome.frame).expect("a datagram");
            assert_eq!(reply.destination_port, 5070, "{via}");
        }
    }
    Ok(())
}

#[test]
fn a_port_that_is_none_is_a_bad_via() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for via in [
        "192.0.2.10:65536;branch=z9hG4bK-a1",
        "192.0.2.10:99999;branch=z9hG4bK-a1",
        "192.0.2.10:4294972356;branch=z9hG4bK-a1",
        "192.0.2.10:12345678901234567890;branch=z9hG4bK-a1",
        "192.0.2.10:sip;branch=z9hG4bK-a1",
        "192.0.2.10:50x0;branch=z9hG4bK-a1",
        "192.0.2.10:;branch=z9hG4bK-a1",
    ] {
        let (reason, _) = filter.run(&from_afar(via).frame())?;
        assert_eq!(reason, Reason::BadVia, "{via}");
    }
    Ok(())
}

#[test]
fn r3581_4_2_the_reply_comes_from_where_the_request_went() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let (reply, text) = route(&mut filter, "192.0.2.10:5070;branch=z9hG4bK-a1;rport")?;
    let request = from_afar("192.0.2.10:5070;branch=z9hG4bK-a1;rport");
    assert_eq!(reply.source, request.destination);
    assert_eq!(reply.source_port, 5060);
    assert_eq!(reply.source_mac, request.destination_mac);
    assert_eq!(reply.destination_mac, request.source_mac);
    assert!(
        text.contains(";rport=40000;received=198.51.100.7\r\n"),
        "{text}"
    );
    Ok(())
}

#[test]
fn r3261_18_2_2_2_maddr_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for via in [
        "192.0.2.10;branch=z9hG4bK-a1;maddr=203.0.113.9",
        "192.0.2.10;maddr=224.0.1.75;ttl=16;branch=z9hG4bK-a1;rport",
        "192.0.2.10;branch=z9hG4bK-a1;MADDR=203.0.113.9;received=192.0.2.10",
        "192.0.2.10;branch=z9hG4bK-a1;maddr",
        "192.0.2.10;branch=z9hG4bK-a1 ; maddr = 203.0.113.9",
    ] {
        let (reason, _) = filter.run(&from_afar(via).frame())?;
        assert_eq!(reason, Reason::ViaMaddr, "{via}");
    }
    // In a lower Via it is the business of the proxy behind.
    let below = "192.0.2.10;branch=z9hG4bK-a1,SIP/2.0/UDP b;maddr=224.0.1.75;branch=z9hG4bK-b";
    filter.refusal(&from_afar(below))?;
    Ok(())
}

#[test]
fn r3261_18_2_2_4_another_transport_passes() -> Result<()> {
    let mut filter = Filter::refusing()?;
    for transport in ["TCP", "TLS", "SCTP", "WS", "UDPX", "UD", "DCCP"] {
        let via = format!("SIP/2.0/{transport} ");
        let request = edit(&base("a1"), "SIP/2.0/UDP ", &via);
        filter.expect(request, Reason::ViaTransport)?;
    }
    // The transport's case does not matter (RFC 3261 7.3.1).
    filter.reply(edit(&base("a1"), "SIP/2.0/UDP ", "sip/2.0/udp "))?;
    Ok(())
}
