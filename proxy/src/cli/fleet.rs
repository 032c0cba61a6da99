//! `wayleave fleet`: shows the fleet of a running proxy, and checks whether this machine can join it.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::Value;
use wayleave_assembly::wiring;
use wayleave_config::{Config, StoreConfig};
use wayleave_fleet::check::check;
use wayleave_notation::harmless::escape_controls;

use super::admin_client::request_json;
use super::config_file::{load_config, load_keys};
use super::paint::Tone;
use super::terminal::{CommandResult, failed, pretty_json, print, print_painted, unusable};

/// The shortest timeout of the calls of a check.
const MIN_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Subcommand)]
pub(super) enum FleetCommand {
    /// Show the engine, its state and all nodes (asks the running proxy)
    Status(FleetArguments),
    /// Connect as configured in [store] and try every operation of a node, without a running proxy
    Check(FleetArguments),
}

#[derive(Debug, Args)]
pub(super) struct FleetArguments {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &FleetCommand, file: Option<&Path>) -> CommandResult {
    match command {
        FleetCommand::Status(arguments) => {
            status(arguments, &load_keys(file, &["admin.listen"])?.0)
        }
        FleetCommand::Check(arguments) => check_fleet(arguments, &load_config(file)?.0),
    }
}

fn status(arguments: &FleetArguments, config: &Config) -> CommandResult {
    match request_json(config.admin.listen, "GET", "/v1/fleet") {
        Ok(found) if arguments.json => Ok(print(&pretty_json(&found))),
        Ok(found) => Ok(print_painted(&describe(&found))),
        Err(error) => Err(failed(&error)),
    }
}

fn describe(found: &Value) -> String {
    let text = |value: &Value| escape_controls(value.as_str().unwrap_or("-")).into_owned();
    let state = text(&found["state"]);
    let tone = match &*state {
        "up" | "alone" => Tone::Good,
        "lost" | "beats-failing" | "clock-off" => Tone::Bad,
        _ => Tone::Doubtful,
    };
    if state == "alone" {
        let paths = "store.kind = \"redis\" joins one";
        return format!("{}: this node has no fleet ({paths})\n", tone.paint(&state));
    }
    // Writing to a `String` cannot fail, so the results below are ignored.
    let mut lines = format!("state      {}", tone.paint(&state));
    if let Some(seconds) = found["lost_for_seconds"].as_u64() {
        let _ = write!(lines, " for {seconds} s");
    }
    lines.push('\n');
    if let Some(message) = found["last_error"]["message"].as_str() {
        let ago = &found["last_error"]["seconds_ago"];
        let message = escape_controls(message);
        let _ = writeln!(lines, "last error {message} ({ago} s ago)");
    }
    let engine = &found["engine"];
    if !engine.is_null() {
        let memory = &engine["memory"];
        let policy = text(&engine["maxmemory_policy"]);
        let name = text(&engine["name"]);
        let _ = writeln!(lines, "engine     {name}, {memory} bytes, {policy}");
    }
    // A small offset is normal, and worth a line only once it keeps the node from working.
    if let Some(offset) = found["clock_offset_ms"].as_i64().filter(|_| state == "clock-off") {
        let _ = writeln!(lines, "clock      {} s from the engine's", offset.abs() / 1000);
    }
    let _ = writeln!(lines, "on_loss    {}", text(&found["on_loss"]));
    let turns = &found["turns"];
    let unsettled = &found["unsettled"];
    let _ = writeln!(lines, "slots      {turns}\nunsent     {unsettled}");
    for member in found["members"].as_array().into_iter().flatten() {
        let this = if member["node"] == found["node"] { " (this one)" } else { "" };
        let node = text(&member["node"]);
        let version = text(&member["version"]);
        let _ = writeln!(lines, "node       {node} {version}{this}");
    }
    for log in found["logs"].as_array().into_iter().flatten() {
        let node = text(&log["node"]);
        let at = text(&log["head_at"]);
        let _ = write!(lines, "log        {node}: {} decisions at {at}", log["decisions"]);
        if let Some(lost) = log["lost_decisions"].as_u64().filter(|lost| *lost > 0) {
            let lost = format!("{lost} more were lost");
            let _ = write!(lines, ", {}", Tone::Bad.paint(&lost));
        }
        lines.push('\n');
    }
    lines
}

/// One operation of a node, and whether this machine could do it.
#[derive(Serialize)]
struct TriedStep {
    verb: &'static str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

impl TriedStep {
    fn line(&self) -> String {
        let result = match &self.failure {
            None => Tone::Good.paint("ok"),
            Some(failure) => Tone::Bad.paint(&escape_controls(failure)),
        };
        format!("{:<9} {result}\n", self.verb)
    }
}

fn check_fleet(arguments: &FleetArguments, config: &Config) -> CommandResult {
    // The check is about whether the engine can be used at all; a busy machine must not make it fail.
    let store =
        StoreConfig { timeout: config.fleet.timeout.max(MIN_TIMEOUT), ..config.fleet.clone() };
    let engine = match wiring::redis_engine(&store, config) {
        // An observer's beats are not recorded: the check must not make this machine a member.
        Ok(Some(engine)) => engine.as_observer(),
        Ok(None) => {
            return Err(unusable("store.kind is \"embedded\": this node has no fleet"));
        }
        Err(error) => return Err(unusable(&format!("{error:#}"))),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| unusable(&format!("starting the runtime: {error}")))?;
    let steps: Vec<_> = runtime
        .block_on(check(&engine, store.key_file.is_some()))
        .into_iter()
        .map(|(verb, result)| TriedStep {
            verb,
            ok: result.is_ok(),
            failure: result.err().map(|error| format!("{}: {error}", error.kind())),
        })
        .collect();
    let printed = if arguments.json {
        print(&pretty_json(&steps))
    } else {
        print_painted(&steps.iter().map(TriedStep::line).collect::<String>())
    };
    if steps.iter().all(|step| step.ok) {
        Ok(printed)
    } else {
        Err(unusable("this node cannot take part in the fleet"))
    }
}
