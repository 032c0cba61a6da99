//! The command line: one file for each command.
//!
//! Exit statuses are part of the contract: 0 for done, 1 for failed while running, 2 for input that cannot be used.
//! Results go to standard output, complaints to standard error.

mod ca;
mod check;
mod config;
mod decision;
mod env;
mod expired;
mod fetched;
mod lint;
mod moment;
mod operator;
mod report;
mod robots;
mod serve;
mod source;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Say what robots.txt allows, without a proxy
    Check(check::Arguments),
    /// Say what is wrong with a robots.txt, or read differently by different dialects
    Lint(lint::Arguments),
    /// Check a configuration file, or print the default one
    #[command(subcommand)]
    Config(config::Command),
    /// Make the interception CA, or show its certificate
    #[command(subcommand)]
    Ca(ca::Command),
    /// Say why a request was refused or forwarded, as a running proxy remembers it
    Decision(decision::Arguments),
    /// Say what was refused and what enforcement would refuse, from the decision log
    Report(report::Arguments),
    /// Ask a running proxy about origins' robots.txt files
    #[command(subcommand)]
    Robots(robots::Command),
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
        Command::Check(arguments) => check::run(&arguments, config),
        Command::Lint(arguments) => lint::run(&arguments, config),
        Command::Config(command) => config::run(command, config),
        Command::Ca(command) => ca::run(command, config),
        Command::Decision(arguments) => decision::run(&arguments, config),
        Command::Report(arguments) => report::run(&arguments, config),
        Command::Robots(command) => robots::run(&command, config),
        Command::Env(arguments) => env::run(&arguments, config),
    }
}
