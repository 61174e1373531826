//! Which control matches, and does it admit?

use overload_common::{
    abi::{
        ALGORITHM_PERCENT, ALGORITHM_RATE, Bucket, Class, ControlRecord, DestinationKey, Event,
        InstanceRecord, LOOKUP_EMERGENCY, LOOKUP_PREFIXES_SHIFT, MAX_CONTROLS, METHOD_PASSES, Mode,
        Reason, SCOPE_DEFAULT, SCOPE_EMERGENCY, SCOPE_GLOBAL_PREFIX, SCOPE_HOST,
        SCOPE_LOCAL_PREFIX, SOURCE_TRUSTED,
    },
    admit::percentage,
    sip::{Method, NUMBER_DIGITS},
};

use super::{account, bucket, memory, number, source, stop, transaction};
use crate::{
    clock,
    maps::{BUCKETS, CONTROL_COUNTERS, CONTROLS, DESTINATIONS, INSTANCE},
    scratch::{Work, get, set},
};

/// Tries to read a record that is being written.
const TRIES: u32 = 8;

/// Answers the verdict on a request that is not remembered, and remembers it.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn judge() -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let Some(instance) = INSTANCE.get_ptr(0) else {
        return stop(Reason::Unconfigured);
    };
    let (generation, lookups) = (get!(work, meta.generation), get!(work, meta.lookups));
    set!(work, 0, meta.number);
    let prefixes = (lookups >> LOOKUP_PREFIXES_SHIFT) as u32;
    if prefixes != 0 || lookups & LOOKUP_EMERGENCY != 0 {
        number::read_number();
    }
    let class = class(work, instance, generation, lookups);
    if class == METHOD_PASSES as u32 {
        return stop(Reason::ExemptMethod);
    }
    set!(work, class, meta.class);
    let Some(control) = destination(work, generation, prefixes) else {
        memory::remember_admitted(work, u32::from(u16::MAX));
        return stop(Reason::NoControl);
    };
    let reason = apply(work, instance, control);
    let shadow = get!(work, meta.mode) == Mode::Shadow as u32;
    count(control, reason, shadow);
    if is_admitted(reason) {
        memory::remember_admitted(work, control);
    } else {
        memory::remember_refused(work, shadow);
    }
    stop(reason)
}

#[inline(always)]
fn is_admitted(reason: Reason) -> bool {
    matches!(reason, Reason::WithinLimit | Reason::Emergency)
}

/// The request's [`Class`], or [`METHOD_PASSES`].
#[inline(always)]
fn class(work: Work, instance: *const InstanceRecord, generation: u32, lookups: u64) -> u32 {
    let method = get!(work, meta.method);
    if get!(work, meta.is_sos) != 0 || is_emergency_number(work, generation, lookups) {
        return Class::Emergency as u32;
    }
    // A dispatcher takes a peer whose ping is refused for dead.
    if method == Method::Options as u32 && get!(work, meta.source_flags) & SOURCE_TRUSTED != 0 {
        return Class::Priority as u32;
    }
    // SAFETY: a word of a live map value, written whole.
    let classes = unsafe { (&raw const (*instance).method_classes).read_volatile() };
    (classes >> (8 * (method & 7))) as u32 & 0xff
}

#[inline(always)]
fn is_emergency_number(work: Work, generation: u32, lookups: u64) -> bool {
    let digits = get!(work, meta.number);
    if lookups & LOOKUP_EMERGENCY == 0 || digits == 0 {
        return false;
    }
    let key = DestinationKey {
        generation,
        scope: SCOPE_EMERGENCY,
        hash: digits,
    };
    // SAFETY: only whether there is an entry is asked.
    unsafe { DESTINATIONS.get(key) }.is_some()
}

/// The control of the request's destination in the active generation: the first that matches in the order of
/// the configuration, else the default.
#[inline(always)]
fn destination(work: Work, generation: u32, prefixes: u32) -> Option<u32> {
    let host = DestinationKey {
        generation,
        scope: SCOPE_HOST,
        hash: transaction::host_hash(work),
    };
    set!(work, u64::MAX, walk.bits);
    // SAFETY: the value is a number, copied out at once; entries of the active generation are not removed.
    if let Some(found) = unsafe { DESTINATIONS.get(host) } {
        set!(work, *found, walk.bits);
    }
    if prefixes != 0 && get!(work, meta.number_flags) & number::COMPARABLE != 0 {
        match_prefixes(generation, prefixes);
    }
    let first = get!(work, walk.bits);
    if first != u64::MAX {
        return Some(first as u32);
    }
    let default = DestinationKey {
        generation,
        scope: SCOPE_DEFAULT,
        hash: 0,
    };
    // SAFETY: as above.
    unsafe { DESTINATIONS.get(default) }.map(|found| *found as u32)
}

/// Looks up the first digits of the called number, in each length that a destination has; keeps the first
/// match in `walk.bits`.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn match_prefixes(generation: u32, prefixes: u32) -> u32 {
    let Some(work) = Work::here() else {
        return 0;
    };
    let scope = if get!(work, meta.number_flags) & number::GLOBAL != 0 {
        SCOPE_GLOBAL_PREFIX
    } else {
        SCOPE_LOCAL_PREFIX
    };
    // From the whole number on, one digit less each time.
    set!(work, get!(work, meta.number), walk.header);
    for _ in 0..NUMBER_DIGITS {
        let digits = get!(work, walk.header);
        if digits <= 1 {
            break;
        }
        set!(work, digits >> 4, walk.header);
        let count = digits.ilog2() / 4;
        if prefixes >> (count.wrapping_sub(1) & 31) & 1 == 0 {
            continue;
        }
        let key = DestinationKey {
            generation,
            scope,
            hash: digits,
        };
        // SAFETY: the value is a number, copied out at once; entries of the active generation are not removed.
        if let Some(found) = unsafe { DESTINATIONS.get(key) } {
            set!(work, get!(work, walk.bits).min(*found), walk.bits);
        }
    }
    0
}

/// A record as it was at one moment, with the tolerance of one class for all.
#[inline(always)]
fn read_record(record: *const ControlRecord, class: u32) -> Option<ControlRecord> {
    for _ in 0..TRIES {
        // SAFETY: words of a live map value; a torn copy is thrown away.
        unsafe {
            let before = (&raw const (*record).sequence).read_volatile();
            let algorithm = (&raw const (*record).algorithm).read_volatile();
            let period_ticks = (&raw const (*record).period_ticks).read_volatile();
            let tolerance =
                (&raw const (*record).tolerance_ticks[class as usize & 3]).read_volatile();
            let accept_below = (&raw const (*record).accept_below).read_volatile();
            let valid_from_ns = (&raw const (*record).valid_from_ns).read_volatile();
            let valid_until_ns = (&raw const (*record).valid_until_ns).read_volatile();
            let emergency_period_ticks =
                (&raw const (*record).emergency_period_ticks).read_volatile();
            let emergency_tolerance_ticks =
                (&raw const (*record).emergency_tolerance_ticks).read_volatile();
            let after = (&raw const (*record).sequence).read_volatile();
            if before == after && before & 1 == 0 {
                return Some(ControlRecord {
                    algorithm,
                    period_ticks,
                    tolerance_ticks: [tolerance; 4],
                    accept_below,
                    valid_from_ns,
                    valid_until_ns,
                    emergency_period_ticks,
                    emergency_tolerance_ticks,
                    ..ControlRecord::default()
                });
            }
        }
    }
    None
}

/// The control's verdict, charged to its bucket when it admits.
#[inline(always)]
fn apply(work: Work, instance: *const InstanceRecord, control: u32) -> Reason {
    let control = control & (MAX_CONTROLS as u32 - 1);
    let (Some(record), Some(bucket)) = (CONTROLS.get_ptr(control), BUCKETS.get_ptr_mut(control))
    else {
        return Reason::WithinLimit;
    };
    let emergency = get!(work, meta.class) == Class::Emergency as u32;
    // Beyond its reserved share an emergency request is judged as any other.
    let class = if emergency {
        Class::Normal as u32
    } else {
        get!(work, meta.class)
    };
    let Some(record) = read_record(record, class) else {
        account::event(Event::RecordContended);
        return Reason::WithinLimit;
    };
    let now = clock::exact_ns();
    if now < record.valid_from_ns || now >= record.valid_until_ns {
        return Reason::WithinLimit;
    }
    // SAFETY: a field of a live map value.
    let word = unsafe { &raw mut (*bucket).arrival_ticks };
    if emergency && has_reserve(work, instance, bucket, &record, now) {
        // The reserved share is part of the limit: others get less for it.
        if record.algorithm == ALGORITHM_RATE {
            // SAFETY: a word of a live map value.
            unsafe { bucket::charge(word, now, record.period_ticks) };
        }
        return Reason::Emergency;
    }
    match record.algorithm {
        ALGORITHM_RATE => {
            // SAFETY: a word of a live map value.
            let conforms = unsafe {
                bucket::conforms(word, now, record.period_ticks, record.tolerance_ticks[0])
            };
            if conforms {
                Reason::WithinLimit
            } else {
                Reason::RateLimit
            }
        }
        ALGORITHM_PERCENT => {
            if percentage::accepts(get!(work, meta.transaction), record.accept_below) {
                Reason::WithinLimit
            } else {
                Reason::PercentLimit
            }
        }
        _ => Reason::WithinLimit,
    }
}

/// Charges an emergency request to the control's reserved share, when its source's prefix has one left too.
#[inline(always)]
fn has_reserve(
    work: Work,
    instance: *const InstanceRecord,
    bucket: *mut Bucket,
    record: &ControlRecord,
    now: u64,
) -> bool {
    if !source::has_emergency_share(work, instance) {
        return false;
    }
    // SAFETY: a word of a live map value.
    unsafe {
        bucket::conforms(
            &raw mut (*bucket).emergency_ticks,
            now,
            record.emergency_period_ticks,
            record.emergency_tolerance_ticks,
        )
    }
}

#[inline(always)]
fn count(control: u32, reason: Reason, shadow: bool) {
    let Some(counters) = CONTROL_COUNTERS.get_ptr_mut(control) else {
        return;
    };
    // SAFETY: this CPU's own entry.
    unsafe {
        (*counters).offered += 1;
        if is_admitted(reason) {
            (*counters).admitted += 1;
        } else if shadow {
            (*counters).shadow_refused += 1;
        } else {
            (*counters).refused += 1;
        }
    }
}
