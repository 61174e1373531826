//! Which control matches, and does it admit?

use overload_common::{
    abi::{
        ALGORITHM_PERCENT, ALGORITHM_RATE, Class, ControlRecord, DestinationKey, Event,
        MAX_CONTROLS, Mode, Reason, SCOPE_DEFAULT, SCOPE_HOST,
    },
    admit::{gcra, percentage},
};

use super::{account, memory, stop, transaction};
use crate::{
    clock,
    kernel::compare_exchange,
    maps::{BUCKETS, CONTROL_COUNTERS, CONTROLS, DESTINATIONS, INSTANCE},
    scratch::{Work, get},
};

/// Tries to charge a bucket, or to read a record that is being written.
const TRIES: u32 = 8;

/// Answers the verdict on a request that is not remembered, and remembers it.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn judge() -> u32 {
    let Some(work) = Work::here() else {
        return stop(Reason::Unconfigured);
    };
    let Some(control) = destination(work) else {
        memory::remember_admitted(work, u32::from(u16::MAX));
        return stop(Reason::NoControl);
    };
    let reason = apply(work, control);
    let shadow = get!(work, meta.mode) == Mode::Shadow as u32;
    count(control, reason, shadow);
    if reason == Reason::WithinLimit {
        memory::remember_admitted(work, control);
    } else {
        memory::remember_refused(work, shadow);
    }
    stop(reason)
}

/// The control of the request's destination in the active generation.
#[inline(always)]
fn destination(work: Work) -> Option<u32> {
    let instance = INSTANCE.get_ptr(0)?;
    // SAFETY: a word of a live map value, written whole; read once, so that the packet sees one generation.
    let generation = unsafe { (&raw const (*instance).generation).read_volatile() } as u32;
    let hash = transaction::host_hash(work);
    let host = DestinationKey {
        generation,
        scope: SCOPE_HOST,
        hash,
    };
    // SAFETY: the value is a number, copied out at once; entries of the active generation are not removed.
    let found = unsafe { DESTINATIONS.get(host) }.copied();
    if found.is_some() {
        return found;
    }
    let default = DestinationKey {
        generation,
        scope: SCOPE_DEFAULT,
        hash: 0,
    };
    // SAFETY: as above.
    unsafe { DESTINATIONS.get(default) }.copied()
}

/// A record as it was at one moment.
#[inline(always)]
fn read_record(record: *const ControlRecord) -> Option<ControlRecord> {
    for _ in 0..TRIES {
        // SAFETY: words of a live map value; a torn copy is thrown away.
        unsafe {
            let before = (&raw const (*record).sequence).read_volatile();
            let algorithm = (&raw const (*record).algorithm).read_volatile();
            let period_ticks = (&raw const (*record).period_ticks).read_volatile();
            let tolerance =
                (&raw const (*record).tolerance_ticks[Class::Normal as usize]).read_volatile();
            let accept_below = (&raw const (*record).accept_below).read_volatile();
            let valid_from_ns = (&raw const (*record).valid_from_ns).read_volatile();
            let valid_until_ns = (&raw const (*record).valid_until_ns).read_volatile();
            let after = (&raw const (*record).sequence).read_volatile();
            if before == after && before & 1 == 0 {
                return Some(ControlRecord {
                    algorithm,
                    period_ticks,
                    tolerance_ticks: [tolerance; 4],
                    accept_below,
                    valid_from_ns,
                    valid_until_ns,
                    ..ControlRecord::default()
                });
            }
        }
    }
    None
}

/// The control's verdict, charged to its bucket when it admits.
#[inline(always)]
fn apply(work: Work, control: u32) -> Reason {
    let Some(record) = CONTROLS.get_ptr(control & (MAX_CONTROLS as u32 - 1)) else {
        return Reason::WithinLimit;
    };
    let Some(record) = read_record(record) else {
        account::event(Event::RecordContended);
        return Reason::WithinLimit;
    };
    let now = clock::exact_ns();
    if now < record.valid_from_ns || now >= record.valid_until_ns {
        return Reason::WithinLimit;
    }
    match record.algorithm {
        ALGORITHM_RATE => charge(control, now, record.period_ticks, record.tolerance_ticks[0]),
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

/// Moves the bucket's word one period on; all CPUs share it.
#[inline(always)]
fn charge(control: u32, now_ns: u64, period: u64, tolerance: u64) -> Reason {
    let Some(bucket) = BUCKETS.get_ptr_mut(control & (MAX_CONTROLS as u32 - 1)) else {
        return Reason::WithinLimit;
    };
    let now = now_ns.wrapping_mul(gcra::TICKS_PER_NS);
    for _ in 0..TRIES {
        // SAFETY: a word of a live map value.
        unsafe {
            let word = &raw mut (*bucket).arrival_ticks;
            let arrival = word.read_volatile();
            let Some(next) = gcra::admit(arrival, now, period, tolerance) else {
                return Reason::RateLimit;
            };
            if compare_exchange(word, arrival, next) == arrival {
                return Reason::WithinLimit;
            }
        }
    }
    account::event(Event::BucketContended);
    Reason::RateLimit
}

#[inline(always)]
fn count(control: u32, reason: Reason, shadow: bool) {
    let Some(counters) = CONTROL_COUNTERS.get_ptr_mut(control) else {
        return;
    };
    // SAFETY: this CPU's own entry.
    unsafe {
        (*counters).offered += 1;
        if reason == Reason::WithinLimit {
            (*counters).admitted += 1;
        } else if shadow {
            (*counters).shadow_refused += 1;
        } else {
            (*counters).refused += 1;
        }
    }
}
