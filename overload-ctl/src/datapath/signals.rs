//! Signals wait while the kernel verifies a program.

use std::{mem::MaybeUninit, ptr};

/// Holds back SIGINT and SIGTERM on this thread while it lives.
///
/// The verifier gives up when a signal is pending, and the loader would repeat the work, with its log,
/// for seconds. What was held back is delivered afterwards.
pub struct HeldBack {
    before: libc::sigset_t,
}

impl HeldBack {
    /// Begins to hold signals back.
    pub fn begin() -> Self {
        let mut signals = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the calls initialise the sets they are given, and fail for no valid signal number.
        unsafe {
            libc::sigemptyset(signals.as_mut_ptr());
            libc::sigaddset(signals.as_mut_ptr(), libc::SIGINT);
            libc::sigaddset(signals.as_mut_ptr(), libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, signals.as_ptr(), before.as_mut_ptr());
            Self {
                before: before.assume_init(),
            }
        }
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        // SAFETY: the set is the thread's own of before.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: i32) -> bool {
        let mut now = MaybeUninit::uninit();
        // SAFETY: with no new set the call only writes the present one.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn signals_are_held_back_for_a_time() {
        assert!(!is_blocked(libc::SIGTERM));
        let held = HeldBack::begin();
        assert!(is_blocked(libc::SIGINT) && is_blocked(libc::SIGTERM));
        assert!(!is_blocked(libc::SIGHUP));
        drop(held);
        assert!(!is_blocked(libc::SIGINT) && !is_blocked(libc::SIGTERM));
    }
}
