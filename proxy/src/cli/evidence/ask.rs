//! `wayleave evidence ask`: whether a URL was allowed at a time, by which rule, and whether it was fetched.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use clap::Args;
use wayleave_clock::{Clock, TimeArgument};
use wayleave_config::Config;
use wayleave_decision::RequestOutcome;
use wayleave_decision_log::{ChosenCrawler, DecisionRecord, FindingRecord, crawler_in_words};
use wayleave_evidence::SignedLog;
use wayleave_evidence::select::{SelectedLines, Selection, UnsignedLines, select};
use wayleave_notation::harmless::escape_lines;
use wayleave_record::RecordedIdentity;
use wayleave_robots_txt::Target;

use super::node_url::NodeUrl;
use crate::cli::config_file::{EVIDENCE_KEYS, load_keys};
use crate::cli::terminal::{UNUSABLE, counted, json_line, print, print_errors, unusable};

/// The exit status if the request was not allowed, or its decision is not signed by its writer.
pub(super) const REFUSED: u8 = 1;

#[derive(Debug, Args)]
#[command(
    after_help = "Shows the last decision about the URL up to that time, and the first one after it. Reads the decision \
                  log; needs no running proxy. With --nodes it asks the proxies that you name, with the token in \
                  WAYLEAVE_ADMIN_TOKEN, and shows the last decision of all of them; signatures are not checked then. It names the \
                  nodes of their fleet whose logs are gone, or shorter than they were.\n\
                  Exit status: 0 allowed, 1 not allowed, or not signed by its writer, 2 no decision up to that time, the log \
                  cannot be read, a node did not answer, decisions of a node are missing, or somebody else wrote the decision into it."
)]
pub(crate) struct AskArgs {
    /// An absolute URL
    pub(super) url: String,
    /// 2026-11-21T08:00:00Z, 2026-11-21 (the whole day), yesterday, now or 3d (3 days ago)
    #[arg(long, value_name = "TIME")]
    pub(super) at: TimeArgument,
    /// Only requests of this crawler, by its configured name; `unnamed`: of clients that match no [[crawler]]
    #[arg(long, value_name = "C")]
    pub(super) crawler: Option<ChosenCrawler>,
    /// Ask the admin listeners of running proxies, such as http://10.0.0.2:3129, instead of reading the log
    #[arg(long, value_name = "URL,...", value_delimiter = ',', conflicts_with = "accept_unsigned")]
    pub(super) nodes: Vec<NodeUrl>,
    /// Accept that other nodes have lost decisions, or are gone with their logs; they are still named
    #[arg(long, requires = "nodes")]
    pub(super) accept_missing: bool,
    /// Print the decisions as JSON lines
    #[arg(long)]
    pub(super) json: bool,
    /// Accept decisions that a killed process had not signed yet
    #[arg(long)]
    accept_unsigned: bool,
}

pub(super) fn run(arguments: &AskArgs, file: Option<&Path>) -> ExitCode {
    let config = match load_keys(file, &EVIDENCE_KEYS) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    match ask(arguments, &config) {
        Ok((found, sentences)) => print_decisions(&found, &sentences, arguments),
        Err(error) => unusable(&format!("{error:#}")),
    }
}

/// A decision about the URL.
struct FoundDecision {
    decision: DecisionRecord,
    /// The range of unsigned lines that it is in, if any.
    unsigned: Option<UnsignedLines>,
}

/// Finds the last decision about the URL up to the time and, if there is one, the first after it. Returns the answer in
/// sentences, too.
fn ask(arguments: &AskArgs, config: &Config) -> anyhow::Result<(Vec<FoundDecision>, String)> {
    let options = (config.log.decisions.as_ref())
        .context("log.decisions is empty: there is no decision log")?;
    let url = Target::parse(&arguments.url).with_context(|| format!("{:?}", arguments.url))?;
    let at = arguments.at.end(Clock::start().now());
    let crawler = arguments.crawler.clone().map(String::from);
    let wanted = Selection::Url { url: url.clone(), at, crawler };
    let log = SignedLog::open(&options.path, &options.state_dir)?;
    if log.unsigned_lines > 0 {
        print_errors(&format!(
            "wayleave: lines at the end of the log were not signed by their writer, and are left out: {}\n",
            log.unsigned_lines
        ));
    }
    for foreign in &log.foreign {
        print_errors(&escape_lines(&format!("wayleave: {foreign}\n")));
    }
    let selected = select(&log.files, &wanted)?;
    let deleted = describe_deleted(&selected);
    let mut found = Vec::new();
    for (file, chosen) in
        log.files.iter().zip(&selected).filter(|(_, chosen)| !chosen.lines.is_empty())
    {
        file.read(|number, line| {
            if chosen.lines.contains(&number) {
                found.push(FoundDecision {
                    decision: serde_json::from_slice::<DecisionRecord>(line)?,
                    unsigned: chosen.unsigned_at(number).cloned(),
                });
            }
            Ok(())
        })?;
    }
    let hint = deleted.as_ref().map_or(String::new(), |deleted| format!(" ({deleted})"));
    let first = (found.first().map(|first| &first.decision))
        .with_context(|| format!("the log has no request for {url}{hint}"))?;
    anyhow::ensure!(
        first.at <= at,
        "the log has no request for {url} up to that time; the first was at {} (decision {}){hint}",
        humantime::format_rfc3339_micros(first.at),
        first.id
    );
    let files = counted(log.files.len(), "file");
    let deleted = deleted.map_or(String::new(), |deleted| format!("; {deleted}"));
    let looked_at = format!("the decision log {} ({files}{deleted})", options.path.display());
    let mut sentences = answer(arguments, at, &looked_at, first, found.len() > 1);
    if let Some(lines) = found.first().and_then(|first| first.unsigned.as_ref()) {
        sentences += &format!("Signed: {}.\n", describe_unsigned(lines));
    }
    Ok((found, sentences + "\n"))
}

/// Says which files retention deleted, as far as the log still records that; `None` if it deleted none.
fn describe_deleted(selected: &[SelectedLines]) -> Option<String> {
    let deleted = selected.iter().flat_map(|selected| &selected.deleted);
    let deleted: BTreeSet<_> = deleted.collect();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &number in deleted {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let describe = |&(first, last): &(u64, u64)| {
        if first == last { first.to_string() } else { format!("{first} to {last}") }
    };
    let files = match &ranges[..] {
        [] => return None,
        [(first, last)] if first == last => "file",
        _ => "files",
    };
    let ranges: Vec<_> = ranges.iter().map(describe).collect();
    Some(format!("retention deleted its {files} {}", ranges.join(", ")))
}

/// States the question, the sources, and the answer by the last decision up to the time.
pub(super) fn answer(
    arguments: &AskArgs,
    at: SystemTime,
    looked_at: &str,
    last: &DecisionRecord,
    has_later: bool,
) -> String {
    let url = &arguments.url;
    let time = |at| humantime::format_rfc3339_seconds(at);
    let crawler = arguments.crawler.as_ref().map(|name| format!(" by {}", crawler_in_words(name)));
    let verdict = match last.request_outcome() {
        Some(RequestOutcome::Observed) => {
            "No, but it was sent, because refusals were only observed"
        }
        _ if is_allowed(last) => "Yes",
        Some(RequestOutcome::Failed) => "No, and nothing was sent: the name could not be resolved",
        _ => "No",
    };
    let later = if has_later { " The first decision after that time follows it." } else { "" };
    format!(
        "Asked: was {url} allowed when it was last requested{}, up to {}?\n\
         Looked at: {looked_at}.\n\
         Answer: {verdict}. The decision was made at {}.{later}\n",
        crawler.unwrap_or_default(),
        time(at),
        time(last.at),
    )
}

fn print_decisions(found: &[FoundDecision], sentences: &str, arguments: &AskArgs) -> ExitCode {
    let text: String = if arguments.json {
        found.iter().map(|found| json_line(&found.decision) + "\n").collect()
    } else {
        let described = found.iter().map(describe).collect::<Vec<_>>().join("\n");
        escape_lines(&(sentences.to_owned() + &described))
    };
    let printed = print(&text);
    let unsigned_ranges = || found.iter().filter_map(|found| found.unsigned.as_ref());
    if arguments.json {
        // Not in the JSON itself, whose decisions are exactly as logged.
        for lines in unsigned_ranges() {
            print_errors(&format!("wayleave: signed? {}\n", describe_unsigned(lines)));
        }
    }
    if printed == ExitCode::SUCCESS {
        exit_status(found, arguments.accept_unsigned)
    } else {
        printed
    }
}

/// Returns the exit status for decisions that were printed.
fn exit_status(found: &[FoundDecision], accepts_unsigned: bool) -> ExitCode {
    let mut unsigned_ranges = found.iter().filter_map(|found| found.unsigned.as_ref());
    if unsigned_ranges.clone().any(|lines| lines.is_foreign) {
        return ExitCode::from(UNUSABLE);
    }
    let is_signed = unsigned_ranges.next().is_none() || accepts_unsigned;
    let is_good = found.first().is_some_and(|found| is_allowed(&found.decision)) && is_signed;
    if is_good { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) }
}

fn describe_unsigned(unsigned: &UnsignedLines) -> String {
    let first = unsigned.lines.start;
    let last = unsigned.lines.end - 1;
    let (lines, were, its) = if first == last {
        (format!("line {last}"), "was", "its")
    } else {
        (format!("lines {first} to {last}"), "were", "their")
    };
    if unsigned.is_foreign {
        format!("no, {lines} of its file {were} written by somebody else")
    } else {
        format!("no, {lines} of its file {were} not signed by {its} writer")
    }
}

pub(super) fn is_allowed(decision: &DecisionRecord) -> bool {
    // A request that failed after it was sent had been allowed.
    (decision.was_let_through() || decision.outcome == RequestOutcome::Failed)
        && !decision.failed_before_sending()
}

fn describe(found: &FoundDecision) -> String {
    let signed = found.unsigned.as_ref().map(describe_unsigned);
    describe_decision(&found.decision, [("signed", signed)])
}

/// Describes a decision, one member a line, with another member at the end.
pub(super) fn describe_decision(
    decision: &DecisionRecord,
    others: [(&str, Option<String>); 1],
) -> String {
    let allowed = match decision.request_outcome() {
        Some(RequestOutcome::Observed) => "no, but refusals were only observed",
        _ if is_allowed(decision) => "yes",
        _ => "no",
    };
    let crawler = if decision.identity == RecordedIdentity::Asserted {
        format!("{}: no [[crawler]] matches the request", crawler_in_words(&decision.crawler))
    } else {
        decision.crawler.to_string()
    };
    let robots = decision.finding.as_ref().map(describe_finding);
    let rule = decision.policy.as_ref().map(|rule| {
        let reason = rule.reason.as_deref().unwrap_or_default();
        format!("[[rule]] {} ({}) {reason}", rule.number, rule.action)
    });
    let lines = [
        ("at", Some(humantime::format_rfc3339_micros(decision.at).to_string())),
        ("request", Some(format!("{} {}", decision.method, decision.url))),
        ("crawler", Some(crawler)),
        ("allowed", Some(format!("{allowed}: {}", decision.reason))),
        ("robots.txt", robots),
        ("rule", rule),
        ("fetched", Some(describe_fetch(decision))),
        ("decision", Some(decision.id.to_string())),
    ];
    let mut text = String::new();
    for (name, value) in lines.into_iter().chain(others) {
        if let Some(value) = value {
            let line = format!("{name:<11} {value}");
            writeln!(text, "{}", line.trim_end()).expect("writing to a String cannot fail");
        }
    }
    text
}

/// Returns whether the request was sent, and how it ended.
fn describe_fetch(decision: &DecisionRecord) -> String {
    match decision.request_outcome() {
        _ if decision.from.is_some() => {
            format!("no, answered with {} from the copy of robots.txt", decision.status)
        }
        Some(RequestOutcome::Forwarded | RequestOutcome::Tunnelled | RequestOutcome::Observed) => {
            let bytes =
                decision.body_bytes.map_or(String::new(), |bytes| format!(", {bytes} bytes"));
            format!("yes, answered with {}{bytes}", decision.status)
        }
        Some(RequestOutcome::Failed) if decision.failed_before_sending() => {
            format!("no, the name could not be resolved ({})", decision.reason)
        }
        Some(RequestOutcome::Failed)
            if let Some(bytes) = decision.body_bytes.filter(|&bytes| bytes > 0) =>
        {
            let status = decision.status;
            let reason = &decision.reason;
            format!("in part, answered with {status}, and cut after {bytes} bytes ({reason})")
        }
        Some(RequestOutcome::Failed) => format!("no, the request failed ({})", decision.reason),
        _ if decision.reached_origin => "yes, but the response was withheld".to_owned(),
        _ => "no, nothing was sent".to_owned(),
    }
}

fn describe_finding(finding: &FindingRecord) -> String {
    let rule = match (finding.line, &finding.rule) {
        (Some(line), Some(rule)) => format!("line {line}: {rule}"),
        _ => finding.basis.to_string(),
    };
    let digest = finding.robots_sha256.map(|digest| format!(", SHA-256 {digest}"));
    let at = finding.robots_fetched_at.map_or(String::new(), |at| {
        format!(", fetched at {}", humantime::format_rfc3339_micros(at))
    });
    format!("{rule}{at}{}", digest.unwrap_or_default())
}
