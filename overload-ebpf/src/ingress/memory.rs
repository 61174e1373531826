//! Memory of transactions: a copy of a known request gets the verdict of its first copy.

use overload_common::{
    abi::{ADMITTED_SETS, ADMITTED_WAYS, AdmittedSlot, Event, Mode, REFUSED_SLOTS, Reason},
    admit::memory::{
        INVITE_COPIES, LIFE_NS, OTHER_COPIES, SPACING_NS, admitted_difference, admitted_is_live,
        admitted_live_sign, admitted_sets, admitted_word, refused_epoch, refused_identity,
        refused_in_shadow, refused_is_live, refused_matches, refused_slot, refused_word,
    },
    sip::Method,
};

use super::{GO_ON, account, stop};
use crate::{
    kernel::{add, compare_exchange, opaque, opaque_word},
    maps::{ADMITTED, ADMITTED_INDEX, INSTANCE, REFUSED},
    scratch::{Work, get, set},
};

const SETS_MASK: u32 = ADMITTED_SETS as u32 - 1;
const REFUSED_MASK: u32 = REFUSED_SLOTS as u32 - 1;
const WAYS: u32 = ADMITTED_WAYS as u32;

/// Answers the reason of a copy, or [`GO_ON`] for a request that is not remembered.
///
/// The admitted table comes first: were a transaction in both, the host has it.
#[inline(always)]
pub fn recall(work: Work) -> u32 {
    let now = get!(work, meta.now);
    let transaction = get!(work, meta.transaction);
    let verify = get!(work, meta.verify);
    let mode = Mode::from_raw(get!(work, meta.mode));
    let sets = admitted_sets(transaction, SETS_MASK);
    let answer = recall_admitted(sets[0], transaction, verify, now);
    if answer != GO_ON {
        return answer;
    }
    let answer = recall_admitted(sets[1], transaction, verify, now);
    if answer != GO_ON {
        return answer;
    }
    let identity = refused_identity(transaction, verify);
    if let Some(slot) = REFUSED.get_ptr(refused_slot(identity, REFUSED_MASK)) {
        // SAFETY: a word of a live map value; racing writers store it whole.
        let word = unsafe { slot.read_volatile() };
        if refused_matches(word, identity) && refused_is_live(word, now) {
            if mode == Mode::Enforce && refused_in_shadow(word) {
                // The host has it already.
                return stop(Reason::AdmittedCopy);
            }
            set!(work, refused_epoch(word), meta.epoch);
            return stop(Reason::RefusedCopy);
        }
    }
    GO_ON
}

/// Looks for the transaction in one set.
#[inline(always)]
fn recall_admitted(set: u32, transaction: u64, verify: u64, now: u64) -> u32 {
    let Some(index) = ADMITTED_INDEX.get_ptr(set & SETS_MASK) else {
        return GO_ON;
    };
    for way in 0..ADMITTED_WAYS {
        // SAFETY: a word of a live map value; racing writers store it whole.
        let word = unsafe { (&raw const (*index).words[way]).read_volatile() };
        if admitted_difference(word, transaction) != 0 || !admitted_is_live(word, now) {
            continue;
        }
        let Some(slot) = ADMITTED.get_ptr_mut((set & SETS_MASK) * WAYS + way as u32) else {
            return GO_ON;
        };
        // SAFETY: words of a live map value.
        unsafe {
            if (&raw const (*slot).transaction).read_volatile() == transaction
                && (&raw const (*slot).verify).read_volatile() == verify
            {
                return admitted_copy(slot, now);
            }
        }
    }
    GO_ON
}

/// Lets a copy through, up to what a real client sends.
///
/// # Safety
/// `slot` points into a live map value.
#[inline(always)]
unsafe fn admitted_copy(slot: *mut AdmittedSlot, now: u64) -> u32 {
    // SAFETY: the caller vouches for the pointer; a lost race lets one copy more or less through.
    unsafe {
        let most = if (*slot).method == Method::Invite as u8 {
            INVITE_COPIES
        } else {
            OTHER_COPIES
        };
        let last = (&raw const (*slot).last_ns).read_volatile();
        let copies = (&raw const (*slot).copies).read_volatile();
        if copies >= most || now.saturating_sub(last) < SPACING_NS {
            return stop(Reason::SurplusCopy);
        }
        (&raw mut (*slot).last_ns).write_volatile(now);
        add(&raw mut (*slot).copies, 1);
    }
    stop(Reason::AdmittedCopy)
}

/// Remembers a request that was admitted by `control` (`u16::MAX`: by none).
#[inline(always)]
pub fn remember_admitted(work: Work, control: u32) {
    let now = get!(work, meta.now);
    let transaction = get!(work, meta.transaction);
    let sets = admitted_sets(transaction, SETS_MASK);
    let (first, second) = (free_ways(sets[0], now), free_ways(sets[1], now));
    // Into the emptier set: no loss until three quarters of the table are in use.
    let swap = second.count_ones() > first.count_ones();
    let (set, free) = if swap {
        (sets[1], second)
    } else {
        (sets[0], first)
    };
    if free == 0 || !claim(work, set, free.trailing_zeros(), control, now) {
        account::event(Event::AdmittedUntracked);
    }
}

/// Bits of the ways that hold no live transaction.
#[inline(always)]
fn free_ways(set: u32, now: u64) -> u32 {
    let Some(index) = ADMITTED_INDEX.get_ptr(set & SETS_MASK) else {
        return 0;
    };
    let mut live = 0;
    for way in 0..ADMITTED_WAYS {
        // SAFETY: a word of a live map value; racing writers store it whole.
        let word = unsafe { (&raw const (*index).words[way]).read_volatile() };
        live |= opaque_word(opaque_word(admitted_live_sign(word, now)) >> 63) << way;
    }
    !live as u32 & ((1 << ADMITTED_WAYS) - 1)
}

/// Takes one slot, unless another CPU was faster.
#[inline(always)]
fn claim(work: Work, set: u32, way: u32, control: u32, now: u64) -> bool {
    let way = opaque(way) & (WAYS - 1);
    let (Some(index), Some(slot)) = (
        ADMITTED_INDEX.get_ptr_mut(set & SETS_MASK),
        ADMITTED.get_ptr_mut((set & SETS_MASK) * WAYS + way),
    ) else {
        return false;
    };
    let transaction = get!(work, meta.transaction);
    let verify = get!(work, meta.verify);
    let epoch = get!(work, meta.epoch) as u8;
    let method = get!(work, meta.method) as u8;
    // SAFETY: words of live map values; only the CPU that exchanged the index word writes the slot.
    unsafe {
        let word = &raw mut (*index).words[way as usize];
        let old = word.read_volatile();
        if admitted_is_live(old, now)
            || compare_exchange(word, old, admitted_word(transaction, now)) != old
        {
            return false;
        }
        (&raw mut (*slot).verify).write_volatile(verify);
        (&raw mut (*slot).first_ns).write_volatile(now);
        (&raw mut (*slot).last_ns).write_volatile(now);
        (&raw mut (*slot).copies).write_volatile(1);
        (&raw mut (*slot).oc_offer).write_volatile(0);
        (&raw mut (*slot).controls).write_volatile([control as u16, u16::MAX, u16::MAX, u16::MAX]);
        (&raw mut (*slot).class).write_volatile(overload_common::abi::Class::Normal as u8);
        (&raw mut (*slot).epoch).write_volatile(epoch);
        (&raw mut (*slot).method).write_volatile(method);
        (&raw mut (*slot).outcome).write_volatile(0);
        (&raw mut (*slot).transaction).write_volatile(transaction);
    }
    true
}

/// Remembers a request that is refused now, under the current key epoch; in shadow mode it was handed
/// to the host, and the word says so.
#[inline(always)]
pub fn remember_refused(work: Work, shadow: bool) {
    let now = get!(work, meta.now);
    let identity = refused_identity(get!(work, meta.transaction), get!(work, meta.verify));
    let mut epoch = 0;
    if let Some(instance) = INSTANCE.get_ptr(0) {
        // SAFETY: a word of a live map value, written whole.
        epoch = unsafe { (&raw const (*instance).key_epoch).read_volatile() } & 1;
    }
    set!(work, epoch, meta.epoch);
    if let Some(slot) = REFUSED.get_ptr_mut(refused_slot(identity, REFUSED_MASK)) {
        // SAFETY: a word of a live map value, stored whole.
        unsafe {
            if refused_is_live(slot.read_volatile(), now) {
                account::event(Event::RefusedForgotten);
            }
            slot.write_volatile(refused_word(identity, epoch, shadow, now));
        }
    }
}

const _: () = assert!(LIFE_NS == 64 * 500_000_000);
