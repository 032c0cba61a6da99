//! The TDM Reservation Protocol (W3C Community Group Final Report, 10 May 2024).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::{Carrier, Purposes, Source, Stage, Statement};
use crate::robots_txt::{Counts, PathMatcher};

const PURPOSES: Purposes = Source::Tdmrep.refusable();

const CLAUSE: &str = "TDMRep; Directive (EU) 2019/790 art. 4(3)";

/// `/.well-known/tdmrep.json`, parsed.
#[derive(Clone, Debug, Default)]
pub struct Tdmrep {
    entries: Vec<Entry>,
    /// Why it is not read, though it begins as it should.
    unread: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// From 1, those that cannot be read counted too.
    number: usize,
    /// Empty: what is meant cannot be read, so it is every path.
    location: String,
    /// 1 reserves, 0 does not; anything else says nothing.
    reservation: Option<String>,
    policy: Option<String>,
}

impl Tdmrep {
    /// Reads a file. What does not begin as an array says nothing, and neither does an entry without a location. Of an array or entry
    /// that cannot be read any path may be meant.
    #[must_use]
    pub fn parse(file: &[u8]) -> Self {
        let text = text(file);
        if !text.starts_with('[') {
            return Self::default();
        }
        // Of each entry no more is read than is asked for, so that nothing else in it makes it unreadable.
        match serde_json::from_str::<Vec<&RawValue>>(&text) {
            Ok(entries) => Self {
                entries: (1..).zip(entries).filter_map(Entry::read).collect(),
                unread: None,
            },
            Err(_) => Self::unread("the file begins as an array and cannot be read"),
        }
    }

    /// Reads a file of which there is more than this. If it begins as the array that it should be, any path may be reserved
    /// further on.
    #[must_use]
    pub fn parse_beginning(file: &[u8]) -> Self {
        match text(file).starts_with('[') {
            true => Self::unread("the file is longer than is read"),
            false => Self::default(),
        }
    }

    fn unread(why: &'static str) -> Self {
        Self {
            entries: Vec::new(),
            unread: Some(why),
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
    pub(super) fn about(&self, path: &mut PathMatcher) -> Vec<Statement> {
        if let Some(why) = self.unread {
            return vec![unread(why)];
        }
        let locations = self.entries.iter().map(|it| it.location.as_bytes());
        let Ok(selected) = path.select(locations, Counts::First) else {
            return vec![too_costly()];
        };
        let mut statements = Vec::new();
        for (at, only_restricts) in selected {
            let entry = &self.entries[at];
            if !path.work.budget.spend_on_reading(entry.location.len()) {
                return vec![too_costly()];
            }
            let statement = entry.statement();
            let statement = statement.map(|it| it.restricting(only_restricts));
            // One that neither refuses nor allows says nothing.
            statements.extend(statement.filter(|it| it.refuses != it.allows));
        }
        statements
    }
}

impl Entry {
    fn read((number, entry): (usize, &RawValue)) -> Option<Self> {
        let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(entry.get()) else {
            // Something else than an object is no entry.
            let is_object = entry.get().starts_with('{');
            return is_object.then(|| Self::unclear(number));
        };
        let member = |name| members.get(name).map(|it| it.get());
        let reservation = member("tdm-reservation").and_then(|it| serde_json::from_str(it).ok());
        let reservation = match reservation {
            // JSON writes the same number in several ways.
            Some(Value::Number(number)) if number.as_f64() == Some(1.0) => Some("1".to_owned()),
            Some(Value::Number(number)) => Some(number.to_string()),
            // Meant as a number; to take it for one can only restrict.
            Some(Value::String(text)) if text == "1" => Some(text),
            _ => None,
        };
        let location = member("location").filter(|it| it.starts_with('"'))?;
        let Ok(location) = serde_json::from_str::<String>(location) else {
            let reserves = reservation.as_deref() == Some("1");
            return reserves.then(|| Self::unclear(number));
        };
        let policy = member("tdm-policy").and_then(|it| serde_json::from_str(it).ok());
        (!location.is_empty()).then_some(Self {
            number,
            location,
            reservation,
            policy,
        })
    }

    /// One that cannot be read, and may reserve any path.
    fn unclear(number: usize) -> Self {
        Self {
            number,
            location: String::new(),
            reservation: Some("1".to_owned()),
            policy: None,
        }
    }

    fn statement(&self) -> Option<Statement> {
        let value = self.reservation.as_ref()?;
        let text = match self.location.as_str() {
            "" => "the entry cannot be read".to_owned(),
            location => format!("{location}: tdm-reservation {value}"),
        };
        let statement = statement(value, text, Stage::Before)?;
        Some(Statement {
            carrier: Carrier::Tdmrep { entry: self.number },
            policy: self.policy.clone(),
            ..statement
        })
    }
}

/// A file's text: UTF-8, as JSON is, or UTF-16, which some editors write. Bytes that are neither are replaced, each by itself.
fn text(file: &[u8]) -> Cow<'_, str> {
    let units = |read: fn([u8; 2]) -> u16| file.chunks_exact(2).map(move |it| read([it[0], it[1]]));
    let decode = |units: Vec<u16>| Cow::Owned(String::from_utf16_lossy(&units));
    // No text begins with a zero, or has one behind its first character.
    let text = match file {
        [0xFF, 0xFE, ..] | [1..=0xFF, 0, ..] => decode(units(u16::from_le_bytes).collect()),
        [0xFE, 0xFF, ..] | [0, 1..=0xFF, ..] => decode(units(u16::from_be_bytes).collect()),
        _ => String::from_utf8_lossy(file),
    };
    let begins = |c: char| c == '\u{FEFF}' || c.is_whitespace();
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_start_matches(begins)),
        Cow::Owned(text) => Cow::Owned(text.trim_start_matches(begins).to_owned()),
    }
}

fn too_costly() -> Statement {
    Statement::too_costly(Source::Tdmrep, Carrier::Tdmrep { entry: 0 })
}

fn unread(why: &str) -> Statement {
    Statement {
        source: Source::Tdmrep,
        carrier: Carrier::Tdmrep { entry: 0 },
        text: why.to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dialect;

    const ENTRY: &str = r#"{"location": "/a", "tdm-reservation": 1}"#;

    fn reserves(file: &[u8], path: &str) -> bool {
        let said = Tdmrep::parse(file).about(&mut PathMatcher::new(path, Dialect::Rfc9309, false));
        said.iter().any(|it| !it.refuses.is_empty())
    }

    fn utf_16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn what_else_stands_in_an_entry_does_not_lose_its_reservation() {
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        for odd in [r#""\ud800""#, "1e400", &deep, "\"\u{1F600}\"", "null"] {
            for file in [
                format!(r#"[{{"location":"/a","odd":{odd},"tdm-reservation":1}}]"#),
                format!(r#"[{{"odd":{odd}}},{ENTRY}]"#),
                format!("[{odd},{ENTRY}]"),
            ] {
                assert!(reserves(file.as_bytes(), "/a"), "{file}");
                assert!(!reserves(file.as_bytes(), "/b"), "{file}");
            }
        }
    }

    #[test]
    fn a_file_is_read_whatever_its_encoding() {
        let file = format!("[{{\"location\":\"/b\",\"tdm-policy\":\"\u{e9}\"}},{ENTRY}]");
        let marked = format!("\u{FEFF} {file}");
        let latin_1: Vec<u8> = file.chars().map(|c| c as u8).collect();
        for bytes in [
            latin_1,
            marked.clone().into_bytes(),
            utf_16(&file, u16::to_le_bytes),
            utf_16(&file, u16::to_be_bytes),
            utf_16(&marked, u16::to_le_bytes),
            utf_16(&marked, u16::to_be_bytes),
        ] {
            assert!(reserves(&bytes, "/a"), "{bytes:?}");
            assert!(!reserves(&bytes, "/b"), "{bytes:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_may_reserve_any_path() {
        for file in [
            "[",
            r#"[{"location":"/a","tdm-reservation":1"#,
            "[{'location':'/a','tdm-reservation':1}]",
            r#"[{"location":"/\ud800","tdm-reservation":1}]"#,
            r#"[{"\ud800":1}]"#,
        ] {
            assert!(reserves(file.as_bytes(), "/b"), "{file}");
        }
        for file in ["", "<html>[", "{", r#"[{"location":"/\ud800"}]"#, "[1]"] {
            assert!(!reserves(file.as_bytes(), "/b"), "{file}");
        }
    }
}
