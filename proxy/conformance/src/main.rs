//! The tool `wayleave-conformance`, for tests that compare readers of robots.txt; everything is in the library `wayleave`.

use std::process::ExitCode;

fn main() -> ExitCode {
    wayleave::cli::conformance::run()
}
