//! `wayleave evidence ask`: whether a URL was allowed at a time, by which rule, and whether it was fetched; or which requests a
//! body of this digest came from.

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
use wayleave_notation::Sha256Digest;
use wayleave_notation::harmless::escape_lines;
use wayleave_record::{AnswerSource, RecordedIdentity, RobotsAccess};
use wayleave_robots_txt::Target;

use super::node_url::NodeUrl;
use crate::cli::config_file::{EVIDENCE_KEYS, load_keys};
use crate::cli::terminal::{UNUSABLE, counted, json_line, print, print_errors, unusable};

/// The exit status if the request was not allowed, or its decision is not signed by its writer.
pub(super) const REFUSED: u8 = 1;
/// The most decisions about one body that are shown: that of an error page may come with every other response.
const MOST_SHOWN: usize = 1000;

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("question").required(true),
    after_help = "Shows the last decision about the URL up to that time, and the first one after it; with --body-sha256, the \
                  decisions about all responses with that body, at most the first 1000 in the log. Reads the decision log; needs no running proxy. With --nodes it asks the proxies that you name, with the token in \
                  WAYLEAVE_ADMIN_TOKEN, and shows the last decision of all of them; signatures are not checked then. It names the \
                  nodes of their fleet whose logs are gone, or shorter than they were.\n\
                  Exit status: 0 allowed (all that are shown), 1 not allowed, or not signed by its writer, 2 no such decision, the log \
                  cannot be read, a node did not answer, decisions of a node are missing, or somebody else wrote the decision into it."
)]
pub(crate) struct AskArgs {
    /// An absolute URL, with --at
    #[arg(group = "question", requires = "at")]
    pub(super) url: Option<String>,
    /// 2026-11-21T08:00:00Z, 2026-11-21 (the whole day), yesterday, now or 3d (3 days ago)
    #[arg(long, value_name = "TIME", requires = "url", conflicts_with = "body_sha256")]
    pub(super) at: Option<TimeArgument>,
    /// Show the requests that a body of this SHA-256 came from, if log.body_digest was set then
    #[arg(long, value_name = "HEX", group = "question", value_parser = parse_digest, conflicts_with = "nodes")]
    pub(super) body_sha256: Option<Sha256Digest>,
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

fn parse_digest(text: &str) -> Result<Sha256Digest, String> {
    Sha256Digest::from_hex(text).ok_or_else(|| {
        let digits = text.chars().count();
        let found = match text.chars().find(|digit| !digit.is_ascii_hexdigit()) {
            Some(other) => format!("{other:?} is not one"),
            None => format!("these are {digits}"),
        };
        format!("a SHA-256 has 64 hexadecimal digits, and {found}")
    })
}

impl AskArgs {
    /// Returns the URL and the last moment that are asked about.
    pub(super) fn url_and_time(&self) -> anyhow::Result<(Target, SystemTime)> {
        let text = self.url.as_deref().context("the URL is missing")?;
        let url = Target::parse(text).with_context(|| format!("{text:?}"))?;
        let at = self.at.context("--at is missing")?;
        Ok((url, at.end(Clock::start().now())))
    }

    fn selection(&self) -> anyhow::Result<Selection> {
        let crawler = self.crawler.clone().map(String::from);
        Ok(match self.body_sha256 {
            Some(sha256) => Selection::Body { sha256, crawler },
            None => {
                let (url, at) = self.url_and_time()?;
                Selection::Url { url, at, crawler }
            }
        })
    }
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

/// Finds the last decision about the URL up to the time and, if there is one, the first after it; or those about the body.
/// Returns the answer in sentences, too.
fn ask(arguments: &AskArgs, config: &Config) -> anyhow::Result<(Vec<FoundDecision>, String)> {
    let options = (config.log.decisions.as_ref())
        .context("log.decisions is empty: there is no decision log")?;
    let wanted = arguments.selection()?;
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
            if found.len() < MOST_SHOWN && chosen.lines.binary_search(&number).is_ok() {
                found.push(FoundDecision {
                    decision: serde_json::from_slice::<DecisionRecord>(line)?,
                    unsigned: chosen.unsigned_at(number).cloned(),
                });
            }
            Ok(())
        })?;
    }
    let hint = deleted.as_ref().map_or(String::new(), |deleted| format!(" ({deleted})"));
    let files = counted(log.files.len(), "file");
    let deleted = deleted.map_or(String::new(), |deleted| format!("; {deleted}"));
    let looked_at = format!("the decision log {} ({files}{deleted})", options.path.display());
    let first = found.first().map(|first| &first.decision);
    let mut sentences = match &wanted {
        Selection::Url { url, at, .. } => {
            let first = first.with_context(|| format!("the log has no request for {url}{hint}"))?;
            anyhow::ensure!(
                first.at <= *at,
                "the log has no request for {url} up to that time; the first was at {} (decision {}){hint}",
                humantime::format_rfc3339_micros(first.at),
                first.id
            );
            answer(arguments, *at, &looked_at, first, found.len() > 1)
        }
        _ => {
            first.with_context(|| missing_body(config, &hint))?;
            let count = selected.iter().map(|chosen| chosen.lines.len()).sum();
            answer_about_body(arguments, &looked_at, count)
        }
    };
    if let Some(lines) = found.first().and_then(|first| first.unsigned.as_ref()) {
        sentences += &format!("Signed: {}.\n", describe_unsigned(lines));
    }
    Ok((found, sentences + "\n"))
}

/// Says that no response had the body.
fn missing_body(config: &Config, hint: &str) -> String {
    let is_recorded = config.log.digests_bodies;
    let reason = if is_recorded { "" } else { "; log.body_digest is \"none\"" };
    format!("the log has no response with this body{reason}{hint}")
}

/// States the question, the sources, and how many responses had the body.
fn answer_about_body(arguments: &AskArgs, looked_at: &str, count: usize) -> String {
    let sha256 = arguments.body_sha256.map_or(String::new(), |sha256| sha256.to_string());
    let crawler = arguments.crawler.as_ref().map(|name| format!(" to {}", crawler_in_words(name)));
    let shown =
        if count > MOST_SHOWN { format!(" The first {MOST_SHOWN} follow.") } else { String::new() };
    format!(
        "Asked: which responses{} had a body with the SHA-256 {sha256}?\n\
         Looked at: {looked_at}.\n\
         Answer: {count} did.{shown}\n",
        crawler.unwrap_or_default(),
    )
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
    let url = arguments.url.as_deref().unwrap_or_default();
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
    if printed == ExitCode::SUCCESS { exit_status(found, arguments) } else { printed }
}

/// Returns the exit status for decisions that were printed.
fn exit_status(found: &[FoundDecision], arguments: &AskArgs) -> ExitCode {
    let mut unsigned_ranges = found.iter().filter_map(|found| found.unsigned.as_ref());
    if unsigned_ranges.clone().any(|lines| lines.is_foreign) {
        return ExitCode::from(UNUSABLE);
    }
    let is_signed = unsigned_ranges.next().is_none() || arguments.accept_unsigned;
    // Of the decisions about a URL, only the last one up to the time answers the question.
    let answering = if arguments.body_sha256.is_some() { found } else { &found[..1] };
    let is_good = answering.iter().all(|found| is_allowed(&found.decision)) && is_signed;
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
        ("body", decision.body_sha256.map(|digest| format!("SHA-256 {digest}"))),
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
        _ if let Some(source) = &decision.from => {
            let status = decision.status;
            let is_pinned = *source == AnswerSource::Pinned;
            let source = if is_pinned { "pinned robots.txt" } else { "copy of robots.txt" };
            format!("no, answered with {status} from the {source}")
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
    let access = finding.robots_access.as_ref();
    let is_pinned = access.is_some_and(|word| *word == RobotsAccess::Pinned);
    let verb = if is_pinned { "pinned by the configuration, read" } else { "fetched" };
    let at = finding.robots_fetched_at.map_or(String::new(), |at| {
        format!(", {verb} at {}", humantime::format_rfc3339_micros(at))
    });
    format!("{rule}{at}{}", digest.unwrap_or_default())
}
