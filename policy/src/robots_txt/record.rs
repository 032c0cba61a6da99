//! Records: which lines belong together, which of them are for a crawler, which rule decides.

use super::agent;
use super::line::Field;
use super::pattern::{Path, Pattern};
use super::{Line, Statement};
use crate::{Dialect, ProductToken};

/// User-agent lines with what follows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record<'a> {
    pub(crate) agents: Vec<(u32, &'a [u8])>,
    pub(crate) others: Vec<(u32, &'a [u8], &'a [u8])>,
    rules: Vec<Rule<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Rule<'a> {
    number: u32,
    allow: bool,
    value: &'a [u8],
}

/// What a file says about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    NoGroup,
    NoRule,
    Rule { number: u32, allow: bool },
}

/// The file's records as a dialect cuts them.
pub(crate) fn records(lines: &[Line], dialect: Dialect) -> Vec<Record<'_>> {
    let blank_ends = matches!(dialect, Dialect::Koster1996 | Dialect::Selfhtml);
    let mut records: Vec<Record<'_>> = Vec::new();
    let mut open = false;
    for line in lines {
        if line.blank && blank_ends {
            open = false;
        }
        let statement = if dialect == Dialect::Google {
            &line.google
        } else {
            &line.exact
        };
        let Some(Statement { field, name, value }) = statement else {
            continue;
        };
        if *field == Field::UserAgent {
            if !open || records.last().is_none_or(|record| !record.rules.is_empty()) {
                records.push(Record::default());
                open = true;
            }
            records
                .last_mut()
                .expect("just pushed")
                .agents
                .push((line.number, value));
            continue;
        }
        let Some(record) = records.last_mut().filter(|_| open) else {
            continue;
        };
        match field {
            Field::Other => record.others.push((line.number, name, value)),
            _ => record.rules.push(Rule {
                number: line.number,
                allow: *field == Field::Allow,
                value,
            }),
        }
    }
    records
}

/// The records for a crawler, as its dialect chooses them.
pub(crate) fn choose<'a>(
    records: Vec<Record<'a>>,
    dialect: Dialect,
    tokens: &[ProductToken],
) -> Option<Vec<Record<'a>>> {
    let ranks = tokens.iter().map(|token| {
        let rank = |value: &[u8]| {
            let named = agent::rank(value, token, dialect);
            named.filter(|_| !agent::is_everyone(value, dialect))
        };
        records
            .iter()
            .map(|record| first_best(record, rank))
            .collect::<Vec<_>>()
    });
    let everyone = |value: &[u8]| agent::is_everyone(value, dialect).then_some(1);
    let everyone = records
        .iter()
        .map(|record| first_best(record, everyone))
        .collect();
    let ranks = ranks
        .chain([everyone])
        .find(|ranks: &Vec<_>| ranks.iter().any(Option::is_some))?;
    let best = ranks.iter().flatten().map(|&(rank, _)| rank).max()?;
    let merges = matches!(
        dialect,
        Dialect::Rfc9309 | Dialect::Google | Dialect::Strictest
    );
    let chosen = records
        .into_iter()
        .zip(ranks)
        .filter_map(|(mut record, rank)| {
            let (_, named_at) = rank.filter(|&(rank, _)| rank == best)?;
            record.others.retain(|&(number, ..)| number > named_at);
            Some(record)
        });
    Some(chosen.take(if merges { usize::MAX } else { 1 }).collect())
}

/// The best rank any user-agent line of a record has, and the first line that has it.
fn first_best(record: &Record<'_>, rank: impl Fn(&[u8]) -> Option<usize>) -> Option<(usize, u32)> {
    let ranks = record
        .agents
        .iter()
        .filter_map(|&(line, value)| Some((rank(value)?, line)));
    ranks.max_by_key(|&(rank, line)| (rank, std::cmp::Reverse(line)))
}

/// The rule that decides about a path.
pub(crate) fn decide(records: &[Record<'_>], dialect: Dialect, path: &Path) -> Found {
    let rules = records.iter().flat_map(|record| &record.rules);
    let found = match dialect {
        Dialect::Koster1996 | Dialect::Selfhtml => rules
            .filter(|rule| !rule.value.is_empty())
            .find(|rule| Pattern::new(rule.value, dialect).matches(path)),
        Dialect::Google => return google_best(rules, path),
        Dialect::Rfc9309 | Dialect::Strictest => rules
            .filter(|rule| !rule.value.is_empty())
            .map(|rule| (Pattern::new(rule.value, dialect), rule))
            .filter(|(pattern, _)| pattern.matches(path))
            .max_by_key(|(pattern, rule)| {
                (pattern.octets(), rule.allow, std::cmp::Reverse(rule.number))
            })
            .map(|(_, rule)| rule),
    };
    found.map_or(Found::NoRule, |rule| Found::Rule {
        number: rule.number,
        allow: rule.allow,
    })
}

fn google_best<'a>(rules: impl Iterator<Item = &'a Rule<'a>>, path: &Path) -> Found {
    let best = rules
        .filter_map(|rule| Some((google_octets(rule, path)?, rule)))
        .max_by_key(|(octets, rule)| (*octets, rule.allow, std::cmp::Reverse(rule.number)));
    match best {
        // An empty pattern matches with no octets: it decides nothing, but it is the line found.
        Some((0, rule)) => Found::Rule {
            number: rule.number,
            allow: true,
        },
        Some((_, rule)) => Found::Rule {
            number: rule.number,
            allow: rule.allow,
        },
        None => Found::NoRule,
    }
}

/// The octets of a rule that matches; an `Allow` of `…/index.htm…` also means `…/`.
fn google_octets(rule: &Rule<'_>, path: &Path) -> Option<usize> {
    let pattern = Pattern::new(rule.value, Dialect::Google);
    if pattern.matches(path) {
        return Some(pattern.octets());
    }
    let slash = rule
        .value
        .iter()
        .rposition(|&byte| byte == b'/')
        .filter(|_| rule.allow)?;
    if !rule.value[slash..].starts_with(b"/index.htm") {
        return None;
    }
    let directory = [&rule.value[..=slash], b"$"].concat();
    let pattern = Pattern::new(&directory, Dialect::Google);
    pattern.matches(path).then(|| pattern.octets())
}
