//! A copy of a known request gets the verdict of its first copy (RFC 3261 8.2.7).

use std::net::Ipv4Addr;

use anyhow::Result;
use overload_common::abi::{ADMITTED_WAYS, Event, MEMORY_BUCKETS, REFUSED_WAYS, Reason};
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{Datagram, Filter, base, edit, tag};

/// Transmissions of an INVITE over UDP, ms after the first (RFC 3261 17.1.1.2).
const INVITE_TIMES: [u64; 7] = [0, 500, 1500, 3500, 7500, 15_500, 31_500];
/// Transmissions of another request (RFC 3261 17.1.2.2).
const OTHER_TIMES: [u64; 11] = [
    0, 500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500,
];

fn options(call: &str) -> String {
    base(call).replace("INVITE", "OPTIONS")
}

#[test]
fn r3261_8_2_7_4_a_refused_request_stays_refused_when_there_are_tokens() -> Result<()> {
    let mut filter = Filter::limited(10.0, 1.0)?;
    filter.expect(base("first"), Reason::WithinLimit)?;
    let request = Datagram::new(5062, base("second").as_bytes());
    let (reason, first) = filter.refusal(&request)?;
    assert_eq!(reason, Reason::RateLimit);
    // Half a second is worth five requests.
    filter.at_ms(500)?;
    let (reason, again) = filter.refusal(&request)?;
    assert_eq!((reason, &again), (Reason::RefusedCopy, &first));
    filter.expect(base("third"), Reason::WithinLimit)?;
    assert_eq!(filter.counters()?.offered, 3);
    assert_eq!(filter.counters()?.refused, 1);
    Ok(())
}

#[test]
fn r3261_8_2_7_4_an_admitted_request_stays_admitted_and_costs_one_token() -> Result<()> {
    let mut filter = Filter::limited(0.1, 2.0)?;
    filter.expect(base("first"), Reason::WithinLimit)?;
    for ms in &INVITE_TIMES[1..4] {
        filter.at_ms(*ms)?;
        filter.expect(base("first"), Reason::AdmittedCopy)?;
    }
    // The second token is still there, a third is not.
    filter.expect(base("second"), Reason::WithinLimit)?;
    filter.expect(base("third"), Reason::RateLimit)?;
    filter.at_ms(INVITE_TIMES[4])?;
    filter.expect(base("first"), Reason::AdmittedCopy)?;
    let counters = filter.counters()?;
    assert_eq!((counters.offered, counters.admitted), (3, 2));
    Ok(())
}

fn passes_as_often_as_a_client_sends(request: &str, times: &[u64]) -> Result<()> {
    let mut filter = Filter::limited(1.0, 1.0)?;
    filter.expect(request, Reason::WithinLimit)?;
    for ms in &times[1..] {
        filter.at_ms(*ms)?;
        filter.expect(request, Reason::AdmittedCopy)?;
    }
    // One more within the life is none of a real client's.
    filter.at_ms(31_900)?;
    filter.expect(request, Reason::SurplusCopy)?;
    let slots = filter.sandbox.admitted_slots()?;
    assert_eq!(slots.len(), 1);
    assert_eq!(slots[0].copies as usize, times.len());
    assert_eq!(slots[0].controls, [7, u16::MAX, u16::MAX, u16::MAX]);
    Ok(())
}

#[test]
fn r3261_8_2_7_4_seven_copies_of_an_invite() -> Result<()> {
    passes_as_often_as_a_client_sends(&base("a1"), &INVITE_TIMES)
}

#[test]
fn r3261_8_2_7_4_eleven_copies_of_another_request() -> Result<()> {
    passes_as_often_as_a_client_sends(&options("a1"), &OTHER_TIMES)
}

#[test]
fn r3261_8_2_7_4_copies_nearer_than_250_ms_are_absorbed() -> Result<()> {
    let mut filter = Filter::limited(1.0, 1.0)?;
    filter.expect(base("a1"), Reason::WithinLimit)?;
    filter.expect(base("a1"), Reason::SurplusCopy)?;
    filter.at(249_999_999)?;
    filter.expect(base("a1"), Reason::SurplusCopy)?;
    filter.at_ms(250)?;
    filter.expect(base("a1"), Reason::AdmittedCopy)?;
    // An absorbed copy does not move the next one's time.
    filter.at_ms(450)?;
    filter.expect(base("a1"), Reason::SurplusCopy)?;
    filter.at_ms(500)?;
    filter.expect(base("a1"), Reason::AdmittedCopy)
}

#[test]
fn r3261_8_2_7_4_both_memories_last_32_seconds_from_the_first_copy() -> Result<()> {
    let mut filter = Filter::limited(0.001, 1.0)?;
    filter.expect(base("admitted"), Reason::WithinLimit)?;
    filter.expect(base("refused"), Reason::RateLimit)?;
    // Hits do not make the life longer.
    for ms in [16_000, 31_900] {
        filter.at_ms(ms)?;
        filter.expect(base("admitted"), Reason::AdmittedCopy)?;
        filter.expect(base("refused"), Reason::RefusedCopy)?;
    }
    filter.at_ms(32_100)?;
    filter.expect(base("admitted"), Reason::RateLimit)?;
    filter.expect(base("refused"), Reason::RateLimit)?;
    assert_eq!(filter.counters()?.offered, 4);
    assert_eq!(filter.event(Event::RefusedForgotten)?, 0);
    Ok(())
}

#[test]
fn r3261_8_2_7_4_a_request_in_both_memories_is_the_hosts() -> Result<()> {
    let mut filter = Filter::refusing()?;
    filter.expect(base("a1"), Reason::RateLimit)?;
    // Forgotten, and admitted; then the clock goes back to where the refusal was remembered.
    filter.at_ms(32_100)?;
    filter.limit(1.0, 1.0)?;
    filter.expect(base("a1"), Reason::WithinLimit)?;
    filter.at_ms(31_500)?;
    filter.expect(base("a1"), Reason::SurplusCopy)
}

#[test]
fn r3261_8_2_7_4_another_request_uri_or_source_is_another_request() -> Result<()> {
    let mut filter = Filter::limited(0.001, 1.0)?;
    filter.expect(base("a1"), Reason::WithinLimit)?;
    let uri = edit(&base("a1"), "INVITE sip:+1", "INVITE sip:+2");
    filter.expect(&uri, Reason::RateLimit)?;
    filter.expect(&uri, Reason::RefusedCopy)?;
    let mut source = Datagram::new(5062, base("a1").as_bytes());
    source.source = Ipv4Addr::new(192, 0, 2, 11).into();
    assert_eq!(filter.run(&source.frame())?.0, Reason::RateLimit);
    // Another port of the same host, as behind a translator that forgot, is the same client.
    let port = Datagram::new(5063, base("a1").as_bytes());
    assert_eq!(filter.run(&port.frame())?.0, Reason::SurplusCopy);
    Ok(())
}

#[test]
fn r3261_8_2_7_2_one_final_answer_for_each_copy_and_nothing_else() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let request = Datagram::new(5062, base("a1").as_bytes());
    for ms in INVITE_TIMES {
        filter.at_ms(ms)?;
        let (_, reply) = filter.refusal(&request)?;
        assert!(reply.starts_with("SIP/2.0 503 "));
    }
    // Time alone sends nothing: the filter runs only when a datagram comes.
    assert_eq!(filter.counters()?.offered, 1);
    Ok(())
}

#[test]
fn r6357_12_1b_copies_are_not_throttled_and_responses_not_targeted() -> Result<()> {
    let mut filter = Filter::limited(1.0, 1.0)?;
    filter.expect(base("a1"), Reason::WithinLimit)?;
    filter.expect(base("a2"), Reason::RateLimit)?;
    filter.at_ms(500)?;
    filter.expect(base("a1"), Reason::AdmittedCopy)?;
    filter.expect(base("a2"), Reason::RefusedCopy)?;
    let response = base("a3").replace(
        "INVITE sip:+15551230001@gw1.example.net SIP/2.0",
        "SIP/2.0 180 Ringing",
    );
    for _ in 0..20 {
        filter.expect(&response, Reason::Response1xx)?;
    }
    for (reason, count) in [
        (Reason::WithinLimit, 1),
        (Reason::RateLimit, 1),
        (Reason::AdmittedCopy, 1),
        (Reason::RefusedCopy, 1),
        (Reason::Response1xx, 20),
    ] {
        assert_eq!(filter.sandbox.reason(reason)?, count, "{reason:?}");
    }
    assert_eq!(filter.counters()?.offered, 2);
    Ok(())
}

#[test]
fn a_refusal_keeps_its_tag_over_a_change_of_keys() -> Result<()> {
    let mut filter = Filter::refusing()?;
    let old = filter.reply(base("old"))?;
    assert!(tag(&old).starts_with("olc0"));
    filter.sandbox.set_key_epoch(1)?;
    assert_eq!(filter.reply(base("old"))?, old);
    let new = filter.reply(base("new"))?;
    assert!(tag(&new).starts_with("olc1"));
    for (call, reply) in [("old", &old), ("new", &new)] {
        filter.expect(
            overload_tests::packet::ack(&base(call), reply),
            Reason::OwnAck,
        )?;
    }
    // Epochs have keys of their own: the same tag under the other digit is none of ours.
    let swapped = old.replace("olc0", "olc1");
    filter.expect(
        overload_tests::packet::ack(&base("old"), &swapped),
        Reason::Ack,
    )
}

#[test]
fn c24_full_tables_are_counted_and_limits_stay_exact() -> Result<()> {
    let mut filter = Filter::limited(0.001, 10.0)?;
    filter.rate(8, Some("filler.example.net"), 1e9, 1e9)?;
    let padding = |number: u64| {
        let text = base(&format!("f{number}")).replace("gw1.example.net", "filler.example.net");
        Datagram::new(5062, text.as_bytes()).frame()
    };
    // A third more admitted transactions than there are slots, chosen by the sender.
    let slots = (MEMORY_BUCKETS * ADMITTED_WAYS) as u64;
    let offered = slots * 4 / 3;
    for number in 0..offered {
        assert_eq!(filter.flood(&padding(number))?, Action::Pass);
    }
    let used = filter.sandbox.admitted_slots()?.len() as u64;
    let untracked = filter.event(Event::AdmittedUntracked)?;
    assert_eq!(used + untracked, offered);
    assert!(used > slots * 95 / 100, "{used}");
    // None that is live was overwritten: the first ones are all still copies.
    for number in 0..1000 {
        assert_eq!(filter.run(&padding(number))?.0, Reason::SurplusCopy);
    }
    // Later ones are copies too, unless they were counted as untracked.
    let mut anew = 0;
    for number in offered - 1000..offered {
        let (reason, _) = filter.run(&padding(number))?;
        assert!(matches!(reason, Reason::SurplusCopy | Reason::WithinLimit));
        anew += u64::from(reason == Reason::WithinLimit);
    }
    assert!(anew > 0 && anew < 1000, "{anew}");
    // The limit of another destination admits what it always does.
    let mut admitted = 0;
    for number in 0..100 {
        let request = Datagram::new(5062, base(&format!("x{number}")).as_bytes());
        admitted += u32::from(filter.flood(&request.frame())? == Action::Pass);
    }
    assert_eq!(admitted, 10);
    assert_eq!(filter.counters()?.refused, 90);

    // Refused ones displace each other: counted, and the copy is judged again.
    let slots = (MEMORY_BUCKETS * REFUSED_WAYS) as u64;
    let offered = 2 * slots;
    for number in 0..offered {
        let request = Datagram::new(5062, base(&format!("r{number}")).as_bytes());
        assert_eq!(filter.flood(&request.frame())?, Action::Transmit);
    }
    let forgotten = filter.event(Event::RefusedForgotten)?;
    let remembered = offered + 90 - forgotten;
    // Of n words thrown into m slots m * (1 - e^(-n/m)) are taken: one sender has all slots.
    let expected = slots as f64 * (1.0 - (-2f64).exp());
    assert!(
        (remembered as f64 - expected).abs() < expected / 100.0,
        "{remembered} of {slots}, expected {expected:.0}"
    );
    let mut judged_again = 0;
    for number in 0..1000 {
        let request = Datagram::new(5062, base(&format!("r{number}")).as_bytes());
        let (reason, _) = filter.refusal(&request)?;
        judged_again += u64::from(reason == Reason::RateLimit);
    }
    assert!(judged_again > 500, "{judged_again}");
    assert_eq!(filter.counters()?.refused, 90 + offered + judged_again);
    assert_eq!(filter.counters()?.admitted, 10);
    Ok(())
}

#[test]
fn c22_a_copy_is_known_though_the_clock_went_back() -> Result<()> {
    let mut filter = Filter::limited(0.001, 1.0)?;
    filter.sandbox.set_clock(10_000_000_000)?;
    filter.expect(base("admitted"), Reason::WithinLimit)?;
    filter.expect(base("refused"), Reason::RateLimit)?;
    for now in [9_999_000_000, 9_000_000_000, 10_000_000_000] {
        filter.sandbox.set_clock(now)?;
        filter.expect(base("admitted"), Reason::SurplusCopy)?;
        filter.expect(base("refused"), Reason::RefusedCopy)?;
    }
    assert_eq!(filter.counters()?.offered, 2);
    Ok(())
}
