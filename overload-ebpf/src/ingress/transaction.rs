//! Keyed hashes that name a request: its transaction, its source and target, its host.

use overload_common::{
    abi::{KEY_TRANSACTION, KEY_URI, KeyRecord},
    hash::SipHash13,
    sip::swar,
};

use crate::{
    maps::KEYS,
    scratch::{Work, get, set},
};

/// Words of one hashed field; longer fields are told apart by their length and their first 512 bytes.
const WORDS: u32 = 64;

/// Sets `meta.transaction` and `meta.verify`.
#[inline(always)]
pub fn identify(method: u32) {
    hash_transaction(method);
    hash_target();
}

#[inline(always)]
fn key(index: u32) -> KeyRecord {
    match KEYS.get(index) {
        Some(key) => *key,
        None => KeyRecord { k0: 0, k1: 0 },
    }
}

/// Hash over what a response carries too: top branch, sent-by, Call-ID, CSeq (RFC 3261 17.1.3). An ACK
/// is hashed as the INVITE it belongs to.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn hash_transaction(method: u32) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let key = key(KEY_TRANSACTION);
    let branch = (get!(work, meta.branch_start), get!(work, meta.branch_end));
    let call_id = (get!(work, meta.call_id_start), get!(work, meta.call_id_end));
    let sent_by = (get!(work, meta.sent_by_start), get!(work, meta.sent_by_end));
    // The lengths come first, so that no two lists of fields give the same words.
    let lengths = u64::from(branch.1 - branch.0)
        | u64::from(call_id.1 - call_id.0) << 16
        | u64::from(sent_by.1 - sent_by.0) << 32
        | u64::from(method) << 48;
    let start = SipHash13::new(key.k0, key.k1)
        .word(lengths)
        .word(u64::from(get!(work, meta.cseq)));
    set!(work, start.state(), hash);
    absorb(branch.0, branch.1);
    absorb(call_id.0, call_id.1);
    absorb(sent_by.0, sent_by.1);
    set!(
        work,
        SipHash13::from_state(get!(work, hash)).finish(0),
        meta.transaction
    );
    0
}

/// Hash over source address and Request-URI, by bits independent of the transaction's.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn hash_target() -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let key = key(KEY_TRANSACTION);
    let start = get!(work, meta.method_length) + 1;
    let end = get!(work, meta.request_line).wrapping_sub(9);
    let head = u64::from(end.wrapping_sub(start)) << 32 | u64::from(get!(work, meta.source));
    set!(
        work,
        SipHash13::new(!key.k0, key.k1).word(head).state(),
        hash
    );
    absorb(start, end);
    set!(
        work,
        SipHash13::from_state(get!(work, hash)).finish(0),
        meta.verify
    );
    0
}

/// Adds the bytes from `start` to `end` to the running hash, the last word zero-padded.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn absorb(start: u32, end: u32) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let mut hash = SipHash13::from_state(get!(work, hash));
    let length = end.wrapping_sub(start);
    let whole = length >> 3;
    for index in 0..WORDS {
        if index >= whole {
            break;
        }
        hash = hash.word(work.word(start + index * 8));
    }
    let rest = work.word(start + (length & !7)) & !(u64::MAX << ((length & 7) * 8));
    set!(work, hash.word(rest).state(), hash);
    0
}

/// [`overload_common::sip::host_key`] of the Request-URI's host in canonical form; 0 when it has none.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn host_hash() -> u64 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let start = get!(work, meta.host_start);
    let end = get!(work, meta.request_line).wrapping_sub(9);
    if start == 0 || start >= end {
        return 0;
    }
    // An IPv6 literal ends with its bracket, any other host before port, parameters or headers.
    let literal = work.byte(start) == b'[';
    let key = key(KEY_URI);
    let mut hash = SipHash13::new(key.k0, key.k1);
    for index in 0..32u32 {
        let at = start + index * 8;
        let rest = end.saturating_sub(at);
        let word = swar::lower(work.word(at));
        let ends = if literal {
            !swar::unequal(word, b']')
        } else {
            !(swar::unequal(word, b':') & swar::unequal(word, b';') & swar::unequal(word, b'?'))
        } & swar::HIGH
            & swar::first_bytes(rest);
        if ends == 0 && rest >= 8 {
            hash = hash.word(word);
            continue;
        }
        let mut length = rest;
        if ends != 0 {
            length = (ends.trailing_zeros() >> 3) + u32::from(literal);
        }
        if length == 8 {
            return hash.word(word).finish(u64::from(index * 8 + 8) << 56);
        }
        let last = word & swar::first_bytes(length);
        return hash.finish(last | u64::from(index * 8 + length) << 56);
    }
    0
}
