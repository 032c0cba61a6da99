//! `wayleave fleet`: the fleet as a running proxy sees it, and whether this machine can join it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::admin_client::ask;
use super::source::load_config;
use super::terminal::{complain, pretty, print, unusable};
use crate::config::Config;
use crate::fleet::check::check;
use crate::observe::harmless::harmless_lines;
use crate::run::wiring;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show the engine, its state and all nodes (asks the running proxy)
    Status(Status),
    /// Connect as [store] says and try everything that a node does, without a running proxy
    Check,
}

#[derive(Debug, Args)]
pub(super) struct Status {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &Command, file: Option<&Path>) -> ExitCode {
    let config = match load_config(file) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    match command {
        Command::Status(arguments) => status(arguments, &config),
        Command::Check => try_all(&config),
    }
}

fn status(arguments: &Status, config: &Config) -> ExitCode {
    match ask(config.admin.listen, "GET", "/v1/fleet") {
        Ok(found) if arguments.json => print(&pretty(&found)),
        Ok(found) => print(&harmless_lines(&describe(&found))),
        Err(error) => {
            complain(&format!("wayleave: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

fn describe(found: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut lines = format!("state      {}", text(&found["state"]));
    if let Some(seconds) = found["lost_for_seconds"].as_u64() {
        let _ = write!(lines, " for {seconds} s");
    }
    lines.push('\n');
    if let Some(message) = found["last_error"]["message"].as_str() {
        let ago = &found["last_error"]["seconds_ago"];
        let _ = writeln!(lines, "last error {message} ({ago} s ago)");
    }
    let engine = &found["engine"];
    if !engine.is_null() {
        let (memory, policy) = (&engine["memory"], text(&engine["maxmemory_policy"]));
        let name = text(&engine["name"]);
        let _ = writeln!(lines, "engine     {name}, {memory} bytes, {policy}");
    }
    let _ = writeln!(lines, "on_loss    {}", text(&found["on_loss"]));
    let (turns, unsettled) = (&found["turns"], &found["unsettled"]);
    let _ = writeln!(lines, "turns      {turns}\nunsettled  {unsettled}");
    for member in found["members"].as_array().into_iter().flatten() {
        let is_this = member["node"] == found["node"];
        let this = if is_this { " (this one)" } else { "" };
        let (node, version) = (text(&member["node"]), text(&member["version"]));
        let _ = writeln!(lines, "node       {node} {version}{this}");
    }
    lines
}

fn try_all(config: &Config) -> ExitCode {
    let engine = match wiring::engine(&config.fleet) {
        Ok(Some(engine)) => engine,
        Ok(None) => return unusable("store.kind is \"embedded\": this node is alone"),
        Err(error) => return unusable(&format!("{error:#}")),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let tried = match runtime {
        Ok(runtime) => runtime.block_on(check(&engine)),
        Err(error) => return unusable(&format!("starting the runtime: {error}")),
    };
    let mut lines = String::new();
    let mut is_fit = true;
    for (verb, result) in tried {
        let _ = match result {
            Ok(()) => writeln!(lines, "{verb:<9} ok"),
            Err(failure) => {
                is_fit = false;
                writeln!(lines, "{verb:<9} {}: {failure}", failure.kind())
            }
        };
    }
    let printed = print(&harmless_lines(&lines));
    match is_fit {
        true => printed,
        false => unusable("this node cannot take part in the fleet"),
    }
}
