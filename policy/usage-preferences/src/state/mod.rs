//! The state of a request's preferences, collected in the order in which they become known.

mod response;

use std::sync::Arc;

use wayleave_robots_txt::internal::PreferenceMatcher;
use wayleave_robots_txt::{
    AccessDecision, AccessResult, AccessVerdict, Dialect, MatchContext, Origin, RobotsTxt, Target,
};

use crate::licences::LicenceList;
use crate::robots_meta::{MetaReader, MetaRule};
use crate::statement::StatementMeaning;
use crate::usage_lines::{UsageLines, policy_token_statements};
use crate::{
    Preference, PreferenceJudgement, PreferenceQuery, PreferenceSource, PreferenceStage,
    PreferenceStatement, Purpose, PurposeSet, RslLicence, StatementCarrier, TdmrepFile, link,
    robots_meta, tdmrep,
};

/// The periods that `Archive-Embargo` can name: a week, a month, a quarter.
const EMBARGOES: [&str; 3] = ["w", "m", "q"];

/// A duty that only the user of a page can fulfil: a name and, for some, a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageDuty {
    /// `attribution`, `nofollow`, `max-snippet`, …
    pub name: &'static str,
    /// The value as written.
    pub value: Option<String>,
}

/// A robots meta rule that applies to the crawler, with its location.
#[derive(Clone, Debug)]
pub(super) struct CollectedMetaRule {
    pub(super) rule: MetaRule,
    pub(super) carrier: StatementCarrier,
    pub(super) stage: PreferenceStage,
    /// The line or element as written.
    pub(super) text: String,
}

/// Everything known to be stated about one request for a crawler's purposes.
#[derive(Clone, Debug)]
pub struct PreferenceState {
    /// The base URL of references in the response.
    pub(super) url: String,
    matcher: PreferenceMatcher,
    pub(super) statements: Vec<PreferenceStatement>,
    pub(super) licences: LicenceList,
    pub(super) meta_rules: Vec<CollectedMetaRule>,
    embargoes: Vec<&'static str>,
    /// The essence of the response's `Content-Type`, in lower case; empty if unknown.
    pub(super) content_type: String,
    pub(super) latest_stage: PreferenceStage,
}

impl PreferenceState {
    /// Creates an empty state. `path` is the path and query that robots.txt judges, `url` the base of references in the
    /// response.
    #[must_use]
    pub fn new(query: PreferenceQuery<'_>, url: &str, path: &str) -> Self {
        Self::with_matcher(url, PreferenceMatcher::new(path, query.dialect, query.all_spellings))
    }

    /// Creates an empty state about every path of an origin, for callers that cannot see the paths: a refusal of one
    /// path refuses all.
    #[must_use]
    pub fn for_every_path(url: &str) -> Self {
        Self::with_matcher(url, PreferenceMatcher::every_path())
    }

    fn with_matcher(url: &str, matcher: PreferenceMatcher) -> Self {
        Self {
            url: url.to_owned(),
            matcher,
            statements: Vec::new(),
            licences: LicenceList::default(),
            meta_rules: Vec::new(),
            embargoes: Vec::new(),
            content_type: String::new(),
            latest_stage: PreferenceStage::Before,
        }
    }

    /// Continues with the matching context of earlier decisions about the request.
    #[must_use]
    pub fn with_context(mut self, context: MatchContext) -> Self {
        self.matcher.context = context;
        self
    }

    /// Returns the matching context of the request.
    #[must_use]
    pub fn match_context(&self) -> &MatchContext {
        &self.matcher.context
    }

    /// Replaces the matching context of the request, of which some was spent elsewhere.
    pub fn set_match_context(&mut self, context: MatchContext) {
        self.matcher.context = context;
    }

    /// Adds a rule of the operator's own organisation, which overrides all statements.
    pub fn add_rule(&mut self, allows: bool) {
        self.statements.push(PreferenceStatement::new(
            PreferenceSource::Rule,
            StatementCarrier::Configuration,
            String::new(),
            StatementMeaning::new(PurposeSet::ALL, allows, "rule of one's own"),
        ));
    }

    /// Adds the decision about access: a disallow refuses every purpose.
    pub fn add_access_decision(&mut self, decision: &AccessDecision<'_>) {
        if decision.verdict() == AccessVerdict::Disallow {
            self.statements.push(PreferenceStatement::new(
                PreferenceSource::Disallow,
                StatementCarrier::RobotsTxt { line: decision.line().unwrap_or(0) },
                decision.rule().unwrap_or_else(|| decision.reason().to_string()),
                StatementMeaning::refusal(PurposeSet::ALL, "RFC 9309 §2.2.2"),
            ));
        }
    }

    /// Adds a refusal because deciding whether a document may be fetched takes too long.
    pub fn add_too_costly(&mut self, source: PreferenceSource, url: &str) {
        let carrier = StatementCarrier::File { url: url.to_owned() };
        self.statements.push(PreferenceStatement::too_costly(source, carrier));
    }

    /// Adds the statements of robots.txt about use, given the outcome of fetching it.
    pub fn add_access_result(&mut self, query: PreferenceQuery<'_>, access: &AccessResult) {
        self.add_in_each_dialect(query, |dialect| access.rules(dialect));
    }

    /// Adds the statements of robots.txt about use.
    pub fn add_robots_txt(&mut self, query: PreferenceQuery<'_>, robots: &RobotsTxt) {
        self.add_in_each_dialect(query, |_| Some(robots));
    }

    /// Adds the statements in each dialect. In the strictest dialect a refusal in any of the four refuses, and a
    /// permission needs all four.
    fn add_in_each_dialect<'a>(
        &mut self,
        query: PreferenceQuery<'_>,
        robots: impl Fn(Dialect) -> Option<&'a RobotsTxt>,
    ) {
        let mut stated = Vec::new();
        let mut previous = Vec::new();
        let mut allowed = PurposeSet::ALL;
        for dialect in query.dialect.each() {
            let query = PreferenceQuery { dialect: *dialect, ..query };
            // A dialect without rules of its own states nothing, which in the strictest one revokes permissions.
            let statements = robots(*dialect)
                .map(|robots| self.robots_txt_statements(query, robots))
                .unwrap_or_default();
            let allows = statements.iter().fold(PurposeSet::NONE, |set, it| set.union(it.allows));
            allowed = allowed.intersection(allows);
            // The dialects mostly agree.
            if statements != previous {
                stated.extend_from_slice(&statements);
                previous = statements;
            }
        }
        for statement in &mut stated {
            statement.allows = statement.allows.intersection(allowed);
        }
        self.statements.extend(stated);
    }

    /// Returns the statements of robots.txt about use in one dialect, and keeps the licences and embargoes that it names.
    fn robots_txt_statements(
        &mut self,
        query: PreferenceQuery<'_>,
        robots: &RobotsTxt,
    ) -> Vec<PreferenceStatement> {
        let mut statements = Vec::new();
        if let Some(lines) = UsageLines::for_crawler(robots, query, &mut self.matcher) {
            statements = lines.statements(query, &mut self.matcher);
            for (url, carrier) in lines.licences() {
                // A file may name thousands of licences.
                if !self.matcher.context.budget.spend_on_reading(url.len()) {
                    statements
                        .push(PreferenceStatement::too_costly(PreferenceSource::Rsl, carrier));
                    break;
                }
                self.add_licence_reference(query, &url, carrier, PreferenceStage::Before);
            }
            // Embargoes only concern archives.
            if query.declaration.purposes.contains(Purpose::Archive) {
                for period in lines.embargoes() {
                    // Any other value is unsupported, and its line is ignored (draft-nottingham-archive-embargo).
                    let known =
                        EMBARGOES.into_iter().find(|embargo| embargo.eq_ignore_ascii_case(&period));
                    if let Some(known) = known
                        && !self.embargoes.contains(&known)
                    {
                        self.embargoes.push(known);
                    }
                }
            }
        }
        // Rules for such a token are ordinary rules, so a file without lines about use may have them.
        if query.reads_source(PreferenceSource::PolicyToken) {
            statements.extend(policy_token_statements(robots, query, &mut self.matcher));
        }
        statements
    }

    /// Adds `/.well-known/tdmrep.json`. A missing file states nothing: its "origin server does not implement this
    /// protocol" (TDMRep, section on the file).
    pub fn add_tdmrep(&mut self, query: PreferenceQuery<'_>, file: &TdmrepFile) {
        if query.reads_source(PreferenceSource::Tdmrep) {
            self.statements.extend(file.statements_about(&mut self.matcher));
        }
    }

    /// Returns the URLs of the licences that were named so far and are still to be fetched, each once. Few are
    /// returned, however many are named.
    #[must_use]
    pub fn missing_licences(&self) -> Vec<String> {
        self.licences.missing()
    }

    /// Adds a licence that was named. A licence that is never added counts as unavailable.
    pub fn add_licence(&mut self, url: &str, document: &Arc<RslLicence>) {
        if self.licences.is_missing(url) {
            let covered = document.covered_content(self.origin().as_ref(), &mut self.matcher);
            self.licences.add_document(url, document, covered);
        }
    }

    /// Adds a licence embedded in the page.
    pub(super) fn add_licence_in_page(&mut self, document: &str) {
        let document = RslLicence::parse(document.as_bytes());
        let covered = document.covered_content(self.origin().as_ref(), &mut self.matcher);
        self.licences.add_in_page(&self.url, document, covered);
    }

    /// Records why a named licence is unavailable.
    pub fn set_licence_unavailable(&mut self, url: &str, why_not: &str) {
        self.licences.set_unavailable(url, why_not);
    }

    /// Adds a licence that is named at a stage, without the other statements of the document that names it.
    pub fn add_named_licence(
        &mut self,
        query: PreferenceQuery<'_>,
        url: &str,
        document: &Arc<RslLicence>,
        stage: PreferenceStage,
    ) {
        let carrier = match stage {
            PreferenceStage::Before => StatementCarrier::RobotsTxt { line: 0 },
            PreferenceStage::Head => StatementCarrier::Field,
            PreferenceStage::Body => StatementCarrier::Meta,
        };
        self.add_licence_reference(query, url, carrier, stage);
        self.add_licence(url, document);
    }

    /// Combines the statements.
    #[must_use]
    pub fn judge(&self, query: PreferenceQuery<'_>) -> PreferenceJudgement {
        let mut statements = Vec::new();
        // Hardly any site states anything, so the copies are rarely made.
        if !self.is_empty() {
            statements.extend_from_slice(&self.statements);
            tdmrep::keep_superseding(&mut statements);
            statements.extend(self.meta_statements(query));
            statements.extend(self.licences.statements(query));
        }
        PreferenceJudgement::of(&statements, query.declaration, self.latest_stage)
    }

    fn is_empty(&self) -> bool {
        self.statements.is_empty() && self.meta_rules.is_empty() && self.licences.is_empty()
    }

    /// Returns whether a purpose is refused whatever the missing licences state.
    #[must_use]
    pub fn is_already_refused(&self, query: PreferenceQuery<'_>) -> bool {
        let mut known = self.clone();
        // A missing licence refuses by itself, which must be left out here.
        known.licences.drop_missing();
        let judgement = known.judge(query);
        // A refusal for lack of a statement may still be lifted by a licence.
        judgement.preference == Preference::Refuse && judgement.statement().is_some()
    }

    /// Returns the duties that only the user of the page can fulfil.
    #[must_use]
    pub fn duties(&self, query: PreferenceQuery<'_>) -> Vec<UsageDuty> {
        let reader = self.meta_reader(query);
        let mut rules: Vec<_> = self.meta_rules.iter().map(|known| &known.rule).collect();
        rules.sort_by_key(|rule| robots_meta::strictness(rule));
        let of_rules = rules.into_iter().filter_map(|rule| robots_meta::usage_duty(rule, reader));
        let is_archive = query.declaration.purposes.contains(Purpose::Archive);
        let embargo = (is_archive && !self.embargoes.is_empty())
            .then(|| ("embargo", Some(self.embargoes.join("|"))));
        let attribution = self.licences.require_attribution(query).then_some(("attribution", None));
        let mut duties: Vec<UsageDuty> = Vec::new();
        for (name, value) in attribution.into_iter().chain(of_rules).chain(embargo) {
            // Rules are sorted by strictness, so of several limits the strictest comes first.
            if !duties.iter().any(|duty| duty.name == name) {
                duties.push(UsageDuty { name, value });
            }
        }
        duties
    }

    /// Adds a reference to a licence.
    pub(super) fn add_licence_reference(
        &mut self,
        query: PreferenceQuery<'_>,
        reference: &str,
        carrier: StatementCarrier,
        stage: PreferenceStage,
    ) {
        if query.reads_source(PreferenceSource::Rsl) {
            let url = link::resolve_reference(reference, &self.url);
            self.licences.add_reference(url, carrier, stage);
        }
    }

    /// Returns the origin of the URL, if it has one.
    fn origin(&self) -> Option<Origin> {
        let target = Target::parse(&self.url).ok()?;
        Some(target.origin().clone())
    }

    fn meta_reader(&self, query: PreferenceQuery<'_>) -> MetaReader {
        MetaReader { is_image: self.content_type.starts_with("image/"), now: query.now }
    }

    fn meta_statements(&self, query: PreferenceQuery<'_>) -> Vec<PreferenceStatement> {
        let reader = self.meta_reader(query);
        let mut statements = Vec::new();
        for CollectedMetaRule { rule, carrier, stage, text } in &self.meta_rules {
            if let Some(meaning) = robots_meta::refuses(rule, reader) {
                let source = PreferenceSource::RobotsMeta;
                let carrier = carrier.clone();
                let statement = PreferenceStatement::new(source, carrier, text.clone(), meaning);
                statements.push(PreferenceStatement { stage: *stage, ..statement });
            }
        }
        statements
    }
}
