//! The command line, one file for each command: parse the arguments, do the work, print the result.
//!
//! Exit statuses are part of the contract: 0 for success, 1 for a failure at run time, 2 for input that cannot be used.
//! Results go to standard output, errors and warnings to standard error.

mod admin_client;
mod ca;
mod cells;
mod check;
mod comply;
mod config;
mod config_file;
pub mod conformance;
mod crawler_names;
mod decision;
mod decisions;
mod document_form;
mod drill;
mod env;
mod evidence;
mod expired_rules;
mod fleet;
mod gateway;
mod health;
mod help;
mod keys;
mod lax_settings;
mod lint;
mod manual;
mod mcp;
mod paint;
mod plan;
mod progress;
mod publish;
mod rehearse;
mod replay;
mod report;
mod robots;
mod robots_fetcher;
mod run;
mod serve;
mod terminal;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};

/// A forward proxy that makes crawlers obey robots.txt. Without a command, it runs: `wayleave` is `wayleave serve`.
#[derive(Debug, Parser)]
#[command(
    name = "wayleave",
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 success, 1 failed at run time, 2 input that cannot be used. `wayleave COMMAND --help` has the rest."
)]
struct CommandLine {
    /// Configuration file [default: ./config.toml if it exists, else the built-in defaults]
    #[arg(short, long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The command to run [default: serve]
    #[command(subcommand)]
    command: Option<CliCommand>,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Run the proxy in the foreground until SIGTERM or SIGINT
    Serve,
    /// Run a command that can reach nothing but wayleave, whatever the command knows of proxies
    Run(run::RunArguments),
    /// Make the namespaces of `run`
    #[command(name = "run-entry", hide = true)]
    RunEntry(run::EntryArguments),
    /// Start the command of `run` in its namespaces
    #[command(name = "run-init", hide = true)]
    RunInit(run::InsideArguments),
    /// Become the command of `run`
    #[command(name = "run-exec", hide = true)]
    RunExec(run::InsideArguments),
    /// Show whether the proxy would forward or refuse a URL; the proxy need not be running
    Check(check::CheckArguments),
    /// Plan a crawl: what it would be refused, how long it takes at each host's pace, and at which price
    Plan(plan::PlanArguments),
    /// Report mistakes in a robots.txt, and where dialects read it differently
    Lint(lint::LintArguments),
    /// Check a configuration file, or print the default one
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Create the interception CA, or show its certificate
    #[command(subcommand)]
    Ca(ca::CaCommand),
    /// Create, list and publish the keys that sign crawlers' requests
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Write what the operator of crawlers publishes: keys, cards, address ranges and a page about each
    Publish(publish::PublishArguments),
    /// List the duties of those who run crawlers, and which of them the configuration fulfils
    Comply(comply::ComplyArguments),
    /// Explain why a request was refused or forwarded (asks the running proxy, or reads the decision log)
    Decision(decision::DecisionArguments),
    /// List recent decisions of the running proxy, or follow them as they are made
    Decisions(decisions::DecisionsArguments),
    /// Summarise the decision log: what was refused, and what enforcement would refuse
    Report(report::ReportArguments),
    /// Decide about the requests of the decision log again, under another configuration
    Replay(replay::ReplayArguments),
    /// Show what a new robots.txt would shut out, by the site's access log: for owners of sites, who need no proxy
    Rehearse(rehearse::RehearseArguments),
    /// Export decisions with everything they are based on, verify such an export, or query it
    #[command(subcommand)]
    Evidence(evidence::EvidenceCommand),
    /// List, show, refresh or forget the robots.txt files of a running proxy
    #[command(subcommand)]
    Robots(robots::RobotsCommand),
    /// Show the fleet of a running proxy, or check whether this machine can join it
    #[command(subcommand)]
    Fleet(fleet::FleetCommand),
    /// Print the settings that make a client use the proxy, ready to paste or `eval`
    Env(env::EnvArguments),
    /// Serve agents by the Model Context Protocol, over standard input and output: what they may fetch, and pages through the proxy
    Mcp(mcp::McpArguments),
    /// Answer another proxy that asks by a helper program whether its clients' requests are allowed
    #[command(subcommand)]
    Gateway(gateway::GatewayCommand),
    /// Check whether the running proxy accepts requests; exit status 0 if it does, else 1
    Health,
    /// Ask the running proxy for what it must refuse, and report every other answer
    Drill(drill::DrillArguments),
    /// Print completions for a shell
    Completions(manual::CompletionsArguments),
    /// Write the man pages of all commands
    Man(manual::ManArguments),
}

/// Runs the command that the process's arguments name.
#[must_use]
pub fn run() -> ExitCode {
    let parsed = CommandLine::from_arg_matches(&definition().get_matches());
    let CommandLine { config, command } = parsed.unwrap_or_else(|error| error.exit());
    let file = config.as_deref();
    let result = match command.unwrap_or(CliCommand::Serve) {
        CliCommand::Serve => serve::run(file),
        CliCommand::Run(arguments) => run::run(&arguments, file),
        CliCommand::RunEntry(arguments) => run::enter(&arguments),
        CliCommand::RunInit(arguments) => run::init(&arguments),
        CliCommand::RunExec(arguments) => run::execute(&arguments),
        CliCommand::Check(arguments) => check::run(arguments, file),
        CliCommand::Plan(arguments) => plan::run(&arguments, file),
        CliCommand::Lint(arguments) => lint::run(&arguments, file),
        CliCommand::Config(command) => config::run(command, file),
        CliCommand::Ca(command) => ca::run(command, file),
        CliCommand::Keys(command) => keys::run(&command, file),
        CliCommand::Publish(arguments) => publish::run(&arguments, file),
        CliCommand::Comply(arguments) => comply::run(&arguments, file),
        CliCommand::Decision(arguments) => decision::run(&arguments, file),
        CliCommand::Decisions(arguments) => decisions::run(&arguments, file),
        CliCommand::Report(arguments) => report::run(&arguments, file),
        CliCommand::Replay(arguments) => replay::run(&arguments, file),
        CliCommand::Rehearse(arguments) => rehearse::run(&arguments),
        CliCommand::Evidence(command) => Ok(evidence::run(&command, file)),
        CliCommand::Robots(command) => robots::run(&command, file),
        CliCommand::Fleet(command) => fleet::run(&command, file),
        CliCommand::Env(arguments) => env::run(&arguments, file),
        CliCommand::Mcp(arguments) => mcp::run(arguments, file),
        CliCommand::Gateway(command) => gateway::run(&command, file),
        CliCommand::Health => health::run(file),
        CliCommand::Drill(arguments) => drill::run(&arguments, file),
        CliCommand::Completions(arguments) => Ok(manual::completions(&arguments, definition())),
        CliCommand::Man(arguments) => Ok(manual::pages(&arguments, definition())),
    };
    // Both are exit statuses: an error was printed where it occurred.
    result.unwrap_or_else(|status| status)
}

/// Returns the definition of the command line, with its examples.
fn definition() -> Command {
    help::with_examples(CommandLine::command())
}
