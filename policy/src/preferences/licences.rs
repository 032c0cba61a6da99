//! The licences that robots.txt, an answer's fields and its page name, and what they say.

use std::sync::Arc;

use super::gather::Preferences;
use super::rsl::{self, Page, Says};
use super::{Asker, Carrier, Purpose, Purposes, Rsl, Source, Stage, Statement, link};

/// No site needs more licences for one request. Those beyond cannot be had, which refuses: whoever names hundreds has them
/// fetched from anybody.
const MOST_LICENCES: usize = 8;

/// A licence that something names.
#[derive(Clone, Debug)]
pub(super) struct Licence {
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

impl Licence {
    /// Whether it is still to be fetched.
    pub(super) fn is_missing(&self) -> bool {
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
}

impl Preferences {
    /// The licences that were named so far and are still to be fetched, each once. There are few, however many are named.
    #[must_use]
    pub fn missing_licences(&self) -> Vec<String> {
        let mut missing: Vec<String> = Vec::new();
        for licence in self.licences.iter().filter(|it| it.is_missing()) {
            if !missing.contains(&licence.url) {
                missing.push(licence.url.clone());
            }
        }
        missing
    }

    /// Takes in a licence that was named. One never taken in counts as one that cannot be had.
    pub fn hear_licence(&mut self, url: &str, document: &Arc<Rsl>) {
        self.settle_licence(url, &Had::Document(Arc::clone(document)));
    }

    /// Takes in why a licence that was named cannot be had.
    pub fn miss_licence(&mut self, url: &str, why_not: &str) {
        let because = why_not.to_owned();
        self.settle_licence(url, &Had::Not { because });
    }

    fn settle_licence(&mut self, url: &str, document: &Had) {
        let named = self.licences.iter_mut().filter(|it| it.url == url);
        for licence in named.filter(|it| it.is_missing()) {
            licence.document = document.clone();
        }
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

    /// A reference to a licence, which is still to be fetched unless it was already.
    pub(super) fn name_licence(
        &mut self,
        asker: Asker<'_>,
        reference: &str,
        carrier: Carrier,
        stage: Stage,
    ) {
        let url = link::absolute(reference, &self.url);
        let mut named = self.licences.iter();
        if named.any(|it| it.url == url && it.stage == stage) {
            return;
        }
        let known = self.licences.iter().find(|it| it.url == url);
        let document = known.map_or(Had::Missing, |it| it.document.clone());
        self.add_licence(
            asker,
            Licence {
                url,
                carrier,
                stage,
                document,
            },
        );
    }

    /// A licence that stands in the page itself.
    pub(super) fn hear_licence_in_page(&mut self, asker: Asker<'_>, document: &str) {
        let document = Arc::new(Rsl::parse(document.as_bytes()));
        self.add_licence(
            asker,
            Licence {
                url: self.url.clone(),
                carrier: Carrier::Meta,
                stage: Stage::Body,
                document: Had::Document(document),
            },
        );
    }

    /// One licence too many is kept to say so, and no more.
    fn add_licence(&mut self, asker: Asker<'_>, licence: Licence) {
        let because = || format!("no more than {MOST_LICENCES} licences are read");
        let document = match self.licences.len() {
            ..MOST_LICENCES => licence.document,
            MOST_LICENCES => Had::Not { because: because() },
            _ => return,
        };
        if asker.reads(Source::Rsl) {
            self.licences.push(Licence {
                document,
                ..licence
            });
        }
    }

    /// Whether any licence allows for attribution only.
    pub(super) fn asks_attribution(&self, asker: Asker<'_>) -> bool {
        let purposes = asker.declaration.purposes;
        let asks = |licence, purpose| {
            let says = self.says(asker, licence, purpose);
            matches!(
                says,
                Says::Allows {
                    attribution: true,
                    ..
                }
            )
        };
        let mut licences = self.licences.iter();
        licences.any(|licence| purposes.iter().any(|purpose| asks(licence, purpose)))
    }

    /// What each licence says to each purpose; those that nobody tried to fetch come last, as they only refuse by that.
    pub(super) fn licence_statements(&self, asker: Asker<'_>) -> Vec<Statement> {
        let purposes = asker.declaration.purposes;
        let missing = self.licences.iter().filter(|it| it.is_missing());
        let tried = self.licences.iter().filter(|it| !it.is_missing());
        let each = tried.chain(missing).flat_map(|licence| {
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
            vec![rsl::read(licence.document(), page, purpose, asker)]
        });
        let refuses = |says: &Says| matches!(says, Says::Refuses { .. });
        let refusing = said.iter().find(|(says, _)| refuses(says));
        let deciding = refusing.or(said.first());
        deciding.map_or(Says::Nothing, |(says, _)| *says)
    }
}
