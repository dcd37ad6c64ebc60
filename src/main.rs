//! The `lockstep` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockstep::cli::main()
}
