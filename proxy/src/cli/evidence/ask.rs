//! `wayleave evidence ask`: was this allowed then, by what, and did we fetch it?

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use wayleave_robots_txt::Target;

use super::log;
use super::select::{Wanted, select};
use crate::cli::moment::Moment;
use crate::cli::source::load_config;
use crate::cli::terminal::{json_line, print, unusable};
use crate::clock::Clock;
use crate::config::Config;
use crate::observe::decisions::{Decision, Finding};
use crate::observe::harmless::harmless_lines;

/// The exit status of what was not allowed.
const REFUSED: u8 = 1;

#[derive(Debug, Args)]
#[command(
    after_help = "Answers by the last decision about the URL at that time, and shows the first after it, too. Reads the decision \
                  log; needs no running proxy.\n\
                  Exit status: 0 allowed, 1 not allowed, 2 no decision about it up to then, or the log cannot be read."
)]
pub(crate) struct Arguments {
    /// An absolute URL
    url: String,
    /// 2026-11-21T08:00:00Z, 2026-11-21 (the whole day) or 3d (3 days ago)
    #[arg(long, value_name = "TIME")]
    at: Moment,
    /// Only requests of this crawler, by its configured name
    #[arg(long, value_name = "C")]
    crawler: Option<String>,
    /// Print the decisions as JSON lines
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, file: Option<&Path>) -> ExitCode {
    let config = match load_config(file) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    match ask(arguments, &config) {
        Ok(found) => tell(&found, arguments.json),
        Err(error) => unusable(&format!("{error:#}")),
    }
}

/// The decisions about the URL: the last at that time, and the first after it, if there is one.
fn ask(arguments: &Arguments, config: &Config) -> anyhow::Result<Vec<Decision>> {
    let options = config.log.decisions.as_ref();
    let options = options.context("log.decisions is empty: there is no decision log")?;
    let url = Target::parse(&arguments.url).with_context(|| format!("{:?}", arguments.url))?;
    let at = arguments.at.end_seen_from(Clock::start().now());
    let wanted = Wanted::Url {
        url: url.to_string(),
        at,
        crawler: arguments.crawler.clone(),
    };
    let files = log::files(&options.path)?;
    let chosen = select(&files, &wanted)?;
    let mut found = Vec::new();
    for (file, chosen) in files
        .iter()
        .zip(&chosen)
        .filter(|(_, chosen)| !chosen.is_empty())
    {
        file.read(|number, line| {
            if chosen.contains(&number) {
                found.push(serde_json::from_slice::<Decision>(line)?);
            }
            Ok(())
        })?;
    }
    let first = found.first();
    let first = first.with_context(|| format!("the log has no request for {url}"))?;
    anyhow::ensure!(
        first.at <= at,
        "the log has no request for {url} up to then; the first was at {} (decision {})",
        humantime::format_rfc3339_micros(first.at),
        first.id
    );
    Ok(found)
}

fn tell(found: &[Decision], json: bool) -> ExitCode {
    let told: String = match json {
        true => found.iter().map(|it| json_line(it) + "\n").collect(),
        false => harmless_lines(&found.iter().map(describe).collect::<Vec<_>>().join("\n")),
    };
    let printed = print(&told);
    match found.first().is_some_and(is_allowed) {
        false if printed == ExitCode::SUCCESS => ExitCode::from(REFUSED),
        _ => printed,
    }
}

fn is_allowed(decision: &Decision) -> bool {
    let was_let_go = matches!(&*decision.outcome, "forwarded" | "tunnelled" | "failed");
    was_let_go && !decision.failed_unsent()
}

fn describe(decision: &Decision) -> String {
    let fetched = match &*decision.outcome {
        "forwarded" | "tunnelled" | "observed" => {
            let bytes = decision.body_bytes;
            let bytes = bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
            format!("yes, answered with {}{bytes}", decision.status)
        }
        "failed" if decision.failed_unsent() => {
            format!("no, the name could not be resolved ({})", decision.reason)
        }
        "failed" => format!("it was tried, and failed ({})", decision.reason),
        _ if decision.reached_origin == Some(true) => "it was asked for, and withheld".to_owned(),
        _ => "no, nothing was sent".to_owned(),
    };
    let allowed = match &*decision.outcome {
        "observed" => "no, but that was only observed",
        _ if is_allowed(decision) => "yes",
        _ => "no",
    };
    let robots = decision.finding.as_ref().map(describe_finding);
    let rule = decision.policy.as_ref().map(|rule| {
        let reason = rule.reason.as_deref().unwrap_or_default();
        format!("[[rule]] {} ({}) {reason}", rule.number, rule.action)
    });
    let lines = [
        (
            "at",
            Some(humantime::format_rfc3339_micros(decision.at).to_string()),
        ),
        (
            "request",
            Some(format!("{} {}", decision.method, decision.url)),
        ),
        (
            "crawler",
            Some(format!("{} {}", decision.crawler, decision.identity)),
        ),
        ("allowed", Some(format!("{allowed}: {}", decision.reason))),
        ("robots.txt", robots),
        ("rule", rule),
        ("fetched", Some(fetched)),
        ("decision", Some(decision.id.to_string())),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        if let Some(value) = value {
            let line = format!("{name:<11} {value}");
            writeln!(text, "{}", line.trim_end()).expect("writing to a String cannot fail");
        }
    }
    text
}

fn describe_finding(finding: &Finding) -> String {
    let rule = finding.line.zip(finding.rule.as_ref());
    let rule = rule.map_or(finding.basis.to_string(), |(line, rule)| {
        format!("line {line}: {rule}")
    });
    let digest = finding
        .robots_sha256
        .map(|digest| format!(", SHA-256 {digest}"));
    let at = finding
        .robots_fetched_at
        .map(humantime::format_rfc3339_micros);
    let at = at.map_or(String::new(), |at| format!(", fetched at {at}"));
    format!("{rule}{at}{}", digest.unwrap_or_default())
}
