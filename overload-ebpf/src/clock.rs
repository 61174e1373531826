//! The clock seam: the kernel's clocks, or a map word for tests and replay.

use aya_ebpf::helpers::generated::{bpf_ktime_get_boot_ns, bpf_ktime_get_coarse_ns};

use crate::maps::{CLOCK_SOURCE, INSTANCE};

#[inline(always)]
fn map_clock_ns() -> u64 {
    match INSTANCE.get_ptr(0) {
        // SAFETY: a word of a live map value; the controller writes it whole.
        Some(instance) => unsafe { (&raw const (*instance).map_clock_ns).read_volatile() },
        None => 0,
    }
}

/// CLOCK_BOOTTIME, ns: deadlines and rates.
#[inline(always)]
pub fn exact_ns() -> u64 {
    if CLOCK_SOURCE.load() == 1 {
        return map_clock_ns();
    }
    // SAFETY: a helper without arguments.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// CLOCK_MONOTONIC_COARSE, ns: memory of transactions. A tick old at most, six times cheaper.
#[inline(always)]
pub fn coarse_ns() -> u64 {
    if CLOCK_SOURCE.load() == 1 {
        return map_clock_ns();
    }
    // SAFETY: a helper without arguments.
    unsafe { bpf_ktime_get_coarse_ns() }
}
