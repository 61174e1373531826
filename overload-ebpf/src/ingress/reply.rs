//! The 503, built in scratch and sent back where the request came from (RFC 3261 8.2.6, 18.2.2).
//!
//! It is at most 100 bytes longer than the request and never longer than the MTU allows, so that the
//! filter cannot be used to amplify; where that cannot be kept, the request is dropped.

use aya_ebpf::{
    bindings::xdp_md,
    helpers::generated::{bpf_csum_diff, bpf_xdp_adjust_tail, bpf_xdp_store_bytes},
};
use overload_common::{abi::Reason, sip::Param};

use super::{GO_ON, examine, frame::PAYLOAD, stop, via};
use crate::{
    kernel::opaque,
    maps::{INTERFACE_SLOT, INTERFACES},
    scratch::{EDITS_MAX, SCAN_MAX, SEGMENTS_MAX, Work, get, set},
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
    if is_martian(work, port) {
        return stop(Reason::Martian);
    }
    compose(work);
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
    if address(ctx, work, end, port) != GO_ON {
        return stop(Reason::Unanswerable);
    }
    send(ctx, work, end)
}

/// Where the reply goes at the sender: its port with rport, else sent-by's, else 5060.
#[inline(always)]
fn reply_port(work: Work) -> u32 {
    if via::param(work, Param::Rport).0 != 0 {
        get!(work, meta.source_port)
    } else {
        get!(work, meta.sent_by_port)
    }
}

/// Addresses and ports that must never be answered: 0/8, 127/8, multicast and above, our own, echo,
/// chargen.
#[inline(always)]
fn is_martian(work: Work, port: u32) -> bool {
    let source = get!(work, meta.source);
    let first = source.to_ne_bytes()[0];
    first == 0
        || first == 127
        || first >= 224
        || source == get!(work, meta.destination)
        || port == 0
        || port == 7
        || port == 19
}

/// A place in the copied lines where the reply differs: offset above, where the copy goes on, kind.
type Edit = u64;

const EDIT_RPORT: u64 = 1;
const EDIT_RECEIVED: u64 = 2;
const EDIT_VIA_END: u64 = 3;
const EDIT_TO: u64 = 4;
const NO_EDIT: Edit = u64::MAX;

#[inline(always)]
fn edit(kind: u64, from: u32, resume: u32) -> Edit {
    u64::from(from) << 32 | u64::from(resume) << 8 | kind
}

/// Writes the message: status line, the copied lines with received and rport in the top Via and the tag
/// in To, Content-Length.
#[inline(always)]
fn compose(work: Work) {
    list_edits(work);
    set!(work, PAYLOAD, walk.cursor);
    put_text(work, STATUS_LINE);
    set!(work, 0, walk.block);
    set!(work, 0, walk.number);
    set!(work, get!(work, segments[0]) >> 16, walk.start);
    for _ in 0..SEGMENTS_MAX + EDITS_MAX {
        let index = get!(work, walk.block);
        if index >= get!(work, walk.segments) {
            break;
        }
        let from = get!(work, walk.start);
        let end = get!(work, segments[index as usize & (SEGMENTS_MAX - 1)]) & 0xffff;
        let number = get!(work, walk.number);
        let edit = get!(work, edits[number as usize & (EDITS_MAX - 1)]);
        let place = (edit >> 32) as u32;
        if place < end {
            copy_text(from, place);
            put_edit(edit & 0xff);
            set!(work, (edit >> 8) as u32 & 0xffff, walk.start);
            set!(work, number + 1, walk.number);
        } else {
            copy_text(from, end);
            let next = get!(work, segments[(index as usize + 1) & (SEGMENTS_MAX - 1)]);
            set!(work, next >> 16, walk.start);
            set!(work, index + 1, walk.block);
        }
    }
    put_text(work, TRAILER);
}

/// Lists the edits in the order they stand in the request: up to three in the top Via, one in To.
#[inline(always)]
fn list_edits(work: Work) {
    for index in 0..EDITS_MAX {
        set!(work, NO_EDIT, edits[index]);
    }
    let rport = via::param(work, Param::Rport);
    let received = via::param(work, Param::Received);
    let via_end = get!(work, meta.via_end);
    let to = get!(work, meta.to_tag);
    let mut first = NO_EDIT;
    if rport.0 != 0 {
        first = edit(EDIT_RPORT, rport.1, rport.2);
    }
    let mut second = edit(EDIT_VIA_END, via_end, via_end);
    if received.0 != 0 {
        second = edit(EDIT_RECEIVED, received.1, received.2);
    }
    let third = edit(EDIT_TO, to, to);
    insert(work, first);
    insert(work, second);
    insert(work, third);
}

/// Inserts an edit into the sorted list.
#[inline(always)]
fn insert(work: Work, mut new: Edit) {
    for index in 0..EDITS_MAX - 1 {
        let old = get!(work, edits[index]);
        set!(work, new.min(old), edits[index]);
        new = new.max(old);
    }
}

/// Appends up to eight bytes to the reply.
#[inline(always)]
fn put(work: Work, word: u64, length: u32) {
    let at = get!(work, walk.cursor);
    put_at(work, at, word);
    set!(work, at + length, walk.cursor);
}

/// Writes eight bytes of the reply.
#[inline(always)]
fn put_at(work: Work, at: u32, word: u64) {
    // SAFETY: the mask keeps the write within `out`, which is longer than the mask by more than a word.
    unsafe {
        work.out()
            .add((at & OUT_MASK) as usize)
            .cast::<u64>()
            .write_unaligned(word);
    };
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

/// Appends bytes of the request, whole words: what is too much is overwritten by what follows.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn copy_text(start: u32, end: u32) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let at = get!(work, walk.cursor);
    let length = end.wrapping_sub(start);
    for index in 0..SCAN_MAX / 8 {
        let offset = index * 8;
        if offset >= length {
            break;
        }
        put_at(work, at + offset, work.word(start + offset));
    }
    set!(work, at + length, walk.cursor);
    0
}

/// Appends what an edit adds.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_edit(kind: u64) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    if kind == EDIT_TO {
        put(work, u64::from_le_bytes(*b";tag=\0\0\0"), 5);
        let tag = examine::own_tag(get!(work, meta.transaction), get!(work, meta.epoch));
        put(work, tag.first, 8);
        put(work, tag.second, 8);
        put(work, u64::from(tag.third), 4);
        return 0;
    }
    if kind == EDIT_RPORT {
        put(work, u64::from_le_bytes(*b"rport=\0\0"), 6);
        put_decimal(work, get!(work, meta.source_port));
        return 0;
    }
    if kind == EDIT_VIA_END {
        put(work, u64::from(b';'), 1);
    }
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
    // Leading zeros are bytes 0x30; the last digit stays.
    let significant = (word ^ 0x30_3030_3030) & 0xff_ffff_ffff | 1 << 32;
    let zeros = significant.trailing_zeros() >> 3;
    put(work, word >> (8 * zeros), 5 - zeros);
}

/// Writes Ethernet, IPv4 and UDP headers: the request's, turned round, with checksums from scratch.
#[inline(always)]
fn address(ctx: *mut xdp_md, work: Work, end: u32, port: u32) -> u32 {
    // SAFETY: reads of the packet below `data + 42`, compared with its end; writes to the first 42 bytes
    // of `out`.
    unsafe {
        let packet = (*ctx).data as usize as *const u8;
        if packet as usize + PAYLOAD as usize > (*ctx).data_end as usize {
            return stop(Reason::Unanswerable);
        }
        let out = work.out();
        out.cast::<u32>()
            .write_unaligned(packet.add(6).cast::<u32>().read_unaligned());
        out.add(4)
            .cast::<u16>()
            .write_unaligned(packet.add(10).cast::<u16>().read_unaligned());
        out.add(6)
            .cast::<u32>()
            .write_unaligned(packet.cast::<u32>().read_unaligned());
        out.add(10)
            .cast::<u16>()
            .write_unaligned(packet.add(4).cast::<u16>().read_unaligned());
        out.add(12)
            .cast::<u16>()
            .write_unaligned(packet.add(12).cast::<u16>().read_unaligned());

        let to = packet.add(26).cast::<u32>().read_unaligned();
        let from = packet.add(30).cast::<u32>().read_unaligned();
        let addresses = u64::from(from) + u64::from(to);
        // Version 4, no options; identification 0 with "don't fragment" (RFC 6864); TTL 64, UDP.
        let (first, second) = (0x4500_0000 | (end - 14), 0x4000);
        let third = 0x4011_0000u32;
        let sum =
            u64::from(u32::to_be(first)) + u64::from(u32::to_be(second)) + u64::from(third.to_be());
        let ip = out.add(14);
        ip.cast::<u32>().write_unaligned(first.to_be());
        ip.add(4).cast::<u32>().write_unaligned(second.to_be());
        ip.add(8).cast::<u32>().write_unaligned(third.to_be());
        ip.add(10)
            .cast::<u16>()
            .write_unaligned(fold(sum + addresses));
        ip.add(12).cast::<u32>().write_unaligned(from);
        ip.add(16).cast::<u32>().write_unaligned(to);

        let udp = out.add(34);
        let length = (end - 34) as u16;
        udp.cast::<u16>()
            .write_unaligned(packet.add(36).cast::<u16>().read_unaligned());
        udp.add(2)
            .cast::<u16>()
            .write_unaligned((port as u16).to_be());
        udp.add(4).cast::<u16>().write_unaligned(length.to_be());
        udp.add(6).cast::<u16>().write_unaligned(0);
        // Whole words are summed: the bytes past the end must be zero.
        put_at(work, end, 0);
        let pseudo = addresses + u64::from(17u16.to_be()) + u64::from(length.to_be());
        let sum = fold(checksum(work, end) + pseudo);
        udp.add(6)
            .cast::<u16>()
            .write_unaligned(if sum == 0 { 0xffff } else { sum });
    }
    GO_ON
}

/// One's complement sum of `out` from the UDP header to `end`, in pieces an old kernel accepts.
#[inline(always)]
fn checksum(work: Work, end: u32) -> u64 {
    let mut sum = 0u32;
    let mut at = 34u32;
    for _ in 0..9 {
        if at + PIECE > end {
            break;
        }
        // SAFETY: one piece from at most 4,095 on in a buffer of 8,256.
        unsafe {
            let out = work.out().add((at & OUT_MASK) as usize);
            sum = add_sum(out, PIECE, sum);
        }
        at += PIECE;
    }
    let rest = opaque(end.wrapping_sub(at).wrapping_add(3)) & 0x1fc;
    // SAFETY: at most 508 bytes from at most 4,095 on in a buffer of 8,256.
    unsafe {
        let out = work.out().add((at & OUT_MASK) as usize);
        sum = add_sum(out, rest, sum);
    }
    u64::from(sum)
}

/// Adds the one's complement sum of `length` bytes, a multiple of four.
///
/// # Safety
/// `bytes` points to that many bytes of map memory.
#[inline(always)]
#[expect(
    clippy::cast_sign_loss,
    reason = "a sum of bytes in memory does not fail"
)]
unsafe fn add_sum(bytes: *mut u8, length: u32, sum: u32) -> u32 {
    // SAFETY: the caller vouches for the memory.
    unsafe { bpf_csum_diff(core::ptr::null_mut(), 0, bytes.cast(), length, sum) as u32 }
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
fn send(ctx: *mut xdp_md, work: Work, end: u32) -> u32 {
    // SAFETY: helpers on the context; at most 4,096 bytes of `out`.
    unsafe {
        let frame = (*ctx).data_end - (*ctx).data;
        let growth = end.cast_signed() - frame.cast_signed();
        if growth != 0 && bpf_xdp_adjust_tail(ctx, growth) != 0 {
            return stop(Reason::Unanswerable);
        }
        let length = (opaque(end.wrapping_sub(1)) & 4095) + 1;
        if bpf_xdp_store_bytes(ctx, 0, work.out().cast(), length) != 0 {
            return stop(Reason::Unanswerable);
        }
    }
    GO_ON
}
