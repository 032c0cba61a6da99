//! `wayleave fleet`: shows the fleet of a running proxy, and checks whether this machine can join it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;

use super::admin_client::ask;
use super::paint::Tone;
use super::source::load_config;
use super::terminal::{complain, pretty, print, print_painted, unusable};
use crate::config::{Config, Store};
use crate::fleet::check::check;
use crate::observe::harmless::harmless;
use crate::run::wiring;

/// The shortest timeout of the calls of a check.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show the engine, its state and all nodes (asks the running proxy)
    Status(Output),
    /// Connect as [store] says and try every operation of a node, without a running proxy
    Check(Output),
}

#[derive(Debug, Args)]
pub(super) struct Output {
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
        Command::Check(arguments) => try_all(arguments, &config),
    }
}

fn status(arguments: &Output, config: &Config) -> ExitCode {
    match ask(config.admin.listen, "GET", "/v1/fleet") {
        Ok(found) if arguments.json => print(&pretty(&found)),
        Ok(found) => print_painted(&describe(&found)),
        Err(error) => {
            complain(&format!("wayleave: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

fn describe(found: &Value) -> String {
    let text = |value: &Value| harmless(value.as_str().unwrap_or("-")).into_owned();
    let state = text(&found["state"]);
    let tone = match &*state {
        "lost" => Tone::Bad,
        "up" | "alone" => Tone::Good,
        "beats-failing" | "clock-off" => Tone::Bad,
        _ => Tone::Doubtful,
    };
    let mut lines = format!("state      {}", tone.paint(&state));
    if let Some(seconds) = found["lost_for_seconds"].as_u64() {
        let _ = write!(lines, " for {seconds} s");
    }
    lines.push('\n');
    if let Some(message) = found["last_error"]["message"].as_str() {
        let ago = &found["last_error"]["seconds_ago"];
        let message = harmless(message);
        let _ = writeln!(lines, "last error {message} ({ago} s ago)");
    }
    let engine = &found["engine"];
    if !engine.is_null() {
        let (memory, policy) = (&engine["memory"], text(&engine["maxmemory_policy"]));
        let name = text(&engine["name"]);
        let _ = writeln!(lines, "engine     {name}, {memory} bytes, {policy}");
    }
    if let Some(offset) = found["clock_offset_ms"]
        .as_i64()
        .filter(|_| state == "clock-off")
    {
        let _ = writeln!(
            lines,
            "clock      {} s from the engine's",
            offset.abs() / 1000
        );
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

/// One operation of a node, and whether this machine could do it.
#[derive(Serialize)]
struct Tried {
    verb: &'static str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

impl Tried {
    fn line(&self) -> String {
        let result = match &self.failure {
            None => Tone::Good.paint("ok"),
            Some(failure) => Tone::Bad.paint(&harmless(failure)),
        };
        format!("{:<9} {result}\n", self.verb)
    }
}

fn try_all(arguments: &Output, config: &Config) -> ExitCode {
    // The check is about whether the engine can be used at all; a busy machine must not make it fail.
    let patient = Store {
        timeout: config.fleet.timeout.max(PATIENCE),
        ..config.fleet.clone()
    };
    let engine = match wiring::engine(&patient, config) {
        Ok(Some(engine)) => engine.looking(),
        Ok(None) => return unusable("store.kind is \"embedded\": this node is alone"),
        Err(error) => return unusable(&format!("{error:#}")),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let tried = match runtime {
        Ok(runtime) => runtime.block_on(check(&engine, patient.key_file.is_some())),
        Err(error) => return unusable(&format!("starting the runtime: {error}")),
    };
    let tried = tried.into_iter().map(|(verb, result)| Tried {
        verb,
        ok: result.is_ok(),
        failure: result.err().map(|it| format!("{}: {it}", it.kind())),
    });
    let tried: Vec<_> = tried.collect();
    let printed = match arguments.json {
        true => print(&pretty(&tried)),
        false => print_painted(&tried.iter().map(Tried::line).collect::<String>()),
    };
    match tried.iter().all(|it| it.ok) {
        true => printed,
        false => unusable("this node cannot take part in the fleet"),
    }
}
