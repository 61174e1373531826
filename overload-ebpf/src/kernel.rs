//! What the compiler does not offer for BPF.

use core::{arch::asm, intrinsics};

/// Hides where a value came from, so that LLVM neither drops a mask nor tests one register and uses
/// another. The instruction must exist, or the kernel refuses the BTF line information.
#[inline(always)]
pub fn opaque(value: u32) -> u32 {
    opaque_word(u64::from(value)) as u32
}

/// The same of a whole word; also keeps arithmetic on a single bit from becoming a branch.
#[inline(always)]
pub fn opaque_word(mut value: u64) -> u64 {
    // SAFETY: assigns a register to itself.
    unsafe { asm!("{0} = {0}", inout(reg) value, options(pure, nomem, nostack)) };
    value
}

/// Compare-and-exchange on shared map memory; gives the word found.
///
/// # Safety
/// `word` is an aligned word of a map value.
#[inline(always)]
pub unsafe fn compare_exchange(word: *mut u64, old: u64, new: u64) -> u64 {
    // SAFETY: the caller vouches for the pointer.
    let (found, _) = unsafe {
        intrinsics::atomic_cxchg::<
            u64,
            { intrinsics::AtomicOrdering::SeqCst },
            { intrinsics::AtomicOrdering::SeqCst },
        >(word, old, new)
    };
    found
}

/// Adds to a word of shared map memory.
///
/// # Safety
/// `word` is an aligned word of a map value.
#[inline(always)]
pub unsafe fn add(word: *mut u32, value: u32) {
    // SAFETY: the caller vouches for the pointer.
    unsafe {
        intrinsics::atomic_xadd::<u32, u32, { intrinsics::AtomicOrdering::Relaxed }>(word, value)
    };
}
