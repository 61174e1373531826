//! Memory of transactions: a copy of a known request gets the verdict of its first copy.

use overload_common::{
    abi::{
        ADMITTED_WAYS, AdmittedSlot, Class, Event, MEMORY_BUCKETS, MemoryBucket, Mode,
        REFUSED_WAYS, Reason,
    },
    admit::memory::{
        INVITE_COPIES, OTHER_COPIES, SPACING_NS, admitted_difference, admitted_is_live,
        admitted_word, buckets, refused_epoch, refused_identity, refused_in_shadow,
        refused_is_live, refused_matches, refused_slot, refused_word,
    },
    sip::Method,
};

use super::{GO_ON, account, stop};
use crate::{
    kernel::{add, compare_exchange},
    maps::{ADMITTED, INSTANCE, MEMORY},
    scratch::{Work, get, set},
};

const MASK: u32 = MEMORY_BUCKETS as u32 - 1;
const WAYS: u32 = ADMITTED_WAYS as u32;
const REFUSED_MASK: usize = REFUSED_WAYS - 1;

/// The bucket with this index, masked.
#[inline(always)]
fn bucket(index: u32) -> Option<*mut MemoryBucket> {
    MEMORY.get_ptr_mut(index & MASK)
}

/// What is known of the admitted transaction in a way of a bucket.
#[inline(always)]
fn slot(bucket: u32, way: u32) -> Option<*mut AdmittedSlot> {
    ADMITTED.get_ptr_mut((bucket & MASK) * WAYS + way)
}

/// Reads a word of a bucket.
///
/// # Safety
/// `word` is an aligned word of a live map value; racing writers store it whole.
#[inline(always)]
unsafe fn load(word: *const u64) -> u64 {
    // SAFETY: the caller vouches for the pointer.
    unsafe { word.read_volatile() }
}

/// Has the transaction's bucket fetched from memory. A load would be waited for; BPF has no prefetch, but a
/// store waits aside.
#[inline(always)]
pub fn touch(work: Work) {
    let transaction = get!(work, meta.transaction);
    if let Some(memory) = bucket(buckets(transaction, MASK)[0]) {
        // SAFETY: a word of a live map value that nobody reads.
        unsafe { (&raw mut (*memory).touched).write_volatile(transaction) };
    }
}

/// Answers the reason of a copy, or [`GO_ON`] for a request that is not remembered.
///
/// The admitted ones come first: were a transaction among both, the host has it.
#[inline(always)]
pub fn recall(work: Work) -> u32 {
    let now = get!(work, meta.now);
    let transaction = get!(work, meta.transaction);
    let index = buckets(transaction, MASK)[0];
    let Some(memory) = bucket(index) else {
        return GO_ON;
    };
    let answer = recall_admitted(work, memory, index);
    if answer != GO_ON {
        return answer;
    }
    // SAFETY: a word of a live map value.
    let overflow = unsafe { load(&raw const (*memory).overflow) };
    if admitted_is_live(overflow, now) {
        let answer = recall_overflow();
        if answer != GO_ON {
            return answer;
        }
    }
    let identity = refused_identity(transaction, get!(work, meta.verify));
    let slot = refused_slot(identity) as usize & REFUSED_MASK;
    // SAFETY: a word of a live map value.
    let word = unsafe { load(&raw const (*memory).refused[slot]) };
    if !refused_matches(word, identity) || !refused_is_live(word, now) {
        return GO_ON;
    }
    if refused_in_shadow(word) && get!(work, meta.mode) == Mode::Enforce as u32 {
        // The host has it already.
        return stop(Reason::AdmittedCopy);
    }
    set!(work, refused_epoch(word), meta.epoch);
    stop(Reason::RefusedCopy)
}

/// Looks for the transaction in its other bucket.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn recall_overflow() -> u32 {
    let Some(work) = Work::here() else {
        return GO_ON;
    };
    let index = buckets(get!(work, meta.transaction), MASK)[1];
    match bucket(index) {
        Some(memory) => recall_admitted(work, memory, index),
        None => GO_ON,
    }
}

/// Looks for the transaction among the admitted ones of a bucket.
#[inline(always)]
fn recall_admitted(work: Work, memory: *mut MemoryBucket, index: u32) -> u32 {
    let now = get!(work, meta.now);
    let transaction = get!(work, meta.transaction);
    let verify = get!(work, meta.verify);
    for way in 0..ADMITTED_WAYS {
        // SAFETY: words of a live map value.
        unsafe {
            let word = load(&raw const (*memory).admitted[way]);
            if admitted_difference(word, transaction) != 0 || !admitted_is_live(word, now) {
                continue;
            }
            let Some(slot) = slot(index, way as u32) else {
                continue;
            };
            if load(&raw const (*slot).transaction) == transaction
                && load(&raw const (*slot).verify) == verify
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
        let copies = (&raw const (*slot).copies).read_volatile();
        if copies >= most || now.saturating_sub(load(&raw const (*slot).last_ns)) < SPACING_NS {
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
    let [first, second] = buckets(transaction, MASK);
    let Some(memory) = bucket(first) else {
        return;
    };
    find_free(work, memory, now);
    if get!(work, walk.cursor) < WAYS {
        claim(work, memory, first, control);
        return;
    }
    let Some(other) = bucket(second) else {
        return;
    };
    find_free(work, other, now);
    // SAFETY: a word of a live map value; the later of two racing writers wins, a unit of time apart.
    unsafe { (&raw mut (*memory).overflow).write_volatile(admitted_word(0, now)) };
    claim(work, other, second, control);
}

/// Sets `walk.cursor` to the first way without a live transaction, or to [`WAYS`].
#[inline(always)]
fn find_free(work: Work, memory: *mut MemoryBucket, now: u64) {
    set!(work, WAYS, walk.cursor);
    for way in 0..ADMITTED_WAYS {
        // SAFETY: a word of a live map value.
        if !admitted_is_live(unsafe { load(&raw const (*memory).admitted[way]) }, now) {
            set!(work, way as u32, walk.cursor);
            break;
        }
    }
}

/// Takes the way at `walk.cursor`, unless there is none or another CPU was faster.
#[inline(always)]
fn claim(work: Work, memory: *mut MemoryBucket, index: u32, control: u32) {
    let now = get!(work, meta.now);
    let transaction = get!(work, meta.transaction);
    let verify = get!(work, meta.verify);
    let epoch = get!(work, meta.epoch) as u8;
    let method = get!(work, meta.method) as u8;
    let way = get!(work, walk.cursor) as usize;
    if way >= ADMITTED_WAYS {
        account::event(Event::AdmittedUntracked);
        return;
    }
    // SAFETY: words of a live map value; only the CPU that exchanged the first writes the slot.
    unsafe {
        let word = &raw mut (*memory).admitted[way];
        let old = load(word);
        if admitted_is_live(old, now)
            || compare_exchange(word, old, admitted_word(transaction, now)) != old
        {
            account::event(Event::AdmittedUntracked);
            return;
        }
        let Some(slot) = slot(index, way as u32) else {
            return;
        };
        (&raw mut (*slot).verify).write_volatile(verify);
        (&raw mut (*slot).first_ns).write_volatile(now);
        (&raw mut (*slot).last_ns).write_volatile(now);
        (&raw mut (*slot).copies).write_volatile(1);
        (&raw mut (*slot).oc_offer).write_volatile(0);
        (&raw mut (*slot).controls).write_volatile([control as u16, u16::MAX, u16::MAX, u16::MAX]);
        (&raw mut (*slot).class).write_volatile(Class::Normal as u8);
        (&raw mut (*slot).epoch).write_volatile(epoch);
        (&raw mut (*slot).method).write_volatile(method);
        (&raw mut (*slot).outcome).write_volatile(0);
        (&raw mut (*slot).transaction).write_volatile(transaction);
    }
}

/// Remembers a request that is refused now, under the current key epoch; in shadow mode it was handed
/// to the host, and the word says so.
#[inline(always)]
pub fn remember_refused(work: Work, shadow: bool) {
    let now = get!(work, meta.now);
    let transaction = get!(work, meta.transaction);
    let identity = refused_identity(transaction, get!(work, meta.verify));
    let mut epoch = 0;
    if let Some(instance) = INSTANCE.get_ptr(0) {
        // SAFETY: a word of a live map value.
        epoch = unsafe { load(&raw const (*instance).key_epoch) } & 1;
    }
    set!(work, epoch, meta.epoch);
    let Some(memory) = bucket(buckets(transaction, MASK)[0]) else {
        return;
    };
    // SAFETY: a word of a live map value, stored whole.
    unsafe {
        let word = &raw mut (*memory).refused[refused_slot(identity) as usize & REFUSED_MASK];
        if refused_is_live(load(word), now) {
            account::event(Event::RefusedForgotten);
        }
        word.write_volatile(refused_word(identity, epoch, shadow, now));
    }
}
