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
    scratch::{ADDED, EDITS_MAX, PIECES_MAX, SCAN_MAX, SEGMENTS_MAX, Work, get, set},
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

/// Writes the message: status line, the copied lines with received and rport in the top Via and the tag
/// in To, Content-Length.
#[inline(always)]
fn compose(work: Work) {
    list_edits(work);
    list_pieces(work);
    let at = put_text(work.out(), PAYLOAD, STATUS_LINE);
    set!(work, at, walk.cursor);
    copy_pieces(work);
    let end = put_text(work.out(), get!(work, walk.cursor), TRAILER);
    set!(work, end, walk.cursor);
}

/// A place in the copied lines where the reply differs, and where the copy goes on (offsets in the
/// datagram); the added text as a piece. 16 bits each, the first highest.
type Edit = u64;

const NO_EDIT: Edit = u64::MAX;

#[inline(always)]
fn edit(place: u32, resume: u32, text: u32, end: u32) -> Edit {
    let added = ADDED + text;
    u64::from(place) << 48 | u64::from(resume) << 32 | u64::from(added << 16 | (end - text))
}

/// Writes what the reply adds, and lists where, in the order of the request: up to two places in the top
/// Via, one in To.
#[inline(always)]
fn list_edits(work: Work) {
    let (rport, rport_start, rport_end) = via::param(work, Param::Rport);
    let (received, received_start, received_end) = via::param(work, Param::Received);
    let via_end = get!(work, meta.via_end);
    let to = get!(work, meta.to_tag);

    let added = work.added();
    let mut first = NO_EDIT;
    if rport != 0 {
        let at = put_text(added, 0, b"rport=");
        let at = put_port(added, at, get!(work, meta.source_port));
        first = edit(rport_start, rport_end, 0, at);
    }
    let at = put_text(added, 32, b";received=");
    let at = put_address(added, at, get!(work, meta.source));
    let second = if received == 0 {
        edit(via_end, via_end, 32, at)
    } else {
        // The parameter is replaced, its semicolon kept.
        edit(received_start, received_end, 33, at)
    };
    let tag = examine::own_tag(get!(work, meta.transaction), get!(work, meta.epoch));
    put_text(added, 64, b";tag=");
    put(added, 69, tag.first);
    put(added, 77, tag.second);
    put(added, 85, u64::from(tag.third));
    let third = edit(to, to, 64, 89);

    let (low, high) = (first.min(second), first.max(second));
    set!(work, low.min(third), edits[0]);
    set!(work, high.min(low.max(third)), edits[1]);
    set!(work, high.max(third), edits[2]);
    set!(work, NO_EDIT, edits[3]);
}

/// Lists the `walk.number` pieces that stand between status line and Content-Length.
#[inline(always)]
fn list_pieces(work: Work) {
    set!(work, 0, walk.block);
    set!(work, 0, walk.state);
    set!(work, 0, walk.number);
    set!(work, get!(work, segments[0]) >> 16, walk.start);
    for _ in 0..SEGMENTS_MAX + EDITS_MAX {
        let index = get!(work, walk.block);
        if index >= get!(work, walk.segments) {
            break;
        }
        let from = get!(work, walk.start);
        let end = get!(work, segments[index as usize & (SEGMENTS_MAX - 1)]) & 0xffff;
        let number = get!(work, walk.state);
        let edit = get!(work, edits[number as usize & (EDITS_MAX - 1)]);
        let place = (edit >> 48) as u32;
        if place < end {
            add_piece(work, from << 16 | place.wrapping_sub(from) & 0xffff);
            add_piece(work, edit as u32);
            set!(work, (edit >> 32) as u32 & 0xffff, walk.start);
            set!(work, number + 1, walk.state);
            continue;
        }
        set!(work, index + 1, walk.block);
        let next = get!(work, segments[(index as usize + 1) & (SEGMENTS_MAX - 1)]) >> 16;
        // A line that follows at once is copied with this one.
        if next != end || index + 1 >= get!(work, walk.segments) {
            add_piece(work, from << 16 | end.wrapping_sub(from) & 0xffff);
            set!(work, next, walk.start);
        }
    }
}

#[inline(always)]
fn add_piece(work: Work, piece: u32) {
    let count = get!(work, walk.number);
    set!(work, piece, pieces[count as usize & (PIECES_MAX - 1)]);
    set!(work, count + 1, walk.number);
}

/// Appends the pieces at `walk.cursor`, in whole blocks: what is too much is overwritten by what follows.
#[inline(always)]
fn copy_pieces(work: Work) {
    set!(work, 0, walk.block);
    set!(work, 0, walk.start);
    // Every block, and the pieces that end within one.
    for _ in 0..SCAN_MAX / 64 + (SEGMENTS_MAX + 2 * EDITS_MAX) as u32 {
        let index = get!(work, walk.block);
        if index >= get!(work, walk.number) {
            break;
        }
        let piece = get!(work, pieces[index as usize & (PIECES_MAX - 1)]);
        let (from, length) = (piece >> 16, piece & 0xffff);
        let (at, done) = (get!(work, walk.cursor), get!(work, walk.start));
        let text = work.any_block(from + done);
        // SAFETY: the mask leaves more than 64 bytes of the scratch behind it.
        unsafe {
            let out = work
                .out()
                .add(((at + done) & OUT_MASK) as usize)
                .cast::<u64>();
            for word in 0..8 {
                out.add(word as usize).write_unaligned(text.word(word));
            }
        }
        // Without a branch, for the verifier: all ones while the piece goes on, else zero.
        let done = done + 64;
        let more = opaque(done.wrapping_sub(length) >> 31).wrapping_neg();
        set!(work, done & more, walk.start);
        set!(work, at + (length & !more), walk.cursor);
        set!(work, (index + 1).wrapping_add(more), walk.block);
    }
}

/// Writes eight bytes at an offset below 4,096.
#[inline(always)]
fn put(base: *mut u8, at: u32, word: u64) {
    // SAFETY: both places that are written, reply and added text, have more than 4,104 bytes of the scratch
    // behind them.
    unsafe {
        base.add((at & OUT_MASK) as usize)
            .cast::<u64>()
            .write_unaligned(word);
    };
}

/// Writes a constant text and up to seven bytes behind it; answers where it ends.
#[inline(always)]
fn put_text<const N: usize>(base: *mut u8, at: u32, text: &'static [u8; N]) -> u32 {
    let mut done = 0;
    while done < N {
        let mut word = [0u8; 8];
        let mut i = 0;
        while i < 8 && done + i < N {
            word[i] = text[done + i];
            i += 1;
        }
        put(base, at + done as u32, u64::from_le_bytes(word));
        done += 8;
    }
    at + N as u32
}

/// Three digits at most and a dot, and above them how many bytes that is, of each byte's value.
static DECIMAL: [u64; 256] = {
    let mut table = [0; 256];
    let mut value = 0;
    while value < 256 {
        let digits = [value / 100, value / 10 % 10, value % 10];
        let mut skip = if value >= 100 {
            0
        } else if value >= 10 {
            1
        } else {
            2
        };
        let (mut word, mut length) = (0, 0);
        while skip < 3 {
            word |= (b'0' as u64 + digits[skip]) << (8 * length);
            length += 1;
            skip += 1;
        }
        word |= (b'.' as u64) << (8 * length);
        table[value as usize] = word | (length + 1) << 32;
        value += 1;
    }
    table
};

/// Writes an address in dotted decimal; answers where it ends.
#[inline(always)]
fn put_address(base: *mut u8, mut at: u32, address: u32) -> u32 {
    for byte in address.to_ne_bytes() {
        let text = DECIMAL[byte as usize];
        put(base, at, text);
        at += (text >> 32) as u32;
    }
    at - 1
}

/// Writes a port in decimal; answers where it ends.
#[inline(always)]
fn put_port(base: *mut u8, at: u32, number: u32) -> u32 {
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
    put(base, at, word >> (8 * zeros));
    at + 5 - zeros
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
        put(work.out(), end, 0);
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
