//! The TDM Reservation Protocol (W3C Community Group Final Report, 10 May 2024).

use serde_json::Value;

use super::{Carrier, Purposes, Source, Stage, Statement};
use crate::robots_txt::specificity;

const PURPOSES: Purposes = Source::Tdmrep.refusable();

const CLAUSE: &str = "TDMRep; Directive (EU) 2019/790 art. 4(3)";

/// `/.well-known/tdmrep.json`, parsed.
#[derive(Clone, Debug, Default)]
pub struct Tdmrep {
    entries: Vec<Entry>,
    /// There is more of it than was read.
    is_cut: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    /// From 1, those that cannot be read counted too.
    number: usize,
    location: String,
    /// 1 reserves, 0 does not; anything else says nothing.
    reservation: Option<String>,
    policy: Option<String>,
}

impl Tdmrep {
    /// Reads a file. What is not an array says nothing, and neither does an entry without a location.
    #[must_use]
    pub fn parse(file: &[u8]) -> Self {
        let file = file.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(file);
        let entries = match serde_json::from_slice(file) {
            Ok(Value::Array(entries)) => entries,
            _ => Vec::new(),
        };
        let entries = (1..).zip(&entries);
        Self {
            entries: entries.filter_map(Entry::read).collect(),
            is_cut: false,
        }
    }

    /// Reads a file of which there is more than this. If it begins as the array that it should be, any path may be reserved
    /// further on.
    #[must_use]
    pub fn parse_beginning(file: &[u8]) -> Self {
        let file = file.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(file);
        Self {
            entries: Vec::new(),
            is_cut: file.trim_ascii_start().starts_with(b"["),
        }
    }

    /// Roughly what it holds in memory beside itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let entry = |it: &Entry| {
            size_of::<Entry>() + it.location.len() + text(&it.reservation) + text(&it.policy)
        };
        self.entries.iter().map(entry).sum()
    }

    /// What the file says about a path: its first entry that matches decides, whatever comes after. Without a path, what all
    /// entries say.
    pub(super) fn about(&self, path: Option<&str>) -> Vec<Statement> {
        if self.is_cut {
            return vec![too_long()];
        }
        let Some(path) = path else {
            return self.entries.iter().filter_map(Entry::statement).collect();
        };
        let matches = |entry: &&Entry| specificity(&entry.location, path).is_some();
        let decides = self.entries.iter().find(matches);
        decides.and_then(Entry::statement).into_iter().collect()
    }
}

impl Entry {
    fn read((number, entry): (usize, &Value)) -> Option<Self> {
        let location = entry.get("location")?.as_str()?;
        let reservation = match entry.get("tdm-reservation") {
            // JSON writes the same number in several ways.
            Some(Value::Number(number)) if number.as_f64() == Some(1.0) => Some("1".to_owned()),
            Some(Value::Number(number)) => Some(number.to_string()),
            // Meant as a number; to take it for one can only restrict.
            Some(Value::String(text)) if text == "1" => Some(text.clone()),
            _ => None,
        };
        let policy = entry.get("tdm-policy").and_then(Value::as_str);
        (!location.is_empty()).then(|| Self {
            number,
            location: location.to_owned(),
            reservation,
            policy: policy.map(str::to_owned),
        })
    }

    fn statement(&self) -> Option<Statement> {
        let value = self.reservation.as_ref()?;
        let text = format!("{}: tdm-reservation {value}", self.location);
        let statement = statement(value, text, Stage::Before)?;
        Some(Statement {
            carrier: Carrier::Tdmrep { entry: self.number },
            policy: self.policy.clone(),
            ..statement
        })
    }
}

fn too_long() -> Statement {
    Statement {
        source: Source::Tdmrep,
        carrier: Carrier::Tdmrep { entry: 0 },
        text: "the file is longer than is read".to_owned(),
        clause: "TDMRep, processing priority: the file is checked first",
        policy: None,
        stage: Stage::Before,
        refuses: PURPOSES,
        allows: Purposes::NONE,
    }
}

/// What `tdm-reservation` says in a field or an element: 1 reserves, 0 does not, and anything else says nothing. Of lines that
/// were joined into one, as RFC 9110 section 5.3 lets a proxy do, one that reserves counts.
pub(super) fn statement(value: &str, text: String, stage: Stage) -> Option<Statement> {
    let mut values = value.split(',').map(str::trim);
    let (refuses, allows) = if values.any(|it| it == "1") {
        (PURPOSES, Purposes::NONE)
    } else if value.trim() == "0" {
        (Purposes::NONE, PURPOSES)
    } else {
        return None;
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
