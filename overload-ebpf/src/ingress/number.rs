//! The called number of a Request-URI (RFC 3966; RFC 3261 19.1.6).

use overload_common::sip::{NUMBER_DIGITS, swar};

use crate::scratch::{Work, get, set};

/// Begins with `+`.
pub const GLOBAL: u32 = 1;
/// May be compared with prefixes.
pub const COMPARABLE: u32 = 2;

/// Characters of a number, separators included, that are looked at.
const CHARACTERS: u32 = 32;
/// Marked semicolons and blocks behind the host that are looked at.
const STEPS: u32 = 16;

const USER_PHONE: u64 = u64::from_le_bytes(*b";user=ph");
const ONE: u64 = u64::from_le_bytes(*b"one\0\0\0\0\0");

/// Sets `meta.number` to the digits as [`overload_common::sip::Number`] has them, 0 when there are none or
/// more than fifteen, and `meta.number_flags`.
///
/// A number can be compared with prefixes in a tel URI, and in a SIP URI with user=phone; one without `+`
/// only without parameters, as these give it a context.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn read_number() -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    set!(work, 0, meta.number);
    set!(work, 0, meta.number_flags);
    let host = get!(work, meta.host_start);
    let start = get!(work, meta.user_start);
    if start == 0 || start == host {
        return 0;
    }
    let global = u32::from(work.byte(start) == b'+');
    set!(work, 1, walk.bits);
    set!(work, start + global, walk.cursor);
    for _ in 0..CHARACTERS {
        let at = get!(work, walk.cursor);
        let byte = work.byte(at);
        let digit = u64::from(byte.wrapping_sub(b'0'));
        if digit < 10 {
            set!(work, get!(work, walk.bits) << 4 | digit, walk.bits);
        } else if !matches!(byte, b'-' | b'.' | b'(' | b')') {
            break;
        }
        set!(work, at + 1, walk.cursor);
    }
    let digits = get!(work, walk.bits);
    let end = work.byte(get!(work, walk.cursor));
    // A leading one above fifteen digits is the last that is whole.
    if digits == 1 || digits >> (4 * NUMBER_DIGITS) > 1 || !matches!(end, b'@' | b';' | b' ') {
        return 0;
    }
    set!(work, digits, meta.number);
    let contextless = global != 0 || end != b';';
    let comparable = contextless && (host == 0 || is_phone(host) != 0);
    set!(
        work,
        global * GLOBAL + u32::from(comparable) * COMPARABLE,
        meta.number_flags
    );
    0
}

/// Does user=phone stand behind the host?
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn is_phone(host: u32) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let end = get!(work, meta.request_line).wrapping_sub(9);
    set!(work, 0, walk.bits);
    set!(work, host, walk.start);
    for _ in 0..STEPS {
        let bits = get!(work, walk.bits);
        let base = get!(work, walk.start);
        if bits == 0 {
            if base >= end {
                return 0;
            }
            let marks = work.block(base).marks(|text| swar::unequal(text, b';'));
            set!(work, marks, walk.bits);
            set!(work, base + 64, walk.start);
            continue;
        }
        set!(work, bits & bits.wrapping_sub(1), walk.bits);
        let at = base - 64 + bits.trailing_zeros();
        if at >= end {
            return 0;
        }
        let rest = work.word(at + 8);
        if swar::lower(work.word(at)) == USER_PHONE
            && swar::lower(rest) & swar::first_bytes(3) == ONE
            && matches!((rest >> 24) as u8, b' ' | b';' | b'?')
        {
            return 1;
        }
    }
    0
}
