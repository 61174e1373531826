//! The Request-URI: scheme, and where its host stands (RFC 3261 19.1).

use overload_common::{abi::Reason, sip::swar};

use super::{GO_ON, stop};
use crate::scratch::{Work, get, set};

/// Longest Request-URI, bytes.
pub const URI_MAX: u32 = 512;

const VERSION: u64 = u64::from_le_bytes(*b" sip/2.0");
const SIP: u64 = u64::from_le_bytes(*b"sip:\0\0\0\0");
const TEL: u64 = u64::from_le_bytes(*b"tel:\0\0\0\0");
const SIPS: u64 = u64::from_le_bytes(*b"sips:\0\0\0");

/// Checks the frame of the request line: Method SP Request-URI SP SIP/2.0 CRLF (RFC 3261 7.1).
#[inline(always)]
pub fn request_line(work: Work) -> u32 {
    let line_feed = get!(work, meta.request_line);
    let start = get!(work, meta.method_length) + 1;
    let end = line_feed.wrapping_sub(9);
    if line_feed < start + 14 || swar::lower(work.word(end)) != VERSION || end - start > URI_MAX {
        return stop(Reason::BadRequestLine);
    }
    GO_ON
}

/// Checks the Request-URI and sets its host's place in `meta`; for tel URIs it is empty.
#[inline(always)]
pub fn request_uri(work: Work) -> u32 {
    let start = get!(work, meta.method_length) + 1;
    let end = get!(work, meta.request_line).wrapping_sub(9);
    let scheme = swar::lower(work.word(start));
    let host = if scheme & 0xffff_ffff == SIP {
        start + 4
    } else if scheme & 0xff_ffff_ffff == SIPS {
        start + 5
    } else if scheme & 0xffff_ffff == TEL {
        0
    } else {
        return stop(Reason::UnsupportedUri);
    };
    // In memory: the verifier shall not follow every place an @ may have. The place behind the last @,
    // how many there are, and whether there is a blank.
    set!(work, host, walk.cursor);
    set!(work, 0, walk.state);
    set!(work, 0, walk.bits);
    let length = end - start;
    let whole = length >> 3;
    for index in 0..URI_MAX / 8 {
        if index >= whole {
            break;
        }
        note_word(work, start + index * 8, u64::MAX);
    }
    note_word(
        work,
        start + (length & !7),
        !(u64::MAX << ((length & 7) * 8)),
    );
    if get!(work, walk.bits) != 0 {
        return stop(Reason::BadRequestLine);
    }
    if host == 0 {
        set!(work, 0, meta.host_start);
        return GO_ON;
    }
    let after_at = get!(work, walk.cursor);
    if get!(work, walk.state) > 1 || after_at >= end {
        return stop(Reason::UnsupportedUri);
    }
    set!(work, after_at, meta.host_start);
    GO_ON
}

/// Notes blanks and the place of an @ in eight bytes, those within `mask`.
#[inline(always)]
fn note_word(work: Work, at: u32, mask: u64) {
    let word = work.word(at);
    let blanks = word.wrapping_sub(swar::ONES * 0x21) & !word & swar::HIGH & mask;
    if blanks != 0 {
        set!(work, blanks, walk.bits);
    }
    let found = !swar::unequal(word, b'@') & swar::HIGH & mask;
    if found != 0 {
        set!(
            work,
            get!(work, walk.state) + 1 + u32::from(found & found.wrapping_sub(1) != 0),
            walk.state
        );
        set!(work, at + (found.trailing_zeros() >> 3) + 1, walk.cursor);
    }
}
