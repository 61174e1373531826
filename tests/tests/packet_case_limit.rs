//! Limits over time, by a clock that the test moves.

use anyhow::Result;
use overload_common::{abi::Reason, admit::gcra};
use overload_ctl::datapath::sandbox::Action;
use overload_tests::packet::{Datagram, Filter, Random, base};

const SECOND: u64 = 1_000_000_000;

/// Offers new calls at the given times; gives the times of those admitted.
struct Load {
    filter: Filter,
    calls: u32,
}

impl Load {
    fn new(rate: f64, burst: f64) -> Result<Self> {
        let filter = Filter::limited(rate, burst)?;
        Ok(Self { filter, calls: 0 })
    }

    fn offer(&mut self, ns: u64) -> Result<bool> {
        self.filter.at(ns)?;
        self.calls += 1;
        let call = format!("n{}", self.calls);
        let frame = Datagram::new(5062, base(&call).as_bytes()).frame();
        Ok(self.filter.flood(&frame)? == Action::Pass)
    }

    fn admitted(&mut self, times: impl Iterator<Item = u64>) -> Result<u64> {
        let mut admitted = 0;
        for ns in times {
            admitted += u64::from(self.offer(ns)?);
        }
        Ok(admitted)
    }
}

#[test]
fn a_limit_is_rate_times_time_plus_burst() -> Result<()> {
    for (rate, burst) in [(10u32, 1.0), (100, 20.0), (333, 10.0), (2000, 40.0)] {
        let mut load = Load::new(f64::from(rate), burst)?;
        // Five times the rate, for two seconds and their last instant.
        let step = SECOND / u64::from(rate) / 5;
        let admitted = load.admitted((0..=2 * SECOND / step).map(|n| n * step))?;
        let most = 2.0 * f64::from(rate) + burst;
        assert!(admitted as f64 <= most, "{admitted} of {most}");
        assert!(admitted as f64 > most - 2.0, "{admitted} of {most}");
        let counters = load.filter.counters()?;
        assert_eq!(counters.offered, u64::from(load.calls));
        assert_eq!(counters.admitted, admitted);
        assert_eq!(counters.refused, counters.offered - admitted);
    }
    Ok(())
}

#[test]
fn a_burst_is_admitted_at_once_and_no_more() -> Result<()> {
    for burst in [1u32, 2, 10, 33] {
        let mut load = Load::new(50.0, f64::from(burst))?;
        assert_eq!(load.admitted((0..100).map(|_| 0))?, u64::from(burst));
        // One token a fiftieth of a second later.
        assert_eq!(load.admitted((0..10).map(|_| SECOND / 50))?, 1);
        // After a long silence the burst, not more.
        assert_eq!(
            load.admitted((0..100).map(|_| 100 * SECOND))?,
            u64::from(burst)
        );
    }
    Ok(())
}

#[test]
fn c18_a_client_that_never_acknowledges() -> Result<()> {
    let mut filter = Filter::limited(0.1, 1.0)?;
    filter.expect(base("first"), Reason::WithinLimit)?;
    let request = Datagram::new(5062, base("a1").as_bytes());
    let (_, first) = filter.run(&request.frame())?;
    assert_eq!(first.action, Action::Transmit);
    for ms in [500, 1500, 3500, 7500, 15_500, 31_500] {
        filter.at_ms(ms)?;
        let (reason, copy) = filter.run(&request.frame())?;
        assert_eq!(reason, Reason::RefusedCopy);
        assert_eq!(copy.frame, first.frame);
    }
    let counters = filter.counters()?;
    assert_eq!((counters.offered, counters.refused), (2, 1));
    // The token that came meanwhile is there.
    filter.expect(base("last"), Reason::WithinLimit)
}

#[test]
fn c19_the_limit_is_per_second() -> Result<()> {
    let mut load = Load::new(10.0, 10.0)?;
    assert_eq!(load.admitted((0..100).map(|n| n * SECOND / 10))?, 100);
    let mut load = Load::new(10.0, 10.0)?;
    let admitted = load.admitted((0..100).map(|n| n * SECOND / 100))?;
    // The last comes 10 ms before the second ends: 10 + burst, less the token of that moment.
    assert_eq!(admitted, 19);
    assert_eq!(load.admitted(std::iter::once(SECOND))?, 1);
    Ok(())
}

#[test]
fn c20_refused_requests_are_no_traffic() -> Result<()> {
    let (rate, burst) = (50u64, 10u64);
    let mut load = Load::new(rate as f64, burst as f64)?;
    let overload = load.admitted((0..60 * 3 * rate).map(|n| n * SECOND / (3 * rate)))?;
    assert!(overload <= 60 * rate + burst, "{overload}");
    assert!(overload >= 60 * rate + burst - 2, "{overload}");
    // At 0.9 of the rate, all are admitted from one burst interval on; here from the first.
    let start = 60 * SECOND;
    let interval = burst * SECOND / rate;
    let mut refused_late = 0;
    for n in 0..10 * rate * 9 / 10 {
        let ns = start + n * SECOND * 10 / (rate * 9);
        let admitted = load.offer(ns)?;
        refused_late += u32::from(!admitted && ns > start + interval);
    }
    assert_eq!(refused_late, 0);
    Ok(())
}

#[test]
fn c21_the_default_burst_bears_natural_arrivals() -> Result<()> {
    const SEED: u64 = 21;
    const EVENTS: u32 = 100_000;
    let rate = 250.0;
    let mut load = Load::new(rate, gcra::default_burst(rate))?;
    let mut random = Random::new(SEED);
    let (mut ns, mut refused) = (0, 0);
    for _ in 0..EVENTS {
        ns += random.exponential_ns(0.6 * rate);
        refused += u32::from(!load.offer(ns)?);
    }
    // One in a thousand is the bound we give; a queue of ten at 60 % load overflows far less often.
    assert!(
        refused < EVENTS / 1000,
        "seed {SEED}: {refused} of {EVENTS}"
    );
    assert_eq!(load.filter.counters()?.refused, u64::from(refused));
    // The same arrivals and hardly any burst: the test can tell.
    let mut load = Load::new(rate, 2.0)?;
    let mut random = Random::new(SEED);
    let (mut ns, mut refused) = (0, 0);
    for _ in 0..EVENTS / 10 {
        ns += random.exponential_ns(0.6 * rate);
        refused += u32::from(!load.offer(ns)?);
    }
    assert!(refused > EVENTS / 10 / 100, "{refused}");
    Ok(())
}

#[test]
fn c21_five_messages_of_a_call_arrive_in_a_millisecond() -> Result<()> {
    let rate = 250.0;
    let mut load = Load::new(rate, gcra::default_burst(rate))?;
    // 20 calls a second, two at a time.
    let times = (0..2000u64).map(|n| n / 10 * SECOND / 10 + n % 10 * SECOND / 10_000);
    assert_eq!(load.admitted(times)?, 2000);
    Ok(())
}

#[test]
fn c22_a_clock_that_goes_back_gives_nothing_away() -> Result<()> {
    let mut load = Load::new(10.0, 5.0)?;
    assert_eq!(load.admitted((0..20).map(|_| 10 * SECOND))?, 5);
    // Small skew over CPUs: no time has passed.
    let skewed = [9_999_000_000, 10_000_000_000, 9_000_000_000, 0];
    assert_eq!(load.admitted(skewed.into_iter().cycle().take(40))?, 0);
    // The level is what it was: the next token comes when it would have come.
    assert_eq!(load.admitted([10_099_000_000].into_iter())?, 0);
    assert_eq!(load.admitted([10_100_000_000].into_iter())?, 1);
    // Two days later, as after a suspend, the burst and no more.
    assert_eq!(load.admitted((0..20).map(|_| 172_800 * SECOND))?, 5);
    Ok(())
}
