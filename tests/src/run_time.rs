//! The kernel's own measure of the filter's run time.

use std::{
    fs,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use anyhow::{Context, Result, bail};
use aya::{
    programs::{ProgramFd, loaded_programs},
    sys::{Stats, enable_stats},
};

use crate::lab::Lab;

/// Packets a program has seen while it was measured, and how long it ran for them.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTime {
    /// Packets.
    pub packets: u64,
    /// Nanoseconds in all.
    pub nanoseconds: u64,
}

impl RunTime {
    /// What came after `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            nanoseconds: self.nanoseconds - before.nanoseconds,
        }
    }
}

/// Keeps the kernel measuring; costs every program of the machine a few ns a run until it is dropped.
#[derive(Debug)]
pub struct RunTimeMeter {
    _statistics: OwnedFd,
    program: ProgramFd,
}

impl RunTimeMeter {
    /// Measures the program on the host's end of a lab.
    pub fn start(lab: &Lab) -> Result<Self> {
        let attached = lab.attached_program()?;
        let id: u32 = attached
            .split_once("prog/xdp id ")
            .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok())
            .with_context(|| format!("no program id in {attached:?}"))?;
        for program in loaded_programs() {
            let program = program.context("cannot list programs")?;
            if program.id() == id {
                return Ok(Self {
                    _statistics: enable_stats(Stats::RunTime)
                        .context("the kernel does not measure run times")?,
                    program: program.fd()?,
                });
            }
        }
        bail!("program {id} is gone")
    }

    /// Reads the sums.
    pub fn read(&self) -> Result<RunTime> {
        let path = format!("/proc/self/fdinfo/{}", self.program.as_fd().as_raw_fd());
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let number = |name: &str| -> Result<u64> {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
                .with_context(|| format!("{path} has no {name}"))
        };
        Ok(RunTime {
            packets: number("run_cnt:")?,
            nanoseconds: number("run_time_ns:")?,
        })
    }
}
