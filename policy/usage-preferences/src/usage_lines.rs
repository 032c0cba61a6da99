//! Statements of robots.txt about use, in the groups chosen for a crawler and before all groups.

use wayleave_robots_txt::matching::{
    ALLOW_AI_TRAINING, CONTENT_SIGNAL, CONTENT_USAGE, DISALLOW_AI_TRAINING, EMBARGO, LICENSE,
    MatchSelection, PathMatcher, TooCostly, UsageLine, decide_all_spellings_within,
    decide_as_received_within, decide_whole_site_within,
};
use wayleave_robots_txt::{
    AccessDecision, AccessReason, AccessResult, AccessVerdict, ProductToken, RobotsTxt, UrlPath,
};

use super::statement::{StatementMeaning, excerpted};
use super::{
    PreferenceQuery, PreferenceSource, PreferenceStage, PreferenceStatement, Purpose, PurposeSet,
    StatementCarrier, content_signal, content_usage,
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
        asker: PreferenceQuery<'_>,
        path: &mut PathMatcher,
    ) -> Option<Self> {
        let budget = &mut path.context.budget;
        robots.has_usage_lines().then(|| Self {
            group: robots.usage_lines_of_group(asker.dialect, asker.tokens, budget),
            site: robots.usage_lines_before_groups(budget),
        })
    }

    fn in_group(&self, name: &'static str) -> impl Iterator<Item = UsageLine<'a>> {
        let lines = self.group.iter().copied();
        lines.filter(move |it| it.is_named(&[name]))
    }

    /// Returns the lines with a name in the group or, if there are none, before all groups.
    fn in_group_or_site(&self, name: &'static str) -> impl Iterator<Item = UsageLine<'a>> {
        let has_own = self.in_group(name).next().is_some();
        let lines = if has_own { &self.group } else { &self.site };
        let lines = lines.iter().copied();
        lines.filter(move |it| it.is_named(&[name]))
    }

    /// Returns the statements of the lines about a path.
    pub(super) fn statements(
        &self,
        asker: PreferenceQuery<'_>,
        path: &mut PathMatcher,
    ) -> Vec<PreferenceStatement> {
        let sources = asker.settings.sources;
        let mut statements = Vec::new();
        for (source, says) in [
            (PreferenceSource::ContentUsage, Self::content_usage as StatementReader<'a>),
            (PreferenceSource::ContentSignal, Self::content_signal),
            (PreferenceSource::AiTrainingRule, Self::ai_training),
        ] {
            if sources.contains(source) {
                let said = says(self, asker, path);
                statements.extend(said.unwrap_or_else(|_| vec![too_costly(source)]));
            }
        }
        statements
    }

    fn content_usage(&self, asker: PreferenceQuery<'_>, path: &mut PathMatcher) -> StatementResult {
        let lines: Vec<_> = self.in_group(CONTENT_USAGE).collect();
        let pattern = |line: &UsageLine<'a>| split_path_bytes(line.value).0;
        narrowest_statements(&lines, pattern, path, |line| {
            let dictionary = split_path_bytes(line.value).1;
            let labels = content_usage::read(dictionary, asker.settings.legacy_labels);
            (PreferenceSource::ContentUsage, labels)
        })
    }

    fn content_signal(
        &self,
        asker: PreferenceQuery<'_>,
        path: &mut PathMatcher,
    ) -> StatementResult {
        let lines: Vec<_> = self.in_group_or_site(CONTENT_SIGNAL).collect();
        let pattern = |line: &UsageLine<'a>| split_path_bytes(line.value).0;
        narrowest_statements(&lines, pattern, path, |line| {
            let list = String::from_utf8_lossy(split_path_bytes(line.value).1);
            let signals = content_signal::read(&list, asker.declaration.content_use());
            (PreferenceSource::ContentSignal, signals)
        })
    }

    fn ai_training(&self, _: PreferenceQuery<'_>, path: &mut PathMatcher) -> StatementResult {
        const TRAIN_AI: PurposeSet = PurposeSet::of(&[Purpose::TrainAi]);
        let is_rule =
            |line: &&UsageLine<'a>| line.is_named(&[DISALLOW_AI_TRAINING, ALLOW_AI_TRAINING]);
        let rules = self.group.iter().filter(is_rule);
        // As with Disallow, a rule without a path has no effect.
        let rules: Vec<_> = rules.filter(|it| !it.value.is_empty()).copied().collect();
        narrowest_statements(
            &rules,
            |line| line.value,
            path,
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
        let lines = self.in_group_or_site(LICENSE);
        lines.map(|line| (text(line.value), StatementCarrier::RobotsTxt { line: line.line }))
    }

    /// Returns the periods for which an archive is asked to withhold its copies.
    pub(super) fn embargoes(&self) -> impl Iterator<Item = String> {
        self.in_group(EMBARGO).map(|line| text(line.value))
    }
}

/// The statements of lines, unless matching them takes too long.
type StatementResult = Result<Vec<PreferenceStatement>, TooCostly>;

type StatementReader<'a> =
    fn(&UsageLines<'a>, PreferenceQuery<'_>, &mut PathMatcher) -> StatementResult;

/// Returns the statements of the lines whose patterns match a path most specifically.
fn narrowest_statements<'a>(
    lines: &[UsageLine<'a>],
    pattern: impl Fn(&UsageLine<'a>) -> &'a [u8],
    path: &mut PathMatcher,
    means: impl Fn(&UsageLine<'a>) -> (PreferenceSource, Vec<StatementMeaning>),
) -> StatementResult {
    let selected = path.select(lines.iter().map(pattern), MatchSelection::Narrowest)?;
    let mut statements = Vec::new();
    for (at, only_restricts) in selected {
        let line = &lines[at];
        // A file may have thousands of lines for one path.
        if !path.context.budget.spend_on_reading(line.value.len()) {
            return Err(TooCostly);
        }
        let (source, meanings) = means(line);
        let statement = |meaning| {
            let statement = statement(source, line).with_meaning(meaning);
            statement.restricted_if(only_restricts)
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

fn statement(source: PreferenceSource, line: &UsageLine<'_>) -> PreferenceStatement {
    PreferenceStatement {
        source,
        carrier: StatementCarrier::RobotsTxt { line: line.line },
        text: excerpted(&format!("{}: {}", text(line.name), text(line.value))),
        clause: "",
        policy: None,
        stage: PreferenceStage::Before,
        refuses: PurposeSet::NONE,
        allows: PurposeSet::NONE,
    }
}

fn too_costly(source: PreferenceSource) -> PreferenceStatement {
    PreferenceStatement::too_costly(source, StatementCarrier::RobotsTxt { line: 0 })
}

/// Returns what the groups of tokens that only name a purpose disallow. A token without its own group adds nothing: `*`
/// is obeyed already.
pub(super) fn policy_token_statements(
    robots: &RobotsTxt,
    asker: PreferenceQuery<'_>,
    path: &mut PathMatcher,
) -> Vec<PreferenceStatement> {
    let tokens = asker.declaration.purpose_tokens.iter();
    let named = tokens.filter(|(_, token)| robots.has_group_for(asker.dialect, token));
    let statements = named.filter_map(|(purpose, token)| {
        let access = AccessResult::Successful(robots.clone());
        let tokens: &[ProductToken] = std::slice::from_ref(token);
        let decision = find_disallow(&access, asker, tokens, path)?;
        if decision.reason() == AccessReason::TooCostly {
            return Some(too_costly(PreferenceSource::PolicyToken));
        }
        Some(PreferenceStatement {
            source: PreferenceSource::PolicyToken,
            carrier: StatementCarrier::RobotsTxt { line: decision.line().unwrap_or(0) },
            text: format!("User-agent: {token}, {}", decision.rule().unwrap_or_default()),
            clause: "RFC 9309 §2.2.1, a product token for a purpose",
            policy: None,
            stage: PreferenceStage::Before,
            refuses: PurposeSet::of(&[*purpose]),
            allows: PurposeSet::NONE,
        })
    });
    statements.collect()
}

/// Returns the decision that disallows a path, in any spelling if all are judged; without a path, the one that could
/// disallow any.
fn find_disallow<'a>(
    access: &'a AccessResult,
    asker: PreferenceQuery<'a>,
    tokens: &'a [ProductToken],
    path: &mut PathMatcher,
) -> Option<AccessDecision<'a>> {
    let dialect = asker.dialect;
    let asked = path.path().map(|it| UrlPath::from_checked(it.to_owned()));
    let work = &mut path.context;
    let decision = match &asked {
        Some(path) if asker.all_spellings => {
            decide_all_spellings_within(access, dialect, tokens, path, true, work)
        }
        Some(path) => decide_as_received_within(access, dialect, tokens, path, work),
        None => decide_whole_site_within(access, dialect, tokens, work),
    };
    (decision.verdict() == AccessVerdict::Disallow).then_some(decision)
}

/// Returns what Spawning's ai.txt disallows. It is only about training data, and nothing in it permits.
pub(super) fn ai_txt_statement(
    file: &RobotsTxt,
    asker: PreferenceQuery<'_>,
    path: &mut PathMatcher,
) -> Option<PreferenceStatement> {
    let access = AccessResult::Successful(file.clone());
    let decision = find_disallow(&access, asker, asker.tokens, path)?;
    let carrier = StatementCarrier::File { url: "/ai.txt".to_owned() };
    if decision.reason() == AccessReason::TooCostly {
        return Some(PreferenceStatement::too_costly(PreferenceSource::AiTxt, carrier));
    }
    Some(PreferenceStatement {
        source: PreferenceSource::AiTxt,
        carrier,
        text: decision.rule().unwrap_or_default(),
        clause: "Spawning, ai.txt",
        policy: None,
        stage: PreferenceStage::Before,
        refuses: PurposeSet::of(&[Purpose::TrainAi]),
        allows: PurposeSet::NONE,
    })
}
