//! What the kernel must allow this process to do.

use std::fs;

use thiserror::Error;

/// Bits of the capabilities, in the kernel's numbering (`linux/capability.h`).
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// A capability this process lacks.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("not permitted: {0} is missing; run as root or grant it")]
pub struct MissingCapability(&'static str);

/// Checks what loading and attaching an XDP program needs. CAP_SYS_ADMIN includes the BPF ones.
pub fn check() -> Result<(), MissingCapability> {
    // Without procfs nothing is known here, and the kernel decides.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match effective(&status) {
        Some(mask) => check_mask(mask),
        None => Ok(()),
    }
}

fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn check_mask(mask: u64) -> Result<(), MissingCapability> {
    let has = |bit: u32| mask >> bit & 1 == 1;
    for (bit, name) in [
        (CAP_BPF, "CAP_BPF"),
        (CAP_PERFMON, "CAP_PERFMON"),
        (CAP_NET_ADMIN, "CAP_NET_ADMIN"),
    ] {
        let included = bit != CAP_NET_ADMIN && has(CAP_SYS_ADMIN);
        if !has(bit) && !included {
            return Err(MissingCapability(name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_capability_is_named() {
        let mask = |bits: &[u32]| bits.iter().fold(0u64, |mask, bit| mask | 1 << bit);
        let all = [CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN];
        assert_eq!(check_mask(mask(&all)), Ok(()));
        assert_eq!(check_mask(mask(&[CAP_SYS_ADMIN, CAP_NET_ADMIN])), Ok(()));
        assert_eq!(check_mask(0), Err(MissingCapability("CAP_BPF")));
        assert_eq!(
            check_mask(mask(&[CAP_BPF])),
            Err(MissingCapability("CAP_PERFMON"))
        );
        assert_eq!(
            check_mask(mask(&[CAP_SYS_ADMIN])).map_err(|e| e.to_string()),
            Err("not permitted: CAP_NET_ADMIN is missing; run as root or grant it".to_owned())
        );
    }

    #[test]
    fn the_effective_set_is_read() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t000001ffffffffff\n";
        assert_eq!(effective(status), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("Name:\tx\n"), None);
    }
}
