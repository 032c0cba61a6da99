//! Gathering: what is said about one request, in the order in which it becomes known.

use std::sync::Arc;

use super::path_rule::Paths;
use super::robots_meta::{MetaReader, MetaRule};
use super::robots_txt::{Lines, ai_txt, only_restricting, policy_tokens};
use super::rsl::{Page, Says};
use super::{
    Asker, Carrier, Judgement, MetaDialect, Preference, Purpose, Purposes, Rsl, Source, Stage,
    Statement, Tdmrep, link, robots_meta, rsl, tdmrep,
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

/// A licence that something names.
#[derive(Clone, Debug)]
pub(super) struct Licence {
    url: String,
    carrier: Carrier,
    stage: Stage,
    /// What it says, once it is had; one in the page at once.
    pub(super) document: Option<Arc<Rsl>>,
    /// Why it cannot be had, if somebody tried.
    why_not: Option<String>,
}

impl Licence {
    fn text(&self) -> String {
        match (&self.document, &self.why_not) {
            (None, Some(why_not)) => format!("License: {} ({why_not})", self.url),
            _ => format!("License: {}", self.url),
        }
    }

    /// Where what it says stands: what robots.txt names is a file of its own.
    fn decides_at(&self) -> Carrier {
        match self.stage {
            Stage::Before => Carrier::File {
                url: self.url.clone(),
            },
            Stage::Head | Stage::Body => self.carrier.clone(),
        }
    }
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
    url: String,
    origin: Option<String>,
    paths: Paths,
    pub(super) statements: Vec<Statement>,
    pub(super) licences: Vec<Licence>,
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
        let origin = Target::parse(url)
            .ok()
            .map(|target| target.origin().to_string());
        Self {
            url: url.to_owned(),
            origin,
            paths,
            statements: Vec::new(),
            licences: Vec::new(),
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
        let lines = Lines::of(robots, asker);
        self.statements.extend(lines.statements(asker, &self.paths));
        if asker.reads(Source::PolicyToken) {
            self.statements
                .extend(policy_tokens(robots, asker, &self.paths));
        }
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

    /// The licences that were named so far and are still to be fetched, each once.
    pub fn missing_licences(&self) -> Vec<String> {
        let mut missing: Vec<String> = Vec::new();
        for licence in self.licences.iter().filter(|it| it.document.is_none()) {
            if !missing.contains(&licence.url) {
                missing.push(licence.url.clone());
            }
        }
        missing
    }

    /// Takes in a licence that was named. One never taken in counts as one that cannot be had.
    pub fn hear_licence(&mut self, url: &str, document: &Arc<Rsl>) {
        for licence in self.licences.iter_mut().filter(|it| it.url == url) {
            licence.document = Some(Arc::clone(document));
        }
    }

    /// Takes in a licence that robots.txt names, whatever else that says.
    pub fn hear_named_licence(&mut self, asker: Asker<'_>, url: &str, document: &Arc<Rsl>) {
        let carrier = Carrier::File {
            url: url.to_owned(),
        };
        self.name_licence(asker, url, carrier, Stage::Before);
        self.hear_licence(url, document);
    }

    /// Takes in why a licence that was named cannot be had, for explanations.
    pub fn miss_licence(&mut self, url: &str, why_not: &str) {
        for licence in self.licences.iter_mut().filter(|it| it.url == url) {
            licence.why_not = Some(why_not.to_owned());
        }
    }

    /// What all that comes to.
    #[must_use]
    pub fn judge(&self, asker: Asker<'_>) -> Judgement {
        let mut statements = self.statements.clone();
        tdmrep::supersede(&mut statements);
        statements.extend(self.meta_statements(asker));
        statements.extend(self.licence_statements(asker));
        Judgement::of(&statements, asker.declaration, self.heard)
    }

    /// Whether a purpose is refused whatever the licences say that are still to be fetched.
    #[must_use]
    pub fn is_refused_already(&self, asker: Asker<'_>) -> bool {
        let mut had = self.clone();
        had.licences.retain(|it| it.document.is_some());
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
        let asks = |licence| {
            purposes
                .iter()
                .any(|it| asks_attribution(self.says(asker, licence, it)))
        };
        let attribution = self
            .licences
            .iter()
            .any(asks)
            .then_some(("attribution", None));
        let mut duties: Vec<Duty> = Vec::new();
        for (name, value) in attribution.into_iter().chain(labels).chain(embargo) {
            // Of limits of one name the strictest comes first.
            if !duties.iter().any(|it| it.name == name) {
                duties.push(Duty { name, value });
            }
        }
        duties
    }

    pub(super) fn name_licence(
        &mut self,
        asker: Asker<'_>,
        reference: &str,
        carrier: Carrier,
        stage: Stage,
    ) {
        if asker.reads(Source::Rsl) {
            self.licences.push(Licence {
                url: link::absolute(reference, &self.url),
                carrier,
                stage,
                document: None,
                why_not: None,
            });
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

    fn licence_statements(&self, asker: Asker<'_>) -> Vec<Statement> {
        let purposes = asker.declaration.purposes;
        let each = self.licences.iter().flat_map(|licence| {
            purposes.iter().filter_map(move |purpose| {
                let of_purpose = Purposes::of(&[purpose]);
                let (refuses, allows, clause) = match self.says(asker, licence, purpose) {
                    Says::Refuses { clause } => (of_purpose, Purposes::NONE, clause),
                    Says::Allows { clause, .. } => (Purposes::NONE, of_purpose, clause),
                    Says::Nothing => return None,
                };
                Some(Statement {
                    source: Source::Rsl,
                    carrier: licence.decides_at(),
                    text: licence.text(),
                    clause,
                    policy: Some(licence.url.clone()),
                    stage: licence.stage,
                    refuses,
                    allows,
                })
            })
        });
        each.collect()
    }

    /// What a licence says to a purpose about any of the spellings of the path.
    fn says(&self, asker: Asker<'_>, licence: &Licence, purpose: Purpose) -> Says {
        let said = self.paths.each(|path| {
            let page = Page {
                origin: self.origin.as_deref(),
                path,
                names_it: licence.stage != Stage::Before,
            };
            vec![rsl::read(licence.document.as_deref(), page, purpose, asker)]
        });
        let mut refusing = said
            .iter()
            .filter(|(says, _)| matches!(says, Says::Refuses { .. }));
        refusing
            .next()
            .or(said.first())
            .map_or(Says::Nothing, |(says, _)| *says)
    }
}

fn asks_attribution(says: Says) -> bool {
    matches!(
        says,
        Says::Allows {
            attribution: true,
            ..
        }
    )
}
