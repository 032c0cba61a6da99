//! Gathering: what is said about one request, in the order in which it becomes known.

use std::sync::Arc;

use super::licences::{Asked, Licences};
use super::path_rule::Paths;
use super::robots_meta::{MetaReader, MetaRule};
use super::robots_txt::{Lines, ai_txt, only_restricting, policy_tokens};
use super::{
    Asker, Carrier, Judgement, MetaDialect, Preference, Purpose, Purposes, Rsl, Source, Stage,
    Statement, Tdmrep, link, robots_meta, tdmrep,
};
use crate::robots_txt::RobotsTxt;
use crate::{Decision, Target, Verdict};

/// What only those can keep who use a page: a name and, for some, a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duty {
    /// `attribution`, `nofollow`, `max-snippet`, …
    pub name: &'static str,
    /// The value as written.
    pub value: Option<String>,
}

/// A robots meta rule that is for the crawler, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct HeardRule {
    pub(super) rule: MetaRule,
    pub(super) carrier: Carrier,
    pub(super) stage: Stage,
    /// The line or element as written.
    pub(super) text: String,
}

/// All that is said about one request for a crawler's purposes, as far as it is known.
#[derive(Clone, Debug)]
pub struct Preferences {
    /// What references in answers start from.
    pub(super) url: String,
    paths: Paths,
    pub(super) statements: Vec<Statement>,
    pub(super) licences: Licences,
    pub(super) meta_rules: Vec<HeardRule>,
    embargoes: Vec<String>,
    /// The essence of the answer's `Content-Type`, in lower case; empty if that is not known.
    pub(super) content_type: String,
    pub(super) heard: Stage,
}

impl Preferences {
    /// Begins with nothing said. `path` is the path and query that robots.txt is asked about, `url` what references in answers
    /// start from.
    #[must_use]
    pub fn new(asker: Asker<'_>, url: &str, path: &str) -> Self {
        Self::about(url, Paths::new(path, asker.strict))
    }

    /// Begins with nothing said about any path of an origin, for who will not see which are asked for: what refuses one path
    /// refuses all.
    #[must_use]
    pub fn for_every_path(url: &str) -> Self {
        Self::about(url, Paths::every())
    }

    fn about(url: &str, paths: Paths) -> Self {
        Self {
            url: url.to_owned(),
            paths,
            statements: Vec::new(),
            licences: Licences::default(),
            meta_rules: Vec::new(),
            embargoes: Vec::new(),
            content_type: String::new(),
            heard: Stage::Before,
        }
    }

    /// Takes in a rule of one's own organisation, which ends the question.
    pub fn hear_rule(&mut self, allows: bool) {
        let (refuses, allows) = match allows {
            true => (Purposes::NONE, Purposes::ALL),
            false => (Purposes::ALL, Purposes::NONE),
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

    /// Takes in whether the request may be made at all: what is disallowed is so for every purpose.
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

    /// Takes in what robots.txt says about use.
    pub fn hear_robots_txt(&mut self, asker: Asker<'_>, robots: &RobotsTxt) {
        if let Some(lines) = Lines::of(robots, asker) {
            self.hear_lines(asker, &lines);
        }
        if asker.reads(Source::PolicyToken) {
            self.statements
                .extend(policy_tokens(robots, asker, &self.paths));
        }
    }

    fn hear_lines(&mut self, asker: Asker<'_>, lines: &Lines) {
        self.statements.extend(lines.statements(asker, &self.paths));
        for (url, carrier) in lines.licences() {
            self.name_licence(asker, url, carrier, Stage::Before);
        }
        self.embargoes.extend(lines.embargoes().map(str::to_owned));
    }

    /// Takes in `/.well-known/tdmrep.json`. One that cannot be had says nothing: its "origin server does not implement this
    /// protocol" (TDMRep, section on the file).
    pub fn hear_tdmrep(&mut self, asker: Asker<'_>, file: &Tdmrep) {
        if asker.reads(Source::Tdmrep) {
            let said = self.paths.each(|path| file.about(path));
            let said = said
                .into_iter()
                .map(|(it, only_restricts)| only_restricting(it, only_restricts));
            self.statements
                .extend(said.filter(|it| it.refuses != it.allows));
        }
    }

    /// Takes in `/ai.txt`.
    pub fn hear_ai_txt(&mut self, asker: Asker<'_>, file: &RobotsTxt) {
        if asker.reads(Source::AiTxt) {
            self.statements.extend(ai_txt(file, asker, &self.paths));
        }
    }

    /// The licences that were named so far and are still to be fetched, each once. There are few, however many are named.
    #[must_use]
    pub fn missing_licences(&self) -> Vec<String> {
        self.licences.missing()
    }

    /// Takes in a licence that was named. One never taken in counts as one that cannot be had.
    pub fn hear_licence(&mut self, url: &str, document: &Arc<Rsl>) {
        self.licences.hear(url, document);
    }

    /// Takes in why a licence that was named cannot be had.
    pub fn miss_licence(&mut self, url: &str, why_not: &str) {
        self.licences.miss(url, why_not);
    }

    /// Takes in a licence that something names at a stage, whatever else that says.
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

    /// What all that comes to.
    #[must_use]
    pub fn judge(&self, asker: Asker<'_>) -> Judgement {
        let mut statements = Vec::new();
        // Hardly any site says anything.
        if !self.says_nothing() {
            statements.extend_from_slice(&self.statements);
            tdmrep::supersede(&mut statements);
            statements.extend(self.meta_statements(asker));
            statements.extend(self.licences.statements(asker, &self.asked()));
        }
        Judgement::of(&statements, asker.declaration, self.heard)
    }

    fn says_nothing(&self) -> bool {
        self.statements.is_empty() && self.meta_rules.is_empty() && self.licences.is_empty()
    }

    /// Whether a purpose is refused whatever the licences say that are still to be fetched.
    #[must_use]
    pub fn is_refused_already(&self, asker: Asker<'_>) -> bool {
        let mut had = self.clone();
        had.licences.drop_missing();
        let judgement = had.judge(asker);
        judgement.preference == Preference::Refuse && judgement.statement().is_some()
    }

    /// What only those can keep who use the page.
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
        let attribution = self.licences.ask_attribution(asker, &self.asked());
        let attribution = attribution.then_some(("attribution", None));
        let mut duties: Vec<Duty> = Vec::new();
        for (name, value) in attribution.into_iter().chain(labels).chain(embargo) {
            // Of limits of one name the strictest comes first.
            if !duties.iter().any(|it| it.name == name) {
                duties.push(Duty { name, value });
            }
        }
        duties
    }

    /// Takes in a reference to a licence.
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

    /// Only licences ask for the origin, and hardly any site names one.
    fn asked(&self) -> Asked<'_> {
        let parse = || Target::parse(&self.url).ok();
        let target = (!self.licences.is_empty()).then(parse).flatten();
        Asked {
            origin: target.map(|target| target.origin().clone()),
            paths: &self.paths,
        }
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
        // To Bing both together are the milder one.
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
