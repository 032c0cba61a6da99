//! The TDM Reservation Protocol (W3C Community Group Final Report, 10 May 2024).

use serde_json::Value;

use super::{Carrier, Purpose, Purposes, Source, Stage, Statement};
use crate::robots_txt::specificity;

/// What a reservation is about. It is not read as barring search or archives.
pub(super) const PURPOSES: Purposes =
    Purposes::of(&[Purpose::Tdm, Purpose::TrainAi, Purpose::AiInput]);

const CLAUSE: &str = "TDMRep; Directive (EU) 2019/790 art. 4(3)";

/// Where a site keeps its reservations.
pub const TDMREP_PATH: &str = "/.well-known/tdmrep.json";

/// The entries of the file; none if it is not an array.
pub(super) fn entries(file: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(file) {
        Ok(Value::Array(entries)) => entries,
        _ => Vec::new(),
    }
}

/// What the file says about a path: its first entry that matches decides, whatever comes after. Without a path, what all
/// entries say.
pub(super) fn in_file(entries: &[Value], path: Option<&str>) -> Vec<Statement> {
    let Some(path) = path else {
        return entries.iter().filter_map(statement_of).collect();
    };
    let matches = |entry: &&Value| {
        let location = location(entry).filter(|it| !it.is_empty());
        location.is_some_and(|it| specificity(it, path).is_some())
    };
    let decides = entries.iter().find(matches);
    decides.and_then(statement_of).into_iter().collect()
}

fn location(entry: &Value) -> Option<&str> {
    entry.get("location")?.as_str()
}

fn statement_of(entry: &Value) -> Option<Statement> {
    let value = match entry.get("tdm-reservation")? {
        Value::Number(number) => number.to_string(),
        // Meant as a number; to take it for one can only restrict.
        Value::String(text) if text == "1" => text.clone(),
        _ => return None,
    };
    let text = format!("{}: tdm-reservation {value}", location(entry)?);
    let statement = statement(&value, text, Stage::Before)?;
    let policy = entry.get("tdm-policy").and_then(Value::as_str);
    Some(Statement {
        carrier: Carrier::File {
            url: TDMREP_PATH.to_owned(),
        },
        policy: policy.map(str::to_owned),
        ..statement
    })
}

/// What `tdm-reservation` says in a field or an element: 1 reserves, 0 does not, and anything else says nothing.
pub(super) fn statement(value: &str, text: String, stage: Stage) -> Option<Statement> {
    let (refuses, allows) = match value.trim() {
        "1" => (PURPOSES, Purposes::NONE),
        "0" => (Purposes::NONE, PURPOSES),
        _ => return None,
    };
    Some(Statement {
        source: Source::Tdmrep,
        carrier: if stage == Stage::Body {
            Carrier::Meta
        } else {
            Carrier::Field
        },
        text,
        clause: CLAUSE,
        policy: None,
        stage,
        refuses,
        allows,
    })
}

/// Leaves of all statements about reservations those that count: file, field and page supersede each other in this order, and
/// among several of one place those that reserve do. One that only repeats an earlier one leaves that standing.
pub(super) fn supersede(statements: &mut Vec<Statement>) {
    let mut standing: Vec<Statement> = Vec::new();
    for stage in [Stage::Before, Stage::Head, Stage::Body] {
        let at = |it: &&Statement| it.source == Source::Tdmrep && it.stage == stage;
        let said: Vec<_> = statements.iter().filter(at).cloned().collect();
        let reserving: Vec<_> = said
            .iter()
            .filter(|it| !it.refuses.is_empty())
            .cloned()
            .collect();
        let said = if reserving.is_empty() {
            said
        } else {
            reserving
        };
        let is_new = |it: &Statement| {
            standing
                .first()
                .is_none_or(|first| first.refuses != it.refuses)
        };
        if said.first().is_some_and(is_new) {
            standing = said;
        }
    }
    statements.retain(|it| it.source != Source::Tdmrep);
    statements.extend(standing);
}
