//! The command line, one file for each command: parse the arguments, do the work, print the result.
//!
//! Exit statuses are part of the contract: 0 for success, 1 for a failure at run time, 2 for input that cannot be used.
//! Results go to standard output, errors and warnings to standard error.

mod admin_client;
mod ca;
mod check;
mod config;
mod decision;
mod env;
mod evidence;
mod expired;
mod fetch;
mod fleet;
mod health;
mod keys;
mod lint;
mod manual;
mod moment;
mod paint;
mod progress;
mod report;
mod robots;
mod serve;
mod source;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// A forward proxy that makes crawlers obey robots.txt.
#[derive(Debug, Parser)]
#[command(name = "wayleave", version, max_term_width = 100)]
struct Arguments {
    /// Configuration file [default: ./config.toml if it exists, else the built-in defaults]
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
    /// Show what robots.txt allows, without a running proxy
    Check(check::Arguments),
    /// Report mistakes in a robots.txt, and where dialects read it differently
    Lint(lint::Arguments),
    /// Check a configuration file, or print the default one
    #[command(subcommand)]
    Config(config::Command),
    /// Create the interception CA, or show its certificate
    #[command(subcommand)]
    Ca(ca::Command),
    /// Create, list and publish the keys that sign crawlers' requests
    #[command(subcommand)]
    Keys(keys::Command),
    /// Explain why a request was refused or forwarded (asks the running proxy)
    Decision(decision::Arguments),
    /// Summarise from the decision log what was refused, and what enforcement would refuse
    Report(report::Arguments),
    /// Export decisions with everything they are based on, verify such an export, or query it
    #[command(subcommand)]
    Evidence(evidence::Command),
    /// List, show, refresh or forget the robots.txt files of a running proxy
    #[command(subcommand)]
    Robots(robots::Command),
    /// Show the fleet of a running proxy, or check whether this machine can join it
    #[command(subcommand)]
    Fleet(fleet::Command),
    /// Print the settings that make a client use the proxy, ready to paste or `eval`
    Env(env::Arguments),
    /// Ask the running proxy whether it takes requests: 0 if it does, 1 if not
    Health,
    /// Print a shell's completions of this command line
    Completions(manual::Completions),
    /// Write the man pages of all commands
    Man(manual::Pages),
}

/// Runs the command that the process's arguments name.
#[must_use]
pub fn run() -> ExitCode {
    let Arguments { config, command } = Arguments::parse();
    let config = config.as_deref();
    match command.unwrap_or(Command::Serve) {
        Command::Serve => serve::run(config),
        Command::Check(arguments) => check::run(arguments, config),
        Command::Lint(arguments) => lint::run(&arguments, config),
        Command::Config(command) => config::run(command, config),
        Command::Ca(command) => ca::run(command, config),
        Command::Keys(command) => keys::run(&command, config),
        Command::Decision(arguments) => decision::run(&arguments, config),
        Command::Report(arguments) => report::run(&arguments, config),
        Command::Evidence(command) => evidence::run(&command, config),
        Command::Robots(command) => robots::run(&command, config),
        Command::Fleet(command) => fleet::run(&command, config),
        Command::Env(arguments) => env::run(&arguments, config),
        Command::Health => health::run(config),
        Command::Completions(arguments) => manual::completions(&arguments, Arguments::command()),
        Command::Man(arguments) => manual::pages(&arguments, Arguments::command()),
    }
}
