//! The licences that robots.txt, an answer's fields and its page name, and what they say.

use std::sync::Arc;

use super::path_rule::Paths;
use super::rsl::{self, Page, Says};
use super::{Asker, Carrier, Purpose, Purposes, Rsl, Source, Stage, Statement};
use crate::Origin;

/// No site needs more licences for one request. Those beyond cannot be had, which refuses: whoever names hundreds has them
/// fetched from anybody.
const MOST_LICENCES: usize = 8;

/// The licences that are named for one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Licences(Vec<Licence>);

/// A licence that something names.
#[derive(Clone, Debug)]
struct Licence {
    url: String,
    carrier: Carrier,
    stage: Stage,
    document: Had,
}

/// What a licence says, if it is known.
#[derive(Clone, Debug)]
enum Had {
    Document(Arc<Rsl>),
    /// Nobody tried.
    Missing,
    /// It cannot be had.
    Not {
        because: String,
    },
}

/// Of what a licence is asked.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    /// Nothing if the URL has none.
    pub(super) origin: Option<Origin>,
    pub(super) paths: &'a Paths,
}

impl Licences {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that are still to be fetched, each once. There are few, however many are named.
    pub(super) fn missing(&self) -> Vec<String> {
        let mut missing: Vec<String> = Vec::new();
        for licence in self.0.iter().filter(|it| it.is_missing()) {
            if !missing.contains(&licence.url) {
                missing.push(licence.url.clone());
            }
        }
        missing
    }

    /// Leaves out those that are still to be fetched.
    pub(super) fn drop_missing(&mut self) {
        self.0.retain(|it| !it.is_missing());
    }

    /// Takes in one that was named.
    pub(super) fn hear(&mut self, url: &str, document: &Arc<Rsl>) {
        self.settle(url, &Had::Document(Arc::clone(document)));
    }

    /// Takes in why one that was named cannot be had.
    pub(super) fn miss(&mut self, url: &str, why_not: &str) {
        let because = why_not.to_owned();
        self.settle(url, &Had::Not { because });
    }

    fn settle(&mut self, url: &str, document: &Had) {
        let named = self.0.iter_mut().filter(|it| it.url == url);
        for licence in named.filter(|it| it.is_missing()) {
            licence.document = document.clone();
        }
    }

    /// Adds one that is named at a stage, which is still to be fetched unless it was already.
    pub(super) fn name(&mut self, url: String, carrier: Carrier, stage: Stage) {
        let mut named = self.0.iter();
        if named.any(|it| it.url == url && it.stage == stage) {
            return;
        }
        let known = self.0.iter().find(|it| it.url == url);
        let document = known.map_or(Had::Missing, |it| it.document.clone());
        self.add(Licence {
            url,
            carrier,
            stage,
            document,
        });
    }

    /// Adds one that stands in the page of this URL itself.
    pub(super) fn hear_in_page(&mut self, page: &str, document: &str) {
        let document = Rsl::parse(document.as_bytes());
        self.add(Licence {
            url: page.to_owned(),
            carrier: Carrier::Meta,
            stage: Stage::Body,
            document: Had::Document(Arc::new(document)),
        });
    }

    /// One licence too many is kept to say so, and no more.
    fn add(&mut self, licence: Licence) {
        let because = || format!("no more than {MOST_LICENCES} licences are read");
        let document = match self.0.len() {
            ..MOST_LICENCES => licence.document,
            MOST_LICENCES => Had::Not { because: because() },
            _ => return,
        };
        self.0.push(Licence {
            document,
            ..licence
        });
    }

    /// Whether any licence allows for attribution only.
    pub(super) fn ask_attribution(&self, asker: Asker<'_>, asked: &Asked<'_>) -> bool {
        let purposes = asker.declaration.purposes;
        let asks = |licence: &Licence, purpose| {
            let says = licence.says(asker, asked, purpose);
            matches!(
                says,
                Says::Allows {
                    attribution: true,
                    ..
                }
            )
        };
        let mut licences = self.0.iter();
        licences.any(|licence| purposes.iter().any(|purpose| asks(licence, purpose)))
    }

    /// What each says to each purpose; those that nobody tried to fetch come last, as they only refuse by that.
    pub(super) fn statements(&self, asker: Asker<'_>, asked: &Asked<'_>) -> Vec<Statement> {
        let purposes = asker.declaration.purposes;
        let missing = self.0.iter().filter(|it| it.is_missing());
        let tried = self.0.iter().filter(|it| !it.is_missing());
        let each = tried.chain(missing).flat_map(|licence| {
            let to = move |purpose| licence.statement(asker, asked, purpose);
            purposes.iter().filter_map(to)
        });
        each.collect()
    }
}

impl Licence {
    /// Whether it is still to be fetched.
    fn is_missing(&self) -> bool {
        matches!(self.document, Had::Missing)
    }

    fn document(&self) -> Option<&Rsl> {
        match &self.document {
            Had::Document(document) => Some(document),
            Had::Missing | Had::Not { .. } => None,
        }
    }

    fn text(&self) -> String {
        match &self.document {
            Had::Not { because } => format!("License: {} ({because})", self.url),
            Had::Document(_) | Had::Missing => format!("License: {}", self.url),
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

    fn statement(
        &self,
        asker: Asker<'_>,
        asked: &Asked<'_>,
        purpose: Purpose,
    ) -> Option<Statement> {
        let of_purpose = Purposes::of(&[purpose]);
        let (refuses, allows, clause) = match self.says(asker, asked, purpose) {
            Says::Refuses { clause } => (of_purpose, Purposes::NONE, clause),
            Says::Allows { clause, .. } => (Purposes::NONE, of_purpose, clause),
            Says::Nothing => return None,
        };
        Some(Statement {
            source: Source::Rsl,
            carrier: self.decides_at(),
            text: self.text(),
            clause,
            policy: Some(self.url.clone()),
            stage: self.stage,
            refuses,
            allows,
        })
    }

    /// What it says to a purpose about any of the spellings of the path.
    fn says(&self, asker: Asker<'_>, asked: &Asked<'_>, purpose: Purpose) -> Says {
        let said = asked.paths.each(|path| {
            let page = Page {
                origin: asked.origin.as_ref(),
                path,
                names_it: self.stage != Stage::Before,
            };
            vec![rsl::read(self.document(), page, purpose, asker)]
        });
        let refuses = |says: &Says| matches!(says, Says::Refuses { .. });
        let refusing = said.iter().find(|(says, _)| refuses(says));
        let deciding = refusing.or(said.first());
        deciding.map_or(Says::Nothing, |(says, _)| *says)
    }
}
