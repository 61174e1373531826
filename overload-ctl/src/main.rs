//! `overload-ctl`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    overload_ctl::cli::main()
}
