//! Statements of robots.txt about use, in the groups chosen for a crawler and before all groups.

use super::statement::{Meaning, shown};
use super::{
    Asker, Carrier, Purpose, Purposes, Source, Stage, Statement, content_signal, content_usage,
};
use crate::robots_txt::topic::{
    ALLOW_AI_TRAINING, CONTENT_SIGNAL, CONTENT_USAGE, DISALLOW_AI_TRAINING, EMBARGO, LICENSE,
};
use crate::robots_txt::{
    Counts, PathMatcher, RobotsTxt, TooCostly, UseLine, decide_every_path_within,
    decide_received_within,
};
use crate::{AccessResult, Decision, Path, ProductToken, Reason, Verdict, decide_within};

/// The lines of a file about use that concern a crawler.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    group: Vec<UseLine<'a>>,
    /// The lines before any group, which in some families apply to the whole site.
    site: Vec<UseLine<'a>>,
}

impl<'a> Lines<'a> {
    /// Returns the lines that concern a crawler; `None` if the file has no line about use.
    pub(super) fn of(
        robots: &'a RobotsTxt,
        asker: Asker<'_>,
        path: &mut PathMatcher,
    ) -> Option<Self> {
        let budget = &mut path.work.budget;
        robots.speaks_of_use().then(|| Self {
            group: robots.use_lines_of_group(asker.dialect, asker.tokens, budget),
            site: robots.use_lines_before_groups(budget),
        })
    }

    fn in_group(&self, name: &'static str) -> impl Iterator<Item = UseLine<'a>> {
        let lines = self.group.iter().copied();
        lines.filter(move |it| it.is(&[name]))
    }

    /// Returns the lines with a name in the group or, if there are none, before all groups.
    fn in_group_or_site(&self, name: &'static str) -> impl Iterator<Item = UseLine<'a>> {
        let has_own = self.in_group(name).next().is_some();
        let lines = if has_own { &self.group } else { &self.site };
        let lines = lines.iter().copied();
        lines.filter(move |it| it.is(&[name]))
    }

    /// Returns the statements of the lines about a path.
    pub(super) fn statements(&self, asker: Asker<'_>, path: &mut PathMatcher) -> Vec<Statement> {
        let sources = asker.reading.sources;
        let mut statements = Vec::new();
        for (source, says) in [
            (Source::ContentUsage, Self::content_usage as Says<'a>),
            (Source::ContentSignal, Self::content_signal),
            (Source::AiTrainingRule, Self::ai_training),
        ] {
            if sources.contains(source) {
                let said = says(self, asker, path);
                statements.extend(said.unwrap_or_else(|_| vec![too_costly(source)]));
            }
        }
        statements
    }

    fn content_usage(&self, asker: Asker<'_>, path: &mut PathMatcher) -> Said {
        let lines: Vec<_> = self.in_group(CONTENT_USAGE).collect();
        let pattern = |line: &UseLine<'a>| split_path_bytes(line.value).0;
        said(&lines, pattern, path, |line| {
            let dictionary = split_path_bytes(line.value).1;
            let labels = content_usage::read(dictionary, asker.reading.legacy_labels);
            (Source::ContentUsage, labels)
        })
    }

    fn content_signal(&self, asker: Asker<'_>, path: &mut PathMatcher) -> Said {
        let lines: Vec<_> = self.in_group_or_site(CONTENT_SIGNAL).collect();
        let pattern = |line: &UseLine<'a>| split_path_bytes(line.value).0;
        said(&lines, pattern, path, |line| {
            let list = String::from_utf8_lossy(split_path_bytes(line.value).1);
            let signals = content_signal::read(&list, asker.declaration.content_use());
            (Source::ContentSignal, signals)
        })
    }

    fn ai_training(&self, _: Asker<'_>, path: &mut PathMatcher) -> Said {
        const TRAIN_AI: Purposes = Purposes::of(&[Purpose::TrainAi]);
        let is_rule = |line: &&UseLine<'a>| line.is(&[DISALLOW_AI_TRAINING, ALLOW_AI_TRAINING]);
        let rules = self.group.iter().filter(is_rule);
        // As with Disallow, a rule without a path has no effect.
        let rules: Vec<_> = rules.filter(|it| !it.value.is_empty()).copied().collect();
        said(
            &rules,
            |line| line.value,
            path,
            |line| {
                let is_allowed = line.is(&[ALLOW_AI_TRAINING]);
                let rule = Meaning::of(TRAIN_AI, is_allowed, "draft-canel-robots-ai-control");
                (Source::AiTrainingRule, vec![rule])
            },
        )
    }

    /// Returns the licences named, with their locations.
    pub(super) fn licences(&self) -> impl Iterator<Item = (String, Carrier)> {
        let lines = self.in_group_or_site(LICENSE);
        lines.map(|line| (text(line.value), Carrier::RobotsTxt { line: line.line }))
    }

    /// Returns the periods for which an archive is asked to withhold its copies.
    pub(super) fn embargoes(&self) -> impl Iterator<Item = String> {
        self.in_group(EMBARGO).map(|line| text(line.value))
    }
}

/// The statements of lines, unless matching them takes too long.
type Said = Result<Vec<Statement>, TooCostly>;

type Says<'a> = fn(&Lines<'a>, Asker<'_>, &mut PathMatcher) -> Said;

/// Returns the statements of the lines whose patterns match a path most specifically.
fn said<'a>(
    lines: &[UseLine<'a>],
    pattern: impl Fn(&UseLine<'a>) -> &'a [u8],
    path: &mut PathMatcher,
    means: impl Fn(&UseLine<'a>) -> (Source, Vec<Meaning>),
) -> Said {
    let selected = path.select(lines.iter().map(pattern), Counts::Narrowest)?;
    let mut statements = Vec::new();
    for (at, only_restricts) in selected {
        let line = &lines[at];
        // A file may have thousands of lines for one path.
        if !path.work.budget.spend_on_reading(line.value.len()) {
            return Err(TooCostly);
        }
        let (source, meanings) = means(line);
        let statement = |meaning| {
            let statement = statement(source, line).meaning(meaning);
            statement.restricting(only_restricts)
        };
        statements.extend(meanings.into_iter().map(statement));
    }
    Ok(statements)
}

/// Splits a value into an optional path at its start and the rest, separated by blanks and tabs (aipref-attach-05
/// §3.2).
pub(crate) fn split_path(value: &str) -> (&str, &str) {
    let (path, _) = split_path_bytes(value.as_bytes());
    let (path, rest) = value.split_at(path.len());
    (path, rest.trim_start_matches([' ', '\t']))
}

fn split_path_bytes(value: &[u8]) -> (&[u8], &[u8]) {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    if !value.starts_with(b"/") {
        return (b"", value);
    }
    let end = value.iter().position(is_blank).unwrap_or(value.len());
    let (path, rest) = value.split_at(end);
    let blanks = rest.iter().take_while(|it| is_blank(it)).count();
    (path, &rest[blanks..])
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn statement(source: Source, line: &UseLine<'_>) -> Statement {
    Statement {
        source,
        carrier: Carrier::RobotsTxt { line: line.line },
        text: shown(&format!("{}: {}", text(line.name), text(line.value))),
        clause: "",
        policy: None,
        stage: Stage::Before,
        refuses: Purposes::NONE,
        allows: Purposes::NONE,
    }
}

fn too_costly(source: Source) -> Statement {
    Statement::too_costly(source, Carrier::RobotsTxt { line: 0 })
}

/// Returns what the groups of tokens that only name a purpose disallow. A token without its own group adds nothing: `*`
/// is obeyed already.
pub(super) fn policy_tokens(
    robots: &RobotsTxt,
    asker: Asker<'_>,
    path: &mut PathMatcher,
) -> Vec<Statement> {
    let tokens = asker.declaration.purpose_tokens.iter();
    let named = tokens.filter(|(_, token)| robots.has_group_of(asker.dialect, token));
    let statements = named.filter_map(|(purpose, token)| {
        let access = AccessResult::Successful(robots.clone());
        let tokens: &[ProductToken] = std::slice::from_ref(token);
        let decision = disallowed(&access, asker, tokens, path)?;
        if decision.reason() == Reason::TooCostly {
            return Some(too_costly(Source::PolicyToken));
        }
        Some(Statement {
            source: Source::PolicyToken,
            carrier: Carrier::RobotsTxt {
                line: decision.line().unwrap_or(0),
            },
            text: format!(
                "User-agent: {token}, {}",
                decision.rule().unwrap_or_default()
            ),
            clause: "RFC 9309 §2.2.1, a product token for a purpose",
            policy: None,
            stage: Stage::Before,
            refuses: Purposes::of(&[*purpose]),
            allows: Purposes::NONE,
        })
    });
    statements.collect()
}

/// Returns the decision that disallows a path, in any spelling if all are judged; without a path, the one that could
/// disallow any.
fn disallowed<'a>(
    access: &'a AccessResult,
    asker: Asker<'a>,
    tokens: &'a [ProductToken],
    path: &mut PathMatcher,
) -> Option<Decision<'a>> {
    let dialect = asker.dialect;
    let asked = path.path().map(|it| Path::from_checked(it.to_owned()));
    let work = &mut path.work;
    let decision = match &asked {
        Some(path) if asker.strict => decide_within(access, dialect, tokens, path, true, work),
        Some(path) => decide_received_within(access, dialect, tokens, path, work),
        None => decide_every_path_within(access, dialect, tokens, work),
    };
    (decision.verdict() == Verdict::Disallow).then_some(decision)
}

/// Returns what Spawning's ai.txt disallows. It is only about training data, and nothing in it permits.
pub(super) fn ai_txt(
    file: &RobotsTxt,
    asker: Asker<'_>,
    path: &mut PathMatcher,
) -> Option<Statement> {
    let access = AccessResult::Successful(file.clone());
    let decision = disallowed(&access, asker, asker.tokens, path)?;
    let carrier = Carrier::File {
        url: "/ai.txt".to_owned(),
    };
    if decision.reason() == Reason::TooCostly {
        return Some(Statement::too_costly(Source::AiTxt, carrier));
    }
    Some(Statement {
        source: Source::AiTxt,
        carrier,
        text: decision.rule().unwrap_or_default(),
        clause: "Spawning, ai.txt",
        policy: None,
        stage: Stage::Before,
        refuses: Purposes::of(&[Purpose::TrainAi]),
        allows: Purposes::NONE,
    })
}
