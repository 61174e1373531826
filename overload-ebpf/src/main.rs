//! The packet filter: SIP requests that the host cannot serve are refused in the driver.
//!
//! Entry points only; the packet's way is the list of files in [`ingress`].
#![no_std]
#![no_main]
#![feature(asm_experimental_arch, core_intrinsics)]
#![expect(
    internal_features,
    reason = "BPF has no other way to an atomic compare-and-exchange"
)]
#![expect(
    missing_docs,
    clippy::needless_pass_by_value,
    reason = "the macro's entry point has no documentation, and takes its context by value"
)]

mod clock;
mod ingress;
mod kernel;
mod maps;
mod scratch;

use aya_ebpf::{bindings::xdp_action::XDP_PASS, macros::xdp, programs::XdpContext};

/// Judges what arrives on a protected interface.
#[xdp(frags)]
pub fn overload_ingress(ctx: XdpContext) -> u32 {
    ingress::run(&ctx)
}

/// Passes everything: makes the peer end of a veth pair accept `XDP_TX` frames, and is the floor of
/// the benchmark.
#[xdp]
pub fn overload_pass(_ctx: XdpContext) -> u32 {
    XDP_PASS
}

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 4] = *b"GPL\0";
