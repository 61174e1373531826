//! A refusal that travels back through the protected proxy itself.

use std::time::Duration;

use anyhow::{Context, Result};
use overload_tests::{
    CLIENT, Capture, Config, Controller, Destination, HOST_INTERFACE, Kamailio, Lab, Reply,
    Request, Route,
};

/// The call is admitted, goes out to a second proxy, and comes back for another destination that is full.
/// The filter refuses that second pass; the refusal reaches the caller through both proxies, which keep no
/// state, with our tag in it. The caller's own ACK has the first branch: it belongs to the first proxy, and
/// is absorbed only when it comes back as the second proxy's.
#[test]
fn r3261_8_2_7_1_spiral_the_callers_own_ack_passes() -> Result<()> {
    let lab = Lab::new()?;
    lab.add_client_address("192.0.2.11")?;
    let config = Config::new(&[
        Destination::host("first", "first.example.net", 100.0, 20),
        Destination::host("second", "second.example.net", 0.0, 10),
    ]);
    let controller = Controller::start(&lab, &config)?;
    let server = "192.0.2.1:5060";
    let loop_back = "192.0.2.11:5060";
    let outward = Route::Stateless(loop_back);
    let first = Kamailio::start(&lab, &lab.host, "first", server, outward)?;
    let back = Route::StatelessTo(server, "second.example.net");
    let second = Kamailio::start(&lab, &lab.client, "second", loop_back, back)?;
    let capture = Capture::start(&lab, &lab.host, HOST_INTERFACE, "host")?;

    let client = lab.client.bind(&format!("{CLIENT}:5060"))?;
    let invite = Request::invite("first.example.net", "spiral");
    client.send(invite.to_string(), server)?;
    let refusal = loop {
        let (datagram, _) = client
            .receive(Duration::from_secs(5))?
            .context("no final answer")?;
        let reply = Reply::new(&datagram);
        if reply.status >= 200 {
            break reply;
        }
    };
    assert_eq!(refusal.status, 503, "{}", refusal.text);
    assert!(
        refusal.to_tag().is_some_and(|tag| tag.starts_with("olc")),
        "{}",
        refusal.text
    );
    client.send(invite.ack(&refusal).to_string(), server)?;

    let pcap = capture.stop()?;
    let own = "sip.Method == ACK && sip.Via.branch == \"z9hG4bK-spiral\" && ip.src == 192.0.2.10";
    assert_eq!(pcap.count(own)?, 1, "the caller's ACK did not pass");
    // The INVITE's second pass was refused; the ACK's second pass is the ACK to that refusal.
    let returned = pcap.fields("ip.src == 192.0.2.11 && sip.Method", &["sip.Method"])?;
    assert_eq!(returned, [[""; 0]; 0]);
    for proxy in [&first, &second] {
        let requests = proxy.requests();
        assert_eq!(requests.len(), 2, "{requests:?}");
        assert!(requests[0].starts_with("INVITE "), "{requests:?}");
        assert!(requests[1].starts_with("ACK "), "{requests:?}");
    }
    let status = controller.status()?;
    assert_eq!((status.reason("ack")?, status.reason("own_ack")?), (1, 1));
    assert_eq!(status.destination("first")?.admitted, 1);
    assert_eq!(status.destination("second")?.refused, 1);
    Ok(())
}
