//! Commands, one file each.

mod bypass;
mod check;
mod detach;
mod run;
mod status;

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    config::{ConfigError, is_instance_name},
    datapath::{attach::AttachError, filter::FilterError, pins::PinError},
    ops::ListenError,
};

/// SIP overload control at the network card.
///
/// Exit status: 0 done; 1 a fault, named in one sentence; 2 wrong use of this command line; 3 not
/// permitted; 4 another program, controller or listener is in the way.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Put the filter on its interface and steer it until SIGINT or SIGTERM; it stays when this ends
    Run {
        /// Configuration file
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Take the filter off the interface at the end
        #[arg(long)]
        detach: bool,
    },
    /// Check a configuration file; nothing is changed
    Check {
        /// Configuration file
        file: PathBuf,
    },
    /// Show what the filter does, with or without a running controller
    Status {
        #[command(flatten)]
        instance: Instance,
        /// As one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Take the filter off the interface and remove its state
    Detach {
        #[command(flatten)]
        instance: Instance,
    },
    /// Let everything pass (on), or go back to the configured mode (off)
    Bypass {
        /// on or off
        switch: Switch,
        #[command(flatten)]
        instance: Instance,
    },
}

#[derive(clap::Args)]
struct Instance {
    /// Name of the filter instance
    #[arg(long, default_value = "default", value_parser = instance_name)]
    instance: String,
}

#[derive(Clone, Copy, ValueEnum)]
enum Switch {
    On,
    Off,
}

fn instance_name(text: &str) -> Result<String, &'static str> {
    if is_instance_name(text) {
        Ok(text.to_owned())
    } else {
        Err("use 1 to 32 letters, digits, '-' or '_', and no '-' first")
    }
}

/// How a command ended, other than well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// A fault of input, configuration or system.
    Fault = 1,
    /// A capability or right is missing.
    NotPermitted = 3,
    /// Something else holds what is needed.
    Busy = 4,
}

/// Why a command failed: one sentence a line.
#[derive(Debug)]
struct Failure {
    status: Status,
    message: String,
}

impl Failure {
    fn fault(error: &impl ToString) -> Self {
        Self {
            status: Status::Fault,
            message: error.to_string(),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::fault(&error)
    }
}

/// Standard output could not be written; all else has an error type of its own.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let message = match error.kind() {
            // The reader of stdout, such as `head`, has seen enough.
            io::ErrorKind::BrokenPipe => String::new(),
            io::ErrorKind::StorageFull => {
                "standard output goes to a device that is full; free some room, or write elsewhere"
                    .to_owned()
            }
            _ => format!("cannot write to standard output: {error}"),
        };
        Self {
            status: Status::Fault,
            message,
        }
    }
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Self {
        let status = match error {
            ListenError::InUse(_) => Status::Busy,
            ListenError::Failed { .. } => Status::Fault,
        };
        Self {
            status,
            message: error.to_string(),
        }
    }
}

impl From<FilterError> for Failure {
    fn from(error: FilterError) -> Self {
        let status = match error {
            FilterError::Capability(_) => Status::NotPermitted,
            FilterError::Pin(PinError::Locked { .. })
            | FilterError::Steered { .. }
            | FilterError::Attach(AttachError::Busy { .. }) => Status::Busy,
            _ => Status::Fault,
        };
        Self {
            status,
            message: error.to_string(),
        }
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .init();
    match execute(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { status, message }) => {
            let mut stderr = io::stderr().lock();
            for line in message.lines() {
                // Nobody is left to tell that stderr is gone.
                let _closed = writeln!(stderr, "overload-ctl: {line}");
            }
            ExitCode::from(status as u8)
        }
    }
}

fn execute(command: Command) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::fault(&format!("cannot wait for events: {error}")))?;
    match command {
        Command::Run { config, detach } => runtime.block_on(run::run(&config, detach)),
        Command::Check { file } => check::check(&file),
        Command::Status { instance, json } => {
            runtime.block_on(status::status(&instance.instance, json))
        }
        Command::Detach { instance } => detach::detach(&instance.instance),
        Command::Bypass { switch, instance } => bypass::bypass(switch, &instance.instance),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_instance_cannot_name_a_path() {
        assert_eq!(instance_name("edge-1_b"), Ok("edge-1_b".to_owned()));
        for bad in ["", "-x", ".", "..", "a/b", "a.b", &"x".repeat(33)] {
            assert!(instance_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn scripts_can_tell_busy_from_forbidden() {
        let (instance, pid) = ("default".to_owned(), Some(7));
        let busy = FilterError::from(PinError::Locked { instance, pid });
        assert_eq!(Failure::from(busy).status, Status::Busy);
        let absent = FilterError::from(PinError::Absent("default".to_owned()));
        assert_eq!(Failure::from(absent).status, Status::Fault);
    }
}
