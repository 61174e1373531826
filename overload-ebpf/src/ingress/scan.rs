//! Finds the header lines: a bitmap of line feeds, then one walk over its bits.
//!
//! Both passes are bounded `for` loops of work without branches on the text; names are told by a
//! perfect hash into read-only memory, so that no name becomes a path for the verifier to follow.

use overload_common::{
    abi::Reason,
    sip::{HEADER_TABLE, Header, header_name, header_slot, swar},
};

use super::{GO_ON, stop};
use crate::scratch::{LINES_MAX, SCAN_MAX, SEGMENTS_MAX, Work, get, set};

const BLOCKS: u32 = SCAN_MAX / 64;

/// Reads the header section into `headers` and `segments`.
#[inline(always)]
pub fn headers() -> u32 {
    let last_block = mark_lines();
    if last_block == u32::MAX {
        return stop(Reason::NoHeaderEnd);
    }
    walk_lines(last_block)
}

/// Marks the line feeds up to the block with the blank line, and gives that block; `u32::MAX` when
/// there is none.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn mark_lines() -> u32 {
    let Some(work) = Work::here() else {
        return u32::MAX;
    };
    let length = get!(work, meta.length);
    let mut previous = 0u64;
    for block in 0..BLOCKS {
        let base = block * 64;
        if base >= length {
            return u32::MAX;
        }
        let mut marks = 0u64;
        for word in 0..8u32 {
            let line_feeds = !swar::unequal(work.word(base + word * 8), b'\n');
            marks |= swar::gather(line_feeds) << (word * 8);
        }
        set!(work, marks, newlines[block as usize]);
        // LF LF, or LF and one byte (a CR, as the walk will check) and LF.
        let before = marks << 2 | marks << 1 | previous >> 62 | previous >> 63;
        if marks & before != 0 {
            return block;
        }
        previous = marks;
    }
    u32::MAX
}

/// Walks the marked lines to the blank one.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_lines(last_block: u32) -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    for header in 0..8 {
        set!(work, 0, headers[header]);
    }
    set!(work, get!(work, newlines[0]), walk.bits);
    set!(work, 0, walk.block);
    set!(work, 0, walk.start);
    set!(work, 0, walk.segments);
    for _ in 0..LINES_MAX + BLOCKS {
        let bits = get!(work, walk.bits);
        let block = get!(work, walk.block);
        if bits == 0 {
            if block >= last_block {
                return stop(Reason::NoHeaderEnd);
            }
            set!(work, block + 1, walk.block);
            set!(
                work,
                get!(work, newlines[(block as usize + 1) & 63]),
                walk.bits
            );
            continue;
        }
        set!(work, bits & bits.wrapping_sub(1), walk.bits);
        let line_feed = block * 64 + bits.trailing_zeros();
        let start = get!(work, walk.start);
        set!(work, line_feed + 1, walk.start);
        if work.byte(line_feed.wrapping_sub(1)) != b'\r' {
            return stop(Reason::BareLineFeed);
        }
        if start == 0 {
            // The request line is no header, whatever its method is called.
            set!(work, line_feed, meta.request_line);
            set!(work, 0, walk.header);
            set!(work, 0, walk.copied);
            continue;
        }
        if line_feed == start + 1 {
            return GO_ON;
        }
        note_line(work, start, line_feed + 1);
        if get!(work, walk.segments) > SEGMENTS_MAX as u32 {
            return stop(Reason::ScatteredHeaders);
        }
    }
    stop(Reason::TooManyLines)
}

/// Files one line under its header, and in the list of copied pieces.
#[inline(always)]
fn note_line(work: Work, start: u32, end: u32) {
    let word = work.word(start);
    let first = word as u8;
    let (header, copied, continued);
    if first == b' ' || first == b'\t' {
        // A continuation belongs to the header before it (RFC 3261 7.3.1).
        header = get!(work, walk.header);
        copied = get!(work, walk.copied);
        continued = true;
    } else {
        let name = header_name(word);
        let entry = &HEADER_TABLE[header_slot(name) as usize & 63];
        let x = entry.name ^ name;
        let known = (((x | x.wrapping_neg()) >> 63) as u32).wrapping_sub(1);
        header = entry.header & known;
        copied = entry.copied & known;
        continued = false;
        set!(work, header, walk.header);
        set!(work, copied, walk.copied);
    }
    let at = header as usize & 7;
    let mut span = get!(work, headers[at]);
    if continued {
        if span >> 32 == 1 {
            span = span & !0xffff | u64::from(end);
        }
    } else {
        if span == 0 {
            span = u64::from(start) << 16 | u64::from(end);
        }
        span += 1 << 32;
    }
    set!(work, span, headers[at]);
    if copied != 0 {
        let count = get!(work, walk.segments);
        let last = get!(
            work,
            segments[(count as usize).wrapping_sub(1) & (SEGMENTS_MAX - 1)]
        );
        if count != 0 && last & 0xffff == start {
            set!(
                work,
                last & 0xffff_0000 | end,
                segments[(count as usize - 1) & (SEGMENTS_MAX - 1)]
            );
        } else {
            set!(
                work,
                start << 16 | end,
                segments[count as usize & (SEGMENTS_MAX - 1)]
            );
            set!(work, count + 1, walk.segments);
        }
    }
}

/// First row of a header: how often the header stands, its start, and the end past its line feed.
#[inline(always)]
pub fn header(work: Work, header: Header) -> (u32, u32, u32) {
    let span = get!(work, headers[header as usize & 7]);
    (
        (span >> 32) as u32,
        (span >> 16) as u32 & 0xffff,
        span as u32 & 0xffff,
    )
}

/// Where a header's value starts: past the colon and blanks; 0 when no colon follows the name.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn value_start(start: u32) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let mut at = start;
    let mut found = false;
    for _ in 0..24 {
        match work.byte(at) {
            b':' => {
                found = true;
                break;
            }
            0..=0x1f => break,
            _ => at += 1,
        }
    }
    if !found {
        return 0;
    }
    skip_blanks(work, at + 1)
}

/// The value of a header row: its start and its end without blanks or line end; `None` without a colon
/// or when nothing is left.
#[inline(always)]
pub fn value(work: Work, start: u32, end: u32) -> Option<(u32, u32)> {
    let from = value_start(start);
    let to = trim(work, end);
    if from == 0 || from >= to {
        None
    } else {
        Some((from, to))
    }
}

/// First byte from `at` that is no blank or line end, within eight bytes.
#[inline(always)]
pub fn skip_blanks(work: Work, at: u32) -> u32 {
    let word = work.word(at);
    // High bit set in bytes above 0x20; the lowest is exact.
    let text = (word & swar::LOW7) + swar::ONES * (0x7f - 0x20) | word;
    let marks = text & swar::HIGH;
    at + (marks.trailing_zeros() >> 3)
}

/// The end before trailing blanks and line end, within eight bytes.
#[inline(always)]
fn trim(work: Work, end: u32) -> u32 {
    let word = work.word(end.wrapping_sub(8));
    let text = ((word & swar::LOW7) + swar::ONES * (0x7f - 0x20) | word) & swar::HIGH;
    end - (text.leading_zeros() >> 3)
}
