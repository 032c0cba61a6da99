//! Findings about statements about use: those that mean nothing, contradict each other or hide one another.

use wayleave_robots_txt::Dialect;
use wayleave_robots_txt::lint::{self, Finding, FindingList, LineField, ParsedLine, quoted};

use super::content_usage::LabelStatus;
use super::statement::StatementMeaning;
use super::usage_lines::split_path;
use super::{ContentUse, Purpose, PurposeSet, content_signal, content_usage};

/// The labels of `Content-Usage` and the equivalent signals of `Content-Signal`, which are easily confused.
const LABELS: [&str; 3] = ["train-ai", "ai-use", "search"];
const SIGNALS: [&str; 3] = ["ai-train", "ai-input", "search"];

/// The most statements of one group that are compared with each other: more than anybody writes, and little work for a
/// malicious file.
const MAX_COMPARED: usize = 200;

/// The families of statements in robots.txt that are checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UsageFamily {
    /// `Content-Usage`.
    Usage,
    /// `Content-Signal`.
    Signal,
    /// `DisallowAITraining` and `AllowAITraining`.
    Training,
}

/// A statement about use.
struct UsageStatement {
    line: u32,
    family: UsageFamily,
    /// The path as written; `/` if there is none, because the statement is then about every path.
    path: String,
    meanings: Vec<StatementMeaning>,
    /// Whether it follows a rule after blank lines or comments, as if it did not belong to the group.
    is_apart: bool,
}

/// A run of user-agent lines, and the lines up to the next run.
#[derive(Default)]
struct UsageGroup<'a> {
    agents: Vec<(u32, &'a [u8])>,
    statements: Vec<UsageStatement>,
    has_rules: bool,
    /// Whether it disallows everything.
    disallows_all: bool,
}

/// Finds everything that [`wayleave_robots_txt::lint()`] does, and statements about use that mean nothing, contradict each
/// other or hide one another.
#[must_use]
pub fn lint(body: &[u8], dialects: &[Dialect]) -> Vec<Finding> {
    let mut findings = FindingList::from(lint::lint(body, dialects));
    check_statements(&lint::statements(body), &mut findings);
    findings.finish()
}

fn check_statements(statements: &[(u32, ParsedLine<'_>)], findings: &mut FindingList) {
    let mut groups = vec![UsageGroup::default()];
    let mut last_line = 0;
    for (line, parsed) in statements {
        let follows_gap = *line > last_line + 1;
        last_line = *line;
        let group = groups.last_mut().expect("the first stands for the lines before all groups");
        match parsed.field {
            LineField::UserAgent => {
                check_split_agents(group, *line, findings);
                let agent = (*line, parsed.value);
                // Consecutive user-agent lines share the lines that follow them.
                if group.has_rules || !group.statements.is_empty() {
                    groups.push(UsageGroup { agents: vec![agent], ..UsageGroup::default() });
                } else {
                    group.agents.push(agent);
                }
            }
            LineField::Allow | LineField::Disallow => {
                group.has_rules = true;
                group.disallows_all |= parsed.field == LineField::Disallow && parsed.value == b"/";
            }
            LineField::Other => {
                let value = String::from_utf8_lossy(parsed.value);
                if let Some(mut statement) = read_statement(*line, parsed.name, &value, findings) {
                    check_position(&statement, group, findings);
                    // The statements after one that stands apart stand apart with it.
                    let follows_apart =
                        group.statements.last().is_some_and(|statement| statement.is_apart);
                    statement.is_apart = group.has_rules && (follows_gap || follows_apart);
                    group.statements.push(statement);
                }
            }
        }
    }
    for group in &groups {
        check_group(group, findings);
    }
    check_own_groups(&groups, findings);
    check_last_group(&groups, findings);
}

/// Reports a signal that stands apart at the end of the file, where it belongs to the last group only.
fn check_last_group(groups: &[UsageGroup<'_>], findings: &mut FindingList) {
    let Some(last) = groups.last() else {
        return;
    };
    let is_everybody = last.agents.iter().any(|(_, name)| *name == b"*");
    let Some((_, name)) = last.agents.first().filter(|_| !is_everybody) else {
        return;
    };
    for statement in last.statements.iter().filter(|statement| statement.is_apart) {
        let message = format!(
            "this belongs to the group of {} only, the last above it: put it into the group of \"*\", and into each other \
             group that it is meant for",
            quoted(name)
        );
        findings.warning(statement.line, message);
    }
}

/// Parses a line, if it is about use, and reports the mistakes in it alone.
fn read_statement(
    line: u32,
    name: &[u8],
    value: &str,
    findings: &mut FindingList,
) -> Option<UsageStatement> {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    let (path, rest) = split_path(value);
    let (family, path, meanings) = if is("content-usage") {
        check_usage(line, value, rest, findings);
        (UsageFamily::Usage, path, content_usage::read(rest.as_bytes()))
    } else if is("content-signal") {
        check_signal(line, rest, findings);
        // `use=` limits all purposes of some crawlers only, so it contradicts nothing.
        let meanings = content_signal::read(rest, ContentUse::Immediate);
        (UsageFamily::Signal, path, meanings)
    } else if is("disallowaitraining") || is("allowaitraining") {
        check_path(line, value, findings);
        let training = PurposeSet::of(&[Purpose::TrainAi]);
        let meaning = StatementMeaning::new(training, is("allowaitraining"), "");
        // Like `Disallow`, a rule without a path has no effect.
        let meanings = if value.is_empty() { Vec::new() } else { vec![meaning] };
        (UsageFamily::Training, value, meanings)
    } else {
        if is("license") {
            check_licence(line, value, findings);
        }
        return None;
    };
    let path = if path.is_empty() { "/" } else { path }.to_owned();
    Some(UsageStatement { line, family, path, meanings, is_apart: false })
}

fn check_usage(line: u32, value: &str, dictionary: &str, findings: &mut FindingList) {
    const SUCH_AS: &str = "write, for example, \"train-ai=n, search=y\"";
    let labels = match content_usage::labels(dictionary.as_bytes()) {
        Some(labels) if !labels.is_empty() => labels,
        Some(_) => return findings.error(line, format!("this has no effect: {SUCH_AS}")),
        None if value.starts_with('*') => {
            let message = format!("{value:?} has no effect: a path starts with \"/\"");
            return findings.error(line, message);
        }
        None => {
            let message =
                format!("{dictionary:?} cannot be parsed, so it has no effect: {SUCH_AS}");
            return findings.error(line, message);
        }
    };
    for (name, status) in labels {
        match status {
            LabelStatus::Current => {}
            LabelStatus::Unclear => findings
                .error(line, format!("{name:?} has no effect: its value is neither y nor n")),
            LabelStatus::Retired => findings.warning(
                line,
                format!(
                    "{name:?} is a label of an earlier draft, which many crawlers no longer know"
                ),
            ),
            // The names of the two families differ just enough to be confused.
            LabelStatus::Unknown => match SIGNALS.iter().position(|signal| *signal == name) {
                Some(at) => findings.error(
                    line,
                    format!("{name:?} is not a label; did you mean {:?}?", LABELS[at]),
                ),
                None => check_label(line, &name, findings),
            },
        }
    }
}

fn check_label(line: u32, name: &str, findings: &mut FindingList) {
    match LABELS.iter().chain(&SIGNALS).position(|label| differs_only_in_separator(name, label)) {
        Some(at) => {
            let meant = LABELS[at % LABELS.len()];
            findings.error(line, format!("{name:?} is not a label; did you mean {meant:?}?"));
        }
        None => findings.note(line, format!("{name:?} is not a known label")),
    }
}

fn check_signal(line: u32, list: &str, findings: &mut FindingList) {
    if list.trim().is_empty() {
        let message = "this has no effect: write, for example, \"search=yes, ai-train=no\"";
        return findings.error(line, message);
    }
    for pair in list.split([',', ';']).map(str::trim) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = name.trim();
        let value = value.trim();
        let is = |known: &&str| name.eq_ignore_ascii_case(known);
        let is_level = is(&"use");
        let values: &[&str] =
            if is_level { &["immediate", "reference", "full"] } else { &["yes", "no"] };
        if is_level || SIGNALS.iter().any(is) {
            if !values.iter().any(|known| known.eq_ignore_ascii_case(value)) {
                let expected = values.join(" or ");
                let message = format!("{pair:?} has no effect: expected {name}={expected}");
                findings.error(line, message);
            }
        } else if let Some(at) = LABELS.iter().position(is) {
            let message = format!("{name:?} is not a signal; did you mean {:?}?", SIGNALS[at]);
            findings.error(line, message);
        } else if let Some(at) =
            SIGNALS.iter().chain(&LABELS).position(|label| differs_only_in_separator(name, label))
        {
            let meant = SIGNALS[at % SIGNALS.len()];
            findings.error(line, format!("{name:?} is not a signal; did you mean {meant:?}?"));
        } else if !pair.is_empty() {
            findings.note(line, format!("{name:?} is not a known signal"));
        }
    }
}

/// Returns whether a name differs from a known one only in its separator.
fn differs_only_in_separator(name: &str, known: &str) -> bool {
    let letters = |text: &str| text.to_ascii_lowercase().replace(['-', '_', ' ', '.'], "");
    letters(name) == letters(known)
}

fn check_path(line: u32, path: &str, findings: &mut FindingList) {
    if !path.is_empty() && !path.starts_with(['/', '*']) {
        let message = format!("{path:?} does not start with \"/\", so it never matches");
        findings.error(line, message);
    }
}

/// Reports a licence that cannot be fetched, which refuses, and one that other readers may ignore.
fn check_licence(line: u32, value: &str, findings: &mut FindingList) {
    match value.split_once("://") {
        Some((scheme, _)) if ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {}
        Some(_) => findings.error(
            line,
            format!("the licence {value:?} cannot be fetched over HTTP, so it refuses all use"),
        ),
        None => findings.warning(
            line,
            format!(
                "the licence {value:?} is not an absolute URL, as RSL 1.0 section 4.4.1 requires: it is resolved against the requested URL, \
                 but other crawlers may ignore it"
            ),
        ),
    }
}

/// Reports a statement before all groups, where only `Content-Signal` applies, and not for every reader.
fn check_position(statement: &UsageStatement, group: &UsageGroup<'_>, findings: &mut FindingList) {
    if !group.agents.is_empty() {
        return;
    }
    match statement.family {
        UsageFamily::Signal => findings.warning(
            statement.line,
            "a signal before any user-agent line: not all crawlers apply it to the whole site",
        ),
        UsageFamily::Usage | UsageFamily::Training => findings.error(
            statement.line,
            "a statement about use before any user-agent line applies to nobody",
        ),
    }
}

/// Reports user-agent lines after `Content-Usage`: in the draft it ends a run of them, for readers of rules it does
/// not.
fn check_split_agents(group: &UsageGroup<'_>, line: u32, findings: &mut FindingList) {
    let usage = group.statements.iter().find(|statement| statement.family == UsageFamily::Usage);
    if let Some(usage) = usage.filter(|_| !group.has_rules && !group.agents.is_empty()) {
        let message = format!(
            "the Content-Usage in line {} does not apply to this agent, but the rules below also apply to the agents above it",
            usage.line
        );
        findings.warning(line, message);
    }
}

fn check_group(group: &UsageGroup<'_>, findings: &mut FindingList) {
    for (index, later) in group.statements.iter().take(MAX_COMPARED).enumerate() {
        for earlier in &group.statements[..index] {
            if earlier.path == later.path {
                check_contradiction(earlier, later, findings);
            } else if earlier.family == later.family && earlier.family != UsageFamily::Training {
                // A longer path among training rules is how the draft lifts a shorter one.
                check_shadowed(earlier, later, findings);
                check_shadowed(later, earlier, findings);
            }
        }
    }
}

fn check_contradiction(
    earlier: &UsageStatement,
    later: &UsageStatement,
    findings: &mut FindingList,
) {
    let lifted = earlier.refuses().intersection(later.allows());
    let opposite = earlier.allows().intersection(later.refuses()).union(lifted);
    if !opposite.is_empty() {
        let message = format!(
            "line {} says the opposite about {}: the refusal wins",
            earlier.line,
            purpose_names(opposite)
        );
        findings.warning(later.line, message);
    }
}

/// Reports a refusal that a statement with a longer path hides: only the longest path applies, even for purposes that it
/// does not mention.
fn check_shadowed(short: &UsageStatement, long: &UsageStatement, findings: &mut FindingList) {
    if long.path.len() <= short.path.len() || !long.path.starts_with(&*short.path) {
        return;
    }
    let stated = long.refuses().union(long.allows());
    let hidden = short.refuses().without(stated);
    if !hidden.is_empty() && !stated.is_empty() {
        let message = format!(
            "{} says nothing about {}, but has the longest path, so line {} has no effect there",
            quoted(long.path.as_bytes()),
            purpose_names(hidden),
            short.line
        );
        findings.warning(long.line, message);
    }
}

/// Reports groups without statements about use next to statements for `*`, which a crawler with its own group does not
/// obey.
fn check_own_groups(groups: &[UsageGroup<'_>], findings: &mut FindingList) {
    let is_everybody = |group: &&UsageGroup<'_>| group.agents.iter().any(|(_, name)| *name == b"*");
    let mut general = groups.iter().filter(is_everybody).flat_map(|group| &group.statements);
    let Some(refusing) = general.find(|statement| !statement.refuses().is_empty()) else {
        return;
    };
    // Where everything is disallowed, the use needs no statement.
    let silent = groups.iter().filter(|group| {
        group.statements.is_empty() && !group.disallows_all && !is_everybody(group)
    });
    for (line, name) in silent.flat_map(|group| &group.agents) {
        let message = format!(
            "{} has its own group, so the statement about use in line {} does not apply to it",
            quoted(name),
            refusing.line
        );
        findings.note(*line, message);
    }
}

impl UsageStatement {
    fn refuses(&self) -> PurposeSet {
        self.meanings.iter().fold(PurposeSet::NONE, |set, it| set.union(it.refuses))
    }

    fn allows(&self) -> PurposeSet {
        self.meanings.iter().fold(PurposeSet::NONE, |set, it| set.union(it.allows))
    }
}

fn purpose_names(purposes: PurposeSet) -> String {
    let names: Vec<&str> = purposes.iter().map(Purpose::as_str).collect();
    names.join(", ")
}
