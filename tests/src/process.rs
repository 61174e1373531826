//! A child process that ends with its guard.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// A running program with its output in a file. On drop it is asked to end, then killed, with all it
/// started; if the test is failing, the end of its output is shown.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts `command` in a process group of its own; its output goes to `directory/name.log`.
    pub fn start(mut command: Command, name: &str, directory: &Path) -> Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let output =
            File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .current_dir(directory)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        Ok(Self {
            child,
            name: name.to_owned(),
            log,
        })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything it wrote so far.
    pub fn log(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Whether it still runs.
    pub fn running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end; fails after `within`.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!(
                    "{} did not end within {within:?}:\n{}",
                    self.name,
                    self.tail()
                );
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until its output contains `text`; fails after `within`, or when it ends before.
    pub fn wait_for_log(&mut self, text: &str, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        loop {
            if self.log().contains(text) {
                return Ok(());
            }
            if !self.running() {
                bail!("{} ended before {text:?}:\n{}", self.name, self.tail());
            }
            if Instant::now() > deadline {
                bail!("{} did not write {text:?}:\n{}", self.name, self.tail());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal to the process and what it started.
    pub fn signal(&self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // Fails only when the group has ended.
            let _ = killpg(Pid::from_raw(pid), signal);
        }
    }

    /// Kills it without a chance to clean up.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::SIGKILL);
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to end and waits; kills it after 5 s.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        if self.running() {
            self.signal(Signal::SIGTERM);
        }
        if self.wait(Duration::from_secs(5)).is_err() {
            self.signal(Signal::SIGKILL);
        }
        Ok(self.child.wait()?)
    }

    fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("{}: {error:#}", self.name);
        }
        if thread::panicking() {
            eprintln!("--- {} wrote:\n{}", self.name, self.tail());
        }
    }
}
