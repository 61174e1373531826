//! The packet's way, one file a stage:
//! frame -> datagram -> scan -> examine (via, transaction, memory; to, target, source) -> judge (number, bucket) ->
//! reply, account.

mod account;
mod bucket;
mod datagram;
mod examine;
mod frame;
mod judge;
mod memory;
mod number;
mod reply;
mod scan;
mod source;
mod target;
mod to;
mod transaction;
mod via;

use aya_ebpf::{
    bindings::xdp_action::{XDP_DROP, XDP_TX},
    programs::XdpContext,
};
use overload_common::{
    abi::{Mode, Reason},
    sip::Method,
};

use crate::scratch::{Work, get};

/// What a stage says: go on, or the packet's reason.
///
/// Stages are global functions, which the kernel verifies once each and which return a number.
pub const GO_ON: u32 = u32::MAX;

/// A reason as a stage's answer.
#[inline(always)]
pub const fn stop(reason: Reason) -> u32 {
    reason as u32
}

/// Runs the stages and carries the verdict out.
#[inline(always)]
pub fn run(ctx: &XdpContext) -> u32 {
    let frame = match frame::parse(ctx) {
        Ok(frame) => frame,
        Err(reason) => return account::pass(reason),
    };
    let request = match datagram::classify(&frame) {
        Ok(request) => request,
        Err(reason) => return account::pass(reason),
    };
    let Some(work) = Work::here() else {
        return account::pass(Reason::Unconfigured);
    };
    if let Err(reason) = datagram::copy(ctx, work, &frame, &request) {
        return account::pass(reason);
    }
    let answer = scan::scan_headers();
    if answer != GO_ON {
        return account::pass_raw(answer);
    }
    if get!(work, meta.method) == Method::Ack as u32 {
        return acknowledge(frame.mode);
    }
    let remembered = examine::examine();
    if remembered != GO_ON && remembered != stop(Reason::RefusedCopy) {
        return carry_out(ctx, frame.mode, remembered);
    }
    let answer = examine::examine_first();
    if answer != GO_ON {
        return account::pass_raw(answer);
    }
    if remembered != GO_ON {
        return carry_out(ctx, frame.mode, remembered);
    }
    carry_out(ctx, frame.mode, judge::judge())
}

/// An ACK is absorbed when it answers a refusal of ours, and passes otherwise.
#[inline(always)]
fn acknowledge(mode: Mode) -> u32 {
    if examine::examine_ack() != GO_ON || examine::examine() != stop(Reason::OwnAck) {
        return account::pass(Reason::Ack);
    }
    if mode == Mode::Shadow {
        return account::shadow(Reason::OwnAck as u32);
    }
    account::enforced(Reason::OwnAck as u32);
    XDP_DROP
}

/// Turns a reason into what happens to the packet, and counts it.
#[inline(always)]
fn carry_out(ctx: &XdpContext, mode: Mode, reason: u32) -> u32 {
    let shadow = mode == Mode::Shadow;
    if reason < Reason::RateLimit as u32 {
        return account::pass_raw(reason);
    }
    if shadow {
        return account::shadow(reason);
    }
    if reason <= Reason::RefusedCopy as u32 {
        let failed = reply::refuse(ctx.ctx);
        if failed == GO_ON {
            account::enforced(reason);
            return XDP_TX;
        }
        account::enforced(failed);
        return XDP_DROP;
    }
    account::enforced(reason);
    XDP_DROP
}

/// What passes without being judged keeps its verdict whatever the mode.
const _: () = assert!((Reason::AdmittedCopy as u32) < Reason::RateLimit as u32);
const _: () = assert!(Reason::RateLimit as u32 + 2 == Reason::RefusedCopy as u32);
