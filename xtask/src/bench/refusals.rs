//! Refusals a second of CPU time: of the filter by itself, of the filter on a cable, of Kamailio.

use std::{
    fmt, fs,
    net::UdpSocket,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use aya::programs::{TestRun, TestRunAttrs, TestRunOptions};
use overload_common::abi::Reason;
use overload_tests::{CLIENT, HOST, HOST_INTERFACE, Lab, Process};

use super::{
    cpu,
    filter::{FED_FILTER, FILTER, Filter, Limit},
    lab::{Poller, attach, attach_sink, sunk},
    message::{self, PORT},
};

/// Frames that the kernel hands to the program at once, as a driver does.
const BATCH: u32 = 64;
/// Packets that are fed in turn, as many as a driver's ring holds.
const RING: u32 = 256;
/// Requests of one flood; a multiple of the batch.
const FLOOD_MAX: u32 = BATCH << 18;
/// Requests that wait for their answer from Kamailio.
const WINDOW: u32 = 32;

/// What one of them did.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Requests refused.
    pub refused: u64,
    /// Of these, answers that reached the client.
    pub answered: u64,
    /// CPU time of what refused.
    pub cpu: Duration,
    /// Time that passed.
    pub elapsed: Duration,
}

impl Rate {
    /// Refusals a second of CPU time.
    pub fn per_core_second(&self) -> f64 {
        self.refused as f64 / self.cpu.as_secs_f64()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} refused, {:.1} % of the answers arrived, {:.2} s CPU in {:.2} s",
            self.refused,
            self.answered as f64 / self.refused as f64 * 100.0,
            self.cpu.as_secs_f64(),
            self.elapsed.as_secs_f64()
        )
    }
}

/// The filter on frames made by the kernel: a test run whose answers leave by a real interface.
pub fn live_frames(filter: &mut Filter, runs: u32) -> Result<Rate> {
    let lab = Lab::without_peer_program()?;
    attach_sink(filter, &lab)?;
    filter.limit(Limit::RefusesAll)?;
    let feed = filter.new_transactions(0, RING, runs);
    filter.feed(feed)?;
    let frame = message::frame(&message::invite(0));
    let (before, sunk_before) = (filter.counters()?, sunk(filter)?);
    let program = filter.sandbox().program(FED_FILTER)?;
    let (cpu, elapsed) = lab.host.enter(|| {
        cpu::pin_self(cpu::MEASURED)?;
        let index = interface_index()?;
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
        let mut context = [0u8; 24];
        context[4..8].copy_from_slice(&(frame.len() as u32).to_ne_bytes());
        context[12..16].copy_from_slice(&index.to_ne_bytes());
        let (started, cpu) = (Instant::now(), cpu::own_time()?);
        program.test_run(TestRunOptions {
            data_in: Some(&frame),
            ctx_in: Some(&context),
            repeat: runs,
            attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
            ..TestRunOptions::new()
        })?;
        Ok((cpu::own_time()?.saturating_sub(cpu), started.elapsed()))
    })?;
    let after = filter.counters()?;
    before.require(&after, runs, &[Reason::RateLimit])?;
    thread::sleep(Duration::from_millis(100));
    Ok(Rate {
        refused: before.since(&after, Reason::RateLimit),
        answered: sunk(filter)? - sunk_before,
        cpu,
        elapsed,
    })
}

fn interface_index() -> Result<u32> {
    // Not /sys: that is the main thread's namespace.
    let name = std::ffi::CString::new(HOST_INTERFACE)?;
    nix::net::if_::if_nametoindex(name.as_c_str()).context("the host's interface")
}

/// The filter on the host's end of a cable, which a flood comes in by.
pub fn cable(filter: &mut Filter, lasts: Duration) -> Result<Rate> {
    let lab = Lab::without_peer_program()?;
    attach_sink(filter, &lab)?;
    attach(filter, FILTER, &lab.host, HOST_INTERFACE)?;
    let poller = Poller::start(&lab.host, HOST_INTERFACE, cpu::MEASURED)?;
    filter.limit(Limit::RefusesAll)?;
    let (before, sunk_before) = (filter.counters()?, sunk(filter)?);
    let (started, cpu) = (Instant::now(), poller.time()?);
    let first = filter.new_serials(FLOOD_MAX);
    let sent = lab.client.enter(|| flood(first, lasts))?;
    let elapsed = started.elapsed();
    // What is still in the cable's ring is refused too.
    thread::sleep(Duration::from_millis(100));
    let cpu = poller.time()?.saturating_sub(cpu);
    let after = filter.counters()?;
    let refused = before.since(&after, Reason::RateLimit);
    let others = before.others_since(&after, &[Reason::RateLimit]);
    ensure!(
        refused > 0 && refused <= sent && others.is_empty(),
        "{refused} of {sent} requests were refused, others {others:?}"
    );
    Ok(Rate {
        refused,
        answered: sunk(filter)? - sunk_before,
        cpu,
        elapsed,
    })
}

/// Sends new INVITEs as fast as one CPU can; gives their number.
fn flood(first: u32, lasts: Duration) -> Result<u64> {
    cpu::pin_self(cpu::TRAFFIC)?;
    let socket = client_socket()?;
    let mut requests = Requests::from(first)?;
    let (started, mut sent) = (Instant::now(), 0);
    while started.elapsed() < lasts && sent < FLOOD_MAX {
        for _ in 0..BATCH {
            socket.send(requests.next())?;
        }
        sent += BATCH;
    }
    Ok(u64::from(sent))
}

/// Kamailio's memory manager.
#[derive(Clone, Copy, Debug)]
pub enum Allocator {
    /// What it takes by itself: it finds misuse of memory and is slow.
    Default,
    /// The fastest it has.
    Tlsf,
}

/// Kamailio, which answers everything with a stateless 503. No more requests are under way than fit its
/// socket: none is received in vain, which is the best case of its cost. The kernel's work up to that
/// socket runs on the sender's back and is not counted.
pub fn kamailio(allocator: Allocator, lasts: Duration) -> Result<Rate> {
    let lab = Lab::without_peer_program()?;
    let proxy = start_kamailio(&lab, allocator)?;
    let time = || -> Result<Duration> {
        let group = cpu::group(proxy.pid())?;
        ensure!(!group.is_empty(), "Kamailio has ended:\n{}", proxy.log());
        group.into_iter().map(cpu::task_time).sum()
    };
    // Warm-up.
    lab.client
        .enter(|| converse(Duration::from_millis(300)))
        .with_context(|| proxy.log())?;
    let (started, cpu) = (Instant::now(), time()?);
    let refused = lab.client.enter(|| converse(lasts))?;
    Ok(Rate {
        refused,
        answered: refused,
        cpu: time()?.saturating_sub(cpu),
        elapsed: started.elapsed(),
    })
}

fn start_kamailio(lab: &Lab, allocator: Allocator) -> Result<Process> {
    const LIMIT: Duration = Duration::from_secs(10);
    let file = lab.directory().join("stateless.cfg");
    let runtime = lab.directory().join("stateless.run");
    fs::create_dir(&runtime)?;
    fs::write(&file, configuration()).with_context(|| format!("write {}", file.display()))?;
    let mut command: Command = lab.host.command("taskset");
    command
        .args(["--cpu-list", &cpu::MEASURED.to_string()])
        .args(["kamailio", "-DD", "-E", "-m", "64", "-M", "8", "-f"])
        .arg(&file)
        .arg("-Y")
        .arg(&runtime);
    if matches!(allocator, Allocator::Tlsf) {
        // Private and shared memory.
        command.args(["-x", "tlsf", "-X", "tlsf"]);
    }
    let mut process = Process::start(command, "stateless", lab.directory())?;
    process.wait_for_log("ready", LIMIT)?;
    lab.host.wait_for_port(PORT)?;
    Ok(process)
}

fn configuration() -> String {
    format!(
        r#"
debug=0
log_stderror=yes
children=1
disable_tcp=yes
auto_aliases=no
dns=no
rev_dns=no
listen=udp:{HOST}:{PORT}
loadmodule "sl.so"
loadmodule "xlog.so"
request_route {{
    sl_send_reply("503", "Service Unavailable");
}}
event_route[core:worker-one-init] {{
    xlog("L_ALERT", "ready\n");
}}
"#
    )
}

/// Sends new INVITEs, [`WINDOW`] at a time, and counts their refusals.
fn converse(lasts: Duration) -> Result<u64> {
    cpu::pin_self(cpu::TRAFFIC)?;
    let socket = client_socket()?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut requests = Requests::from(0)?;
    let mut answer = [0; 2048];
    let (started, mut refused) = (Instant::now(), 0);
    while started.elapsed() < lasts {
        for _ in 0..WINDOW {
            socket.send(requests.next())?;
        }
        for _ in 0..WINDOW {
            let length = socket.recv(&mut answer).context("an answer is missing")?;
            ensure!(
                answer[..length].starts_with(b"SIP/2.0 503 "),
                "not a refusal: {}",
                String::from_utf8_lossy(&answer[..length])
            );
            refused += 1;
        }
    }
    Ok(refused)
}

fn client_socket() -> Result<UdpSocket> {
    let socket = UdpSocket::bind(format!("{CLIENT}:{PORT}")).context("bind the client")?;
    socket.connect(format!("{HOST}:{PORT}"))?;
    Ok(socket)
}

const HEXADECIMAL: &[u8; 16] = b"0123456789abcdef";

/// INVITEs of the same length, each a transaction of its own.
struct Requests {
    message: Vec<u8>,
    digits: [usize; 2],
    number: u32,
}

impl Requests {
    fn from(number: u32) -> Result<Self> {
        let message = message::invite(0);
        let digits = message::digits(&message).context("an INVITE without digits")?;
        Ok(Self {
            digits: digits.map(|at| at as usize - message::HEADERS),
            message: message.into_bytes(),
            number,
        })
    }

    fn next(&mut self) -> &[u8] {
        // Not by a formatter: the sender is what limits the flood.
        for (shift, digit) in (0..32).step_by(4).rev().zip(0..) {
            let value = HEXADECIMAL[self.number as usize >> shift & 15];
            for at in self.digits {
                self.message[at + digit] = value;
            }
        }
        self.number = self.number.wrapping_add(1);
        &self.message
    }
}

#[cfg(test)]
mod tests {
    use super::Requests;

    #[test]
    fn requests_are_numbered_in_branch_and_call_id() {
        let mut requests = Requests::from(0x0fed_cba9).expect("an INVITE has digits");
        let first = String::from_utf8_lossy(requests.next()).into_owned();
        assert!(first.contains("branch=z9hG4bK0fedcba9"), "{first}");
        assert!(first.contains("\r\nCall-ID: 0fedcba9-"), "{first}");
        let second = String::from_utf8_lossy(requests.next()).into_owned();
        assert!(second.contains("branch=z9hG4bK0fedcbaa"), "{second}");
    }
}
