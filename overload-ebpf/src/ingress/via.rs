//! The top Via: transport, sent-by, branch, and what routes a reply (RFC 3261 18.2.2, RFC 3581).

use overload_common::{
    abi::Reason,
    sip::{Header, PARAM_TABLE, Param, param_slot, swar},
};

use super::{
    GO_ON,
    scan::{self, skip_blanks, trim},
    stop,
    transaction::FIELD_MAX,
};
use crate::scratch::{Work, get, set};

/// Longest first value, bytes.
const VALUE_MAX: u32 = 512;
/// Marked characters and blocks of the first value that are looked at.
const STEPS: u32 = 24;

const SENT_BY: u32 = 0;
const PARAMS: u32 = 1;
const QUOTED: u32 = 2;

const SIP_2_0: u64 = u64::from_le_bytes(*b"sip/2.0/");
const UDP: u64 = u64::from_le_bytes(*b"udp\0\0\0\0\0");
const COOKIE: u64 = u64::from_le_bytes(*b"z9hg4bk\0");

/// Reads the first value of the first Via row into `meta` and `params`.
#[inline(always)]
pub fn top_via(work: Work) -> u32 {
    let Some((start, end)) = scan::value(work, Header::Via) else {
        return stop(Reason::BadVia);
    };
    if swar::lower(work.word(start)) != SIP_2_0 {
        return stop(Reason::BadVia);
    }
    let transport = swar::lower(work.word(start + 8));
    if transport & 0xff_ffff != UDP || (transport >> 24) as u8 > 0x20 {
        return stop(Reason::ViaTransport);
    }
    let sent_by = skip_blanks(work, start + 11);
    if sent_by >= end {
        return stop(Reason::BadVia);
    }
    set!(work, sent_by, meta.sent_by_start);
    let answer = walk_params(work, sent_by, end);
    if answer != GO_ON {
        return answer;
    }
    check_params(work)
}

/// Splits the value at its semicolons, up to the first comma outside quotes.
#[inline(always)]
fn walk_params(work: Work, start: u32, end: u32) -> u32 {
    for param in 0..8 {
        set!(work, 0, params[param]);
    }
    // Most values fit one block: it is marked here, the rest by a function.
    set!(work, mark(work, start), walk.bits);
    set!(work, start + 64, walk.start);
    set!(work, start, walk.cursor);
    set!(work, SENT_BY, walk.state);
    // Colons of sent-by, and the last one.
    set!(work, 0, walk.number);
    set!(work, 0, walk.block);
    for _ in 0..STEPS {
        let bits = get!(work, walk.bits);
        let base = get!(work, walk.start);
        let mut at = end;
        if bits != 0 {
            set!(work, bits & bits.wrapping_sub(1), walk.bits);
            // A mark at or past the end is the next line's.
            at = (base - 64 + bits.trailing_zeros()).min(end);
        } else if base < end {
            if base - start >= VALUE_MAX {
                return stop(Reason::BadVia);
            }
            set!(work, mark_via(base), walk.bits);
            set!(work, base + 64, walk.start);
            continue;
        }
        let byte = if at == end { b',' } else { work.byte(at) };
        let state = get!(work, walk.state);
        if state == QUOTED {
            if at == end || byte == b'"' && work.byte(at - 1) == b'\\' {
                return stop(Reason::BadVia);
            }
            if byte == b'"' {
                set!(work, PARAMS, walk.state);
            }
            continue;
        }
        if byte != b';' && byte != b',' {
            if byte == b'"' {
                set!(work, QUOTED, walk.state);
            }
            if state == SENT_BY {
                if byte == b'"' || byte <= b' ' {
                    return stop(Reason::BadVia);
                }
                if byte == b':' {
                    set!(work, get!(work, walk.number) + 1, walk.number);
                    set!(work, at, walk.block);
                }
            }
            continue;
        }
        let item = get!(work, walk.cursor);
        set!(work, at + 1, walk.cursor);
        if state == SENT_BY {
            set!(work, at, meta.sent_by_end);
            set!(work, PARAMS, walk.state);
        } else if !note_param(work, item, at) {
            return stop(Reason::BadVia);
        }
        if byte == b',' {
            set!(work, at, meta.via_end);
            return GO_ON;
        }
    }
    stop(Reason::BadVia)
}

/// Files one parameter under its name; `false` when more blanks stand before it than are stepped over.
#[inline(always)]
fn note_param(work: Work, item: u32, end: u32) -> bool {
    let start = skip_blanks(work, item);
    if start < end && work.byte(start) <= b' ' {
        return false;
    }
    let length = end.saturating_sub(start);
    let word = work.word(start);
    let mask = swar::below(swar::first_of_or_blank(word, b'=')) & swar::first_bytes(length);
    let name = (word | swar::ONES * 0x20) & mask;
    let entry = &PARAM_TABLE[param_slot(name) as usize & 7];
    let x = entry.name ^ name;
    let known = ((x | x.wrapping_neg()) >> 63).wrapping_sub(1);
    let mut at = (entry.param & known) as usize & 7;
    if at == Param::Received as usize
        && length > 8
        && !matches!(work.byte(start + 8), b'=' | 0..=b' ')
    {
        // Eight letters are all a word holds; the name goes on.
        at = 0;
    }
    let count = get!(work, params[at]) >> 32;
    set!(
        work,
        (count + 1) << 32 | u64::from(start) << 16 | u64::from(end),
        params[at]
    );
    true
}

/// A parameter: how often it stands, its start, and its end.
#[inline(always)]
pub fn param(work: Work, param: Param) -> (u32, u32, u32) {
    let span = get!(work, params[param as usize & 7]);
    (
        (span >> 32) as u32,
        (span >> 16) as u32 & 0xffff,
        span as u32 & 0xffff,
    )
}

#[inline(always)]
fn check_params(work: Work) -> u32 {
    let (branches, start, end) = param(work, Param::Branch);
    if branches == 0 {
        return stop(Reason::NoBranch);
    }
    let value = start + 7;
    if branches > 1 || work.byte(start + 6) != b'=' || value > end {
        return stop(Reason::BadVia);
    }
    // Blanks behind the branch are none of it.
    let end = trim(work, end);
    if work.byte(end.wrapping_sub(1)) <= b' ' {
        return stop(Reason::BadVia);
    }
    // The cookie alone names no transaction (RFC 4475 3.1.2.19).
    if swar::lower(work.word(value)) & swar::first_bytes(7) != COOKIE || end - value <= 7 {
        return stop(Reason::NoBranch);
    }
    // The cookie is the same in all.
    set!(work, value + 7, meta.branch_start);
    set!(work, end, meta.branch_end);
    if param(work, Param::Maddr).0 != 0 {
        return stop(Reason::ViaMaddr);
    }
    let (rports, ..) = param(work, Param::Rport);
    let (received, ..) = param(work, Param::Received);
    if rports > 1 || received > 1 || end - value - 7 > FIELD_MAX {
        return stop(Reason::BadVia);
    }
    sent_by(work)
}

/// Checks sent-by and sets its port: a host, and at most one port of one to five digits.
#[inline(always)]
fn sent_by(work: Work) -> u32 {
    let (start, end) = (get!(work, meta.sent_by_start), get!(work, meta.sent_by_end));
    if end.wrapping_sub(start + 1) >= FIELD_MAX {
        return stop(Reason::BadVia);
    }
    let (colons, colon) = (get!(work, walk.number), get!(work, walk.block));
    let has_port = if work.byte(start) == b'[' {
        // What follows the bracket is nothing, or the port.
        if work.byte(end - 1) == b']' {
            false
        } else if colons != 0 && work.byte(colon - 1) == b']' {
            true
        } else {
            return stop(Reason::BadVia);
        }
    } else if colons <= 1 && colon != start {
        colons != 0
    } else {
        return stop(Reason::BadVia);
    };
    if !has_port {
        set!(work, 5060, meta.sent_by_port);
        return GO_ON;
    }
    match swar::decimal(work.word(colon + 1), end - colon - 1) {
        Some(port) if port <= 65_535 => set!(work, port as u32, meta.sent_by_port),
        _ => return stop(Reason::BadVia),
    }
    GO_ON
}

/// Marks the characters that matter in 64 bytes from `base`: `;` and `:`, and all below `-`, the comma,
/// quotes and blanks among them.
#[inline(always)]
fn mark(work: Work, base: u32) -> u64 {
    work.block(base).marks(|text| {
        let above = (text & swar::LOW7) + swar::ONES * (0x80 - u64::from(b'-')) | text;
        swar::unequal(text | swar::ONES, b';') & above
    })
}

/// The same of a block behind the first.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn mark_via(base: u32) -> u64 {
    match Work::here() {
        Some(work) => mark(work, base),
        None => 0,
    }
}
