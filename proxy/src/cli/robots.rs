//! `wayleave robots`: lists, shows, refreshes and forgets the robots.txt files of a running proxy.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;
use wayleave_clock::{Clock, TimeArgument};
use wayleave_notation::harmless::{escape_controls, escape_lines};
use wayleave_robots_txt::Origin;

use super::admin_client::{encoded, encoded_time, request_json};
use super::config_file::load_keys;
use super::paint::Tone;
use super::terminal::{
    CommandResult, pretty_json, print, print_errors, print_painted, table_heads, unusable,
};

#[derive(Debug, Subcommand)]
pub(super) enum RobotsCommand {
    /// List the known origins in alphabetical order
    List(RobotsListArguments),
    /// Show everything known about an origin, or what it served at a given time
    Show(RobotsShowArguments),
    /// List the robots.txt files that changed, and what that opens or closes of what crawlers asked for
    Changes(RobotsChangesArguments),
    /// Fetch an origin's robots.txt again now
    Refresh(RobotsRefreshArguments),
    /// Forget what is known about an origin; its history is kept
    Forget(RobotsForgetArguments),
}

#[derive(Debug, Args)]
pub(super) struct RobotsListArguments {
    /// List only origins that contain this text
    #[arg(conflicts_with = "query")]
    origin: Option<String>,
    /// List only origins in this state: fresh, stale, unavailable or unreachable
    #[arg(long, value_parser = ["fresh", "stale", "unavailable", "unreachable"], hide_possible_values = true)]
    state: Option<String>,
    /// Same as ORIGIN
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
    /// Continue after this origin
    #[arg(long, value_name = "ORIGIN")]
    after: Option<String>,
    /// Maximum number of origins
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RobotsShowArguments {
    /// An origin such as https://example.com; https:// may be omitted
    origin: String,
    /// Show what it served at this time, or at the end of a day: 2026-11-21T08:00:00Z, 2026-11-21, yesterday or 3d (3 days ago)
    #[arg(long, value_name = "TIME")]
    at: Option<TimeArgument>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RobotsChangesArguments {
    /// Only changes since then: 7d, yesterday, 2026-11-22 or 2026-11-22T08:00:00Z
    #[arg(long, value_name = "TIME", default_value = "1d")]
    since: TimeArgument,
    /// Maximum number of changes, the newest first
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Print as JSON, with the URLs
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RobotsRefreshArguments {
    /// An origin such as https://example.com; https:// may be omitted
    origin: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct RobotsForgetArguments {
    /// An origin such as https://example.com; https:// may be omitted
    origin: String,
}

pub(super) fn run(command: &RobotsCommand, file: Option<&Path>) -> CommandResult {
    let (config, _) = load_keys(file, &["admin.listen"])?;
    let admin = config.admin.listen;
    let output = match command {
        RobotsCommand::List(arguments) => list(arguments, admin),
        RobotsCommand::Show(arguments) => show(arguments, admin),
        RobotsCommand::Changes(arguments) => changes(arguments, admin),
        RobotsCommand::Refresh(arguments) => refresh(arguments, admin),
        RobotsCommand::Forget(RobotsForgetArguments { origin }) => forget(origin, admin),
    };
    match output {
        Ok(RobotsOutput::Painted(text)) => Ok(print_painted(&text)),
        Ok(RobotsOutput::AsIs(text)) => Ok(print(&text)),
        Ok(RobotsOutput::Failed(text)) => {
            print_painted(&text);
            Err(ExitCode::FAILURE)
        }
        Err(message) => Err(unusable(&message)),
    }
}

/// The output of a command.
enum RobotsOutput {
    /// For people, with tones.
    Painted(String),
    /// For programs, unchanged.
    AsIs(String),
    /// For either: the origin's robots.txt could not be fetched.
    Failed(String),
}

fn list(arguments: &RobotsListArguments, admin: SocketAddr) -> Result<RobotsOutput, String> {
    let mut path = format!("/v1/robots?limit={}", arguments.limit);
    let parameters = [
        ("state", arguments.state.as_ref()),
        // Two spellings of one argument, which clap does not accept together.
        ("q", arguments.origin.as_ref().or(arguments.query.as_ref())),
        ("cursor", arguments.after.as_ref()),
    ];
    for (name, value) in parameters {
        if let Some(value) = value {
            path += &format!("&{name}={}", encoded(value));
        }
    }
    let found = request(admin, "GET", &path)?;
    if arguments.json {
        return Ok(RobotsOutput::AsIs(pretty_json(&found)));
    }
    // On standard error, so that the list can be piped on.
    if let Some(last) = found["next_cursor"].as_str() {
        print_errors(&format!("wayleave: there may be more: --after {last}\n"));
    }
    let robots = found["robots"].as_array().into_iter().flatten();
    Ok(RobotsOutput::Painted(summary_heads() + &robots.map(summary_line).collect::<String>()))
}

fn summary_heads() -> String {
    table_heads(&format!("{:<11} {:<24} origin", "state", "since"))
}

/// Formats one origin as a line: its state, the time from which it has been known, its name, and the cause of a failure.
fn summary_line(robots: &Value) -> String {
    let text = |name: &str| escape_controls(robots[name].as_str().unwrap_or("-")).into_owned();
    // An origin that was never reached has no copy.
    let since = match &robots["fetched_at"] {
        Value::Null => text("unreachable_since"),
        _ => text("fetched_at"),
    };
    let cause = match robots["cause"].as_str() {
        Some(cause) => format!("  {}", escape_controls(cause)),
        None => String::new(),
    };
    let state = text("state");
    let origin = text("origin");
    // Padded before it is painted: escape sequences have no width on the screen.
    let painted = tone(&state).paint(&format!("{state:<11}"));
    format!("{painted} {since:<24} {origin}{cause}\n")
}

fn tone(state: &str) -> Tone {
    match state {
        "fresh" | "unavailable" => Tone::Good,
        "unreachable" => Tone::Bad,
        _ => Tone::Doubtful,
    }
}

fn show(arguments: &RobotsShowArguments, admin: SocketAddr) -> Result<RobotsOutput, String> {
    let mut path = api_path(&arguments.origin)?;
    if let Some(at) = arguments.at {
        let instant = humantime::format_rfc3339_nanos(at.end(Clock::start().now()));
        path += &format!("?at={}", encoded(&instant.to_string()));
    }
    let found = request(admin, "GET", &path)?;
    if arguments.json {
        return Ok(RobotsOutput::AsIs(pretty_json(&found)));
    }
    if arguments.at.is_some() {
        let body = found["body"].as_str().unwrap_or_default();
        // Redirected to a file, the output is byte for byte the origin's file.
        return Ok(RobotsOutput::AsIs(if io::stdout().is_terminal() {
            escape_lines(body)
        } else {
            body.to_owned()
        }));
    }
    Ok(RobotsOutput::Painted(describe(&found)))
}

fn changes(arguments: &RobotsChangesArguments, admin: SocketAddr) -> Result<RobotsOutput, String> {
    let limit = arguments.limit;
    let path = format!("/v1/changes?limit={limit}&since={}", encoded_time(&arguments.since));
    let found = request(admin, "GET", &path)?;
    if arguments.json {
        return Ok(RobotsOutput::AsIs(pretty_json(&found)));
    }
    if found["is_cut"] == true {
        print_errors("wayleave: there are older changes: --limit shows more\n");
    }
    let changes: Vec<_> = found["changes"].as_array().into_iter().flatten().collect();
    if changes.is_empty() {
        return Ok(RobotsOutput::AsIs("no robots.txt is known to have changed\n".to_owned()));
    }
    let heads = format!("{:<27} {:<8} {:>6} {:>6} origin", "at", "effect", "opened", "closed");
    let lines: String = changes.into_iter().map(change_line).collect();
    Ok(RobotsOutput::Painted(table_heads(&heads) + &lines))
}

/// Formats one change as a line.
fn change_line(change: &Value) -> String {
    let text = |name: &str| escape_controls(change[name].as_str().unwrap_or("-")).into_owned();
    let count =
        |name: &str| change[name].as_u64().map_or("-".to_owned(), |count| count.to_string());
    let effect = text("effect");
    let tone = match &*effect {
        "closes" | "both" => Tone::Bad,
        "opens" => Tone::Good,
        _ => Tone::Aside,
    };
    let painted = tone.paint(&format!("{effect:<8}"));
    let at = text("at");
    let origin = text("origin");
    format!("{at:<27} {painted} {:>6} {:>6} {origin}\n", count("opened"), count("closed"))
}

fn refresh(arguments: &RobotsRefreshArguments, admin: SocketAddr) -> Result<RobotsOutput, String> {
    let path = api_path(&arguments.origin)? + "/refresh";
    let robots = request(admin, "POST", &path)?;
    let text = if arguments.json {
        pretty_json(&robots)
    } else {
        summary_heads() + &summary_line(&robots)
    };
    Ok(match (robots["cause"].is_string(), arguments.json) {
        (true, _) => RobotsOutput::Failed(text),
        (false, true) => RobotsOutput::AsIs(text),
        (false, false) => RobotsOutput::Painted(text),
    })
}

fn forget(origin: &str, admin: SocketAddr) -> Result<RobotsOutput, String> {
    let path = api_path(origin)?;
    request(admin, "DELETE", &path)?;
    let forgotten = escape_controls(origin);
    Ok(RobotsOutput::AsIs(format!(
        "forgot {forgotten}; its robots.txt is fetched with the next request\n"
    )))
}

/// The members of the API's response that are shown first.
const ENTRY_MEMBERS: [&str; 8] = [
    "origin",
    "state",
    "fetched_at",
    "fresh_until",
    "usable_until",
    "unreachable_since",
    "failures",
    "retry_at",
];

/// Describes an origin: one line for each member, then the body.
fn describe(robots: &Value) -> String {
    let mut described = String::new();
    let mut add = |name: &str, value: &Value| {
        let text = match value {
            Value::Null => return,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let escaped = escape_controls(&text);
        let text = match name {
            "state" => tone(&escaped).paint(&escaped),
            _ => escaped.into_owned(),
        };
        let name = Tone::Aside.paint(&format!("{name:<18}"));
        writeln!(described, "{name} {text}").expect("writing to a String cannot fail");
    };
    for name in ENTRY_MEMBERS {
        add(name, &robots[name]);
    }
    let answer = &robots["answer"];
    for redirect in answer["redirects"].as_array().into_iter().flatten() {
        add("redirect", &redirect["uri"]);
    }
    add("uri", &answer["uri"]);
    add("status", &answer["status"]);
    if answer["is_cut"] == true {
        add("cut", &"at robots.max_size".into());
    }
    if answer["looks_like_a_page"] == true {
        add("looks like", &"an HTML page; read as robots.txt all the same".into());
    }
    add("failure", &robots["cause"]);
    let versions: Vec<_> = robots["history"].as_array().into_iter().flatten().collect();
    for (at, version) in versions.iter().enumerate() {
        add("in force", &in_force(version, versions.get(at + 1).copied()).into());
    }
    if let Some(body) = answer["body"].as_str() {
        described += "\n";
        described += &escape_lines(body);
    }
    described
}

/// Describes a version of a file: from when until when it was in force, when it was last confirmed, and the beginning of its
/// digest.
fn in_force(version: &Value, next: Option<&Value>) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let until = next.map_or("now".to_owned(), |next| text(&next["first_seen_at"]));
    let content = match version["sha256"].as_str() {
        Some(digest) => format!("SHA-256 {}", digest.get(..16).unwrap_or(digest)),
        None => "no content".to_owned(),
    };
    format!(
        "{} until {until}, confirmed at {}, {} {content}",
        text(&version["first_seen_at"]),
        text(&version["last_seen_at"]),
        version["status"]
    )
}

/// Returns the API's path of an origin.
fn api_path(origin: &str) -> Result<String, String> {
    let parsed = if origin.contains("://") {
        Origin::parse(origin)
    } else {
        Origin::parse(&format!("https://{origin}"))
    };
    let origin = parsed.map_err(|error| format!("{origin:?} is not an origin: {error}"))?;
    Ok(format!("/v1/robots/{}", encoded(&origin.to_string())))
}

fn request(admin: SocketAddr, method: &str, path: &str) -> Result<Value, String> {
    request_json(admin, method, path).map_err(|error| format!("{error:#}"))
}
