//! The Request-URI: scheme, and where its host stands (RFC 3261 19.1).

use overload_common::{abi::Reason, sip::swar};

use super::{GO_ON, stop};
use crate::scratch::{Work, get, set};

/// Longest Request-URI, bytes.
pub const URI_MAX: u32 = 512;

const VERSION: u64 = u64::from_le_bytes(*b" sip/2.0");
const SIP: u64 = u64::from_le_bytes(*b"sip:\0\0\0\0");
const TEL: u64 = u64::from_le_bytes(*b"tel:\0\0\0\0");
const URN_SERVICE: u64 = u64::from_le_bytes(*b"urn:serv");
const ICE_SOS: u64 = u64::from_le_bytes(*b"ice:sos\0");
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

/// Checks the Request-URI and sets in `meta` where user and host start; tel URIs have no host, urns neither.
#[inline(always)]
pub fn request_uri(work: Work) -> u32 {
    let start = get!(work, meta.method_length) + 1;
    let end = get!(work, meta.request_line).wrapping_sub(9);
    let scheme = swar::lower(work.word(start));
    set!(work, 0, meta.is_sos);
    let (user, host) = if scheme & 0xffff_ffff == SIP {
        (start + 4, start + 4)
    } else if scheme & 0xff_ffff_ffff == SIPS {
        (start + 5, start + 5)
    } else if scheme & 0xffff_ffff == TEL {
        (start + 4, 0)
    } else if scheme == URN_SERVICE && is_sos(work, start + 8) {
        set!(work, 1, meta.is_sos);
        (0, 0)
    } else {
        return stop(Reason::UnsupportedUri);
    };
    set!(work, user, meta.user_start);
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

/// Does `sos` follow, whole or with a more special service behind it (RFC 5031 4.2)?
#[inline(always)]
fn is_sos(work: Work, at: u32) -> bool {
    let word = swar::lower(work.word(at));
    word & swar::first_bytes(7) == ICE_SOS && matches!((word >> 56) as u8, b' ' | b'.')
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
