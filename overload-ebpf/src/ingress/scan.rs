//! Finds the header lines: a bitmap of line feeds, then one walk over its bits.
//!
//! Both passes are bounded `for` loops of work without branches on the text; names are told by a
//! perfect hash into read-only memory, so that no name becomes a path for the verifier to follow.

use overload_common::{
    abi::Reason,
    sip::{COPIED, HEADER_TABLE, Header, LENGTH_SHIFT, header_name, header_slot, swar},
};

use super::{GO_ON, stop};
use crate::kernel::opaque_word;
use crate::scratch::{LINES_MAX, SCAN_MAX, SEGMENTS_MAX, Work, get, set};

const BLOCKS: u32 = SCAN_MAX / 64;

/// Reads the header section into `headers` and `segments`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn scan_headers() -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    if mark_lines(work) {
        walk_lines()
    } else {
        stop(Reason::NoHeaderEnd)
    }
}

/// Marks the line feeds up to the block with the blank line; `false` when there is none.
#[inline(always)]
fn mark_lines(work: Work) -> bool {
    let length = get!(work, meta.length);
    let mut previous = 0u64;
    for block in 0..BLOCKS {
        let base = block * 64;
        if base >= length {
            return false;
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
            set!(work, block, walk.number);
            return true;
        }
        previous = marks;
    }
    false
}

/// Walks the marked lines to the blank one.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn walk_lines() -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let last_block = get!(work, walk.number);
    for header in 0..16 {
        set!(work, 0, headers[header]);
    }
    set!(work, get!(work, newlines[0]), walk.bits);
    set!(work, 0, walk.block);
    set!(work, 0, walk.start);
    set!(work, 0, walk.segments);
    set!(work, 0, segments[SEGMENTS_MAX - 1]);
    set!(work, 0, walk.state);
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
            set!(work, REQUEST_LINE, walk.header);
            continue;
        }
        if line_feed == start + 1 {
            set!(work, line_feed + 1, meta.body);
            return walked(work);
        }
        let answer = note_line(work, start, line_feed + 1);
        if answer != GO_ON {
            return answer;
        }
    }
    stop(Reason::TooManyLines)
}

/// What the walk noted on its way.
#[inline(always)]
fn walked(work: Work) -> u32 {
    if get!(work, walk.state) != 0 {
        return stop(Reason::BadHeader);
    }
    if get!(work, walk.segments) > SEGMENTS_MAX as u32 {
        return stop(Reason::ScatteredHeaders);
    }
    GO_ON
}

/// `walk.header` behind the request line, which is never continued (RFC 3261 7.1).
const REQUEST_LINE: u64 = u64::MAX;

/// Files one line under its header, and in the list of copied pieces.
#[inline(always)]
fn note_line(work: Work, start: u32, end: u32) -> u32 {
    let word = work.word(start);
    let name = header_name(word);
    if name == 0 {
        return continue_line(start, end);
    }
    let entry = &HEADER_TABLE[header_slot(name) as usize & 63];
    if entry.name != name {
        set!(work, 0, walk.header);
        return GO_ON;
    }
    let header = entry.header;
    set!(work, header, walk.header);
    let at = header as usize & 15;
    if at == Header::ContentLength as usize {
        return note_content(start, end);
    }
    let mut span = get!(work, headers[at]);
    if span == 0 {
        span = u64::from(start) << 16 | u64::from(end);
    }
    set!(work, span + (1 << 32), headers[at]);
    if header & COPIED == 0 {
        return GO_ON;
    }
    // Blanks, but nothing else, may stand between a name and its colon (RFC 3261 7.3.1).
    let word = work.word(start + (header >> LENGTH_SHIFT) as u32);
    let text = swar::unequal(word, b' ') & swar::unequal(word, b'\t') & swar::HIGH;
    let colon = !swar::unequal(word, b':') & text & text.wrapping_neg();
    set!(work, get!(work, walk.state) | is_zero(colon), walk.state);
    // A line right behind the last piece makes it longer. Without a branch: these lines are many.
    let count = get!(work, walk.segments);
    let last = get!(
        work,
        segments[(count as usize).wrapping_sub(1) & (SEGMENTS_MAX - 1)]
    );
    let longer = is_zero(u64::from(last & 0xffff ^ start));
    let from = last & longer.wrapping_neg() | (start << 16) & longer.wrapping_sub(1);
    let piece = from & 0xffff_0000 | end;
    set!(
        work,
        piece,
        segments[(count - longer) as usize & (SEGMENTS_MAX - 1)]
    );
    set!(work, count + 1 - longer, walk.segments);
    GO_ON
}

/// 1 for zero, else 0, without a branch.
#[inline(always)]
fn is_zero(word: u64) -> u32 {
    opaque_word((word | word.wrapping_neg()) >> 63) as u32 ^ 1
}

const LENGTH: u64 = u64::from_le_bytes(*b"length\0\0");

/// Files a line that begins with `Content-`, or with `l`, when it is Content-Length.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn note_content(start: u32, end: u32) -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let long = work.byte(start) | 0x20 == b'c';
    if long && swar::lower(work.word(start + 8)) & swar::first_bytes(6) != LENGTH {
        set!(work, 0, walk.header);
        return GO_ON;
    }
    let at = Header::ContentLength as usize;
    let span = get!(work, headers[at]);
    set!(
        work,
        (span & !0xffff_ffff) + (1 << 32) | u64::from(start) << 16 | u64::from(end),
        headers[at]
    );
    GO_ON
}

/// A line that begins with a blank belongs to the header before it (RFC 3261 7.3.1); other lines without
/// a name are none of SIP's.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn continue_line(start: u32, end: u32) -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let header = get!(work, walk.header);
    if header == REQUEST_LINE {
        return stop(Reason::BadRequestLine);
    }
    let first = work.byte(start);
    if first != b' ' && first != b'\t' {
        return stop(Reason::BadHeader);
    }
    let at = header as usize & 15;
    let span = get!(work, headers[at]);
    if at != 0 && span >> 32 == 1 {
        set!(work, span & !0xffff | u64::from(end), headers[at]);
    }
    if header & COPIED != 0 {
        let last = (get!(work, walk.segments) as usize).wrapping_sub(1) & (SEGMENTS_MAX - 1);
        set!(
            work,
            get!(work, segments[last]) & 0xffff_0000 | end,
            segments[last]
        );
    }
    GO_ON
}

/// First row of a header: how often the header stands, its start, and the end past its line feed.
#[inline(always)]
pub fn header(work: Work, header: Header) -> (u32, u32, u32) {
    let span = get!(work, headers[header as usize & 15]);
    (
        (span >> 32) as u32,
        (span >> 16) as u32 & 0xffff,
        span as u32 & 0xffff,
    )
}

/// The value of a header row, without blanks around it: `None` when no colon follows the name, or
/// nothing the colon. `start` is within eight bytes of the name's end.
#[inline(always)]
pub fn value(work: Work, start: u32, end: u32) -> Option<(u32, u32)> {
    let name = swar::first_of_or_blank(work.word(start), b':');
    let after = start + (name.trailing_zeros() >> 3);
    // Blanks may stand before the colon, line ends not (RFC 3261 7.3.1).
    let word = work.word(after);
    let text = swar::unequal(word, b' ') & swar::unequal(word, b'\t') & swar::HIGH;
    let colon = after + (text.trailing_zeros() >> 3);
    if name == 0 || text == 0 || work.byte(colon) != b':' {
        return None;
    }
    let from = skip_blanks(work, colon + 1);
    let to = trim(work, end);
    if from >= to { None } else { Some((from, to)) }
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
