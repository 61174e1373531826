//! The To header: is there a tag, and where would ours go? From is read alike, to be whole.
//!
//! A `;tag=` inside a quoted display name or inside `<...>` is no tag (RFC 3261 20.39, 25.1).

use overload_common::{
    abi::Reason,
    sip::{Header, swar},
};

use super::{
    GO_ON,
    scan::{self, skip_blanks},
    stop,
};
use crate::scratch::{Work, get, set};

/// Answer of [`to_tag`] when there is one.
pub const TAGGED: u32 = 0x1_0000;

/// Longest To value, bytes.
const VALUE_MAX: u32 = 512;
/// Marked characters and blocks that are looked at.
const STEPS: u32 = 24;

const PLAIN: u32 = 0;
const QUOTED: u32 = 1;
const ANGLE: u32 = 2;

/// Reads To: sets `meta.to_tag` to the tag's value and answers [`TAGGED`], or to the value's end and
/// answers [`GO_ON`]; any other answer is the packet's reason.
#[inline(always)]
pub fn to_tag() -> u32 {
    find_tag(Header::To as u32)
}

/// Answers [`GO_ON`] when From can be read, with a tag or without.
#[inline(always)]
pub fn check_from() -> u32 {
    let answer = find_tag(Header::From as u32);
    if answer == TAGGED { GO_ON } else { answer }
}

/// See [`to_tag`]; `header` is To or From.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn find_tag(header: u32) -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let span = get!(work, headers[header as usize & 15]);
    let (start, end) = ((span >> 16) as u32 & 0xffff, span as u32 & 0xffff);
    let Some((start, end)) = scan::value(work, start, end) else {
        return stop(Reason::BadHeader);
    };
    if end - start > VALUE_MAX {
        return stop(Reason::BadHeader);
    }
    let from = header == Header::From as u32;
    if work.byte(start) == b'<' {
        let answer = bracketed(work, start, end, from);
        if answer != UNDECIDED {
            return answer;
        }
    }
    // Most values fit one block: it is marked here, the rest by a function.
    set!(work, mark(work, start), walk.bits);
    set!(work, start + 64, walk.start);
    set!(work, PLAIN, walk.state);
    set!(work, 0, walk.cursor);
    for _ in 0..STEPS {
        let bits = get!(work, walk.bits);
        let base = get!(work, walk.start);
        if bits == 0 {
            if base >= end {
                return untagged(work, end);
            }
            set!(work, mark_to(base), walk.bits);
            set!(work, base + 64, walk.start);
            continue;
        }
        set!(work, bits & bits.wrapping_sub(1), walk.bits);
        let at = base - 64 + bits.trailing_zeros();
        if at >= end {
            return untagged(work, end);
        }
        let byte = work.byte(at);
        match get!(work, walk.state) {
            QUOTED => {
                if at == get!(work, walk.cursor) {
                    // Escaped by the backslash before it.
                } else if byte == b'"' {
                    set!(work, PLAIN, walk.state);
                } else if byte == b'\\' {
                    set!(work, at + 1, walk.cursor);
                }
            }
            ANGLE => {
                if byte == b'>' {
                    set!(work, PLAIN, walk.state);
                }
            }
            _ => match byte {
                b'"' => set!(work, QUOTED, walk.state),
                b'<' => set!(work, ANGLE, walk.state),
                b';' => {
                    let answer = tag_value(at, end);
                    if answer != GO_ON && !(from && answer == TAGGED) {
                        return answer;
                    }
                }
                _ => return stop(Reason::BadHeader),
            },
        }
    }
    stop(Reason::BadHeader)
}

/// Answer of [`bracketed`] when the general way has to decide.
const UNDECIDED: u32 = 0x2_0000;
/// Words of a bracketed URI that are looked at here.
const URI_WORDS: u32 = 16;

/// The two usual shapes, `<uri>` and `<uri>;tag=value`, told by the first closing bracket alone.
#[inline(always)]
fn bracketed(work: Work, start: u32, end: u32, from: bool) -> u32 {
    set!(work, 0, walk.cursor);
    for index in 0..URI_WORDS {
        let at = start + index * 8;
        let closes = !swar::unequal(work.word(at), b'>') & swar::HIGH;
        if closes != 0 {
            set!(work, at + (closes.trailing_zeros() >> 3) + 1, walk.cursor);
            break;
        }
    }
    let after = get!(work, walk.cursor);
    if after == end {
        set!(work, end, meta.to_tag);
        return GO_ON;
    }
    // From is read to its end.
    if after != 0
        && !from
        && after < end
        && work.word(after) & FIVE == SEMICOLON_TAG
        && work.byte(after + 5) > b';'
    {
        set!(work, after + 5, meta.to_tag);
        return TAGGED;
    }
    UNDECIDED
}

const FIVE: u64 = swar::first_bytes(5);
const SEMICOLON_TAG: u64 = u64::from_le_bytes(*b";tag=\0\0\0");
const TAG: u64 = u64::from_le_bytes(*b"tag\0\0\0\0\0");

/// The end is reached: nothing may be left open.
#[inline(always)]
fn untagged(work: Work, end: u32) -> u32 {
    if get!(work, walk.state) != PLAIN {
        return stop(Reason::BadHeader);
    }
    set!(work, end, meta.to_tag);
    GO_ON
}

/// Is the parameter behind this semicolon the tag? The value follows `=`; a name that only begins with "tag" is another parameter's.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn tag_value(semicolon: u32, end: u32) -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let name = skip_blanks(work, semicolon + 1);
    if swar::lower(work.word(name)) & 0xff_ffff != TAG {
        return GO_ON;
    }
    let at = name + 3;
    let equals = skip_blanks(work, at);
    if equals >= end || work.byte(equals) == b';' {
        return stop(Reason::BadHeader);
    }
    if work.byte(equals) != b'=' {
        return GO_ON;
    }
    let value = skip_blanks(work, equals + 1);
    if value >= end || work.byte(value) == b';' {
        return stop(Reason::BadHeader);
    }
    set!(work, value, meta.to_tag);
    TAGGED
}

/// Marks the characters that matter in 64 bytes from `base`.
#[inline(always)]
fn mark(work: Work, base: u32) -> u64 {
    let mut marks = 0;
    for word in 0..8u32 {
        let text = work.word(base + word * 8);
        let none = swar::unequal(text, b'"')
            & swar::unequal(text, b'<')
            & swar::unequal(text, b'>')
            & swar::unequal(text, b';')
            & swar::unequal(text, b'\\');
        marks |= swar::gather(!none) << (word * 8);
    }
    marks
}

/// The same of a block behind the first.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn mark_to(base: u32) -> u64 {
    match Work::here() {
        Some(work) => mark(work, base),
        None => 0,
    }
}
