//! Chores of this workspace, run as `cargo xtask <command>`.

mod bench;
mod demo;
mod docs;
mod ebpf;
mod faults;
mod kernels;
mod setup;
mod shell;
mod test;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

/// Chores of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what building, testing and measuring need; does nothing where nothing is missing
    Setup,
    /// Build the kernel object from source and put it at overload-ctl/bpf/overload.o
    BuildEbpf {
        /// Leave the committed object alone; fail when it is not what its source builds to
        #[arg(long)]
        check: bool,
    },
    /// Run every check there is, as CI does (needs root)
    Test,
    /// Load, attach and run the filter on other kernels, in an emulator (needs root)
    Kernels,
    /// Seed known faults into the kernel program: each has to turn a test red (needs root)
    Faults,
    /// Write docs/reasons.md from the filter's reasons and events
    Docs,
    /// Show the filter at work between a caller at five times the limit and a proxy (needs root)
    Demo,
    /// Measure the filter beside floors and a peer (needs root)
    Bench {
        /// Few runs: shows that every path can be measured, not what it costs
        #[arg(long)]
        quick: bool,
        /// Write the figures to this file too
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Setup => setup::ensure(&[setup::Group::Build, setup::Group::Test]),
        Command::BuildEbpf { check: false } => ebpf::build_and_install(),
        Command::BuildEbpf { check: true } => ebpf::check().map(|_| ()),
        Command::Test => test::run(),
        Command::Kernels => kernels::run(),
        Command::Faults => faults::run(),
        Command::Docs => docs::write(),
        Command::Demo => demo::run(),
        Command::Bench { quick, json } => bench::run(quick, json.as_deref()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
