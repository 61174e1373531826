//! Programs of the benchmark, never shipped: the packet filter beside what it is compared with.
//!
//! A repeated test run hands a program the packet it has just rewritten. [`bench_filter`] therefore
//! puts a fresh packet in its place first; [`bench_feed`] does only that, and is subtracted.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch, core_intrinsics)]
#![expect(
    internal_features,
    reason = "BPF has no other way to an atomic compare-and-exchange"
)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "an entry point takes its context by value"
)]

mod clock;
mod ingress;
mod kernel;
mod maps;
mod scratch;

use aya_ebpf::{
    bindings::xdp_action::{XDP_DROP, XDP_PASS},
    btf_maps::{Array, PerCpuArray},
    helpers::generated::{bpf_xdp_adjust_tail, bpf_xdp_load_bytes, bpf_xdp_store_bytes},
    macros::{btf_map, xdp},
    programs::XdpContext,
};
use overload_common::sip::swar;

use crate::{
    kernel::opaque,
    scratch::{SCAN_MAX, Work},
};

/// Bytes of every fed frame: Ethernet, IPv4, UDP and a datagram of 741 bytes.
const FRAME: usize = 783;
/// Room of a packet in [`PACKETS`].
const PACKET: usize = 784;
const PACKETS_MAX: usize = 102_400;
/// Offset of the UDP payload.
const PAYLOAD: usize = 42;

/// Which packet comes next, and how it is made a new transaction.
#[repr(C)]
struct Feed {
    /// Entry of [`PACKETS`] that comes next.
    cursor: u32,
    /// Entries in use.
    count: u32,
    /// Number that is written into branch and Call-ID, eight hexadecimal digits.
    serial: u32,
    /// What is added to it after each packet.
    step: u32,
    /// Offset of the digits in the branch.
    branch: u32,
    /// Offset of the digits in the Call-ID.
    call_id: u32,
}

#[btf_map]
static FEED: Array<Feed, 1> = Array::new();

#[btf_map]
static PACKETS: Array<[u8; PACKET], PACKETS_MAX> = Array::new();

/// Refusals that reached [`bench_sink`].
#[btf_map]
static REFUSALS: PerCpuArray<u64, 1> = PerCpuArray::new();

/// The packet filter, as it is shipped.
#[xdp]
fn overload_ingress(ctx: XdpContext) -> u32 {
    ingress::run(&ctx)
}

/// The floor of everything.
#[xdp]
fn overload_pass(_ctx: XdpContext) -> u32 {
    XDP_PASS
}

/// The floor of everything that reads a whole message: copies it to scratch and looks for line feeds,
/// eight bytes a step. Returns the number of other bytes, the zeros that fill the last word included.
#[xdp]
fn bench_scan(ctx: XdpContext) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let length = (ctx.data_end() - ctx.data()) as u32 - PAYLOAD as u32;
    let bounded = (opaque(length.wrapping_sub(1)) & 4095) + 1;
    // SAFETY: at most 4,096 bytes into a buffer of 4,160.
    let failed =
        unsafe { bpf_xdp_load_bytes(ctx.ctx, PAYLOAD as u32, work.bytes().cast(), bounded) };
    if failed != 0 {
        return 0;
    }
    work.clear(bounded);
    let mut others = 0;
    for word in 0..SCAN_MAX / 8 {
        if word * 8 >= bounded {
            break;
        }
        let unequal = swar::unequal(work.word(word * 8), b'\n') & swar::HIGH;
        others += (unequal >> 7).wrapping_mul(swar::ONES) >> 56;
    }
    others as u32
}

/// Feeds a packet and runs the filter on it.
#[xdp]
fn bench_filter(ctx: XdpContext) -> u32 {
    if !feed(&ctx) {
        return XDP_DROP;
    }
    ingress::run(&ctx)
}

/// Feeds a packet.
#[xdp]
fn bench_feed(ctx: XdpContext) -> u32 {
    if !feed(&ctx) {
        return XDP_DROP;
    }
    XDP_PASS
}

/// Takes refusals off the client's end and counts them.
#[xdp]
fn bench_sink(ctx: XdpContext) -> u32 {
    let (data, end) = (ctx.data(), ctx.data_end());
    if data + PAYLOAD + 12 > end {
        return XDP_PASS;
    }
    // SAFETY: the bytes are within the packet.
    let (first, second) = unsafe {
        let start = data + PAYLOAD;
        (
            (start as *const u64).read_unaligned(),
            ((start + 8) as *const u32).read_unaligned(),
        )
    };
    if first == u64::from_le_bytes(*b"SIP/2.0 ")
        && second == u32::from_le_bytes(*b"503 ")
        && let Some(count) = REFUSALS.get_ptr_mut(0)
    {
        // SAFETY: this CPU's own entry.
        unsafe { *count += 1 };
    }
    XDP_DROP
}

/// Replaces the packet by the next one of [`PACKETS`], with its own transaction.
#[inline(always)]
#[expect(clippy::cast_possible_wrap, reason = "a frame is shorter than a page")]
fn feed(ctx: &XdpContext) -> bool {
    let Some(feed) = FEED.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: a live map value that one CPU uses.
    let (packet, digits, branch, call_id) = unsafe {
        let cursor = (*feed).cursor;
        let next = cursor + 1;
        (*feed).cursor = if next < (*feed).count { next } else { 0 };
        let serial = (*feed).serial;
        (*feed).serial = serial.wrapping_add((*feed).step);
        let Some(packet) = PACKETS.get_ptr_mut(cursor) else {
            return false;
        };
        (packet, hexadecimal(serial), (*feed).branch, (*feed).call_id)
    };
    // Always one shrink and one growth, so that what the filter left costs feed and filter the same.
    let frame = (ctx.data_end() - ctx.data()) as i32;
    // SAFETY: helpers on the context; the packet's buffer has room for a page.
    unsafe {
        let shorter = PAYLOAD as i32;
        if bpf_xdp_adjust_tail(ctx.ctx, shorter - frame) != 0
            || bpf_xdp_adjust_tail(ctx.ctx, FRAME as i32 - shorter) != 0
            || bpf_xdp_store_bytes(ctx.ctx, 0, packet.cast(), FRAME as u32) != 0
        {
            return false;
        }
        let digits = (&raw const digits).cast_mut().cast();
        bpf_xdp_store_bytes(ctx.ctx, branch, digits, 8) == 0
            && bpf_xdp_store_bytes(ctx.ctx, call_id, digits, 8) == 0
    }
}

/// Eight hexadecimal digits, the highest first.
#[inline(always)]
fn hexadecimal(number: u32) -> u64 {
    let mut nibbles = u64::from(number.swap_bytes());
    nibbles = (nibbles | nibbles << 16) & 0x0000_ffff_0000_ffff;
    nibbles = (nibbles | nibbles << 8) & 0x00ff_00ff_00ff_00ff;
    // The high half of each byte is written first.
    nibbles = (nibbles >> 4 | nibbles << 8) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = (nibbles + 0x0606_0606_0606_0606) >> 4 & swar::ONES;
    nibbles + swar::ONES * u64::from(b'0') + letters * u64::from(b'a' - b'0' - 10)
}

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 4] = *b"GPL\0";
