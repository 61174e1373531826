//! The packet's way, one file a stage:
//! frame -> datagram -> scan -> examine (to, via, target) -> transaction -> judge -> reply, account.

mod account;
mod datagram;
mod examine;
mod frame;
mod judge;
mod memory;
mod reply;
mod scan;
mod target;
mod to;
mod transaction;
mod via;

use aya_ebpf::{
    bindings::xdp_action::{XDP_DROP, XDP_TX},
    programs::XdpContext,
};
use overload_common::abi::{Mode, Reason};

use crate::scratch::Work;

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
    let request = match datagram::classify(ctx, &frame) {
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
    let answer = examine::examine();
    if answer != GO_ON {
        return carry_out(ctx, frame.mode, answer);
    }
    let answer = judge::judge();
    carry_out(ctx, frame.mode, answer)
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
