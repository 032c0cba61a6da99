//! `wayleave publish --sites`: a signed statement for each host of what was requested of it, and a page that reads them.
//!
//! A statement is named by the digest of its host, and nothing lists the hosts: only whoever knows a host finds its file.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use serde_json::{Value, json};
use wayleave_config::Config;
use wayleave_decision::{ASSERTED, EnforcementMode, contacts};
use wayleave_decision_log::{
    DecisionQuery, DecisionRecord, HostRequests, LogGap, ScanStep, SiteRequests, TimeRange,
    WAYLEAVE, scan_log,
};
use wayleave_evidence::Sha256Digest;
use wayleave_signing::{SigningAgent, SigningKey, signed_statement};

use crate::cli::admin_client::request_bytes;
use crate::cli::evidence::node_logs::{AskedNode, NodeLogs};
use crate::cli::evidence::node_url::NodeUrl;
use crate::cli::terminal::print_errors;
use crate::publication::{crawler_contacts, obeys_robots_txt};

/// The page, with places for what it is about and for the digest of its script.
const PAGE: &str = include_str!("sites.html");
/// The most causes of refusals in a statement; those of the rarest are left out.
const MAX_REFUSALS: usize = 500;
const DAY: Duration = Duration::from_hours(24);

/// The decisions that statements are derived from, and what is missing from them.
#[derive(Debug, Default)]
struct SiteSources {
    requests: SiteRequests,
    missing: Vec<MissingPart>,
}

/// Decisions of one node that could not be read.
#[derive(Debug)]
struct MissingPart {
    /// The node's name in the fleet, or its place among those that were asked.
    node: String,
    /// A phrase that says why.
    what: String,
    /// The time from which decisions may be missing; `None`: from the beginning of the statement.
    from: Option<SystemTime>,
    /// The time until which they may be; `None`: to its end.
    to: Option<SystemTime>,
}

/// The time that statements are about.
#[derive(Clone, Copy, Debug)]
struct StatementSpan {
    from: SystemTime,
    to: SystemTime,
}

/// Writes the statements and the page to `dir`. Returns a phrase for each part of the logs that is missing.
///
/// # Errors
///
/// Returns an error if there is no key or no log, or if a file cannot be written.
pub(super) fn publish(
    config: &Config,
    dir: &Path,
    since: Option<SystemTime>,
    nodes: &[NodeUrl],
    now: SystemTime,
) -> anyhow::Result<Vec<String>> {
    // One key signs for all agents: a site that finds two crawlers in its log finds both in its file.
    let key = config.signing.keys().next().context(
        "there is no key to sign with: `wayleave keys new NAME` creates one, which `wayleave publish` publishes",
    )?;
    let since = since.map(start_of_day);
    let mut sources = SiteSources::default();
    match since {
        Some(since) if !nodes.is_empty() => sources.ask(nodes, since, now),
        _ => sources.read_log(config, TimeRange { since, until: Some(now) })?,
    }
    let SiteSources { requests, missing } = sources;
    let first_day = || requests.first_at.map(start_of_day);
    let from = since.or_else(first_day).unwrap_or(now);
    let span = StatementSpan { from, to: requests.last_at.unwrap_or(from) };
    let missing_json: Vec<_> = missing.iter().map(|part| part.to_json(span)).collect();
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    let mut written = BTreeSet::new();
    for (host, found) in requests.hosts() {
        let name = format!("{}.json", Sha256Digest::of(host.as_bytes()));
        let statement = statement(config, host, found, span, &missing_json);
        write(dir, &name, &signed_statement(key, &statement))?;
        written.insert(name);
    }
    // An earlier statement may be the only one about the part that is missing now.
    if missing.is_empty() {
        remove_others(dir, &written)?;
    }
    write(dir, "index.html", &page(config, key, span, &missing_json))?;
    Ok(missing.into_iter().map(|part| format!("{}: {}", part.node, part.what)).collect())
}

impl SiteSources {
    /// Reads the log of the configuration.
    fn read_log(&mut self, config: &Config, range: TimeRange) -> anyhow::Result<()> {
        let log = config.log.decisions.as_ref();
        let log = log.context("log.decisions is empty: there is no decision log")?;
        let gaps = scan_log(log.place(), range, &DecisionQuery::default(), |step| {
            if let ScanStep::Decision(decision, _) = step {
                self.requests.count(&decision);
            }
            ControlFlow::Continue(())
        })
        .context("the decision log cannot be read")?;
        // Rotated files may be all that is left of it.
        let is_there = log.path.exists() || self.requests.first_at.is_some();
        ensure!(is_there, "there is no decision log {}", log.path.display());
        let named = config.fleet.node.clone();
        let node = named.unwrap_or_else(|| "this node".to_owned());
        // What retention deleted before the first decision is not in the span of the statements.
        for gap in gaps.all(range.since.is_some()) {
            self.missing.push(MissingPart::of(node.clone(), gap));
        }
        if config.fleet.urls.is_some() {
            let what = "their logs were not asked for (--nodes)".to_owned();
            let others = "other nodes of the fleet".to_owned();
            self.missing.push(MissingPart { node: others, what, from: None, to: None });
        }
        if gaps.damaged_lines > 0 {
            let what = format!("lines that cannot be read: {}", gaps.damaged_lines);
            self.missing.push(MissingPart { node, what, from: None, to: None });
        }
        Ok(())
    }

    /// Asks running proxies for their logs, day by day.
    fn ask(&mut self, nodes: &[NodeUrl], since: SystemTime, now: SystemTime) {
        let mut logs = NodeLogs::default();
        for (number, node) in (1..).zip(nodes) {
            // Its URL is nobody else's business.
            let place = format!("node {number} of {}", nodes.len());
            match logs.ask(node) {
                Ok(AskedNode { name, gaps }) => {
                    let name = name.unwrap_or(place);
                    self.read_node(node, &name, since, now);
                    let gaps = gaps.into_iter().filter(|gap| gap.to.is_none_or(|to| to >= since));
                    self.missing.extend(gaps.map(|gap| MissingPart::of(name.clone(), gap)));
                }
                Err(error) => {
                    self.report_unread(node, place, StatementSpan { from: since, to: now }, &error);
                }
            }
        }
        for lost in logs.missing() {
            let what = lost.phrase();
            let (from, to) = (None, lost.until());
            self.missing.push(MissingPart { node: lost.node, what, from, to });
        }
    }

    fn read_node(&mut self, node: &NodeUrl, name: &str, since: SystemTime, now: SystemTime) {
        let mut from = since;
        while from < now {
            // Both ends are included.
            let to = (from + DAY - Duration::from_nanos(1)).min(now);
            match download(node, from, to) {
                Ok(decisions) => decisions.iter().for_each(|it| self.requests.count(it)),
                Err(error) => {
                    // The days after this one are unread, too: a node that is gone is not asked again for each.
                    let rest = StatementSpan { from, to: now };
                    return self.report_unread(node, name.to_owned(), rest, &error);
                }
            }
            from += DAY;
        }
    }

    fn report_unread(
        &mut self,
        url: &NodeUrl,
        node: String,
        span: StatementSpan,
        error: &anyhow::Error,
    ) {
        print_errors(&format!("wayleave: {}: {error:#}\n", url.name()));
        let what = "its log could not be read".to_owned();
        self.missing.push(MissingPart { node, what, from: Some(span.from), to: Some(span.to) });
    }
}

/// Fetches a node's decisions of a span of time.
fn download(
    node: &NodeUrl,
    from: SystemTime,
    to: SystemTime,
) -> anyhow::Result<Vec<DecisionRecord>> {
    let time = |at| humantime::format_rfc3339_nanos(at);
    let (since, until) = (time(from), time(to));
    let path = format!("/v1/decisions/download?format=json&since={since}&until={until}");
    let found = request_bytes(node.address()?, &path)?.context("it has no decision log")?;
    Ok(serde_json::from_slice(&found)?)
}

impl MissingPart {
    fn of(node: String, LogGap { phrase, from, to }: LogGap) -> Self {
        Self { node, what: phrase, from, to }
    }

    fn to_json(&self, span: StatementSpan) -> Value {
        // What was lost after the last decision that is known is the end of the statement's span, and no more of it.
        let from = self.from.unwrap_or(span.from).clamp(span.from, span.to);
        let to = self.to.unwrap_or(span.to).clamp(from, span.to);
        json!({ "node": self.node, "what": self.what, "from": seconds(from), "to": seconds(to) })
    }
}

/// Returns what is stated of a host.
fn statement(
    config: &Config,
    host: &str,
    found: &HostRequests,
    span: StatementSpan,
    missing: &[Value],
) -> Value {
    let crawlers = found.crawlers();
    let crawlers: Vec<_> =
        crawlers.map(|(name, tokens)| CrawlerStatement::of(config, name, tokens)).collect();
    let contact: BTreeSet<_> = crawlers.iter().flat_map(|it| it.contact.iter()).collect();
    let tokens: BTreeSet<_> = crawlers.iter().flat_map(|it| it.tokens.iter()).collect();
    let requests = found.by_day().map(|(day, counts)| merged(day, counts));
    let mut refusals: Vec<_> = found.refusals().collect();
    // Stable: causes of equally many refusals stay in their order.
    refusals.sort_by_key(|(_, refusals)| Reverse(refusals.count));
    let left_out = refusals.iter().skip(MAX_REFUSALS).map(|(_, it)| it.count).sum::<u64>();
    refusals.truncate(MAX_REFUSALS);
    let refusals = refusals.into_iter().map(|(cause, count)| merged(cause, count));
    json!({
        "version": 1,
        "host": host,
        "from": seconds(span.from),
        "to": seconds(span.to),
        "requests": requests.collect::<Vec<_>>(),
        "refusals": refusals.collect::<Vec<_>>(),
        "refusals_left_out": left_out,
        "crawlers": crawlers,
        "contact": contact,
        "stop": stop(&tokens),
        "missing": missing,
    })
}

/// A crawler of a statement: its tokens from the log, the rest from the configuration.
#[derive(Debug, Serialize)]
struct CrawlerStatement {
    name: String,
    tokens: BTreeSet<String>,
    contact: Vec<String>,
    /// Whether it obeys robots.txt by now; `None`: it is no longer configured.
    obeys_robots_txt: Option<bool>,
}

impl CrawlerStatement {
    fn of(config: &Config, name: &str, tokens: &BTreeSet<String>) -> Self {
        let mut tokens = tokens.clone();
        let crawler = config.crawlers.crawlers.iter().find(|crawler| crawler.name == name);
        let fetcher = &config.robots.fetch.user_agent;
        let contact =
            crawler.map_or_else(|| contacts(fetcher), |crawler| crawler_contacts(crawler, fetcher));
        // It may have another one by now. The configuration demands at least one.
        tokens.extend(crawler.map(|crawler| crawler.tokens[0].to_string()));
        let obeys_robots_txt = match name {
            WAYLEAVE if crawler.is_none() => Some(true),
            ASSERTED => Some(config.crawlers.mode == EnforcementMode::Enforce),
            _ => crawler.map(|crawler| obeys_robots_txt(config, crawler)),
        };
        Self { name: name.to_owned(), tokens, contact, obeys_robots_txt }
    }
}

/// Returns the lines of robots.txt that stop crawlers with these tokens.
fn stop(tokens: &BTreeSet<&String>) -> String {
    if tokens.is_empty() {
        return String::new();
    }
    let names: String = tokens.iter().map(|token| format!("User-agent: {token}\n")).collect();
    names + "Disallow: /\n"
}

/// Returns an object with the members of both.
fn merged(one: &impl Serialize, other: &impl Serialize) -> Value {
    let mut value = json!(one);
    if let (Some(members), Value::Object(others)) = (value.as_object_mut(), json!(other)) {
        members.extend(others);
    }
    value
}

/// Returns the page that reads statements, with the key that signed them, and all others that are published.
fn page(config: &Config, key: &SigningKey, span: StatementSpan, missing: &[Value]) -> String {
    let has_key = |agent: &&Arc<SigningAgent>| agent.keys.iter().any(|own| **own == *key);
    let directory = config.signing.agents.iter().find(has_key).map(|agent| agent.key_set_url());
    let published = json!({
        "key": key.jwk(),
        "keys": config.signing.keys().map(|key| key.jwk()).collect::<Vec<_>>(),
        "directory": directory,
        "from": seconds(span.from),
        "to": seconds(span.to),
        "missing": missing,
        "contact": contacts(&config.robots.fetch.user_agent),
    });
    let script = PAGE.split_once("<script>").and_then(|(_, rest)| rest.split_once("</script>"));
    let script = script.map(|(script, _)| script).unwrap_or_default();
    let digest = BASE64_STANDARD.encode(Sha256Digest::of(script.as_bytes()).0);
    // Nothing in it ends the element that it is in.
    let published = published.to_string().replace('<', "\\u003c");
    PAGE.replace("{{SCRIPT}}", &digest).replace("{{PUBLISHED}}", &published)
}

/// Writes a file in one step, for everybody to read.
fn write(dir: &Path, name: &str, content: &str) -> anyhow::Result<()> {
    let write = || {
        let mut file = tempfile::Builder::new().prefix(".wayleave-").tempfile_in(dir)?;
        file.write_all(content.as_bytes())?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        file.persist(dir.join(name))?;
        std::io::Result::Ok(())
    };
    write().with_context(|| format!("writing {}", dir.join(name).display()))
}

/// Removes the statements about hosts without requests.
fn remove_others(dir: &Path, written: &BTreeSet<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let digest = name.strip_suffix(".json").filter(|digest| digest.len() == 64);
        let is_statement =
            digest.is_some_and(|digest| digest.bytes().all(|it| it.is_ascii_hexdigit()));
        if is_statement && !written.contains(&name) {
            fs::remove_file(dir.join(&name)).with_context(|| format!("removing {name}"))?;
        }
    }
    Ok(())
}

fn start_of_day(at: SystemTime) -> SystemTime {
    let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH
        + Duration::from_secs(since_epoch.as_secs() / DAY.as_secs() * DAY.as_secs())
}

fn seconds(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string()
}
