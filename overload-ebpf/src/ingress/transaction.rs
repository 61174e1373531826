//! Keyed hashes that name a request: its transaction, its source and target, its host.

use overload_common::{
    abi::{KEY_TRANSACTION, KEY_URI, KeyRecord},
    hash::SipHash13,
    sip::{Method, swar},
};

use super::target::URI_MAX;
use crate::{
    maps::KEYS,
    scratch::{Work, get, set},
};

/// Longest branch, Call-ID and sent-by, bytes; requests with longer ones are not judged.
pub const FIELD_MAX: u32 = 256;
/// Words of a host; a longer one matches no destination.
const HOST_WORDS: u32 = 31;

#[inline(always)]
pub fn key(index: u32) -> KeyRecord {
    match KEYS.get(index) {
        Some(key) => *key,
        None => KeyRecord { k0: 0, k1: 0 },
    }
}

/// Sets `meta.transaction`: a hash over what a response carries too, top branch, sent-by, Call-ID and
/// CSeq (RFC 3261 17.1.3). An ACK is hashed as the INVITE it belongs to.
#[inline(always)]
pub fn identify(work: Work) {
    let mut method = get!(work, meta.method);
    if method == Method::Ack as u32 {
        method = Method::Invite as u32;
    }
    let key = key(KEY_TRANSACTION);
    let branch = (get!(work, meta.branch_start), get!(work, meta.branch_end));
    let call_id = (get!(work, meta.call_id_start), get!(work, meta.call_id_end));
    let sent_by = (get!(work, meta.sent_by_start), get!(work, meta.sent_by_end));
    let mut hash = SipHash13::new(key.k0, key.k1);
    hash = absorb(work, hash, branch);
    hash = absorb(work, hash, call_id);
    hash = absorb(work, hash, sent_by);
    // The lengths end it, so that no two lists of fields give the same words: nine bits each.
    let lengths = u64::from(branch.1 - branch.0)
        | u64::from(call_id.1 - call_id.0) << 9
        | u64::from(sent_by.1 - sent_by.0) << 18;
    let last = lengths | u64::from(method) << 27 | u64::from(get!(work, meta.cseq)) << 32;
    set!(work, hash.finish(last), meta.transaction);
}

/// Sets `meta.verify`: a keyed mix of source address and Request-URI.
///
/// It only tells apart requests of one transaction, whose own hash is SipHash: who makes it collide gets
/// what a true copy of his request would get. So a multiplication a word is enough, a third of the work.
#[inline(always)]
pub fn identify_target(work: Work) {
    let key = key(KEY_TRANSACTION);
    let start = get!(work, meta.method_length) + 1;
    let length = get!(work, meta.request_line).wrapping_sub(9 + start);
    let mut mixed = mix(!key.k0, u64::from(length), key.k1);
    mixed = mix(mixed, get!(work, meta.source[0]), key.k1);
    mixed = mix(mixed, get!(work, meta.source[1]), key.k1);
    let whole = length >> 3;
    for index in 0..URI_MAX / 8 {
        if index >= whole {
            break;
        }
        mixed = mix(mixed, work.word(start + index * 8), key.k1);
    }
    let rest = work.word(start + (length & !7)) & !(u64::MAX << ((length & 7) * 8));
    set!(work, mix(mixed, rest, key.k1), meta.verify);
}

/// One step of a keyed mix.
#[inline(always)]
pub fn mix(state: u64, word: u64, factor: u64) -> u64 {
    let product = (state ^ word).wrapping_mul(factor | 1);
    product ^ product >> 32
}

/// Adds the bytes from `start` to `end` to a hash, the last word zero-padded.
#[inline(always)]
fn absorb(work: Work, mut hash: SipHash13, (start, end): (u32, u32)) -> SipHash13 {
    let length = end.wrapping_sub(start);
    let whole = length >> 3;
    for index in 0..FIELD_MAX / 8 {
        if index >= whole {
            break;
        }
        hash = hash.word(work.word(start + index * 8));
    }
    let rest = work.word(start + (length & !7)) & !(u64::MAX << ((length & 7) * 8));
    hash.word(rest)
}

/// [`overload_common::sip::host_key`] of the Request-URI's host in canonical form; 0 when it has none.
#[inline(always)]
pub fn host_hash(work: Work) -> u64 {
    let start = get!(work, meta.host_start);
    let end = get!(work, meta.request_line).wrapping_sub(9);
    if start == 0 || start >= end {
        return 0;
    }
    // An IPv6 literal ends with its bracket, any other host before port, parameters or headers. A URI is
    // followed by a blank, which ends both.
    let literal = work.byte(start) == b'[';
    let (a, b, c, inclusive) = if literal {
        (b']', b']', b']', 1)
    } else {
        (b':', b';', b'?', 0)
    };
    let key = key(KEY_URI);
    let mut hash = SipHash13::new(key.k0, key.k1);
    for index in 0..HOST_WORDS {
        let word = swar::lower(work.word(start + index * 8));
        let none = swar::unequal(word, a)
            & swar::unequal(word, b)
            & swar::unequal(word, c)
            & swar::unequal(word, b' ');
        let ends = !none & swar::HIGH;
        if ends == 0 {
            hash = hash.word(word);
            continue;
        }
        let length = (ends.trailing_zeros() >> 3) + inclusive;
        let bytes = u64::from(index * 8 + length) << 56;
        if length == 8 {
            return hash.word(word).finish(bytes);
        }
        return hash.finish(word & !(u64::MAX << (length * 8)) | bytes);
    }
    0
}
