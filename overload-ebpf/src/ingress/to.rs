//! The To header: is there a tag, and where would ours go?
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

/// Answers of [`tag`].
pub const TAGGED: u32 = 0x1_0000;

/// Longest To value, bytes.
const BLOCKS: u32 = 8;

const PLAIN: u32 = 0;
const QUOTED: u32 = 1;
const ESCAPED: u32 = 2;
const ANGLE: u32 = 3;

/// Sets `meta.to_tag` to the tag's value and answers [`TAGGED`], or to the value's end and answers
/// [`GO_ON`]; any other answer is the packet's reason.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn to_tag() -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let (_, start, end) = scan::header(work, Header::To);
    let Some((start, end)) = scan::value(work, start, end) else {
        return stop(Reason::BadHeader);
    };
    if end - start > BLOCKS * 64 {
        return stop(Reason::BadHeader);
    }
    set!(work, 0, walk.bits);
    set!(work, start, walk.start);
    set!(work, PLAIN, walk.state);
    for _ in 0..64 {
        let bits = get!(work, walk.bits);
        let base = get!(work, walk.start);
        if bits == 0 {
            if base >= end {
                break;
            }
            set!(work, mark(work, base, end), walk.bits);
            set!(work, base + 64, walk.start);
            continue;
        }
        set!(work, bits & bits.wrapping_sub(1), walk.bits);
        let at = base - 64 + bits.trailing_zeros();
        let state = get!(work, walk.state);
        let next = match (state, work.byte(at)) {
            (QUOTED, b'"') => PLAIN,
            (QUOTED, b'\\') => {
                // The escaped byte is data: forget its mark.
                set!(
                    work,
                    get!(work, walk.bits) & !(2 << (bits.trailing_zeros() & 63)),
                    walk.bits
                );
                if bits.trailing_zeros() == 63 {
                    ESCAPED
                } else {
                    QUOTED
                }
            }
            (ANGLE, b'>') => PLAIN,
            (PLAIN, b'"') => QUOTED,
            (PLAIN, b'<') => ANGLE,
            (PLAIN, b';') => {
                let name = skip_blanks(work, at + 1);
                if swar::lower(work.word(name)) & 0xff_ffff == u64::from_le_bytes(*b"tag\0\0\0\0\0")
                {
                    return tag_value(work, name + 3, end);
                }
                PLAIN
            }
            (PLAIN, _) => return stop(Reason::BadHeader),
            (same, _) => same,
        };
        if next == ESCAPED {
            // The escape straddles two blocks: rare enough to leave to the proxy.
            return stop(Reason::BadHeader);
        }
        set!(work, next, walk.state);
    }
    if get!(work, walk.state) != PLAIN || get!(work, walk.start) < end || get!(work, walk.bits) != 0
    {
        return stop(Reason::BadHeader);
    }
    set!(work, end, meta.to_tag);
    GO_ON
}

/// The tag's value follows `=`; a name that only begins with "tag" is another parameter's.
#[inline(always)]
fn tag_value(work: Work, at: u32, end: u32) -> u32 {
    let equals = skip_blanks(work, at);
    if equals >= end || work.byte(equals) != b'=' {
        return stop(Reason::BadHeader);
    }
    let value = skip_blanks(work, equals + 1);
    if value >= end || work.byte(value) == b';' {
        return stop(Reason::BadHeader);
    }
    set!(work, value, meta.to_tag);
    TAGGED
}

/// Marks the characters that matter in 64 bytes from `base`, none at or past `end`.
#[inline(always)]
fn mark(work: Work, base: u32, end: u32) -> u64 {
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
    let rest = end - base;
    if rest < 64 {
        marks & ((1 << rest) - 1)
    } else {
        marks
    }
}
