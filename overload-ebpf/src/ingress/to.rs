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

const FROM: u32 = Header::From as u32;

const PLAIN: u32 = 0;
const QUOTED: u32 = 1;
const ANGLE: u32 = 2;

/// Reads To: sets `meta.to_tag` to the tag's value and answers [`TAGGED`], or to the value's end and
/// answers [`GO_ON`]; any other answer is the packet's reason.
#[inline(always)]
pub fn to_tag() -> u32 {
    find_tag(Header::To)
}

/// Answers [`GO_ON`] when From can be read, with a tag or without.
#[inline(always)]
pub fn check_from() -> u32 {
    let answer = find_tag(Header::From);
    if answer == TAGGED { GO_ON } else { answer }
}

#[inline(always)]
fn find_tag(header: Header) -> u32 {
    let answer = usual_tag(header as u32);
    if answer == UNDECIDED {
        any_tag(header as u32)
    } else {
        answer
    }
}

/// The value of To or From, within bounds.
#[inline(always)]
fn value(work: Work, header: u32) -> Option<(u32, u32)> {
    let header = if header == FROM {
        Header::From
    } else {
        Header::To
    };
    let (start, end) = scan::value(work, header)?;
    if end - start > VALUE_MAX {
        return None;
    }
    Some((start, end))
}

/// See [`to_tag`]: every shape.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn any_tag(header: u32) -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let Some((start, end)) = value(work, header) else {
        return stop(Reason::BadHeader);
    };
    set!(work, 0, walk.bits);
    set!(work, start, walk.start);
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
                    if answer != GO_ON && !(header == FROM && answer == TAGGED) {
                        return answer;
                    }
                }
                _ => return stop(Reason::BadHeader),
            },
        }
    }
    stop(Reason::BadHeader)
}

/// Answer of [`usual_tag`] when the general way has to decide.
const UNDECIDED: u32 = 0x2_0000;
/// Words of a display name, of a bracketed URI and of a tag that are looked at here.
const NAME_WORDS: u32 = 4;
const URI_WORDS: u32 = 16;
const TAG_WORDS: u32 = 5;

/// The usual shapes, `"name" <uri>;tag=value` without name or tag or both, in few steps.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn usual_tag(header: u32) -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let Some((start, end)) = value(work, header) else {
        return stop(Reason::BadHeader);
    };
    set!(work, start, walk.cursor);
    if work.byte(start) == b'"' {
        after_name(work, start);
    }
    let open = get!(work, walk.cursor);
    if work.byte(open) != b'<' {
        return UNDECIDED;
    }
    set!(work, u32::MAX, walk.cursor);
    for index in 0..URI_WORDS {
        let at = open + index * 8;
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
    let value = after.wrapping_add(5);
    if after > end
        || work.word(after) & FIVE != SEMICOLON_TAG
        || matches!(work.byte(value), b';' | 0..=b' ')
        || header == FROM && !is_plain(work, value, end)
    {
        return UNDECIDED;
    }
    set!(work, value, meta.to_tag);
    TAGGED
}

/// Sets `walk.cursor` behind a short quoted name in which nothing is escaped; leaves it otherwise.
#[inline(always)]
fn after_name(work: Work, quote: u32) {
    for index in 0..NAME_WORDS {
        let at = quote + 1 + index * 8;
        let word = work.word(at);
        let closes = !swar::unequal(word, b'"') & swar::HIGH;
        let escapes = !swar::unequal(word, b'\\') & swar::HIGH;
        if escapes != 0 {
            break;
        }
        if closes != 0 {
            let after = at + (closes.trailing_zeros() >> 3) + 1;
            set!(work, skip_blanks(work, after), walk.cursor);
            break;
        }
    }
}

/// Are there only letters, digits, `-`, `.`, `_`, `~` and the like up to `end`, where a line end or a
/// blank stands?
#[inline(always)]
fn is_plain(work: Work, start: u32, end: u32) -> bool {
    set!(work, start, walk.cursor);
    for index in 0..TAG_WORDS {
        let at = start + index * 8;
        let word = work.word(at);
        let seven = word & swar::LOW7;
        let from = |byte: u8| seven + swar::ONES * (0x80 - u64::from(byte));
        // Below `-`, from `:` to `?`, and the backslash.
        let others = !from(b'-') | from(b':') & !from(b'@') | !swar::unequal(seven, b'\\');
        let others = others & !word & swar::HIGH;
        if others != 0 {
            set!(work, at + (others.trailing_zeros() >> 3), walk.cursor);
            break;
        }
    }
    get!(work, walk.cursor) >= end
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
    if name >= end {
        return GO_ON;
    }
    if work.byte(name) <= b' ' {
        // More blanks than are stepped over may hide a tag.
        return stop(Reason::BadHeader);
    }
    if swar::lower(work.word(name)) & 0xff_ffff != TAG {
        return GO_ON;
    }
    let at = name + 3;
    let equals = skip_blanks(work, at);
    if equals >= end || matches!(work.byte(equals), b';' | 0..=b' ') {
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
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn mark_to(base: u32) -> u64 {
    let Some(work) = Work::here() else {
        return 0;
    };
    work.block(base).marks(|text| {
        swar::unequal(text, b'"')
            & swar::unequal(text, b'<')
            & swar::unequal(text, b'>')
            & swar::unequal(text, b';')
            & swar::unequal(text, b'\\')
    })
}
