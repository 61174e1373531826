//! Charging a rate limit's word, which all CPUs share.

use overload_common::{abi::Event, admit::gcra};

use super::account;
use crate::kernel::compare_exchange;

/// Tries to charge a word that other CPUs charge too.
const TRIES: u32 = 8;

/// Moves the word one period on when a request conforms; a word that cannot be had counts as exceeded, and
/// the event says so.
///
/// # Safety
/// `word` is an aligned word of a live map value.
#[inline(always)]
pub unsafe fn conforms(word: *mut u64, now_ns: u64, period: u64, tolerance: u64) -> bool {
    let now = now_ns.wrapping_mul(gcra::TICKS_PER_NS);
    for _ in 0..TRIES {
        // SAFETY: the caller vouches for the word.
        unsafe {
            let arrival = word.read_volatile();
            let Some(next) = gcra::admit(arrival, now, period, tolerance) else {
                return false;
            };
            if compare_exchange(word, arrival, next) == arrival {
                return true;
            }
        }
    }
    account::event(Event::BucketContended);
    false
}

/// Moves the word one period on whether the request conforms or not.
///
/// # Safety
/// As for [`conforms`].
#[inline(always)]
pub unsafe fn charge(word: *mut u64, now_ns: u64, period: u64) {
    // SAFETY: the caller vouches for the word. A tolerance without end lets every request conform.
    unsafe { conforms(word, now_ns, period, u64::MAX) };
}
