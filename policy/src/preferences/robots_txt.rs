//! What robots.txt says about use, in the groups chosen for a crawler and before all groups.

use super::path_rule::{Paths, most_specific};
use super::statement::Meaning;
use super::{
    Asker, Carrier, Purpose, Purposes, Source, Stage, Statement, content_signal, content_usage,
};
use crate::robots_txt::topic::{
    ALLOW_AI_TRAINING, CONTENT_SIGNAL, CONTENT_USAGE, DISALLOW_AI_TRAINING, EMBARGO, LICENSE,
};
use crate::robots_txt::{Directive, RobotsTxt};
use crate::{
    AccessResult, Dialect, Explanation, Path, ProductToken, Verdict, decide, decide_every_path,
};

/// The lines of a file that are about use and concern a crawler.
#[derive(Debug)]
pub(super) struct Lines {
    group: Vec<Directive>,
    /// Before any group: of some families these stand for the whole site.
    site: Vec<Directive>,
}

impl Lines {
    /// `None` if nothing in the file is.
    pub(super) fn of(robots: &RobotsTxt, asker: Asker<'_>) -> Option<Self> {
        robots.speaks_of_use().then(|| Self {
            group: robots.group_preferences(asker.dialect, asker.tokens),
            site: robots.directives_before_groups(),
        })
    }

    fn in_group(&self, name: &'static str) -> impl Iterator<Item = &Directive> {
        self.group.iter().filter(move |it| it.is(&[name]))
    }

    /// Of the group or, if it has none, of the site.
    fn in_group_or_site(&self, name: &'static str) -> impl Iterator<Item = &Directive> {
        let has_own = self.in_group(name).next().is_some();
        let lines = if has_own { &self.group } else { &self.site };
        lines.iter().filter(move |it| it.is(&[name]))
    }

    /// What the lines say about a path.
    pub(super) fn statements(&self, asker: Asker<'_>, paths: &Paths) -> Vec<Statement> {
        let sources = asker.reading.sources;
        let read = |source, decides: fn(&Self, Asker<'_>, Option<&str>) -> Vec<Statement>| {
            let is_read = sources.contains(source);
            is_read.then(|| paths.each(|path| decides(self, asker, path)))
        };
        let found = [
            read(Source::ContentUsage, Self::content_usage),
            read(Source::ContentSignal, Self::content_signal),
            read(Source::AiTrainingRule, Self::ai_training),
        ];
        let statements = found.into_iter().flatten().flatten();
        statements
            .map(|(statement, only_restricts)| only_restricting(statement, only_restricts))
            .collect()
    }

    fn content_usage(&self, asker: Asker<'_>, path: Option<&str>) -> Vec<Statement> {
        let lines = self.in_group(CONTENT_USAGE);
        let selected = most_specific(lines, |line| split_path(&line.value).0.to_owned(), path);
        let labels = selected.into_iter().flat_map(|line| {
            let (_, dictionary) = split_path(&line.value);
            let labels = content_usage::read(dictionary.as_bytes(), asker.reading.legacy_labels);
            let usage = move |label| statement(Source::ContentUsage, line).meaning(label);
            labels.into_iter().map(usage)
        });
        labels.collect()
    }

    fn content_signal(&self, asker: Asker<'_>, path: Option<&str>) -> Vec<Statement> {
        let lines = self.in_group_or_site(CONTENT_SIGNAL);
        let selected = most_specific(lines, |line| split_path(&line.value).0.to_owned(), path);
        let signals = selected.into_iter().flat_map(|line| {
            let (_, list) = split_path(&line.value);
            let signals = content_signal::read(list, asker.declaration.content_use());
            let signal = move |signal| statement(Source::ContentSignal, line).meaning(signal);
            signals.into_iter().map(signal)
        });
        signals.collect()
    }

    fn ai_training(&self, _: Asker<'_>, path: Option<&str>) -> Vec<Statement> {
        const TRAIN_AI: Purposes = Purposes::of(&[Purpose::TrainAi]);
        let is_rule = |line: &&Directive| line.is(&[DISALLOW_AI_TRAINING, ALLOW_AI_TRAINING]);
        // As with Disallow, a rule without a path is none.
        let rules = self
            .group
            .iter()
            .filter(is_rule)
            .filter(|line| !line.value.is_empty());
        let selected = most_specific(rules, |line| line.value.clone(), path);
        let statements = selected.into_iter().map(|line| {
            let is_allowed = line.is(&[ALLOW_AI_TRAINING]);
            let rule = Meaning::of(TRAIN_AI, is_allowed, "draft-canel-robots-ai-control");
            statement(Source::AiTrainingRule, line).meaning(rule)
        });
        statements.collect()
    }

    /// The licences named, with where they are.
    pub(super) fn licences(&self) -> impl Iterator<Item = (&str, Carrier)> {
        let lines = self.in_group_or_site(LICENSE);
        lines.map(|line| (&*line.value, Carrier::RobotsTxt { line: line.line }))
    }

    /// How long an archive is to keep its copies to itself.
    pub(super) fn embargoes(&self) -> impl Iterator<Item = &str> {
        self.in_group(EMBARGO).map(|line| &*line.value)
    }
}

/// The path and the rest of a value that may begin with one: up to the first of the blanks and tabs between them
/// (aipref-attach-05 §3.2).
pub(crate) fn split_path(value: &str) -> (&str, &str) {
    if !value.starts_with('/') {
        return ("", value);
    }
    let (path, rest) = value.split_once([' ', '\t']).unwrap_or((value, ""));
    (path, rest.trim_start_matches([' ', '\t']))
}

fn statement(source: Source, line: &Directive) -> Statement {
    Statement {
        source,
        carrier: Carrier::RobotsTxt { line: line.line },
        text: format!("{}: {}", line.name, line.value),
        clause: "",
        policy: None,
        stage: Stage::Before,
        refuses: Purposes::NONE,
        allows: Purposes::NONE,
    }
}

/// A statement without what it allows, if it is not about the path as received.
pub(super) fn only_restricting(statement: Statement, only_restricts: bool) -> Statement {
    let allows = if only_restricts {
        Purposes::NONE
    } else {
        statement.allows
    };
    Statement {
        allows,
        ..statement
    }
}

/// What the groups of tokens that only name a purpose disallow. One without a group of its own adds nothing: `*` is obeyed
/// already.
pub(super) fn policy_tokens(robots: &RobotsTxt, asker: Asker<'_>, paths: &Paths) -> Vec<Statement> {
    let tokens = asker.declaration.purpose_tokens.iter();
    let named = tokens.filter(|(_, token)| robots.has_group_of(asker.dialect, token));
    let statements = named.filter_map(|(purpose, token)| {
        let access = AccessResult::Successful(robots.clone());
        let tokens: &[ProductToken] = std::slice::from_ref(token);
        let decision = first_disallowed(&access, asker.dialect, tokens, paths)?;
        Some(Statement {
            source: Source::PolicyToken,
            carrier: Carrier::RobotsTxt {
                line: decision.line.unwrap_or(0),
            },
            text: format!("User-agent: {token}, {}", decision.rule.unwrap_or_default()),
            clause: "RFC 9309 §2.2.1, a product token for a purpose",
            policy: None,
            stage: Stage::Before,
            refuses: Purposes::of(&[*purpose]),
            allows: Purposes::NONE,
        })
    });
    statements.collect()
}

/// Why the first of the paths that rules disallow is; without a path, why any could be.
fn first_disallowed(
    access: &AccessResult,
    dialect: Dialect,
    tokens: &[ProductToken],
    paths: &Paths,
) -> Option<Explanation> {
    let disallowed = paths.each(|path| {
        let decision = match path {
            Some(path) => decide(access, dialect, tokens, &Path::from_checked(path)),
            None => decide_every_path(access, dialect, tokens),
        };
        let disallows = decision.verdict() == Verdict::Disallow;
        disallows.then(|| decision.explain()).into_iter().collect()
    });
    let (decision, _) = disallowed.into_iter().next()?;
    Some(decision)
}

/// What Spawning's ai.txt disallows. It speaks of training data only, and nothing in it permits.
pub(super) fn ai_txt(file: &RobotsTxt, asker: Asker<'_>, paths: &Paths) -> Option<Statement> {
    let access = AccessResult::Successful(file.clone());
    let decision = first_disallowed(&access, asker.dialect, asker.tokens, paths)?;
    Some(Statement {
        source: Source::AiTxt,
        carrier: Carrier::File {
            url: "/ai.txt".to_owned(),
        },
        text: decision.rule.unwrap_or_default(),
        clause: "Spawning, ai.txt",
        policy: None,
        stage: Stage::Before,
        refuses: Purposes::of(&[Purpose::TrainAi]),
        allows: Purposes::NONE,
    })
}
