//! `wayleave decision`: why a request was refused or forwarded.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::operator::ask;
use super::source::load_config;
use super::terminal::{print, unusable};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// `decision_id` of a refusal or of a line in the decision log
    id: String,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, file: Option<&Path>) -> ExitCode {
    let config = match load_config(file) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !arguments.id.chars().all(is_plain) {
        return unusable(&format!("{:?} is no decision id", arguments.id));
    }
    let path = format!("/v1/decisions/{}", arguments.id);
    let answer = match ask(config.admin.listen, "GET", &path) {
        Ok(answer) => answer,
        Err(error) => return unusable(&format!("{error:#}")),
    };
    let Ok(decision) = serde_json::from_slice::<Value>(&answer.body) else {
        return unusable(&format!(
            "the admin listener answered with {}",
            answer.status
        ));
    };
    if !answer.status.is_success() {
        let error = decision["error"].as_str().unwrap_or("unknown");
        return unusable(&format!("decision {}: {error}", arguments.id));
    }
    if arguments.json {
        return print(&format!("{decision:#}\n"));
    }
    print(&describe(&decision))
}

/// The decision in words, a line for each thing that is known.
fn describe(decision: &Value) -> String {
    let text = |member: &str| match &decision[member] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let words = |members: &[&str]| {
        let known: Vec<_> = members.iter().filter_map(|member| text(member)).collect();
        (!known.is_empty()).then(|| known.join(" "))
    };
    let robots = text("verdict").zip(text("origin")).map(|(_, origin)| {
        let fetched_at = text("robots_fetched_at")
            .map(|at| format!(", fetched at {at}"))
            .unwrap_or_default();
        format!("{origin}/robots.txt{fetched_at}")
    });
    let rule = text("line").zip(text("rule"));
    let rule = rule.map(|(line, rule)| format!("line {line}: {rule}"));
    let tokens = decision["tokens"].as_array().map(|tokens| {
        let tokens: Vec<_> = tokens.iter().filter_map(Value::as_str).collect();
        tokens.join(", ")
    });
    let lines = [
        ("decision", text("id")),
        ("at", text("at")),
        ("request", words(&["method", "url"])),
        ("client", text("client")),
        ("crawler", words(&["crawler", "identity"])),
        ("tokens", tokens),
        ("outcome", words(&["outcome", "status", "reason"])),
        ("details", text("details")),
        ("robots.txt", robots),
        ("verdict", words(&["verdict", "basis", "dialect"])),
        ("rule", rule),
    ];
    let mut described = String::new();
    for (name, value) in lines {
        if let Some(value) = value {
            writeln!(described, "{name:<11} {value}").expect("writing to a string cannot fail");
        }
    }
    described
}
