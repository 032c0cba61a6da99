//! The program `wayleave`; everything is in the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    wayleave::cli::run()
}
