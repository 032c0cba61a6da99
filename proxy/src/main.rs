//! The program `wayleave`; everything is in the library of the same name.

use std::process::ExitCode;

/// A request is a few dozen small allocations, made on one thread and often freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    wayleave::cli::run()
}
