//! The 503, built in scratch and sent back where the request came from (RFC 3261 8.2.6, 18.2.2).
//!
//! It is at most 100 bytes longer than the request and never longer than the MTU allows, so that the
//! filter cannot be used to amplify; where that cannot be kept, the request is dropped.

use aya_ebpf::{
    bindings::xdp_md,
    helpers::generated::{
        bpf_csum_diff, bpf_xdp_adjust_head, bpf_xdp_adjust_tail, bpf_xdp_store_bytes,
    },
};
use overload_common::{abi::Reason, sip::Param};

use super::{
    GO_ON, examine,
    frame::{Address, ETHERNET, IPV4_HEADER, IPV6_HEADER, UDP, UDP_HEADER, is_mapped},
    source, stop, via,
};
use crate::{
    kernel::opaque,
    maps::{INTERFACE_SLOT, INTERFACES},
    scratch::{ADDED, EDITS_MAX, PIECES_MAX, SCAN_MAX, SEGMENTS_MAX, Work, get, set},
};

/// What a reply may be longer than its request, bytes of UDP payload.
const GROWTH_MAX: u32 = 100;
/// Longest reply that is built, bytes of its UDP datagram.
const DATAGRAM_MAX: u32 = 3900;
const OUT_MASK: u32 = 4095;
/// Time to live, or hop limit.
const TTL: u8 = 64;
/// Where the UDP header of a reply lies in the buffer: IP, Ethernet and tags end there.
const OUT_UDP: u32 = 112;
/// Where the message begins.
const OUT_SIP: u32 = OUT_UDP + UDP_HEADER;
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
    if !source::may_be_answered(work) {
        return stop(Reason::ReplyBudget);
    }
    compose(work);
    let end = get!(work, walk.cursor);
    let Some(interface) = INTERFACES.get(INTERFACE_SLOT.load()) else {
        return stop(Reason::Unanswerable);
    };
    let header = if is_mapped(destination(work)) {
        IPV4_HEADER
    } else {
        IPV6_HEADER
    };
    let ip = get!(work, meta.ip);
    let start = OUT_UDP - header - ip;
    // VLAN tags do not count towards the MTU.
    if end > OUT_UDP + DATAGRAM_MAX
        || end - start > interface.max_frame + (ip - ETHERNET)
        || end - OUT_SIP > get!(work, meta.length) + GROWTH_MAX
        || !put_ethernet(ctx, work, start)
    {
        return stop(Reason::Unanswerable);
    }
    put_headers(work, end, port);
    send(ctx, work, start, end)
}

/// Where the reply goes at the sender: its port with rport, else sent-by's, else 5060.
#[inline(always)]
fn reply_port(work: Work) -> u32 {
    if via::param(work, Param::Rport).0 != 0 {
        get!(work, meta.ports[0])
    } else {
        get!(work, meta.sent_by_port)
    }
}

#[inline(always)]
fn destination(work: Work) -> Address {
    [
        get!(work, meta.destination[0]),
        get!(work, meta.destination[1]),
    ]
}

/// Addresses and ports that must never be answered: 0/8, 127/8, multicast and above, `::`, `::1`, mapped
/// and compatible IPv4 in IPv6, ff00::/8, our own, echo, chargen.
#[inline(always)]
fn is_martian(work: Work, port: u32) -> bool {
    let (source, own) = (source::address(work), destination(work));
    let host = if is_mapped(own) {
        let first = (source[1] >> 32) as u8;
        first == 0 || first == 127 || first >= 224
    } else {
        source[0] == 0 || source[0] as u8 == 0xff
    };
    source == own || host || port == 0 || port == 7 || port == 19
}

/// Writes the message: status line, the copied lines with received and rport in the top Via and the tag
/// in To, Content-Length.
#[inline(always)]
fn compose(work: Work) {
    list_edits(work);
    list_pieces(work);
    let at = put_text(work.out(), OUT_SIP, STATUS_LINE);
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
        let at = put_port(added, at, get!(work, meta.ports[0]));
        first = edit(rport_start, rport_end, 0, at);
    }
    let at = put_text(added, 64, b";received=");
    let at = put_address(work, added, at);
    let second = if received == 0 {
        edit(via_end, via_end, 64, at)
    } else {
        // The parameter is replaced, its semicolon kept.
        edit(received_start, received_end, 65, at)
    };
    let tag = examine::own_tag(get!(work, meta.transaction), get!(work, meta.epoch));
    put_text(added, 32, b";tag=");
    put(added, 37, tag.first);
    put(added, 45, tag.second);
    put(added, 53, u64::from(tag.third));
    let third = edit(to, to, 32, 57);

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
                .cast::<[u8; 8]>();
            for word in 0..8 {
                out.add(word as usize).write(text.word(word).to_ne_bytes());
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

/// Writes the source address, IPv6 without brackets (RFC 3261 25.1); answers where it ends.
#[inline(always)]
fn put_address(work: Work, base: *mut u8, mut at: u32) -> u32 {
    let source = source::address(work);
    if !is_mapped(source) {
        return put_ipv6(at);
    }
    for byte in 4..8 {
        let text = DECIMAL[(source[1] >> (8 * byte)) as usize & 0xff];
        put(base, at, text);
        at += (text >> 32) as u32;
    }
    at - 1
}

/// Writes the source address at `at` of the added text in the form of RFC 5952; answers where it ends.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn put_ipv6(at: u32) -> u32 {
    let Some(work) = Work::here() else {
        return at;
    };
    let source = source::address(work).map(u64::swap_bytes);
    let group =
        |index: u32| (source[index as usize >> 2] >> (48 - 16 * (index & 3))) as u32 & 0xffff;
    let mut zeros = 0;
    for index in 0..8 {
        zeros |= opaque(group(index).wrapping_sub(1) >> 31) << index;
    }
    set!(work, IPV6_LAYOUT[zeros as usize & 0xff], walk.block);
    set!(work, at, walk.cursor);
    // Without a branch, for the verifier.
    for index in 0..8 {
        let layout = get!(work, walk.block) >> (4 * index);
        let colons = layout & 3;
        let shown = opaque(layout >> 2 & 1).wrapping_neg();
        // Four hexadecimal digits, the highest first, without leading zeros.
        let mut digits = 0;
        for nibble in 0..4 {
            let value = group(index) >> (12 - 4 * nibble) & 15;
            let letter = opaque(9u32.wrapping_sub(value) >> 31);
            digits |= (u32::from(b'0') + value + letter * 39) << (8 * nibble);
        }
        let skipped = ((digits ^ 0x3030_3030) | 1 << 24).trailing_zeros() >> 3;
        let text = u64::from(digits >> (8 * skipped) & shown) << (8 * colons)
            | 0x3a3a & ((1 << (8 * colons)) - 1);
        let at = get!(work, walk.cursor);
        put(work.added(), at, text);
        set!(work, at + colons + ((4 - skipped) & shown), walk.cursor);
    }
    get!(work, walk.cursor)
}

/// How the groups of an address are written, four bits each, the first lowest, by which of them are zero:
/// number of colons before the group, and bit 2 when it is written at all (RFC 5952 4.2).
static IPV6_LAYOUT: [u32; 256] = {
    let mut table = [0; 256];
    let mut zeros = 0;
    while zeros < 256 {
        // The first of the longest runs of at least two.
        let (mut start, mut longest) = (8, 1);
        let mut from = 0;
        while from < 8 {
            let mut length = 0;
            while from + length < 8 && zeros >> (from + length) & 1 == 1 {
                length += 1;
            }
            if length > longest {
                (start, longest) = (from, length);
            }
            from += length + 1;
        }
        let mut index = 0;
        while index < 8 {
            let code = if index == start {
                2
            } else if index > start && index < start + longest {
                0
            } else if index == 0 || index == start + longest {
                4
            } else {
                5
            };
            table[zeros] |= code << (4 * index);
            index += 1;
        }
        zeros += 1;
    }
    table
};

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

/// Writes the Ethernet header at `start`, MAC addresses changed over, tags as they came, and up to eight
/// bytes behind it.
#[inline(always)]
fn put_ethernet(ctx: *mut xdp_md, work: Work, start: u32) -> bool {
    // SAFETY: reads of the first 24 bytes of the packet, compared with its end.
    unsafe {
        let packet = (*ctx).data as usize as *const u8;
        if packet as usize + 24 > (*ctx).data_end as usize {
            return false;
        }
        let word = |at: usize| packet.add(at).cast::<u64>().read_unaligned();
        let (to, from) = (word(0), word(6));
        let out = work.out();
        put(out, start, from & 0xffff_ffff_ffff | to << 48);
        put(out, start + 8, to >> 16 & 0xffff_ffff | word(12) << 32);
        put(out, start + 16, word(16));
    }
    true
}

/// Writes IP and UDP headers, the request's turned round, with checksums from scratch.
#[inline(always)]
fn put_headers(work: Work, end: u32, port: u32) {
    let (from, to) = (destination(work), source::address(work));
    let out = work.out();
    let length = (end - OUT_UDP) as u16;
    let udp = u64::from((get!(work, meta.ports[1]) as u16).to_be())
        | u64::from((port as u16).to_be()) << 16
        | u64::from(length.to_be()) << 32;
    put(out, OUT_UDP, udp);
    // Whole words are summed: the bytes past the end must be zero.
    put(out, end, 0);
    let addresses = if is_mapped(from) {
        let (from, to) = (from[1] >> 32, to[1] >> 32);
        // Version 4, no options; identification 0 with "don't fragment" (RFC 6864).
        let total = u32::from(length) + IPV4_HEADER;
        let first = u64::from((0x4500_0000 | total).to_be()) | u64::from(0x4000u32.to_be()) << 32;
        let second = u64::from(u16::from_le_bytes([TTL, UDP]));
        let sum = fold(halves(first) + second + from + to);
        let ip = OUT_UDP - IPV4_HEADER;
        put(out, ip, first);
        put(out, ip + 8, second | u64::from(sum) << 16 | from << 32);
        put(out, ip + 16, to | udp << 32);
        from + to
    } else {
        // Version 6, no traffic class, no flow label.
        let first = u64::from(6u8 << 4)
            | u64::from(length.to_be()) << 32
            | u64::from(UDP) << 48
            | u64::from(TTL) << 56;
        let ip = OUT_UDP - IPV6_HEADER;
        put(out, ip, first);
        put(out, ip + 8, from[0]);
        put(out, ip + 16, from[1]);
        put(out, ip + 24, to[0]);
        put(out, ip + 32, to[1]);
        halves(from[0]) + halves(from[1]) + halves(to[0]) + halves(to[1])
    };
    let pseudo = addresses + u64::from(u16::from(UDP).to_be()) + u64::from(length.to_be());
    let sum = fold(checksum(work, end) + pseudo);
    let sum = if sum == 0 { 0xffff } else { sum };
    put(out, OUT_UDP, udp | u64::from(sum) << 48);
}

/// The two halves of eight bytes, added.
#[inline(always)]
fn halves(word: u64) -> u64 {
    (word & 0xffff_ffff) + (word >> 32)
}

/// One's complement sum of `out` from the UDP header to `end`, in pieces an old kernel accepts.
#[inline(always)]
fn checksum(work: Work, end: u32) -> u64 {
    let mut sum = 0u32;
    let mut at = OUT_UDP;
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
fn send(ctx: *mut xdp_md, work: Work, start: u32, end: u32) -> u32 {
    let length = end - start;
    let growth = length.cast_signed() - get!(work, meta.frame).cast_signed();
    // SAFETY: helpers on the context; at most 4,096 bytes of the scratch, from at most 127 bytes behind `out`.
    unsafe {
        // Some drivers cannot grow a frame at its tail, others not at its head.
        if growth != 0
            && bpf_xdp_adjust_tail(ctx, growth) != 0
            && (growth < 0 || bpf_xdp_adjust_head(ctx, -growth) != 0)
        {
            return stop(Reason::Unanswerable);
        }
        let frame = work.out().add((start & 127) as usize);
        let length = (opaque(length.wrapping_sub(1)) & 4095) + 1;
        if bpf_xdp_store_bytes(ctx, 0, frame.cast(), length) != 0 {
            return stop(Reason::Unanswerable);
        }
    }
    GO_ON
}
