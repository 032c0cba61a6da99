//! Statements of robots.txt about use, in the groups chosen for a crawler and before all groups.

use wayleave_robots_txt::internal::{
    ALLOW_AI_TRAINING, CONTENT_SIGNAL, CONTENT_USAGE, DISALLOW_AI_TRAINING, EMBARGO, LICENSE,
    PreferenceMatcher, PreferenceSelection, TooCostly, UsageLine,
};
use wayleave_robots_txt::{
    AccessDecision, AccessReason, AccessResult, AccessVerdict, ProductToken, RobotsTxt, UrlPath,
    decide_all_spellings_within, decide_as_received_within, decide_whole_site_within,
};

use super::statement::{StatementMeaning, excerpted};
use super::{
    PreferenceQuery, PreferenceSource, PreferenceStatement, Purpose, PurposeSet, StatementCarrier,
    content_signal, content_usage,
};

/// The lines of a file about use that concern a crawler.
#[derive(Debug)]
pub(super) struct UsageLines<'a> {
    group: Vec<UsageLine<'a>>,
    /// The lines before any group, which in some families apply to the whole site.
    site: Vec<UsageLine<'a>>,
}

impl<'a> UsageLines<'a> {
    /// Returns the lines that concern a crawler; `None` if the file has no line about use.
    pub(super) fn for_crawler(
        robots: &'a RobotsTxt,
        query: PreferenceQuery<'_>,
        matcher: &mut PreferenceMatcher,
    ) -> Option<Self> {
        let budget = &mut matcher.context.budget;
        robots.has_usage_lines().then(|| Self {
            group: robots.usage_lines_of_group(query.dialect, query.tokens, budget),
            site: robots.usage_lines_before_groups(budget),
        })
    }

    fn in_group(&self, name: &'static str) -> impl Iterator<Item = UsageLine<'a>> {
        self.group.iter().copied().filter(move |line| line.is_named(&[name]))
    }

    /// Returns the lines with a name in the group or, if there are none, before all groups.
    fn in_group_or_site(&self, name: &'static str) -> impl Iterator<Item = UsageLine<'a>> {
        let has_own = self.in_group(name).next().is_some();
        let lines = if has_own { &self.group } else { &self.site };
        lines.iter().copied().filter(move |line| line.is_named(&[name]))
    }

    /// Returns the statements of the lines about a path.
    pub(super) fn statements(
        &self,
        query: PreferenceQuery<'_>,
        matcher: &mut PreferenceMatcher,
    ) -> Vec<PreferenceStatement> {
        let sources = query.settings.sources;
        let mut statements = Vec::new();
        for (source, read) in [
            (PreferenceSource::ContentUsage, Self::content_usage as StatementReader<'a>),
            (PreferenceSource::ContentSignal, Self::content_signal),
            (PreferenceSource::AiTrainingRule, Self::ai_training),
        ] {
            if sources.contains(source) {
                let stated = read(self, query, matcher);
                statements.extend(stated.unwrap_or_else(|_| vec![too_costly(source)]));
            }
        }
        statements
    }

    fn content_usage(
        &self,
        _: PreferenceQuery<'_>,
        matcher: &mut PreferenceMatcher,
    ) -> StatementResult {
        let lines: Vec<_> = self.in_group(CONTENT_USAGE).collect();
        let pattern = |line: &UsageLine<'a>| split_path_bytes(line.value).0;
        narrowest_statements(&lines, pattern, matcher, |line| {
            let dictionary = split_path_bytes(line.value).1;
            let labels = content_usage::read(dictionary);
            (PreferenceSource::ContentUsage, labels)
        })
    }

    fn content_signal(
        &self,
        query: PreferenceQuery<'_>,
        matcher: &mut PreferenceMatcher,
    ) -> StatementResult {
        let lines: Vec<_> = self.in_group_or_site(CONTENT_SIGNAL).collect();
        let pattern = |line: &UsageLine<'a>| split_path_bytes(line.value).0;
        narrowest_statements(&lines, pattern, matcher, |line| {
            // The policy is silent about paths, so they are read like those of `Content-Usage`.
            let list = String::from_utf8_lossy(split_path_bytes(line.value).1);
            let signals = content_signal::read(&list, query.declaration.content_use());
            (PreferenceSource::ContentSignal, signals)
        })
    }

    fn ai_training(
        &self,
        _: PreferenceQuery<'_>,
        matcher: &mut PreferenceMatcher,
    ) -> StatementResult {
        const TRAIN_AI: PurposeSet = PurposeSet::of(&[Purpose::TrainAi]);
        // As with Disallow, a rule without a path has no effect.
        let rules: Vec<_> = self
            .group
            .iter()
            .copied()
            .filter(|line| {
                line.is_named(&[DISALLOW_AI_TRAINING, ALLOW_AI_TRAINING]) && !line.value.is_empty()
            })
            .collect();
        narrowest_statements(
            &rules,
            |line| line.value,
            matcher,
            |line| {
                let is_allowed = line.is_named(&[ALLOW_AI_TRAINING]);
                let rule =
                    StatementMeaning::new(TRAIN_AI, is_allowed, "draft-canel-robots-ai-control");
                (PreferenceSource::AiTrainingRule, vec![rule])
            },
        )
    }

    /// Returns the licences named, with their locations.
    pub(super) fn licences(&self) -> impl Iterator<Item = (String, StatementCarrier)> {
        self.in_group_or_site(LICENSE)
            .map(|line| (text(line.value), StatementCarrier::RobotsTxt { line: line.line }))
    }

    /// Returns the periods for which an archive is asked to withhold its copies.
    pub(super) fn embargoes(&self) -> impl Iterator<Item = String> {
        self.in_group(EMBARGO).map(|line| text(line.value))
    }
}

/// The statements of lines, unless matching them takes too long.
type StatementResult = Result<Vec<PreferenceStatement>, TooCostly>;

type StatementReader<'a> =
    fn(&UsageLines<'a>, PreferenceQuery<'_>, &mut PreferenceMatcher) -> StatementResult;

/// Returns the statements of the lines whose patterns match a path most specifically.
fn narrowest_statements<'a>(
    lines: &[UsageLine<'a>],
    pattern: impl Fn(&UsageLine<'a>) -> &'a [u8],
    matcher: &mut PreferenceMatcher,
    read: impl Fn(&UsageLine<'a>) -> (PreferenceSource, Vec<StatementMeaning>),
) -> StatementResult {
    let selected = matcher.select(lines.iter().map(pattern), PreferenceSelection::Narrowest)?;
    let mut statements = Vec::new();
    for (at, only_restricts) in selected {
        let line = &lines[at];
        // A file may have thousands of lines for one path.
        if !matcher.context.budget.spend_on_reading(line.value.len()) {
            return Err(TooCostly);
        }
        let (source, meanings) = read(line);
        statements.extend(meanings.into_iter().map(|meaning| {
            let carrier = StatementCarrier::RobotsTxt { line: line.line };
            let text = excerpted(&format!("{}: {}", text(line.name), text(line.value)));
            PreferenceStatement::new(source, carrier, text, meaning).restricted_if(only_restricts)
        }));
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
    let blanks = rest.iter().take_while(|byte| is_blank(byte)).count();
    (path, &rest[blanks..])
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn too_costly(source: PreferenceSource) -> PreferenceStatement {
    PreferenceStatement::too_costly(source, StatementCarrier::RobotsTxt { line: 0 })
}

/// Returns the paths that the groups of tokens that only name a purpose disallow. A token without its own group adds
/// nothing: `*` is obeyed already.
pub(super) fn policy_token_statements(
    robots: &RobotsTxt,
    query: PreferenceQuery<'_>,
    matcher: &mut PreferenceMatcher,
) -> Vec<PreferenceStatement> {
    let mut statements = Vec::new();
    for (purpose, token) in &query.declaration.purpose_tokens {
        if !robots.has_group_for(query.dialect, token) {
            continue;
        }
        let access = AccessResult::Successful(robots.clone());
        let Some(decision) = find_disallow(&access, query, std::slice::from_ref(token), matcher)
        else {
            continue;
        };
        statements.push(if decision.reason() == AccessReason::TooCostly {
            too_costly(PreferenceSource::PolicyToken)
        } else {
            let clause = "RFC 9309 §2.2.1, a product token for a purpose";
            PreferenceStatement::new(
                PreferenceSource::PolicyToken,
                StatementCarrier::RobotsTxt { line: decision.line().unwrap_or(0) },
                format!("User-agent: {token}, {}", decision.rule().unwrap_or_default()),
                StatementMeaning::refusal(PurposeSet::of(&[*purpose]), clause),
            )
        });
    }
    statements
}

/// Returns the decision that disallows a path, in any spelling if all are judged; without a path, the one that could
/// disallow any.
fn find_disallow<'a>(
    access: &'a AccessResult,
    query: PreferenceQuery<'a>,
    tokens: &'a [ProductToken],
    matcher: &mut PreferenceMatcher,
) -> Option<AccessDecision<'a>> {
    let dialect = query.dialect;
    let url_path = matcher.path().map(|path| UrlPath::from_checked(path.to_owned()));
    // The same budget as for all other matching, so that many tokens cannot multiply the work.
    let context = &mut matcher.context;
    let decision = match &url_path {
        Some(path) if query.all_spellings => {
            decide_all_spellings_within(access, dialect, tokens, path, context)
        }
        Some(path) => decide_as_received_within(access, dialect, tokens, path, context),
        None => decide_whole_site_within(access, dialect, tokens, context),
    };
    (decision.verdict() == AccessVerdict::Disallow).then_some(decision)
}
