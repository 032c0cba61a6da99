//! The state of a request's preferences, collected in the order in which they become known.

use std::sync::Arc;

use super::licences::Licences;
use super::robots_meta::{MetaReader, MetaRule};
use super::robots_txt::{Lines, ai_txt, policy_tokens};
use super::{
    Asker, Carrier, Judgement, MetaDialect, Preference, Purpose, Purposes, Rsl, Source, Stage,
    Statement, Tdmrep, link, robots_meta, tdmrep,
};
use crate::robots_txt::{PathMatcher, RobotsTxt, Work};
use crate::{AccessResult, Decision, Dialect, Origin, Target, Verdict};

/// The periods that `Archive-Embargo` can name: a week, a month, a quarter.
const EMBARGOES: [&str; 3] = ["w", "m", "q"];

/// A duty that only the user of a page can fulfil: a name and, for some, a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duty {
    /// `attribution`, `nofollow`, `max-snippet`, …
    pub name: &'static str,
    /// The value as written.
    pub value: Option<String>,
}

/// A robots meta rule that applies to the crawler, with its location.
#[derive(Clone, Debug)]
pub(super) struct HeardRule {
    pub(super) rule: MetaRule,
    pub(super) carrier: Carrier,
    pub(super) stage: Stage,
    /// The line or element as written.
    pub(super) text: String,
}

/// Everything known to be stated about one request for a crawler's purposes.
#[derive(Clone, Debug)]
pub struct Preferences {
    /// The base URL of references in the response.
    pub(super) url: String,
    path: PathMatcher,
    pub(super) statements: Vec<Statement>,
    pub(super) licences: Licences,
    pub(super) meta_rules: Vec<HeardRule>,
    embargoes: Vec<&'static str>,
    /// The essence of the response's `Content-Type`, in lower case; empty if unknown.
    pub(super) content_type: String,
    pub(super) heard: Stage,
}

impl Preferences {
    /// Creates an empty state. `path` is the path and query that robots.txt judges, `url` the base of references in the
    /// response.
    #[must_use]
    pub fn new(asker: Asker<'_>, url: &str, path: &str) -> Self {
        Self::about(url, PathMatcher::new(path, asker.dialect, asker.strict))
    }

    /// Continues with the matching context of earlier decisions about the request.
    #[must_use]
    pub fn after(mut self, work: Work) -> Self {
        self.path.work = work;
        self
    }

    /// Returns the matching context of the request.
    pub fn work(&mut self) -> &mut Work {
        &mut self.path.work
    }

    /// Creates an empty state about every path of an origin, for callers that cannot see the paths: a refusal of one
    /// path refuses all.
    #[must_use]
    pub fn for_every_path(url: &str) -> Self {
        Self::about(url, PathMatcher::every_path())
    }

    fn about(url: &str, path: PathMatcher) -> Self {
        Self {
            url: url.to_owned(),
            path,
            statements: Vec::new(),
            licences: Licences::default(),
            meta_rules: Vec::new(),
            embargoes: Vec::new(),
            content_type: String::new(),
            heard: Stage::Before,
        }
    }

    /// Adds a rule of the operator's own organisation, which overrides all statements.
    pub fn hear_rule(&mut self, allows: bool) {
        let (refuses, allows) = if allows {
            (Purposes::NONE, Purposes::ALL)
        } else {
            (Purposes::ALL, Purposes::NONE)
        };
        self.statements.push(Statement {
            source: Source::Rule,
            carrier: Carrier::Configuration,
            text: String::new(),
            clause: "rule of one's own",
            policy: None,
            stage: Stage::Before,
            refuses,
            allows,
        });
    }

    /// Adds the decision about access: a disallow refuses every purpose.
    pub fn hear_access(&mut self, decision: &Decision<'_>) {
        if decision.verdict() == Verdict::Disallow {
            self.statements.push(Statement {
                source: Source::Disallow,
                carrier: Carrier::RobotsTxt {
                    line: decision.line().unwrap_or(0),
                },
                text: decision
                    .rule()
                    .unwrap_or_else(|| decision.reason().to_string()),
                clause: "RFC 9309 §2.2.2",
                policy: None,
                stage: Stage::Before,
                refuses: Purposes::ALL,
                allows: Purposes::NONE,
            });
        }
    }

    /// Adds a refusal because deciding whether a document may be fetched takes too long.
    pub fn hear_too_costly(&mut self, source: Source, url: &str) {
        let url = url.to_owned();
        let statement = Statement::too_costly(source, Carrier::File { url });
        self.statements.push(statement);
    }

    /// Adds the statements of robots.txt about use, given the outcome of fetching it.
    pub fn hear_access_result(&mut self, asker: Asker<'_>, access: &AccessResult) {
        self.hear_in_each_dialect(asker, |dialect| access.rules(dialect));
    }

    /// Adds the statements of robots.txt about use.
    pub fn hear_robots_txt(&mut self, asker: Asker<'_>, robots: &RobotsTxt) {
        self.hear_in_each_dialect(asker, |_| Some(robots));
    }

    /// Adds the statements in each dialect. In the strictest dialect a refusal in any of the four refuses, and a
    /// permission needs all four.
    fn hear_in_each_dialect<'a>(
        &mut self,
        asker: Asker<'_>,
        robots: impl Fn(Dialect) -> Option<&'a RobotsTxt>,
    ) {
        let (mut said, mut last) = (Vec::new(), Vec::new());
        let mut allowed = Purposes::ALL;
        for dialect in asker.dialect.each() {
            let asker = Asker {
                dialect: *dialect,
                ..asker
            };
            let statements = robots(*dialect).map(|robots| self.heard_from(asker, robots));
            let statements = statements.unwrap_or_default();
            let allows = statements.iter().map(|it| it.allows);
            allowed = allowed.intersection(allows.fold(Purposes::NONE, Purposes::union));
            // Mostly the dialects agree.
            if statements != last {
                said.extend_from_slice(&statements);
                last = statements;
            }
        }
        self.statements.extend(said.into_iter().map(|it| Statement {
            allows: it.allows.intersection(allowed),
            ..it
        }));
    }

    /// Returns the statements of robots.txt about use in one dialect.
    fn heard_from(&mut self, asker: Asker<'_>, robots: &RobotsTxt) -> Vec<Statement> {
        let mut statements = Vec::new();
        if let Some(lines) = Lines::of(robots, asker, &mut self.path) {
            statements = lines.statements(asker, &mut self.path);
            for (url, carrier) in lines.licences() {
                // A file may name thousands of licences.
                if !self.path.work.budget.spend_on_reading(url.len()) {
                    statements.push(Statement::too_costly(Source::Rsl, carrier));
                    break;
                }
                self.name_licence(asker, &url, carrier, Stage::Before);
            }
            // Embargoes only concern archives.
            if asker.declaration.purposes.contains(Purpose::Archive) {
                for period in lines.embargoes() {
                    // Any other value is unsupported, and its line is ignored (draft-nottingham-archive-embargo).
                    let known = EMBARGOES.iter().find(|it| it.eq_ignore_ascii_case(&period));
                    let new = known.filter(|it| !self.embargoes.contains(it));
                    self.embargoes.extend(new);
                }
            }
        }
        // Rules for such a token are ordinary rules, so a file without lines about use may have them.
        if asker.reads(Source::PolicyToken) {
            statements.extend(policy_tokens(robots, asker, &mut self.path));
        }
        statements
    }

    /// Adds `/.well-known/tdmrep.json`. A missing file states nothing: its "origin server does not implement this
    /// protocol" (TDMRep, section on the file).
    pub fn hear_tdmrep(&mut self, asker: Asker<'_>, file: &Tdmrep) {
        if asker.reads(Source::Tdmrep) {
            self.statements.extend(file.about(&mut self.path));
        }
    }

    /// Adds `/ai.txt`.
    pub fn hear_ai_txt(&mut self, asker: Asker<'_>, file: &RobotsTxt) {
        if asker.reads(Source::AiTxt) {
            self.statements.extend(ai_txt(file, asker, &mut self.path));
        }
    }

    /// Returns the URLs of the licences that were named so far and are still to be fetched, each once. There are few,
    /// however many are named.
    #[must_use]
    pub fn missing_licences(&self) -> Vec<String> {
        self.licences.missing()
    }

    /// Adds a licence that was named. A licence that is never added counts as unavailable.
    pub fn hear_licence(&mut self, url: &str, document: &Arc<Rsl>) {
        if self.licences.is_missing(url) {
            let covered = document.covered(self.origin().as_ref(), &mut self.path);
            self.licences.hear(url, document, covered);
        }
    }

    /// Adds a licence embedded in the page.
    pub(super) fn hear_licence_in_page(&mut self, document: &str) {
        let document = Rsl::parse(document.as_bytes());
        let covered = document.covered(self.origin().as_ref(), &mut self.path);
        self.licences.hear_in_page(&self.url, document, covered);
    }

    /// Records why a named licence is unavailable.
    pub fn miss_licence(&mut self, url: &str, why_not: &str) {
        self.licences.miss(url, why_not);
    }

    /// Adds a licence that is named at a stage, without the other statements of what names it.
    pub fn hear_named_licence(
        &mut self,
        asker: Asker<'_>,
        url: &str,
        document: &Arc<Rsl>,
        stage: Stage,
    ) {
        let carrier = match stage {
            Stage::Before => Carrier::RobotsTxt { line: 0 },
            Stage::Head => Carrier::Field,
            Stage::Body => Carrier::Meta,
        };
        self.name_licence(asker, url, carrier, stage);
        self.hear_licence(url, document);
    }

    /// Combines the statements.
    #[must_use]
    pub fn judge(&self, asker: Asker<'_>) -> Judgement {
        let mut statements = Vec::new();
        // Hardly any site states anything, so the copies are rarely made.
        if !self.says_nothing() {
            statements.extend_from_slice(&self.statements);
            tdmrep::supersede(&mut statements);
            statements.extend(self.meta_statements(asker));
            statements.extend(self.licences.statements(asker));
        }
        Judgement::of(&statements, asker.declaration, self.heard)
    }

    fn says_nothing(&self) -> bool {
        self.statements.is_empty() && self.meta_rules.is_empty() && self.licences.is_empty()
    }

    /// Returns whether a purpose is refused whatever the missing licences state.
    #[must_use]
    pub fn is_refused_already(&self, asker: Asker<'_>) -> bool {
        let mut had = self.clone();
        // A missing licence refuses by itself, which must not count here.
        had.licences.drop_missing();
        let judgement = had.judge(asker);
        judgement.preference == Preference::Refuse && judgement.statement().is_some()
    }

    /// Returns the duties that only the user of the page can fulfil.
    #[must_use]
    pub fn duties(&self, asker: Asker<'_>) -> Vec<Duty> {
        let reader = self.meta_reader(asker);
        let mut rules: Vec<_> = self.meta_rules.iter().map(|it| &it.rule).collect();
        rules.sort_by_key(|rule| robots_meta::rank(rule));
        let labels = rules
            .into_iter()
            .filter_map(|rule| robots_meta::duty(rule, reader));
        let purposes = asker.declaration.purposes;
        let archives = purposes.contains(Purpose::Archive);
        let embargo = self.embargoes.join("|");
        let embargo = (archives && !embargo.is_empty()).then_some(("embargo", Some(embargo)));
        let attribution = self.licences.ask_attribution(asker);
        let attribution = attribution.then_some(("attribution", None));
        let mut duties: Vec<Duty> = Vec::new();
        for (name, value) in attribution.into_iter().chain(labels).chain(embargo) {
            // Rules are sorted by strictness, so of several limits the strictest comes first.
            if !duties.iter().any(|it| it.name == name) {
                duties.push(Duty { name, value });
            }
        }
        duties
    }

    /// Adds a reference to a licence.
    pub(super) fn name_licence(
        &mut self,
        asker: Asker<'_>,
        reference: &str,
        carrier: Carrier,
        stage: Stage,
    ) {
        if asker.reads(Source::Rsl) {
            let url = link::absolute(reference, &self.url);
            self.licences.name(url, carrier, stage);
        }
    }

    /// Returns the origin of the URL, if it has one.
    fn origin(&self) -> Option<Origin> {
        let target = Target::parse(&self.url).ok()?;
        Some(target.origin().clone())
    }

    fn meta_reader(&self, asker: Asker<'_>) -> MetaReader {
        MetaReader {
            dialect: asker.reading.robots_meta,
            is_image: self.content_type.starts_with("image/"),
            now: asker.now,
        }
    }

    fn meta_statements(&self, asker: Asker<'_>) -> Vec<Statement> {
        let reader = self.meta_reader(asker);
        let has_nocache = self.meta_rules.iter().any(|it| it.rule.name == "nocache");
        // Bing treats the combination like the weaker rule alone.
        let is_lifted = |heard: &HeardRule| {
            let is_noarchive = heard.rule.name == "noarchive";
            reader.dialect == MetaDialect::Bing && is_noarchive && has_nocache
        };
        let rules = self.meta_rules.iter().filter(|it| !is_lifted(it));
        let statements = rules.filter_map(|heard| {
            let (refuses, clause) = robots_meta::refuses(&heard.rule, reader)?;
            Some(Statement {
                source: Source::RobotsMeta,
                carrier: heard.carrier.clone(),
                text: heard.text.clone(),
                clause,
                policy: None,
                stage: heard.stage,
                refuses,
                allows: Purposes::NONE,
            })
        });
        statements.collect()
    }
}
