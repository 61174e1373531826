//! Which CPU does what, and how long.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use nix::{
    sched::{CpuSet, sched_setaffinity},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

/// CPU of senders and of what receives the answers.
pub const TRAFFIC: usize = 0;
/// CPU of what is measured.
pub const MEASURED: usize = 1;

/// Keeps the calling thread on one CPU.
pub fn pin_self(cpu: usize) -> Result<()> {
    pin(Pid::from_raw(0), cpu)
}

/// Keeps a task on one CPU; 0 is the caller.
pub fn pin(task: Pid, cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    sched_setaffinity(task, &set)
        .with_context(|| format!("pin task {task} to CPU {cpu}: two CPUs are needed"))
}

/// CPU time of the calling thread, softirqs that ran on its back included.
pub fn own_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .context("CPU time of this thread")?
        .into())
}

/// CPU time of a task so far.
pub fn task_time(task: Pid) -> Result<Duration> {
    let path = format!("/proc/{task}/schedstat");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let ns = text
        .split_whitespace()
        .next()
        .and_then(|word| word.parse().ok());
    Ok(Duration::from_nanos(
        ns.with_context(|| format!("{path} is {text:?}"))?,
    ))
}

/// Every process of a process group.
pub fn group(leader: u32) -> Result<Vec<Pid>> {
    Ok(processes()?
        .into_iter()
        .filter(|pid| process_group(*pid) == Some(leader))
        .collect())
}

/// Every task whose name begins like this.
pub fn named(prefix: &str) -> Result<Vec<Pid>> {
    let is_named = |pid: &Pid| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with(prefix))
    };
    Ok(processes()?.into_iter().filter(is_named).collect())
}

fn processes() -> Result<Vec<Pid>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").context("list /proc")? {
        let name = entry?.file_name();
        all.extend(
            name.to_str()
                .and_then(|name| name.parse().ok())
                .map(Pid::from_raw),
        );
    }
    Ok(all)
}

fn process_group(pid: Pid) -> Option<u32> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    parse_process_group(&stat)
}

/// The fifth field; the second is a name in parentheses that may hold anything.
fn parse_process_group(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse_process_group;

    #[test]
    fn process_group_behind_any_name() {
        assert_eq!(parse_process_group("7 (a) b (c)) S 1 42 7 0"), Some(42));
        assert_eq!(parse_process_group("7"), None);
    }
}
