//! The tables of reasons in documents, page and API, generated from `Reason`. `WAYLEAVE_GENERATE=1` rewrites them.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use serde_json::Value;
use wayleave_decision::{Reason, RequestOutcome};

use crate::harness::tools::project;
use crate::harness::{Origin, Wayleave};

/// Compares a part of a file, between `start` and `end`, with the expected text.
pub fn compare(path: &str, start: &str, end: &str, expected: &str) {
    let path = project().join(path);
    let text = fs::read_to_string(&path).expect("a file of the project");
    let (before, rest) = text.split_once(start).expect("the start of the table");
    let (current, after) = rest.split_once(end).expect("the end of the table");
    if current == expected {
        return;
    }
    assert!(
        std::env::var_os("WAYLEAVE_GENERATE").is_some(),
        "{} is out of date: run this test with WAYLEAVE_GENERATE=1, which writes:\n{expected}",
        path.display()
    );
    let text = format!("{before}{start}{expected}{end}{after}");
    fs::write(&path, text).expect("the file can be written");
}

/// Returns each reason's outcomes, joined as in the tables, with their meaning.
fn rows() -> impl Iterator<Item = (Reason, String, &'static str)> {
    Reason::ALL.iter().flat_map(|reason| {
        reason.meanings().iter().map(|meaning| {
            let outcomes: Vec<_> =
                meaning.outcomes.iter().map(|outcome| outcome.as_str()).collect();
            (*reason, outcomes.join(", "), meaning.text)
        })
    })
}

#[test]
fn docs_metrics_has_every_reason() {
    let with_response = [RequestOutcome::Refused, RequestOutcome::Failed];
    let mut table = String::new();
    for (reason, outcomes, meaning) in rows() {
        let has_response = with_response.iter().any(|outcome| outcomes.contains(outcome.as_str()));
        let status = if has_response {
            format!(" {}", reason.default_answer().status)
        } else {
            String::new()
        };
        let _ = writeln!(table, "| `{reason}` | {outcomes} |{status} | {meaning} |");
    }
    let head = "| reason | outcomes | status | it means |\n| --- | --- | --- | --- |\n";
    compare("docs/metrics.md", head, "\n\n", table.trim_end());
}

#[test]
fn the_page_explains_every_reason() {
    let mut table = String::new();
    for (reason, outcomes, meaning) in rows() {
        let meaning = meaning.replace('`', "").replace('"', "\\\"");
        let _ = writeln!(table, "  [\"{reason}\", \"{outcomes}\", \"{meaning}\"],");
    }
    compare("proxy/src/admin/page/reasons.js", "const MEANINGS = [\n", "].map(", &table);
}

#[test]
fn the_page_knows_which_reasons_refusals_md_is_about() {
    let text = fs::read_to_string(project().join("docs/refusals.md")).expect("a document");
    // Further tables are about words of other kinds.
    let table = text.lines().skip_while(|line| !line.starts_with("| reason |")).skip(1);
    let rows = table.take_while(|line| line.starts_with('|'));
    let firsts = rows.filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let rows: Vec<_> = firsts.collect();
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let module = proxy.admin_get("/assets/refusals.js").text();
    let is_told =
        |word: &str| rows.iter().any(|first| first.split(['`', ',', ' ']).any(|part| part == word));
    assert!(is_told("crawl-delay") && !is_told("no-match"));
    for reason in Reason::ALL {
        let word = reason.as_str();
        assert_eq!(module.contains(&format!("\"{word}\"")), is_told(word), "{word}: {module}");
    }
}

#[test]
fn the_api_describes_every_reason() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let document = proxy.admin_get("/v1/openapi.json").json();
    let schema = &document["components"]["schemas"]["Decision"]["properties"]["reason"]["enum"];
    let words = schema.as_array().into_iter().flatten();
    let documented: BTreeSet<_> = words.filter_map(Value::as_str).collect();
    let known: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(documented, known);
}

/// The meaning of one outcome must not be about another.
#[test]
fn a_meaning_names_no_outcome() {
    for (reason, _, meaning) in rows() {
        for outcome in RequestOutcome::ALL {
            let heading = format!("{}:", outcome.as_str());
            assert!(!meaning.contains(&heading), "{reason}: {meaning}");
        }
    }
}
