//! The 503, built in scratch and sent back where the request came from (RFC 3261 8.2.6, 18.2.2).
//!
//! It is at most 100 bytes longer than the request and never longer than the MTU allows, so that the
//! filter cannot be used to amplify; where that cannot be kept, the request is dropped.

use aya_ebpf::{
    bindings::xdp_md,
    helpers::generated::{
        bpf_csum_diff, bpf_xdp_adjust_tail, bpf_xdp_load_bytes, bpf_xdp_store_bytes,
    },
};
use overload_common::{abi::Reason, sip::Param};

use super::{GO_ON, examine, frame::PAYLOAD, stop, via};
use crate::{
    kernel::opaque,
    maps::{INTERFACE_SLOT, INTERFACES},
    scratch::{SCAN_MAX, SEGMENTS_MAX, Work, get, set},
};

/// What a reply may be longer than its request, bytes of UDP payload.
const GROWTH_MAX: u32 = 100;
/// Longest frame that is built, bytes.
const FRAME_MAX: u32 = 4096;
const OUT_MASK: u32 = 4095;
/// Bytes summed at once: old kernels sum 512 at most, and a rounded-up rest must fit the mask below.
const PIECE: u32 = 508;

const STATUS_LINE: &[u8; 33] = b"SIP/2.0 503 Service Unavailable\r\n";
const TRAILER: &[u8; 21] = b"Content-Length: 0\r\n\r\n";

/// Rewrites the packet into its refusal; [`GO_ON`] when it can be sent, else the reason to drop it.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn refuse(ctx: *mut xdp_md) -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unanswerable);
    };
    let port = reply_port(work);
    if is_martian(get!(work, meta.source), port) {
        return stop(Reason::Martian);
    }
    compose(ctx);
    let end = get!(work, walk.cursor);
    if finish_headers(ctx, port) != GO_ON {
        return stop(Reason::Unanswerable);
    }
    send(ctx, end)
}

/// Where the reply goes at the sender: its port with rport, else sent-by's, else 5060.
#[inline(always)]
fn reply_port(work: Work) -> u32 {
    if via::param(work, Param::Rport).0 != 0 {
        return get!(work, meta.source_port);
    }
    let end = get!(work, meta.sent_by_end);
    let (mut port, mut scale, mut digits) = (0u32, 1u32, 0u32);
    for back in 1..=6 {
        let byte = work.byte(end.wrapping_sub(back));
        let digit = u32::from(byte.wrapping_sub(b'0'));
        if digit <= 9 {
            port += digit * scale;
            scale *= 10;
            digits += 1;
        } else if byte == b':' && digits != 0 {
            return if port > 65_535 { 0 } else { port };
        } else {
            break;
        }
    }
    5060
}

/// Addresses and ports that must never be answered: 0/8, 127/8, multicast and above, echo, chargen.
#[inline(always)]
fn is_martian(source: u32, port: u32) -> bool {
    let first = source.to_ne_bytes()[0];
    first == 0 || first == 127 || first >= 224 || port == 0 || port == 7 || port == 19
}

/// Appends up to eight bytes to the reply.
#[inline(always)]
fn put(work: Work, word: u64, length: u32) {
    let at = get!(work, walk.cursor);
    // SAFETY: the mask keeps the write within `out`, which is longer than the mask by more than a word.
    unsafe {
        (&raw mut (*work.raw()).out)
            .cast::<u8>()
            .add((at & OUT_MASK) as usize)
            .cast::<u64>()
            .write_unaligned(word);
    }
    set!(work, at + length, walk.cursor);
}

/// Appends a constant text.
#[inline(always)]
fn put_text<const N: usize>(work: Work, text: &'static [u8; N]) {
    let mut at = 0;
    while at < N {
        let mut word = [0u8; 8];
        let mut i = 0;
        while i < 8 && at + i < N {
            word[i] = text[at + i];
            i += 1;
        }
        put(work, u64::from_le_bytes(word), i as u32);
        at += 8;
    }
}

/// Appends bytes of the request.
#[inline(always)]
fn put_copy(ctx: *mut xdp_md, work: Work, start: u32, end: u32) {
    if start >= end || end > SCAN_MAX {
        return;
    }
    let length = (opaque((end - start).wrapping_sub(1)) & 4095) + 1;
    let at = get!(work, walk.cursor);
    let offset = get!(work, meta.payload) + start;
    // SAFETY: at most 4,096 bytes from at most 4,095 into a buffer of 8,256.
    unsafe {
        let out = (&raw mut (*work.raw()).out)
            .cast::<u8>()
            .add((at & OUT_MASK) as usize);
        bpf_xdp_load_bytes(ctx, offset, out.cast(), length);
    }
    set!(work, at + (end - start), walk.cursor);
}

/// Appends a number below 100,000 in decimal.
#[inline(always)]
fn put_decimal(work: Work, number: u32) {
    let digits = [
        number / 10_000,
        number / 1000 % 10,
        number / 100 % 10,
        number / 10 % 10,
        number % 10,
    ];
    let mut word = 0u64;
    for (index, digit) in digits.into_iter().enumerate() {
        word |= u64::from(digit + u32::from(b'0')) << (8 * index);
    }
    let mut blanks = 0u32;
    for limit in [10_000, 1000, 100, 10] {
        if number < limit {
            blanks += 1;
        }
    }
    // Through memory: the verifier shall not follow five lengths.
    set!(work, blanks, walk.copied);
    let blanks = get!(work, walk.copied) & 7;
    put(work, word >> (8 * blanks), 5u32.wrapping_sub(blanks));
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_received() -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    put(work, u64::from_le_bytes(*b"received"), 8);
    put(work, u64::from(b'='), 1);
    for (index, byte) in get!(work, meta.source)
        .to_ne_bytes()
        .into_iter()
        .enumerate()
    {
        if index != 0 {
            put(work, u64::from(b'.'), 1);
        }
        put_decimal(work, u32::from(byte));
    }
    0
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_rport() -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    put(work, u64::from_le_bytes(*b"rport=\0\0"), 6);
    put_decimal(work, get!(work, meta.source_port));
    0
}

/// Appends the copied lines, with received and rport in the top Via and the tag in To.
///
/// The copied pieces are cut at up to four places, in the order they stand: three in the top Via (two
/// parameters that are replaced, and the value's end), and one at the end of To, which may stand before.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn compose(ctx: *mut xdp_md) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    set!(work, PAYLOAD, walk.cursor);
    set!(work, 0, walk.state);
    put_text(work, STATUS_LINE);
    let count = get!(work, walk.segments);
    for index in 0..SEGMENTS_MAX {
        if index as u32 >= count {
            break;
        }
        let segment = get!(work, segments[index]);
        put_segment(ctx, segment >> 16, segment & 0xffff);
    }
    put_text(work, TRAILER);
    0
}

/// Appends one piece of the header section, edited.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_segment(ctx: *mut xdp_md, start: u32, end: u32) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    set!(work, start, walk.start);
    for _ in 0..4 {
        let from = get!(work, walk.start);
        let edit = next_edit(from, end);
        if edit == 0 {
            break;
        }
        let kind = (edit >> 32) as u32;
        let (cut, resume) = ((edit >> 16) as u32 & 0xffff, edit as u32 & 0xffff);
        put_copy(ctx, work, from, cut);
        put_edit(kind);
        // An insertion is not found a second time, as edits are looked for past their place.
        set!(work, resume, walk.start);
        set!(work, get!(work, walk.state) | 1 << (kind & 7), walk.state);
    }
    put_copy(ctx, work, get!(work, walk.start), end);
    0
}

const EDIT_RPORT: u32 = 1;
const EDIT_RECEIVED: u32 = 2;
const EDIT_VIA_END: u32 = 3;
const EDIT_TO: u32 = 4;

/// The first edit at or after `from` and before `end`: kind, where the copy stops, where it resumes.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn next_edit(from: u32, end: u32) -> u64 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let mut best = 0u64;
    let mut best_at = u32::MAX;
    let done = get!(work, walk.state);
    let rport = via::param(work, Param::Rport);
    let received = via::param(work, Param::Received);
    let via_end = get!(work, meta.via_end);
    let to = get!(work, meta.to_tag);
    if rport.0 != 0 && rport.1 >= from && rport.1 < end {
        best_at = rport.1;
        best = edit(EDIT_RPORT, rport.1, rport.2);
    }
    if received.0 != 0 && received.1 >= from && received.1 < end && received.1 < best_at {
        best_at = received.1;
        best = edit(EDIT_RECEIVED, received.1, received.2);
    }
    if received.0 == 0
        && done & 1 << EDIT_VIA_END == 0
        && via_end >= from
        && via_end < end
        && via_end < best_at
    {
        best_at = via_end;
        best = edit(EDIT_VIA_END, via_end, via_end);
    }
    if done & 1 << EDIT_TO == 0 && to >= from && to < end && to < best_at {
        best = edit(EDIT_TO, to, to);
    }
    best
}

#[inline(always)]
fn edit(kind: u32, cut: u32, resume: u32) -> u64 {
    u64::from(kind) << 32 | u64::from(cut) << 16 | u64::from(resume)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_edit(kind: u32) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    match kind {
        EDIT_RPORT => {
            put_rport();
        }
        EDIT_RECEIVED => {
            put_received();
        }
        EDIT_VIA_END => {
            put(work, u64::from(b';'), 1);
            put_received();
        }
        _ => {
            put(work, u64::from_le_bytes(*b";tag=\0\0\0"), 5);
            let tag = examine::own_tag(get!(work, meta.transaction), get!(work, meta.epoch));
            put(work, tag.first, 8);
            put(work, tag.second, 8);
            put(work, u64::from(tag.third), 4);
        }
    }
    0
}

/// Writes Ethernet, IPv4 and UDP headers with checksums from scratch.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn finish_headers(ctx: *mut xdp_md, port: u32) -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unanswerable);
    };
    let end = get!(work, walk.cursor);
    let Some(interface) = INTERFACES.get(INTERFACE_SLOT.load()) else {
        return stop(Reason::Unanswerable);
    };
    let payload = end.wrapping_sub(PAYLOAD);
    if end > FRAME_MAX
        || end > interface.max_frame
        || payload > get!(work, meta.length) + GROWTH_MAX
    {
        return stop(Reason::Unanswerable);
    }
    // SAFETY: the first 42 bytes of `out`, and of the packet by its helper.
    unsafe {
        let out = (&raw mut (*work.raw()).out).cast::<u8>();
        // MAC addresses, IPv4 addresses and ports, to be exchanged.
        if bpf_xdp_load_bytes(ctx, 0, out.cast(), PAYLOAD) != 0 {
            return stop(Reason::Unanswerable);
        }
        let low = out.cast::<u32>().read_unaligned();
        let high = out.add(4).cast::<u16>().read_unaligned();
        out.cast::<u32>()
            .write_unaligned(out.add(6).cast::<u32>().read_unaligned());
        out.add(4)
            .cast::<u16>()
            .write_unaligned(out.add(10).cast::<u16>().read_unaligned());
        out.add(6).cast::<u32>().write_unaligned(low);
        out.add(10).cast::<u16>().write_unaligned(high);

        let ip = out.add(14);
        let source = ip.add(12).cast::<u32>().read_unaligned();
        let destination = ip.add(16).cast::<u32>().read_unaligned();
        let ip_length = (end - 14) as u16;
        // Version 4, no options; identification 0 with "don't fragment" (RFC 6864); TTL 64.
        ip.cast::<u16>().write_unaligned(0x45u16.to_le());
        ip.add(2).cast::<u16>().write_unaligned(ip_length.to_be());
        ip.add(4).cast::<u32>().write_unaligned(0x4000u32.to_be());
        ip.add(8)
            .cast::<u32>()
            .write_unaligned(0x4011_0000u32.to_be());
        ip.add(12).cast::<u32>().write_unaligned(destination);
        ip.add(16).cast::<u32>().write_unaligned(source);
        let sum = bpf_csum_diff(core::ptr::null_mut(), 0, ip.cast(), 20, 0);
        ip.add(10).cast::<u16>().write_unaligned(fold(sum as u64));

        let udp = out.add(34);
        let own_port = udp.add(2).cast::<u16>().read_unaligned();
        let udp_length = (end - 34) as u16;
        udp.cast::<u16>().write_unaligned(own_port);
        udp.add(2)
            .cast::<u16>()
            .write_unaligned((port as u16).to_be());
        udp.add(4).cast::<u16>().write_unaligned(udp_length.to_be());
        udp.add(6).cast::<u16>().write_unaligned(0);
        // Whole words are summed: the bytes past the end must be zero.
        put(work, 0, 0);
        let pseudo = u64::from(source)
            + u64::from(destination)
            + u64::from(0x11u16.to_be())
            + u64::from(udp_length.to_be());
        let sum = fold(checksum(end) + pseudo);
        udp.add(6)
            .cast::<u16>()
            .write_unaligned(if sum == 0 { 0xffff } else { sum });
    }
    GO_ON
}

/// One's complement sum of `out` from the UDP header to `end`, in pieces an old kernel accepts.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn checksum(end: u32) -> u64 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let mut sum = 0i64;
    let mut at = 34u32;
    for _ in 0..9 {
        if at + PIECE > end {
            break;
        }
        // SAFETY: one piece from at most 4,095 on in a buffer of 8,256.
        unsafe {
            let out = (&raw mut (*work.raw()).out)
                .cast::<u8>()
                .add((at & OUT_MASK) as usize);
            sum = bpf_csum_diff(core::ptr::null_mut(), 0, out.cast(), PIECE, sum as u32);
        }
        at += PIECE;
    }
    let rest = opaque(end.wrapping_sub(at).wrapping_add(3)) & 0x1fc;
    // SAFETY: at most 508 bytes from at most 4,095 on in a buffer of 8,256.
    unsafe {
        let out = (&raw mut (*work.raw()).out)
            .cast::<u8>()
            .add((at & OUT_MASK) as usize);
        sum = bpf_csum_diff(core::ptr::null_mut(), 0, out.cast(), rest, sum as u32);
    }
    u64::from(sum as u32)
}

/// Folds a one's complement sum to the checksum.
#[inline(always)]
fn fold(sum: u64) -> u16 {
    let mut sum = (sum & 0xffff_ffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// Gives the packet its new length and bytes.
#[inline(always)]
fn send(ctx: *mut xdp_md, end: u32) -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unanswerable);
    };
    // SAFETY: helpers on the context; at most 4,096 bytes of `out`.
    unsafe {
        let frame = (*ctx).data_end - (*ctx).data;
        if end != frame && bpf_xdp_adjust_tail(ctx, end as i32 - frame as i32) != 0 {
            return stop(Reason::Unanswerable);
        }
        let length = (opaque(end.wrapping_sub(1)) & 4095) + 1;
        let out = (&raw mut (*work.raw()).out).cast::<u8>();
        if bpf_xdp_store_bytes(ctx, 0, out.cast(), length) != 0 {
            return stop(Reason::Unanswerable);
        }
    }
    GO_ON
}
