//! A request over a veth pair whose reply comes back: the driver's own way through the program.

use std::{os::fd::AsFd, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use nix::{
    net::if_::if_nametoindex,
    sched::{CloneFlags, unshare},
};
use overload_common::abi::Reason;
use overload_ctl::datapath::{
    interface::AttachMode,
    link::{Link, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE},
    object::{INGRESS, PASS},
    sandbox::Sandbox,
};
use overload_tests::{
    packet::{Datagram, Filter, base, check_reply, edit, sdp},
    run,
};

use crate::wire::Wire;

const HOST: &str = "host0";
/// Named by the kernel: not every `ip` can name both ends.
const PEER: &str = "veth0";
const WITHIN: Duration = Duration::from_secs(10);

/// A veth pair in a network namespace of this process alone, which ends with it.
pub struct Pair {
    host: u32,
    peer: u32,
    wire: Wire,
}

impl Pair {
    /// Makes the namespace and the pair.
    pub fn create() -> Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET).context("make a network namespace")?;
        run(Command::new("ip").args(["link", "add", HOST, "type", "veth"]))?;
        for end in [HOST, PEER] {
            run(Command::new("ip").args(["link", "set", end, "up"]))?;
        }
        let peer = if_nametoindex(PEER).context(PEER)?;
        Ok(Self {
            host: if_nametoindex(HOST).context(HOST)?,
            peer,
            wire: Wire::open(peer)?,
        })
    }

    /// Attaches both programs in this mode, the filter at the host's end, and has one request refused.
    pub fn exchange(&mut self, filter: &mut Filter, mode: AttachMode) -> Result<()> {
        let _links = [
            attach(&mut filter.sandbox, INGRESS, self.host, mode)?,
            // A veth's other end takes frames that a driver sends back only with a program of its own.
            attach(&mut filter.sandbox, PASS, self.peer, mode)?,
        ];
        filter.reset()?;
        filter.limit(0.0, 1.0)?;
        let text = edit(
            &base(mode.name()),
            "Content-Length: 0",
            &format!("Content-Length: {}", sdp().len()),
        );
        let request = Datagram::new(5062, (text + sdp()).as_bytes());
        let refused = filter.sandbox.reason(Reason::RateLimit)?;
        self.wire.send(&request.frame())?;
        let reply = self.wire.receive(b"SIP/2.0 ", WITHIN)?;
        check_reply(&request, &reply, 1514).map_err(anyhow::Error::msg)?;
        let counted = filter.sandbox.reason(Reason::RateLimit)? - refused;
        ensure!(counted == 1, "{counted} requests refused, not one");
        Ok(())
    }
}

fn attach(
    sandbox: &mut Sandbox,
    name: &'static str,
    ifindex: u32,
    mode: AttachMode,
) -> Result<Link> {
    let flags = match mode {
        AttachMode::Native => XDP_FLAGS_DRV_MODE,
        AttachMode::Generic => XDP_FLAGS_SKB_MODE,
    };
    let program = sandbox.program(name)?.fd()?;
    Link::create(program.as_fd(), ifindex, flags).with_context(|| format!("attach {name}"))
}
