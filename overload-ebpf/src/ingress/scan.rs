//! Finds the header lines: a bitmap of line feeds, then one walk over its bits.
//!
//! Both passes are bounded `for` loops of work without branches on the text; names are told by a
//! perfect hash into read-only memory, so that no name becomes a path for the verifier to follow.

use overload_common::{
    abi::Reason,
    sip::{COPIED, HEADER_TABLE, Header, LENGTH_SHIFT, header_name, header_slot, swar},
};

use super::{GO_ON, stop};
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
        let marks = work.block(base).marks(|text| swar::unequal(text, b'\n'));
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
    for header in 0..=Header::ContentLength as usize {
        set!(work, 0, headers[header]);
    }
    set!(work, get!(work, newlines[0]), walk.bits);
    set!(work, 0, walk.block);
    set!(work, 0, walk.start);
    set!(work, 0, walk.segments);
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

/// What the walk noted on its way: a copied header without a colon, or too many lines to copy.
#[inline(always)]
fn walked(work: Work) -> u32 {
    if get!(work, walk.state) != 0 {
        return stop(Reason::BadHeader);
    }
    if get!(work, walk.segments) > SEGMENTS_MAX as u32 {
        return stop(Reason::TooManyLines);
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
    let (header, at) = (entry.header, entry.header as usize & 15);
    if entry.name != name
        || at == Header::ContentLength as usize && is_other_content(work, start, name)
    {
        set!(work, 0, walk.header);
        return GO_ON;
    }
    set!(work, header, walk.header);
    let mut from = start;
    if header & COPIED != 0 {
        from = note_copied(work, start, end, (header >> LENGTH_SHIFT) as u32);
    }
    let mut span = get!(work, headers[at]);
    if span == 0 {
        span = u64::from(from) << 16 | u64::from(end);
    }
    set!(work, span + (1 << 32), headers[at]);
    GO_ON
}

/// Files a line that a reply copies, whose name has `length` letters; answers where its value starts.
#[inline(always)]
fn note_copied(work: Work, start: u32, end: u32, length: u32) -> u32 {
    let count = get!(work, walk.segments);
    set!(
        work,
        start << 16 | end,
        segments[count as usize & (SEGMENTS_MAX - 1)]
    );
    set!(work, count + 1, walk.segments);
    let after = start + length;
    // Nearly all write a colon and one blank.
    let word = work.word(after);
    if word as u16 == COLON_BLANK && (word >> 16) as u8 > b' ' {
        return after + 2;
    }
    let from = value_start(after);
    if from == 0 {
        set!(work, 1, walk.state);
    }
    from
}

const COLON_BLANK: u16 = u16::from_le_bytes(*b": ");

/// Where the value of a header starts whose name ends at `after`, or 0 without a colon. Blanks, but
/// nothing else, may stand between them (RFC 3261 7.3.1), up to seven.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn value_start(after: u32) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let word = work.word(after);
    let text = swar::unequal(word, b' ') & swar::unequal(word, b'\t') & swar::HIGH;
    let colon = after + (text.trailing_zeros() >> 3);
    if text == 0 || work.byte(colon) != b':' {
        return 0;
    }
    skip_blanks(work, colon + 1)
}

const LENGTH: u64 = u64::from_le_bytes(*b"length\0\0");

/// Is a line that begins with `Content-` none of Content-Length?
#[inline(always)]
fn is_other_content(work: Work, start: u32, name: u64) -> bool {
    let differs = swar::lower(work.word(start + 8)) & swar::first_bytes(6) ^ LENGTH;
    // The compact name has one letter.
    differs != 0 && name >> 8 != 0
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

/// The value of the first row of a copied header, which stands in the request, without blanks around it;
/// `None` when there is nothing.
#[inline(always)]
pub fn value(work: Work, header: Header) -> Option<(u32, u32)> {
    let span = get!(work, headers[header as usize & 15]);
    trimmed(work, (span >> 16) as u32 & 0xffff, span as u32 & 0xffff)
}

/// The value of a row whose name ends at `after`, without blanks around it: `None` when no colon follows
/// the name, or nothing the colon.
#[inline(always)]
pub fn value_after(work: Work, after: u32, end: u32) -> Option<(u32, u32)> {
    let from = value_start(after);
    if from == 0 {
        return None;
    }
    trimmed(work, from, end)
}

#[inline(always)]
fn trimmed(work: Work, from: u32, end: u32) -> Option<(u32, u32)> {
    // A row ends with CR LF.
    let mut to = end.wrapping_sub(2);
    if work.byte(end.wrapping_sub(3)) <= b' ' {
        to = trim(work, end);
    }
    // More blanks than are stepped over: where the value begins or ends is not known.
    let blank = work.byte(from) <= b' ' || work.byte(to.wrapping_sub(1)) <= b' ';
    if from >= to || blank {
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
pub fn trim(work: Work, end: u32) -> u32 {
    let word = work.word(end.wrapping_sub(8));
    let text = ((word & swar::LOW7) + swar::ONES * (0x7f - 0x20) | word) & swar::HIGH;
    end - (text.leading_zeros() >> 3)
}
