//! Is this request ours to judge, and is it whole enough to be answered?

use overload_common::{
    abi::{KeyRecord, Reason, SOURCE_DENIED},
    sip::{Header, Method, Tag, swar, tag_hash},
};

use super::{
    GO_ON, memory,
    scan::{self, skip_blanks},
    source, stop, target, to, transaction, via,
};
use crate::{
    clock,
    maps::{INSTANCE, KEYS},
    scratch::{Work, get, set},
};

const SUBSCRIBE: u32 = Method::Subscribe as u32;
const ACK: u32 = Method::Ack as u32;

/// Answers [`GO_ON`] for an ACK whose To tag looks like ours; any other ACK passes.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn examine_ack() -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    if required_headers(work) != GO_ON || to::to_tag() != to::TAGGED {
        return stop(Reason::Ack);
    }
    match Tag::epoch_of(work.word(get!(work, meta.to_tag))) {
        Some(_) => GO_ON,
        None => stop(Reason::Ack),
    }
}

/// Answers [`GO_ON`] for a request that is not remembered; any other answer is the packet's reason.
///
/// The transaction comes before everything that only a first copy has to be asked: a copy of an admitted
/// request is told as early as possible.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn examine() -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let answer = required_headers(work);
    if answer != GO_ON {
        return answer;
    }
    let answer = call_id_and_cseq(work);
    if answer != GO_ON {
        return answer;
    }
    let answer = via::top_via(work);
    if answer != GO_ON {
        return answer;
    }
    let answer = target::request_line(work);
    if answer != GO_ON {
        return answer;
    }
    transaction::identify(work);
    if get!(work, meta.method) == ACK {
        return own_ack(work);
    }
    memory::touch(work);
    transaction::identify_target(work);
    set!(work, clock::coarse_ns(), meta.now);
    memory::recall(work)
}

/// What only a request that is not admitted yet is asked: answers [`GO_ON`] for one to judge.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn examine_first() -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let Some(instance) = INSTANCE.get_ptr(0) else {
        return stop(Reason::Unconfigured);
    };
    if source::look_up(work, instance) & SOURCE_DENIED != 0 {
        return stop(Reason::Denied);
    }
    let answer = to::to_tag();
    if answer == to::TAGGED {
        return stop(Reason::InDialog);
    }
    if answer != GO_ON {
        return answer;
    }
    let place = get!(work, meta.to_tag);
    let answer = to::check_from();
    if answer != GO_ON {
        return answer;
    }
    set!(work, place, meta.to_tag);
    let answer = body(work);
    if answer != GO_ON {
        return answer;
    }
    let answer = exempt(work);
    if answer != GO_ON {
        return answer;
    }
    target::request_uri(work)
}

/// The five headers a reply copies, each once but for Via (RFC 3261 8.1.1).
#[inline(always)]
fn required_headers(work: Work) -> u32 {
    let vias = scan::header(work, Header::Via).0;
    let counts = [
        scan::header(work, Header::From).0,
        scan::header(work, Header::To).0,
        scan::header(work, Header::CallId).0,
        scan::header(work, Header::Cseq).0,
    ];
    if vias == 0 || counts[0] == 0 || counts[1] == 0 || counts[2] == 0 || counts[3] == 0 {
        return stop(Reason::MissingHeader);
    }
    let single =
        scan::header(work, Header::MaxForwards).0 | scan::header(work, Header::ContentLength).0;
    if counts[0] | counts[1] | counts[2] | counts[3] | single > 1 {
        return stop(Reason::DuplicateHeader);
    }
    GO_ON
}

/// The datagram carries the body that Content-Length states (RFC 3261 18.3); more is noise.
#[inline(always)]
fn body(work: Work) -> u32 {
    let (count, start, end) = scan::header(work, Header::ContentLength);
    if count == 0 {
        return GO_ON;
    }
    let long = work.byte(start + 1) | 0x20 == b'o';
    let after = start + if long { 14 } else { 1 };
    if long && !matches!(work.byte(after), b':' | b' ' | b'\t') {
        // The name goes on: another header.
        return GO_ON;
    }
    let Some((start, end)) = scan::value_after(work, after, end) else {
        return stop(Reason::BadHeader);
    };
    let mut length = 0u64;
    for offset in 0..10u32 {
        let digit = work.byte(start + offset).wrapping_sub(b'0');
        if start + offset >= end {
            break;
        }
        if digit > 9 {
            return stop(Reason::BadHeader);
        }
        length = length * 10 + u64::from(digit);
    }
    if end - start > 10 {
        return stop(Reason::BadHeader);
    }
    if length > u64::from(get!(work, meta.length).saturating_sub(get!(work, meta.body))) {
        return stop(Reason::ShortBody);
    }
    GO_ON
}

/// What the proxy must see whatever the load: Max-Forwards 0, and load-control subscriptions.
#[inline(always)]
fn exempt(work: Work) -> u32 {
    let (count, start, end) = scan::header(work, Header::MaxForwards);
    if count != 0
        && swar::lower(work.word(start + 4)) == u64::from_le_bytes(*b"forwards")
        && let Some((start, end)) = scan::value_after(work, start + 12, end)
        && swar::decimal(work.word(start), end - start) == Some(0)
    {
        return stop(Reason::MaxForwardsZero);
    }
    if get!(work, meta.method) != SUBSCRIBE {
        return GO_ON;
    }
    let (count, start, end) = scan::header(work, Header::Event);
    let name = if work.byte(start) | 0x20 == b'e' {
        5
    } else {
        1
    };
    if count != 0
        && let Some((at, _)) = scan::value_after(work, start + name, end)
        && swar::lower(work.word(at)) == u64::from_le_bytes(*b"load-con")
        && swar::lower(work.word(at + 8)) & 0xffff_ffff == u64::from_le_bytes(*b"trol\0\0\0\0")
        && (work.byte(at + 12) <= b' ' || work.byte(at + 12) == b';')
    {
        return stop(Reason::LoadControl);
    }
    GO_ON
}

/// Sets the Call-ID and the CSeq number, whose method must be the request's (RFC 3261 8.1.1.5).
#[inline(always)]
fn call_id_and_cseq(work: Work) -> u32 {
    let Some((start, end)) = scan::value(work, Header::CallId) else {
        return stop(Reason::BadHeader);
    };
    if end - start > transaction::FIELD_MAX {
        return stop(Reason::BadHeader);
    }
    set!(work, start, meta.call_id_start);
    set!(work, end, meta.call_id_end);

    let Some((start, end)) = scan::value(work, Header::Cseq) else {
        return stop(Reason::BadHeader);
    };
    let mut number = 0u64;
    let mut at = start;
    for _ in 0..10 {
        let digit = work.byte(at).wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = number * 10 + u64::from(digit);
        at += 1;
    }
    let method = skip_blanks(work, at);
    if at == start || method == at || number > u64::from(u32::MAX) {
        return stop(Reason::BadCseq);
    }
    let length = get!(work, meta.method_length);
    let difference = (work.word(method) ^ work.word(0)) & swar::first_bytes(length)
        | (work.word(method + 8) ^ work.word(8)) & swar::first_bytes(length.saturating_sub(8));
    if difference != 0 || method + length != end {
        return stop(Reason::BadCseq);
    }
    set!(work, number as u32, meta.cseq);
    GO_ON
}

/// Is the To tag the one we gave this transaction?
#[inline(always)]
fn own_ack(work: Work) -> u32 {
    let at = get!(work, meta.to_tag);
    let Some(epoch) = Tag::epoch_of(work.word(at)) else {
        return stop(Reason::Ack);
    };
    let tag = own_tag(get!(work, meta.transaction), epoch);
    let difference = (work.word(at) ^ tag.first)
        | (work.word(at + 8) ^ tag.second)
        | (work.word(at + 16) as u32 ^ tag.third) as u64;
    let after = work.byte(at + 20);
    if difference == 0 && (after <= b' ' || after == b';') {
        source::prove(work, clock::coarse_ns());
        stop(Reason::OwnAck)
    } else {
        stop(Reason::Ack)
    }
}

/// The To tag of our refusal of a transaction.
#[inline(always)]
pub fn own_tag(transaction: u64, epoch: u64) -> Tag {
    let (mut key, mut host_id) = (KeyRecord { k0: 0, k1: 0 }, 0);
    if let (Some(record), Some(instance)) = (KEYS.get(epoch as u32 & 1), INSTANCE.get(0)) {
        (key, host_id) = (*record, instance.host_id);
    }
    Tag::new(tag_hash(key.k0, key.k1, transaction, host_id), epoch)
}
