//! `wayleave evidence ask --nodes`: asks several running proxies, since any of them may have decided.

use std::process::ExitCode;
use std::time::SystemTime;

use serde::Deserialize;
use url::form_urlencoded::Serializer;
use wayleave_decision_log::DecisionRecord;
use wayleave_notation::harmless::escape_lines;
use wayleave_robots_txt::Target;

use super::ask::{AskArgs, REFUSED, answer, describe_decision, is_allowed};
use super::node_logs::{MissingDecisions, NodeLogs};
use super::node_url::NodeUrl;
use crate::cli::admin_client::request_json;
use crate::cli::terminal::{UNUSABLE, counted, json_line, print, print_errors, unusable};

/// The most decisions that a node is asked for at once.
const MOST_LISTED: &str = "8192";

/// A node's list of decisions, the newest first.
#[derive(Debug, Deserialize)]
struct NodeDecisions {
    decisions: Vec<DecisionRecord>,
    /// Whether there are older ones in the same span of time.
    #[serde(default)]
    is_cut: bool,
}

/// A decision, and the node that made it.
struct NodeDecision {
    node: String,
    decision: DecisionRecord,
}

pub(super) fn run(arguments: &AskArgs) -> ExitCode {
    let (url, at) = match arguments.url_and_time() {
        Ok(asked) => asked,
        Err(error) => return unusable(&format!("{error:#}")),
    };
    let mut before = None;
    let mut after = None;
    let mut is_complete = true;
    let mut logs = NodeLogs::default();
    for node in &arguments.nodes {
        let found = ask(node, &url, at, arguments.crawler.as_deref());
        match found.and_then(|found| logs.ask(node).map(|_| found)) {
            Ok([last, next]) => {
                keep_better(&mut before, last, |kept, found| found > kept);
                keep_better(&mut after, next, |kept, found| found < kept);
            }
            Err(error) => {
                is_complete = false;
                print_errors(&format!("wayleave: no answer of {}: {error:#}\n", node.name()));
            }
        }
    }
    let missing = logs.missing();
    for lost in &missing {
        print_errors(&escape_lines(&format!("wayleave: {}\n", lost.describe())));
    }
    is_complete &= missing.is_empty() || arguments.accept_missing;
    let Some(last) = before else {
        return unusable(&format!("no node has a request for {url} up to that time"));
    };
    let is_good = is_allowed(&last.decision);
    let nodes = counted(arguments.nodes.len(), "node");
    let looked_at = format!("the logs of {nodes}, whose signatures were not checked");
    let sentences = answer(arguments, at, &looked_at, &last.decision, after.is_some());
    let found: Vec<_> = [Some(last), after].into_iter().flatten().collect();
    let printed = print_found(&found, &missing, &sentences, arguments.json);
    if printed != ExitCode::SUCCESS {
        printed
    } else if !is_complete {
        // A node that did not answer, or a log that is gone, may have decided otherwise, and later.
        ExitCode::from(UNUSABLE)
    } else if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(REFUSED)
    }
}

fn print_found(
    found: &[NodeDecision],
    missing: &[MissingDecisions],
    sentences: &str,
    as_json: bool,
) -> ExitCode {
    if as_json {
        let line = |it: &NodeDecision| {
            let decision =
                serde_json::to_value(&it.decision).expect("strings and numbers serialise");
            json_line(&serde_json::json!({ "node": it.node, "decision": decision })) + "\n"
        };
        let lost = |it: &MissingDecisions| {
            let missing = serde_json::to_value(it).expect("strings and numbers serialise");
            json_line(&serde_json::json!({ "node": it.node, "missing": missing })) + "\n"
        };
        return print(&found.iter().map(line).chain(missing.iter().map(lost)).collect::<String>());
    }
    let text =
        |it: &NodeDecision| describe_decision(&it.decision, [("node", Some(it.node.clone()))]);
    let described = found.iter().map(text).collect::<Vec<_>>().join("\n");
    print(&escape_lines(&format!("{sentences}\n{described}")))
}

fn keep_better(
    kept: &mut Option<NodeDecision>,
    found: Option<NodeDecision>,
    is_better: impl Fn(SystemTime, SystemTime) -> bool,
) {
    if let Some(found) = found
        && kept.as_ref().is_none_or(|kept| is_better(kept.decision.at, found.decision.at))
    {
        *kept = Some(found);
    }
}

/// Returns a node's last decision about the URL up to a time, and its first after it.
fn ask(
    node: &NodeUrl,
    url: &Target,
    at: SystemTime,
    crawler: Option<&str>,
) -> anyhow::Result<[Option<NodeDecision>; 2]> {
    let address = node.address()?;
    let moment = humantime::format_rfc3339_nanos(at).to_string();
    let list = |bounds: &[(&str, &str)]| -> anyhow::Result<NodeDecisions> {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(bounds).append_pair("url", &url.to_string());
        if let Some(crawler) = crawler {
            query.append_pair("crawler", crawler);
        }
        let path = format!("/v1/decisions?{}", query.finish());
        Ok(serde_json::from_value(request_json(address, "GET", &path)?)?)
    };
    let of_node = |decision| NodeDecision { node: node.name(), decision };
    let last = list(&[("until", &moment), ("limit", "1")])?.decisions.into_iter().next();
    if let Some(last) = &last {
        anyhow::ensure!(last.at <= at, "its decision {} is later than that time", last.id);
    }
    let mut listed = list(&[("since", &moment), ("limit", MOST_LISTED)])?;
    // A list begins with the newest and may lack older ones, but the oldest after the time is wanted.
    while listed.is_cut
        && let Some(oldest) = listed.decisions.last()
        && oldest.at > at
    {
        let until = humantime::format_rfc3339_nanos(oldest.at).to_string();
        let older = list(&[("since", &moment), ("until", &until), ("limit", MOST_LISTED)])?;
        if older.decisions.last().is_none_or(|decision| decision.id == oldest.id) {
            break;
        }
        listed = older;
    }
    let next = listed.decisions.into_iter().rfind(|decision| decision.at > at);
    Ok([last.map(of_node), next.map(of_node)])
}
