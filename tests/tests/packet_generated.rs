//! Messages made by grammar and damaged, against the oracle's predictions: verdict, reason and every byte
//! of each reply. `OVERLOAD_MESSAGES` sets how many, `OVERLOAD_SEED` from which seed.

use std::{
    collections::{HashMap, HashSet},
    env,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use overload_common::abi::{Mode, Reason, Verdict};
use overload_tests::packet::{
    Datagram, Filter, Generated, Judged, Prediction, Random, State, Stream, acknowledge, generate,
    mutate, sanitised, templates,
};

/// Messages of a run of all tests.
const MESSAGES: u64 = 100_000;
const SEED: u64 = 0x5eed_0bad_5119;
/// Messages between two comparisons of all counters. The clock then moves beyond the filter's memory.
const ROUND: u64 = 4_096;
/// Filters, each on a thread of its own.
const THREADS: u64 = 2;
/// Longest message that fits the frame of a test run, bytes.
const LENGTH_MAX: usize = 3_300;
/// Time from one message to the next.
const SPACING_NS: u64 = 20_000_000;
/// Time between rounds, in which the filter forgets.
const PAUSE_NS: u64 = 40_000_000_000;
/// Limit of the filter that admits some: a second, and at once.
const RATE: u64 = 5;
const BURST: u64 = 20;

fn setting(name: &str, default: u64) -> Result<u64> {
    match env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text}")),
        Err(_) => Ok(default),
    }
}

/// One message of a run.
struct Sample {
    datagram: Datagram,
    frame: Vec<u8>,
    /// As made by grammar, undamaged.
    generated: Option<Generated>,
    /// A length field states more than there is.
    overlong: bool,
}

/// Message number `number`: alone from its number and the seed, so that it can be made again.
fn sample(seed: u64, number: u64) -> Sample {
    let mut random = Random::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut generated = None;
    let mut bytes = if random.one_in(20) {
        other(number, &mut random)
    } else if random.one_in(10) {
        let template = templates();
        let template = &template[random.below(template.len())];
        sanitised(mutate(template.as_bytes(), &mut random))
    } else {
        let message = generate(number, &mut random);
        if random.one_in(2) {
            sanitised(mutate(&message.bytes, &mut random))
        } else {
            generated.insert(message).bytes.clone()
        }
    };
    if bytes.len() > LENGTH_MAX {
        bytes.truncate(LENGTH_MAX);
        generated = None;
    }
    let mut datagram = addressed(&bytes, &mut random);
    let mut frame = datagram.frame();
    // Behind the datagram stands what Ethernet needs, or a lie about its length.
    if random.one_in(50) {
        frame.extend((0..random.below(30)).map(|_| b'x'));
    }
    if random.one_in(30) && !bytes.is_empty() {
        let length = random.below(bytes.len());
        let ip = if datagram.source.is_ipv4() { 20 } else { 40 };
        let at = 14 + 4 * datagram.tags.len() + ip + 4;
        frame[at..at + 2].copy_from_slice(&(8 + length as u16).to_be_bytes());
        datagram.payload.truncate(length);
        generated = None;
    }
    let overlong = random.one_in(60);
    if overlong {
        let ip = if datagram.source.is_ipv4() { 2 } else { 4 };
        let at = 14 + 4 * datagram.tags.len() + ip;
        let length = u16::from_be_bytes([frame[at], frame[at + 1]]);
        let more = (frame.len() as u16 + 1 + random.below(9000) as u16).max(length);
        frame[at..at + 2].copy_from_slice(&more.to_be_bytes());
    }
    Sample {
        datagram,
        frame,
        generated,
        overlong,
    }
}

/// What else comes to the port: responses, STUN, keep-alives, noise.
fn other(number: u64, random: &mut Random) -> Vec<u8> {
    let noise: Vec<u8> = (0..random.below(90))
        .map(|_| random.next_u64() as u8)
        .collect();
    match random.below(5) {
        0 => [&b"\0\x01\0\0\x21\x12\xa4\x42"[..], &noise].concat(),
        1 => random
            .pick(&["\r\n", "\0", " ", "\n"])
            .repeat(random.below(40))
            .into_bytes(),
        2 => noise,
        _ => {
            let request = generate(number, random).bytes;
            let line = request
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap_or_default();
            let version = random.pick(&["SIP/2.0", "SIP/2.0", "SIP/3.0", "sip/2.0"]);
            let status = format!("{version} {} Reason\r\n", random.below(800));
            [status.as_bytes(), &request[line + 1..]].concat()
        }
    }
}

/// From somewhere to the protected host, over either IP, with or without VLAN tags.
fn addressed(payload: &[u8], random: &mut Random) -> Datagram {
    let port = 1024 + random.below(64_512) as u16;
    let mut datagram = if random.one_in(3) {
        Datagram::new_v6(port, payload)
    } else {
        Datagram::new(port, payload)
    };
    let odd = random.one_in(30);
    datagram.source = match datagram.source {
        _ if odd && random.one_in(2) => datagram.destination,
        IpAddr::V4(_) if odd => Ipv4Addr::new(random.pick(&[0, 127, 224, 255]), 0, 0, 1).into(),
        IpAddr::V6(_) if odd => {
            Ipv6Addr::new(random.pick(&[0, 0xff02]), 0, 0, 0, 0, 0, 0, 1).into()
        }
        IpAddr::V4(_) => Ipv4Addr::new(198, 51, 100, random.below(256) as u8).into(),
        IpAddr::V6(_) => {
            let group =
                |random: &mut Random| random.next_u64() as u16 & random.pick(&[0, 0xff, 0xffff]);
            let [a, b, c, d] = [0; 4].map(|_: u16| group(random));
            Ipv6Addr::new(0x2001, 0xdb8, 7, a, b, c, d, 1 + random.below(9) as u16).into()
        }
    };
    if random.one_in(10) {
        datagram.tags = vec![[0x81, 0x00, 0x00, 0x05]; 1 + random.below(2)];
    }
    datagram
}

/// The filters a message goes through.
struct Bench {
    refusing: Stream,
    limited: Stream,
    shadow: Stream,
    /// Transactions of this round.
    known: HashSet<Vec<u8>>,
    /// Time since the start, and that of the last round, ns.
    now: u64,
    round: u64,
    figures: Figures,
}

/// What a run amounted to.
#[derive(Debug, Default)]
struct Figures {
    messages: u64,
    packets: u64,
    replies: u64,
    absorbed: u64,
    admitted: u64,
    /// Undamaged messages that the filter may pass because of a bound.
    spared: u64,
    undamaged: u64,
}

impl Bench {
    fn new() -> Result<Self> {
        let mut shadow = Filter::refusing()?;
        shadow.mode(Mode::Shadow)?;
        Ok(Self {
            refusing: Stream::new(Filter::refusing()?)?,
            limited: Stream::new(Filter::limited(RATE as f64, BURST as f64)?)?,
            shadow: Stream::new(shadow)?,
            known: HashSet::new(),
            now: 0,
            round: 0,
            figures: Figures::default(),
        })
    }

    /// Compares all counters, and lets the filters forget.
    fn round(&mut self) -> Result<()> {
        for stream in [&self.refusing, &self.limited, &self.shadow] {
            stream.audit()?;
        }
        let counters = self.limited.filter.counters()?;
        let admitted = counters.admitted - self.figures.admitted;
        let most = BURST + RATE * (self.now - self.round) / 1_000_000_000;
        ensure!(
            admitted <= most,
            "{admitted} admitted since the last round, {most} allowed"
        );
        self.figures.admitted = counters.admitted;
        self.known.clear();
        self.now += PAUSE_NS;
        self.round = self.now;
        Ok(())
    }

    fn message(&mut self, number: u64, seed: u64) -> Result<()> {
        let sample = sample(seed, number);
        self.now += SPACING_NS;
        self.refusing.filter.at(self.now)?;
        if sample.overlong {
            self.figures.messages += 1;
            let (reason, _) = self
                .refusing
                .run(&sample.frame, &[Reason::BadLength], false)?;
            ensure!(
                reason == Reason::BadLength,
                "{reason:?} of {:?}",
                sample.datagram
            );
            return Ok(());
        }
        let known = key(&sample).is_some_and(|key| !self.known.insert(key));
        let judged: &[Reason] = if known {
            &[Reason::RefusedCopy, Reason::RateLimit]
        } else {
            &[Reason::RateLimit]
        };
        let Sample {
            datagram,
            frame,
            generated,
            ..
        } = &sample;
        let first = self
            .refusing
            .send_frame(frame, datagram, &State::new(judged))?;
        if let Some(generated) = generated {
            self.check_generated(generated, &first)?;
        }
        self.figures.messages += 1;
        if let Some(reply) = &first.reply {
            self.figures.replies += 1;
            if number.is_multiple_of(8) {
                self.copy_and_ack(&sample, &first.prediction, reply)?;
            }
        }
        if number.is_multiple_of(4) {
            self.admit(&sample)?;
        }
        if number.is_multiple_of(16) {
            self.shadow.filter.at(self.now)?;
            let state = State {
                shadow: true,
                ..State::new(&[Reason::RateLimit, Reason::RefusedCopy])
            };
            self.shadow.send_frame(frame, datagram, &state)?;
        }
        Ok(())
    }

    /// Generator and oracle were written apart: they agree on what is wrong, and so does the filter.
    fn check_generated(&mut self, generated: &Generated, judged: &Judged) -> Result<()> {
        self.figures.undamaged += 1;
        let text = String::from_utf8_lossy(&generated.bytes);
        let spared = judged
            .prediction
            .reading
            .as_ref()
            .is_some_and(|reading| !reading.spared.is_empty());
        self.figures.spared += u64::from(spared && generated.fault.is_none());
        match generated.fault {
            Some(reason) => ensure!(
                judged.reason == reason || spared,
                "{:?} instead of {reason:?} for {text}",
                judged.reason
            ),
            None => ensure!(
                spared
                    || judged.reason.verdict() == Verdict::Refuse
                    || judged.reason.verdict() == Verdict::Drop,
                "{:?} for {text}",
                judged.reason
            ),
        }
        Ok(())
    }

    /// The same datagram gets the same answer, and the answer's ACK goes no further.
    fn copy_and_ack(
        &mut self,
        sample: &Sample,
        prediction: &Prediction,
        reply: &str,
    ) -> Result<()> {
        let Sample {
            datagram, frame, ..
        } = sample;
        let before = self.refusing.frame().to_vec();
        self.refusing
            .send_frame(frame, datagram, &State::new(&[Reason::RefusedCopy]))?;
        ensure!(
            self.refusing.frame() == before,
            "another answer to a copy of {datagram:?}"
        );
        let Some(ack) = prediction
            .reading
            .as_ref()
            .and_then(|reading| acknowledge(reading, reply))
        else {
            return Ok(());
        };
        let ack = Datagram {
            payload: ack,
            ..datagram.clone()
        };
        let (reason, _) = self.refusing.run(&ack.frame(), &[Reason::OwnAck], false)?;
        ensure!(
            reason == Reason::OwnAck,
            "{reason:?} for {:?}",
            String::from_utf8_lossy(&ack.payload)
        );
        self.figures.absorbed += 1;
        Ok(())
    }

    /// A limit that admits some: copies of both are told.
    fn admit(&mut self, sample: &Sample) -> Result<()> {
        let Sample {
            datagram, frame, ..
        } = sample;
        self.limited.filter.at(self.now)?;
        let all = [
            Reason::WithinLimit,
            Reason::RateLimit,
            Reason::RefusedCopy,
            Reason::AdmittedCopy,
            Reason::SurplusCopy,
        ];
        let state = State {
            recalled: true,
            ..State::new(&all)
        };
        let first = self.limited.send_frame(frame, datagram, &state)?;
        let then: &[Reason] = match first.reason {
            Reason::WithinLimit | Reason::AdmittedCopy | Reason::SurplusCopy => {
                &[Reason::SurplusCopy]
            }
            Reason::RateLimit | Reason::RefusedCopy => &[Reason::RefusedCopy],
            _ => return Ok(()),
        };
        let (reason, _) = self.limited.run(frame, then, false)?;
        ensure!(
            then.contains(&reason),
            "{reason:?} for a copy after {:?} of {datagram:?}",
            first.reason
        );
        Ok(())
    }
}

/// What names a request's transaction, source and target.
fn key(sample: &Sample) -> Option<Vec<u8>> {
    overload_tests::packet::transaction(&sample.datagram)
}

fn run(thread: u64, messages: u64, seed: u64) -> Result<(Figures, HashMap<Reason, u64>)> {
    let mut bench = Bench::new()?;
    let mut faults = Vec::new();
    for (count, number) in (thread..messages).step_by(THREADS as usize).enumerate() {
        if (count as u64).is_multiple_of(ROUND) {
            bench.round()?;
        }
        if let Err(fault) = bench.message(number, seed) {
            faults.push(format!("message {number}: {fault:#}"));
            ensure!(
                faults.len() < 60,
                "{} faults:\n{}",
                faults.len(),
                faults.join("\n\n")
            );
        }
    }
    bench.round()?;
    ensure!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n\n")
    );
    let streams = [&bench.refusing, &bench.limited, &bench.shadow];
    bench.figures.packets = streams.iter().map(|stream| stream.total()).sum();
    let mut reasons = HashMap::new();
    for (reason, count) in streams.iter().flat_map(|stream| stream.reasons()) {
        *reasons.entry(reason).or_default() += count;
    }
    Ok((bench.figures, reasons))
}

#[test]
fn generated_and_damaged_messages_meet_the_oracle() -> Result<()> {
    let messages = setting("OVERLOAD_MESSAGES", MESSAGES)?;
    let seed = setting("OVERLOAD_SEED", SEED)?;
    let start = Instant::now();
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || run(thread, messages, seed)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread that does not panic"))
            .collect()
    });
    let mut reasons: HashMap<Reason, u64> = HashMap::new();
    let mut figures = Figures::default();
    for result in results {
        let (part, counts) = result?;
        figures.messages += part.messages;
        figures.packets += part.packets;
        figures.replies += part.replies;
        figures.absorbed += part.absorbed;
        figures.admitted += part.admitted;
        figures.spared += part.spared;
        figures.undamaged += part.undamaged;
        for (reason, count) in counts {
            *reasons.entry(reason).or_default() += count;
        }
    }
    println!("{figures:?} in {:?}", start.elapsed());
    for reason in Reason::ALL {
        println!(
            "{:>10}  {}",
            reasons.get(reason).unwrap_or(&0),
            reason.name()
        );
    }
    assert_eq!(figures.messages, messages);
    // The messages reach all parts of the filter: most are answered, few are beyond a bound.
    assert!(figures.replies > messages / 4, "{figures:?}");
    assert!(figures.absorbed > messages / 100, "{figures:?}");
    assert!(figures.spared * 20 < figures.undamaged, "{figures:?}");
    assert!(reasons.len() > 30, "{reasons:?}");
    Ok(())
}
