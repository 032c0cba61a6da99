//! `wayleave robots`: lists, shows, refreshes and forgets the robots.txt files of a running proxy.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;
use wayleave_robots_txt::Origin;

use super::admin_client::ask;
use super::moment::Moment;
use super::paint::Tone;
use super::source::load_config;
use super::terminal::{complain, pretty, print, print_painted, unusable};
use crate::clock::Clock;
use crate::observe::harmless::{harmless, harmless_lines};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the known origins in alphabetical order
    List(List),
    /// Show everything known about an origin, or what it served at a given time
    Show(Show),
    /// Fetch an origin's robots.txt again now
    Refresh(Refresh),
    /// Forget what is known about an origin; its history is kept
    Forget(Named),
}

#[derive(Debug, Args)]
pub(super) struct List {
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
pub(super) struct Show {
    /// An origin such as https://example.com; https:// may be omitted
    origin: String,
    /// Show what it served at this time: 2026-11-21T08:00:00Z, 2026-11-21 or 3d (3 days ago)
    #[arg(long, value_name = "TIME")]
    at: Option<Moment>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Refresh {
    /// An origin such as https://example.com; https:// may be omitted
    origin: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// An origin such as https://example.com; https:// may be omitted
    origin: String,
}

pub(super) fn run(command: &Command, file: Option<&Path>) -> ExitCode {
    let admin = match load_config(file) {
        Ok((config, _)) => config.admin.listen,
        Err(status) => return status,
    };
    let answered = match command {
        Command::List(arguments) => list(arguments, admin),
        Command::Show(arguments) => show(arguments, admin),
        Command::Refresh(arguments) => refresh(arguments, admin),
        Command::Forget(Named { origin }) => forget(origin, admin),
    };
    match answered {
        Ok(Shown::Painted(text)) => print_painted(&text),
        Ok(Shown::AsIs(text)) => print(&text),
        Err(message) => unusable(&message),
    }
}

/// The output of a command.
enum Shown {
    /// For people, with tones.
    Painted(String),
    /// For programs, unchanged.
    AsIs(String),
}

fn list(arguments: &List, admin: SocketAddr) -> Result<Shown, String> {
    let mut path = format!("/v1/robots?limit={}", arguments.limit);
    let parameters = [
        ("state", arguments.state.as_ref()),
        ("q", arguments.origin.as_ref().or(arguments.query.as_ref())),
        ("cursor", arguments.after.as_ref()),
    ];
    for (name, value) in parameters {
        if let Some(value) = value {
            path += &format!("&{name}={}", encoded(value));
        }
    }
    let found = asked(admin, "GET", &path)?;
    if arguments.json {
        return Ok(Shown::AsIs(pretty(&found)));
    }
    if let Some(last) = found["next_cursor"].as_str() {
        complain(&format!("wayleave: there may be more: --after {last}\n"));
    }
    let robots = found["robots"].as_array().into_iter().flatten();
    Ok(Shown::Painted(robots.map(line).collect()))
}

/// Formats one origin in one line: its state, since when, its name, and why it cannot be reached.
fn line(robots: &Value) -> String {
    let text = |name: &str| harmless(robots[name].as_str().unwrap_or("-")).into_owned();
    let since = match &robots["fetched_at"] {
        Value::Null => text("unreachable_since"),
        _ => text("fetched_at"),
    };
    let cause = robots["cause"].as_str();
    let why = cause.map(|cause| format!("  {}", harmless(cause)));
    let (state, origin) = (text("state"), text("origin"));
    let painted = tone(&state).paint(&format!("{state:<11}"));
    format!(
        "{painted} {since:<24} {origin}{}\n",
        why.unwrap_or_default()
    )
}

fn tone(state: &str) -> Tone {
    match state {
        "fresh" | "unavailable" => Tone::Good,
        "unreachable" => Tone::Bad,
        _ => Tone::Doubtful,
    }
}

fn show(arguments: &Show, admin: SocketAddr) -> Result<Shown, String> {
    let mut path = path_of(&arguments.origin)?;
    if let Some(at) = arguments.at {
        let at = humantime::format_rfc3339_nanos(at.seen_from(Clock::start().now()));
        path += &format!("?at={}", encoded(&at.to_string()));
    }
    let found = asked(admin, "GET", &path)?;
    if arguments.json {
        return Ok(Shown::AsIs(pretty(&found)));
    }
    if arguments.at.is_some() {
        let body = found["body"].as_str().unwrap_or_default();
        // Redirected to a file, the output is exactly what the origin served.
        return Ok(Shown::AsIs(match io::stdout().is_terminal() {
            true => harmless_lines(body),
            false => body.to_owned(),
        }));
    }
    Ok(Shown::Painted(describe(&found)))
}

fn refresh(arguments: &Refresh, admin: SocketAddr) -> Result<Shown, String> {
    let path = path_of(&arguments.origin)? + "/refresh";
    let robots = asked(admin, "POST", &path)?;
    Ok(match arguments.json {
        true => Shown::AsIs(pretty(&robots)),
        false => Shown::Painted(line(&robots)),
    })
}

fn forget(origin: &str, admin: SocketAddr) -> Result<Shown, String> {
    asked(admin, "DELETE", &path_of(origin)?).map(|_| Shown::AsIs(String::new()))
}

/// The members of the API's answer that are shown first.
const OF_ENTRY: [&str; 8] = [
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
    let mut tell = |name: &str, value: &Value| {
        let text = match value {
            Value::Null => return,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let text = harmless(&text);
        let text = match name {
            "state" => tone(&text).paint(&text),
            _ => text.into_owned(),
        };
        let name = Tone::Aside.paint(&format!("{name:<18}"));
        writeln!(described, "{name} {text}").expect("writing to a String cannot fail");
    };
    for name in OF_ENTRY {
        tell(name, &robots[name]);
    }
    let answer = &robots["answer"];
    for redirect in answer["redirects"].as_array().into_iter().flatten() {
        tell("redirect", &redirect["uri"]);
    }
    tell("uri", &answer["uri"]);
    tell("status", &answer["status"]);
    if answer["is_cut"] == true {
        tell("cut", &"at robots.max_size".into());
    }
    if answer["looks_like_a_page"] == true {
        tell(
            "looks like",
            &"an HTML page; read as robots.txt all the same".into(),
        );
    }
    tell("failure", &robots["cause"]);
    for said in robots["history"].as_array().into_iter().flatten() {
        tell("first seen", &said["first_seen_at"]);
    }
    if let Some(body) = answer["body"].as_str() {
        described += "\n";
        described += &harmless_lines(body);
    }
    described
}

/// Returns the API's path of an origin.
fn path_of(origin: &str) -> Result<String, String> {
    let parsed = match origin.contains("://") {
        true => Origin::parse(origin),
        false => Origin::parse(&format!("https://{origin}")),
    };
    let origin = parsed.map_err(|error| format!("{origin:?} is not an origin: {error}"))?;
    Ok(format!("/v1/robots/{}", encoded(&origin.to_string())))
}

fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

fn asked(admin: SocketAddr, method: &str, path: &str) -> Result<Value, String> {
    ask(admin, method, path).map_err(|error| format!("{error:#}"))
}
