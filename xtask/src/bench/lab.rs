//! Two namespaces and a cable, arranged for measuring: what is measured has a CPU of its own.

use std::{process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use aya::programs::xdp::XdpMode;
use nix::unistd::Pid;
use overload_tests::{CLIENT_INTERFACE, Lab, Namespace, run};

use super::{
    cpu,
    filter::{Filter, SINK},
};

/// A kernel thread that polls one interface.
#[derive(Clone, Copy, Debug)]
pub struct Poller(Pid);

impl Poller {
    /// Gives the interface a thread of its own and keeps it on one CPU. The interface polls when
    /// it has an XDP program.
    pub fn start(namespace: &Namespace, interface: &str, on: usize) -> Result<Self> {
        let prefix = format!("napi/{interface}-");
        let before = cpu::named(&prefix)?;
        // This command, unlike others of the lab, sees the namespace's own /sys.
        run(Command::new("ip")
            .args(["netns", "exec", namespace.name(), "sh", "-c"])
            .arg(format!("echo 1 > /sys/class/net/{interface}/threaded")))?;
        let new: Vec<Pid> = cpu::named(&prefix)?
            .into_iter()
            .filter(|task| !before.contains(task))
            .collect();
        ensure!(
            new.len() == 1,
            "{interface} is polled by {} kernel threads",
            new.len()
        );
        cpu::pin(new[0], on)?;
        Ok(Self(new[0]))
    }

    /// Its CPU time so far.
    pub fn time(self) -> Result<Duration> {
        cpu::task_time(self.0)
    }
}

/// Attaches a program natively; it goes with the filter's object.
pub fn attach(
    filter: &mut Filter,
    program: &'static str,
    namespace: &Namespace,
    interface: &str,
) -> Result<()> {
    let program = filter.sandbox().program(program)?;
    namespace.enter(|| {
        program
            .attach(interface, XdpMode::Driver)
            .with_context(|| format!("cannot attach to {interface}"))?;
        Ok(())
    })
}

/// Puts the counting sink on the client's end, polled on the senders' CPU.
pub fn attach_sink(filter: &mut Filter, lab: &Lab) -> Result<()> {
    attach(filter, SINK, &lab.client, CLIENT_INTERFACE)?;
    Poller::start(&lab.client, CLIENT_INTERFACE, cpu::TRAFFIC)?;
    Ok(())
}

/// Refusals that have reached the client's end.
pub fn sunk(filter: &mut Filter) -> Result<u64> {
    let counts: Vec<u64> = filter.sandbox().per_cpu("REFUSALS", 0)?;
    Ok(counts.iter().sum())
}
