//! `wayleave decisions`: the recent decisions of a running proxy, and those that follow.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use clap::{ArgAction, Args};
use serde_json::Value;
use wayleave_clock::TimeArgument;
use wayleave_decision::RequestOutcome;
use wayleave_decision_log::ChosenCrawler;
use wayleave_notation::harmless::escape_controls;

use super::admin_client::{EventStream, encoded, encoded_time, request_json};
use super::config_file::load_keys;
use super::crawler_names;
use super::decision::tone;
use super::paint::Tone;
use super::terminal::{CommandResult, counted, json_line, print_errors, print_part, unusable};

/// The decisions that are printed before those that follow.
const RECENT_WITH_FOLLOW: usize = 10;
const RECENT: usize = 100;

#[derive(Debug, Args)]
pub(super) struct DecisionsArguments {
    /// Print decisions as they are made, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Only decisions about this crawler, by its configured name; `unnamed`: those about clients that match no [[crawler]]
    #[arg(long, value_name = "NAME")]
    crawler: Option<ChosenCrawler>,
    /// Only decisions with this outcome: forwarded, observed, refused, failed or tunnelled; may be repeated
    #[arg(
        long,
        value_name = "WORD",
        action = ArgAction::Append,
        value_parser = ["forwarded", "observed", "refused", "failed", "tunnelled"],
        hide_possible_values = true,
    )]
    outcome: Vec<String>,
    /// Only decisions with this reason, such as `rule` for a line of robots.txt
    #[arg(long, value_name = "WORD")]
    reason: Option<String>,
    /// Only decisions about URLs of this host
    #[arg(long)]
    host: Option<String>,
    /// Only decisions about which another proxy asked: gateway
    #[arg(long, value_name = "WORD", value_parser = ["gateway"], hide_possible_values = true)]
    via: Option<String>,
    /// Also decisions that are in the log only, since then: 7d, yesterday, 2026-11-22 or 2026-11-22T08:00:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<TimeArgument>,
    /// Maximum number of past decisions, of which the newest are printed [default: 100; with --follow, 10]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print each decision as a line of JSON, as in the decision log
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &DecisionsArguments, file: Option<&Path>) -> CommandResult {
    let (config, _) = load_keys(file, &["admin.listen"])?;
    let admin = config.admin.listen;
    let cannot_ask = |error: anyhow::Error| unusable(&format!("{error:#}"));
    // Opened before the list is asked for, so that no decision falls between them.
    let path = format!("/v1/decisions/stream{}", arguments.filter('?'));
    let stream = arguments.follow.then(|| EventStream::open(admin, &path)).transpose();
    let stream = stream.map_err(cannot_ask)?;
    let past = past_decisions(arguments, admin).map_err(cannot_ask)?;
    for decision in &past {
        print_part(&arguments.line(decision))?;
    }
    if let Some(name) = arguments.crawler.as_ref().filter(|_| past.is_empty()) {
        check_known(name, admin)?;
    }
    // On standard error, so that standard output is nothing but decisions.
    let found = counted(past.len(), "decision");
    let more = if stream.is_some() { ", and those that follow," } else { "" };
    print_errors(&format!("wayleave: {found}{more} of the proxy at http://{admin}\n"));
    match stream {
        Some(stream) => follow(arguments, stream, &past),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Checks that the proxy has a crawler with this name, about which there is no decision.
fn check_known(name: &ChosenCrawler, admin: SocketAddr) -> Result<(), ExitCode> {
    let found = request_json(admin, "GET", "/v1/crawlers")
        .map_err(|error| unusable(&format!("{error:#}")))?;
    let known = found["crawlers"].as_array().into_iter().flatten();
    let known = known.filter_map(|crawler| crawler["name"].as_str());
    let not_found = format!("the proxy at http://{admin} found no decision");
    match crawler_names::unknown_among(known, name, &not_found) {
        Some(mistake) => Err(unusable(&mistake)),
        None => Ok(()),
    }
}

/// Returns the past decisions, the oldest first.
fn past_decisions(arguments: &DecisionsArguments, admin: SocketAddr) -> anyhow::Result<Vec<Value>> {
    let usual = if arguments.follow { RECENT_WITH_FOLLOW } else { RECENT };
    let limit = arguments.limit.unwrap_or(usual);
    let mut path = format!("/v1/decisions?limit={limit}{}", arguments.filter('&'));
    if let Some(since) = &arguments.since {
        path += &format!("&since={}", encoded_time(since));
    }
    let mut found = request_json(admin, "GET", &path)?;
    if let Some(damaged) = found["damaged_lines"].as_u64() {
        print_errors(&format!(
            "wayleave: warning: {damaged} damaged lines of the decision log are left out\n"
        ));
    }
    if found["is_cut"] == true {
        print_errors(&format!(
            "wayleave: warning: there are older decisions than these {limit} (--limit)\n"
        ));
    }
    let Value::Array(mut decisions) = found["decisions"].take() else {
        anyhow::bail!("the proxy at http://{admin} did not answer with decisions");
    };
    decisions.reverse();
    Ok(decisions)
}

/// Prints decisions as they come.
fn follow(
    arguments: &DecisionsArguments,
    mut stream: EventStream,
    printed: &[Value],
) -> CommandResult {
    let printed: HashSet<&str> =
        printed.iter().filter_map(|decision| decision["id"].as_str()).collect();
    loop {
        let event = stream.next().map_err(|error| unusable(&format!("{error:#}")))?;
        match &*event.name {
            "decision" => {
                let Ok(decision) = serde_json::from_str::<Value>(&event.data) else {
                    return Err(unusable("the proxy sent a decision that cannot be read"));
                };
                if decision["id"].as_str().is_none_or(|id| !printed.contains(id)) {
                    print_part(&arguments.line(&decision))?;
                }
            }
            "missed" => print_errors(&format!(
                "wayleave: warning: {} decisions are left out: they came faster than they were read\n",
                event.data
            )),
            _ => {}
        }
    }
}

impl DecisionsArguments {
    /// Returns the filter as parameters of a query, after `separator` if there are any.
    fn filter(&self, separator: char) -> String {
        let outcomes = self.outcome.iter().map(|word| ("outcome", &**word));
        let others = [
            ("crawler", self.crawler.as_deref()),
            ("reason", self.reason.as_deref()),
            ("host", self.host.as_deref()),
            ("via", self.via.as_deref()),
        ];
        let others = others.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let parameters: Vec<_> = outcomes
            .chain(others)
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        if parameters.is_empty() {
            return String::new();
        }
        format!("{separator}{}", parameters.join("&"))
    }

    fn line(&self, decision: &Value) -> String {
        if self.json { json_line(decision) + "\n" } else { describe(decision) }
    }
}

/// Describes a decision in a line.
fn describe(decision: &Value) -> String {
    let text = |member: &str| match &decision[member] {
        Value::String(text) => escape_controls(text).into_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let outcome = text("outcome");
    let outcome = tone(decision).paint(&format!("{outcome:<9}"));
    let at = Tone::Aside.paint(&text("at"));
    let crawler = text("crawler");
    let method = text("method");
    let url = text("url");
    let mut line = format!("{at} {outcome} {:<3} {crawler:<16} {method} {url}", text("status"));
    let is_plain = decision["outcome"] == RequestOutcome::Forwarded.as_str();
    let reason = match (text("line"), text("rule")) {
        (number, rule) if !rule.is_empty() => format!("{} (line {number}: {rule})", text("reason")),
        _ if is_plain => String::new(),
        _ => text("reason"),
    };
    if !reason.is_empty() {
        line += &format!("  {reason}");
    }
    let via = text("via");
    if !via.is_empty() {
        line += &format!("  (asked by a {via})");
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_decision_is_a_line_that_says_why() {
        let refused = json!({
            "at": "2026-11-28T10:00:00.000Z", "outcome": "refused", "status": 403, "crawler": "news",
            "method": "GET", "url": "https://shop.example/cart\u{1b}", "reason": "rule", "line": 4,
            "rule": "Disallow: /cart",
        });
        let line = describe(&refused);
        assert_eq!(
            strip_str(&line).to_string(),
            "2026-11-28T10:00:00.000Z refused   403 news             GET https://shop.example/cart\\u{1b}  \
             rule (line 4: Disallow: /cart)\n"
        );
        let forwarded = json!({
            "at": "2026-11-28T10:00:00.000Z", "outcome": "forwarded", "status": 200, "crawler": "asserted",
            "method": "GET", "url": "https://shop.example/", "reason": "no-match",
        });
        let line = describe(&forwarded);
        assert!(line.ends_with("GET https://shop.example/\n"), "{line}");
        let mut asked = forwarded;
        asked["via"] = json!("gateway");
        let line = describe(&asked);
        assert!(line.ends_with("GET https://shop.example/  (asked by a gateway)\n"), "{line}");
    }
}
