//! The TDM Reservation Protocol (W3C Community Group Final Report, 10 May 2024).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;
use wayleave_robots_txt::internal::{PreferenceMatcher, PreferenceSelection};

use super::statement::StatementMeaning;
use super::{PreferenceSource, PreferenceStage, PreferenceStatement, PurposeSet, StatementCarrier};

const PURPOSES: PurposeSet = PreferenceSource::Tdmrep.refusable();

const CLAUSE: &str = "TDMRep; Directive (EU) 2019/790 art. 4(3)";

/// `/.well-known/tdmrep.json`, parsed.
#[derive(Clone, Debug, Default)]
pub struct TdmrepFile {
    entries: Vec<TdmrepEntry>,
    /// The reason why the file is unreadable although it begins as it should.
    unreadable_because: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct TdmrepEntry {
    /// The entry's number, from 1; unreadable entries count as well.
    number: usize,
    /// The pattern of the paths; empty for an unreadable entry, which may mean every path.
    location: String,
    /// 1 reserves, 0 does not; other values are ignored.
    reservation: Option<String>,
    policy: Option<String>,
}

impl TdmrepFile {
    /// Parses a file. A file that does not begin like an array states nothing, and neither does an entry without a
    /// location. An unreadable array or entry may reserve any path.
    #[must_use]
    pub fn parse(file: &[u8]) -> Self {
        let text = text(file);
        if !text.starts_with('[') {
            return Self::default();
        }
        // Only the members in use are parsed, so that no other member makes an entry unreadable.
        match serde_json::from_str::<Vec<&RawValue>>(&text) {
            Ok(entries) => Self {
                entries: (1..).zip(entries).filter_map(TdmrepEntry::read).collect(),
                unreadable_because: None,
            },
            Err(_) => Self::unreadable("the file begins as an array and cannot be read"),
        }
    }

    /// Parses the beginning of a file. If it begins like an array, the rest may reserve any path.
    #[must_use]
    pub fn parse_beginning(file: &[u8]) -> Self {
        if text(file).starts_with('[') {
            Self::unreadable("the file is longer than is read")
        } else {
            Self::default()
        }
    }

    fn unreadable(why: &'static str) -> Self {
        Self { entries: Vec::new(), unreadable_because: Some(why) }
    }

    /// Returns roughly how many bytes it holds on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let entry = |it: &TdmrepEntry| {
            size_of::<TdmrepEntry>() + it.location.len() + text(&it.reservation) + text(&it.policy)
        };
        self.entries.iter().map(entry).sum()
    }

    /// Returns the statements of the file about a path: only the first matching entry applies. Without a path, all
    /// entries apply.
    pub(super) fn statements_about(
        &self,
        matcher: &mut PreferenceMatcher,
    ) -> Vec<PreferenceStatement> {
        if let Some(why) = self.unreadable_because {
            let clause = "TDMRep, processing priority: the file is checked first";
            return vec![PreferenceStatement::new(
                PreferenceSource::Tdmrep,
                StatementCarrier::Tdmrep { entry: 0 },
                why.to_owned(),
                StatementMeaning::refusal(PURPOSES, clause),
            )];
        }
        let locations = self.entries.iter().map(|entry| entry.location.as_bytes());
        let Ok(selected) = matcher.select(locations, PreferenceSelection::First) else {
            return vec![too_costly()];
        };
        let mut statements = Vec::new();
        for (at, only_restricts) in selected {
            let entry = &self.entries[at];
            // Each spelling of the path may match another entry, and without a path all entries apply.
            if !matcher.context.budget.spend_on_reading(entry.location.len()) {
                return vec![too_costly()];
            }
            let statement =
                entry.statement().map(|statement| statement.restricted_if(only_restricts));
            // An entry that neither refuses nor allows states nothing.
            statements.extend(statement.filter(|statement| statement.refuses != statement.allows));
        }
        statements
    }
}

impl TdmrepEntry {
    fn read((number, entry): (usize, &RawValue)) -> Option<Self> {
        let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(entry.get()) else {
            // Anything but an object is no entry.
            let is_object = entry.get().starts_with('{');
            return is_object.then(|| Self::unreadable(number));
        };
        let member = |name| members.get(name).map(|value| value.get());
        let reservation =
            match member("tdm-reservation").and_then(|text| serde_json::from_str(text).ok()) {
                // JSON has several spellings of one number.
                Some(Value::Number(number)) if number.as_f64() == Some(1.0) => Some("1".to_owned()),
                Some(Value::Number(number)) => Some(number.to_string()),
                // Evidently meant as the number, and accepting it can only restrict.
                Some(Value::Bool(true)) => Some("true".to_owned()),
                Some(Value::String(text)) if is_reservation(&text) => Some(text),
                _ => None,
            };
        let location = member("location").filter(|text| text.starts_with('"'))?;
        let Ok(location) = serde_json::from_str::<String>(location) else {
            // An entry that does not reserve refuses nothing, whatever its paths.
            let reserves = reservation.as_deref().is_some_and(is_reservation);
            return reserves.then(|| Self::unreadable(number));
        };
        let policy = member("tdm-policy").and_then(|text| serde_json::from_str(text).ok());
        (!location.is_empty()).then_some(Self { number, location, reservation, policy })
    }

    /// Creates an entry that cannot be read and may reserve any path.
    fn unreadable(number: usize) -> Self {
        Self { number, location: String::new(), reservation: Some("1".to_owned()), policy: None }
    }

    fn statement(&self) -> Option<PreferenceStatement> {
        let value = self.reservation.as_ref()?;
        let text = match self.location.as_str() {
            "" => "the entry cannot be read".to_owned(),
            location => format!("{location}: tdm-reservation {value}"),
        };
        let statement = statement(value, text, PreferenceStage::Before)?;
        Some(PreferenceStatement {
            carrier: StatementCarrier::Tdmrep { entry: self.number },
            policy: self.policy.clone(),
            ..statement
        })
    }
}

/// Decodes a file: UTF-8, as JSON requires, or UTF-16, which some editors write. Invalid sequences are replaced one by
/// one.
fn text(file: &[u8]) -> Cow<'_, str> {
    let units =
        |read: fn([u8; 2]) -> u16| file.chunks_exact(2).map(move |unit| read([unit[0], unit[1]]));
    let decode = |units: Vec<u16>| Cow::Owned(String::from_utf16_lossy(&units));
    // A zero as first or second byte occurs only in UTF-16.
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

fn too_costly() -> PreferenceStatement {
    PreferenceStatement::too_costly(PreferenceSource::Tdmrep, StatementCarrier::Tdmrep { entry: 0 })
}

/// Returns the statement of `tdm-reservation` in a field or an element: `1` and `true` reserve, `0` does not, and other
/// values are ignored. If a proxy joined several values, as RFC 9110 section 5.3 allows, one that reserves decides.
pub(super) fn statement(
    value: &str,
    text: String,
    stage: PreferenceStage,
) -> Option<PreferenceStatement> {
    // Several field lines may arrive joined by commas.
    let reserves = value.split(',').any(is_reservation);
    if !reserves && value.trim() != "0" {
        return None;
    }
    let carrier = if stage == PreferenceStage::Body {
        StatementCarrier::Meta
    } else {
        StatementCarrier::Field
    };
    let meaning = StatementMeaning::new(PURPOSES, !reserves, CLAUSE);
    let statement = PreferenceStatement::new(PreferenceSource::Tdmrep, carrier, text, meaning);
    Some(PreferenceStatement { stage, ..statement })
}

/// Returns whether a value reserves: `1`, or `true`, which the text does not define but which can only mean that.
fn is_reservation(value: &str) -> bool {
    let value = value.trim();
    value == "1" || value.eq_ignore_ascii_case("true")
}

/// Keeps only the reservations that count: file, field and page supersede each other in this order, and within one
/// place a reservation wins. A place that only repeats the previous one does not supersede it.
pub(super) fn keep_superseding(statements: &mut Vec<PreferenceStatement>) {
    let mut current: Vec<PreferenceStatement> = Vec::new();
    for stage in [PreferenceStage::Before, PreferenceStage::Head, PreferenceStage::Body] {
        let is_here =
            |it: &&PreferenceStatement| it.source == PreferenceSource::Tdmrep && it.stage == stage;
        let mut stated: Vec<_> = statements.iter().filter(is_here).cloned().collect();
        if stated.iter().any(|statement| !statement.refuses.is_empty()) {
            stated.retain(|statement| !statement.refuses.is_empty());
        }
        // A repetition must not move a refusal to a later stage.
        let refused = stated.first().map(|statement| &statement.refuses);
        if refused.is_some() && refused != current.first().map(|statement| &statement.refuses) {
            current = stated;
        }
    }
    statements.retain(|statement| statement.source != PreferenceSource::Tdmrep);
    statements.extend(current);
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayleave_robots_txt::Dialect;

    const ENTRY: &str = r#"{"location": "/a", "tdm-reservation": 1}"#;

    fn reserves(file: &[u8], path: &str) -> bool {
        let mut matcher = PreferenceMatcher::new(path, Dialect::Rfc9309, false);
        let statements = TdmrepFile::parse(file).statements_about(&mut matcher);
        statements.iter().any(|statement| !statement.refuses.is_empty())
    }

    fn utf_16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn other_members_of_an_entry_keep_its_reservation() {
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
    fn a_reservation_may_be_a_number_a_text_or_true() {
        for (value, expected) in [
            ("1", true),
            ("1.0", true),
            (r#""1""#, true),
            (r#"" 1 ""#, true),
            ("true", true),
            (r#""true""#, true),
            ("0", false),
            ("2", false),
            ("false", false),
            (r#""yes""#, false),
            ("[1]", false),
            ("null", false),
        ] {
            let file = format!(r#"[{{"location":"/a","tdm-reservation":{value}}}]"#);
            assert_eq!(reserves(file.as_bytes(), "/a"), expected, "{file}");
        }
        for (value, expected) in [("true", true), ("TRUE", true), ("0, true", true), ("yes", false)]
        {
            let statement = statement(value, String::new(), PreferenceStage::Head);
            assert_eq!(
                statement.is_some_and(|statement| !statement.refuses.is_empty()),
                expected,
                "{value}"
            );
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
    fn an_unreadable_file_may_reserve_any_path() {
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
