//! The controller under test: the real binary, in the host's namespace.

use std::{
    fmt::Write,
    fs,
    path::PathBuf,
    process::{Command, Output},
    sync::OnceLock,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::{
    command::run,
    lab::{CLIENT, HOST, HOST_INTERFACE, Lab},
    process::Process,
};

/// One destination of the configuration.
#[derive(Clone, Debug)]
pub struct Destination {
    name: String,
    /// The line that says what it matches.
    scope: String,
    limit: String,
}

impl Destination {
    /// Requests to `host` are limited to `rate_per_second` with `burst` at once.
    pub fn host(name: &str, host: &str, rate_per_second: f64, burst: u32) -> Self {
        Self {
            name: name.to_owned(),
            scope: format!("host = \"{host}\""),
            limit: format!("rate_per_second = {rate_per_second:?}\nburst = {burst}\n"),
        }
    }

    /// Of the requests to `host`, so many in a hundred are admitted.
    pub fn percent(name: &str, host: &str, accept_percent: f64) -> Self {
        Self {
            limit: format!("accept_percent = {accept_percent:?}\n"),
            ..Self::host(name, host, 0.0, 1)
        }
    }

    /// What no other destination matches.
    pub fn default(rate_per_second: f64, burst: u32) -> Self {
        Self {
            scope: "default = true".to_owned(),
            ..Self::host("default", "", rate_per_second, burst)
        }
    }

    /// Requests to numbers that begin with `prefix`.
    pub fn prefix(name: &str, prefix: &str, rate_per_second: f64, burst: u32) -> Self {
        Self {
            scope: format!("number_prefix = \"{prefix}\""),
            ..Self::host(name, "", rate_per_second, burst)
        }
    }
}

/// One interface of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// Its name.
    pub name: &'static str,
    /// Protected addresses; none means its own.
    pub addresses: &'static [&'static str],
    /// MAC addresses beside its own.
    pub macs: &'static [&'static str],
}

/// The controller's configuration for a lab.
#[derive(Clone, Debug)]
pub struct Config {
    /// `enforce`, `shadow` or `bypass`.
    pub mode: &'static str,
    /// `native`, `generic` or `auto`.
    pub attach: &'static str,
    /// Interfaces of the host's namespace.
    pub interfaces: Vec<Interface>,
    /// Limits, in order.
    pub destinations: Vec<Destination>,
    /// Further tables, as they stand in the file.
    pub more: String,
}

impl Config {
    /// Enforces limits natively on the lab's interface. The client is trusted, so that all its refusals are
    /// answered.
    pub fn new(destinations: &[Destination]) -> Self {
        Self {
            mode: "enforce",
            attach: "native",
            interfaces: vec![Interface {
                name: HOST_INTERFACE,
                addresses: &[HOST],
                macs: &[],
            }],
            destinations: destinations.to_vec(),
            more: format!("\n[sources]\ntrusted = [\"{CLIENT}\"]\n"),
        }
    }

    /// The file's text.
    pub fn text(&self, instance: &str) -> String {
        let mut text = format!("instance = \"{instance}\"\nmode = \"{}\"\n", self.mode);
        for Interface {
            name,
            addresses,
            macs,
        } in &self.interfaces
        {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[[interface]]\nname = \"{name}\"\nattach = \"{}\"\n",
                self.attach
            );
            for (key, list) in [("addresses", addresses), ("macs", macs)] {
                if !list.is_empty() {
                    let _ = writeln!(text, "{key} = {list:?}");
                }
            }
        }
        for Destination { name, scope, limit } in &self.destinations {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[[destination]]\nname = \"{name}\"\n{scope}\n{limit}"
            );
        }
        text.push_str(&self.more);
        text
    }
}

/// Path of the controller: `OVERLOAD_CTL` when set, else built once from this workspace.
pub fn controller_binary() -> Result<&'static PathBuf> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BINARY
        .get_or_init(|| build().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map_err(|error| anyhow!("no controller: {error}"))
}

fn build() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("OVERLOAD_CTL") {
        return Ok(path.into());
    }
    let output = run(Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--release", "--package", "overload-ctl"])
        .args(["--message-format", "json"]))?;
    output
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| {
            let target = message["target"]["name"].as_str()?;
            let executable = message["executable"].as_str()?;
            (target == "overload-ctl").then(|| executable.into())
        })
        .context("cargo built no overload-ctl")
}

/// A running controller; on drop it is stopped and its filter is taken off the interface.
#[derive(Debug)]
pub struct Controller<'l> {
    lab: &'l Lab,
    process: Process,
    config: PathBuf,
}

impl<'l> Controller<'l> {
    /// Starts `overload-ctl run` and returns once the filter is attached.
    pub fn start(lab: &'l Lab, config: &Config) -> Result<Self> {
        let path = Self::write_config(lab, "overload.toml", &config.text(lab.instance()))?;
        Self::start_with(lab, path)
    }

    /// [`Controller::start`] with a file that is already there.
    pub fn start_with(lab: &'l Lab, config: PathBuf) -> Result<Self> {
        let mut command = lab.host.command(
            controller_binary()?
                .to_str()
                .context("the controller's path is not UTF-8")?,
        );
        command.arg("run").arg("--config").arg(&config);
        let mut process = Process::start(command, "controller", lab.directory())?;
        process.wait_for_log("protecting", Duration::from_secs(20))?;
        Ok(Self {
            lab,
            process,
            config,
        })
    }

    /// Writes a configuration into the lab's directory.
    pub fn write_config(lab: &Lab, name: &str, text: &str) -> Result<PathBuf> {
        let path = lab.directory().join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Runs another command of the binary in the host's namespace, to its end.
    pub fn output(lab: &Lab, arguments: &[&str]) -> Result<Output> {
        let binary = controller_binary()?;
        lab.host
            .command(binary.to_str().context("the path is not UTF-8")?)
            .args(arguments)
            .output()
            .context("cannot start the controller")
    }

    /// Runs another command of the binary for this instance, which must succeed; gives its output.
    pub fn command(&self, arguments: &[&str]) -> Result<String> {
        let instance = ["--instance", self.lab.instance()];
        let output = Self::output(self.lab, &[arguments, &instance].concat())?;
        if !output.status.success() {
            bail!(
                "overload-ctl {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The running process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Counters, as `status --json` gives them.
    pub fn status(&self) -> Result<Status> {
        let text = self.command(&["status", "--json"])?;
        let document = serde_json::from_str(&text).context("status is no JSON")?;
        Ok(Status(document))
    }

    /// Its configuration file.
    pub fn config(&self) -> &PathBuf {
        &self.config
    }
}

impl Drop for Controller<'_> {
    fn drop(&mut self) {
        // The filter outlives its controller, by design.
        let ended = self.process.stop().map(|_| ());
        if self.lab.pins().exists()
            && let Err(error) = ended.and_then(|()| self.command(&["detach"]).map(|_| ()))
        {
            eprintln!("{error:#}");
        }
    }
}

/// Counters of one destination since the instance was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DestinationCounters {
    /// New requests.
    pub offered: u64,
    /// Of these, admitted.
    pub admitted: u64,
    /// Of these, refused.
    pub refused: u64,
    /// Of these, admitted only because of shadow mode.
    pub shadow_refused: u64,
}

fn number(value: &Value, name: &str) -> Result<u64> {
    value
        .as_u64()
        .with_context(|| format!("status has no number {name}, but {value}"))
}

/// What `status --json` says.
#[derive(Clone, Debug)]
pub struct Status(Value);

impl Status {
    /// Packets with this reason whose verdict was carried out.
    pub fn reason(&self, name: &str) -> Result<u64> {
        number(&self.entry("reasons", "reason", name)?["enforced"], name)
    }

    /// Packets that passed although this was their reason, in shadow mode.
    pub fn shadow(&self, name: &str) -> Result<u64> {
        number(&self.entry("reasons", "reason", name)?["shadow"], name)
    }

    fn entry(&self, list: &str, key: &str, name: &str) -> Result<&Value> {
        self.0[list]
            .as_array()
            .and_then(|all| all.iter().find(|entry| entry[key] == name))
            .with_context(|| format!("status has no {key} {name} in {list}: {}", self.0))
    }

    /// Counters of one destination.
    pub fn destination(&self, name: &str) -> Result<DestinationCounters> {
        let entry = self.entry("destinations", "name", name)?;
        let counter = |key: &str| number(&entry[key], key);
        Ok(DestinationCounters {
            offered: counter("offered")?,
            admitted: counter("admitted")?,
            refused: counter("refused")?,
            shadow_refused: counter("shadow_refused")?,
        })
    }

    /// The document.
    pub fn document(&self) -> &Value {
        &self.0
    }
}
