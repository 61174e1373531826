//! Counts each packet once, under its one reason.

use aya_ebpf::bindings::xdp_action::XDP_PASS;
use overload_common::abi::{Event, Reason};

use crate::maps::{EVENTS, REASONS};

#[inline(always)]
fn count(reason: u32, shadow: bool) {
    if let Some(counter) = REASONS.get_ptr_mut(reason) {
        // SAFETY: this CPU's own entry.
        unsafe {
            if shadow {
                (*counter).shadow += 1;
            } else {
                (*counter).enforced += 1;
            }
        }
    }
}

/// Hands the packet to the host.
#[inline(always)]
pub fn pass(reason: Reason) -> u32 {
    pass_raw(reason as u32)
}

/// Hands the packet to the host, with a reason out of a stage.
#[inline(always)]
pub fn pass_raw(reason: u32) -> u32 {
    count(reason, false);
    XDP_PASS
}

/// Counts a verdict that is carried out.
#[inline(always)]
pub fn enforced(reason: u32) {
    count(reason, false);
}

/// Counts a verdict that is not carried out, and hands the packet to the host.
#[inline(always)]
pub fn shadow(reason: u32) -> u32 {
    count(reason, true);
    XDP_PASS
}

/// Counts something that happened beside the verdict.
#[inline(always)]
pub fn event(event: Event) {
    if let Some(counter) = EVENTS.get_ptr_mut(event as u32) {
        // SAFETY: this CPU's own entry.
        unsafe { *counter += 1 };
    }
}
