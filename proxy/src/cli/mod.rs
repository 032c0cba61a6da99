//! The command line: one file for each command.
//!
//! Exit statuses are part of the contract: 0 for done, 1 for failed while running, 2 for input that cannot be used.
//! Results go to standard output, complaints to standard error.

mod ca;
mod config;
mod env;
mod serve;

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::{Config, Mistake};

/// Used without `--config`, if there is one in the working directory.
const CONFIG_FILE: &str = "config.toml";

const UNUSABLE: u8 = 2;

/// A forward proxy that makes crawlers obey robots.txt.
#[derive(Debug, Parser)]
#[command(name = "wayleave", version, max_term_width = 100)]
struct Arguments {
    /// Configuration file; without it ./config.toml if there is one, else built-in defaults
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What to do; without a command, serve
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the proxy in the foreground until SIGTERM or SIGINT
    Serve,
    /// Check a configuration file, or print the default one
    #[command(subcommand)]
    Config(config::Command),
    /// Make the interception CA, or show its certificate
    #[command(subcommand)]
    Ca(ca::Command),
    /// Print what makes a client use the proxy, ready to paste or `eval`
    Env(env::Arguments),
}

/// Does what the process's arguments say.
#[must_use]
pub fn run() -> ExitCode {
    let Arguments { config, command } = Arguments::parse();
    let config = config.as_deref();
    match command.unwrap_or(Command::Serve) {
        Command::Serve => serve::run(config),
        Command::Config(command) => config::run(command, config),
        Command::Ca(command) => ca::run(command, config),
        Command::Env(arguments) => env::run(&arguments, config),
    }
}

/// The configuration to use, and the file that it came from, if any.
///
/// Prints what is wrong with it, one line for each mistake, and returns the exit status if it cannot be used.
fn load_config(file: Option<&Path>) -> Result<(Config, Option<&Path>), ExitCode> {
    let default = Path::new(CONFIG_FILE);
    // A file that is there but cannot be looked at is not passed over.
    let is_there = || !matches!(default.try_exists(), Ok(false));
    let Some(file) = file.or_else(|| is_there().then_some(default)) else {
        return Ok((Config::default(), None));
    };
    match Config::load(file) {
        Ok(config) => Ok((config, Some(file))),
        Err(mistakes) => {
            let lines: String = mistakes.iter().map(line).collect();
            complain(&lines);
            Err(ExitCode::from(UNUSABLE))
        }
    }
}

fn line(mistake: &Mistake) -> String {
    format!("{mistake}\n")
}

/// The path from the root, if the working directory can be known.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Prints a result and returns the exit status. A reader who has seen enough (`| head`) is no failure.
fn print(text: &str) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            unusable(&format!("cannot write to standard output: {error}"))
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Says why the command cannot be done and returns the exit status.
fn unusable(message: &str) -> ExitCode {
    complain(&format!("wayleave: {message}\n"));
    ExitCode::from(UNUSABLE)
}

fn complain(lines: &str) {
    // Without standard error there is nobody left to tell; the exit status remains.
    let _ = io::stderr().write_all(lines.as_bytes());
}
