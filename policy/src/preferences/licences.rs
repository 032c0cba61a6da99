//! Licences named by robots.txt, the response's fields or its page, and their verdicts.

use std::sync::{Arc, OnceLock};

use super::rsl::{self, Covered, Says};
use super::statement::TOO_COSTLY;
use super::{Asker, Carrier, Purpose, Purposes, Rsl, Source, Stage, Statement};
use crate::excerpt;
use crate::robots_txt::TooCostly;

/// The most licences for one request. Any beyond that count as unavailable, which refuses: otherwise a site could make
/// crawlers fetch hundreds of documents from anybody.
const MOST_LICENCES: usize = 8;

/// The longest URL of a licence; a licence with a longer one counts as unavailable.
const MAX_URL_BYTES: usize = 2048;

/// The licences named for one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Licences(Vec<Licence>);

/// A named licence.
#[derive(Clone, Debug)]
struct Licence {
    url: String,
    carrier: Carrier,
    stage: Stage,
    document: Had,
    /// Its verdicts, computed on first use and read again at each stage.
    said: OnceLock<Said>,
}

/// The verdicts of a licence for some purposes of a class of user in a country.
#[derive(Clone, Debug)]
struct Said {
    purposes: Purposes,
    user: String,
    geo: String,
    says: Vec<(Purpose, Says)>,
}

/// The document of a licence, as far as it is known.
#[derive(Clone, Debug)]
enum Had {
    /// The document, and the part of it that covers the page.
    Document(Arc<Rsl>, Arc<Covered>),
    /// Finding the part that covers the page takes too long.
    TooCostly,
    /// The document was not fetched.
    Missing,
    /// The document cannot be fetched.
    Not { because: String },
}

impl Licences {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the URLs of the licences that are still to be fetched, each once. There are few, however many are named.
    pub(super) fn missing(&self) -> Vec<String> {
        let mut missing: Vec<String> = Vec::new();
        for licence in self.0.iter().filter(|it| it.is_missing()) {
            if !missing.contains(&licence.url) {
                missing.push(licence.url.clone());
            }
        }
        missing
    }

    /// Removes the licences that are still to be fetched.
    pub(super) fn drop_missing(&mut self) {
        self.0.retain(|it| !it.is_missing());
    }

    /// Returns whether a named licence is still to be fetched.
    pub(super) fn is_missing(&self, url: &str) -> bool {
        self.0.iter().any(|it| it.url == url && it.is_missing())
    }

    /// Adds the document of a named licence.
    pub(super) fn hear(
        &mut self,
        url: &str,
        document: &Arc<Rsl>,
        covered: Result<Covered, TooCostly>,
    ) {
        self.settle(url, &Had::document(Arc::clone(document), covered));
    }

    /// Records why a named licence is unavailable.
    pub(super) fn miss(&mut self, url: &str, why_not: &str) {
        let because = why_not.to_owned();
        self.settle(url, &Had::Not { because });
    }

    fn settle(&mut self, url: &str, document: &Had) {
        let named = self.0.iter_mut().filter(|it| it.url == url);
        for licence in named.filter(|it| it.is_missing()) {
            licence.document = document.clone();
            // Verdicts computed without the document are void.
            licence.said = OnceLock::new();
        }
    }

    /// Adds a licence named at a stage, which is still to be fetched unless its document is known.
    pub(super) fn name(&mut self, url: String, carrier: Carrier, stage: Stage) {
        // A licence named at several stages counts at each, with the same document.
        let mut named = self.0.iter();
        if named.any(|it| it.url == url && it.stage == stage) {
            return;
        }
        let known = self.0.iter().find(|it| it.url == url);
        let document = known.map_or(Had::Missing, |it| it.document.clone());
        // The URL appears in answers and logs.
        let (url, document) = match url.len() {
            ..=MAX_URL_BYTES => (url, document),
            _ => {
                let because = format!("its URL has more than {MAX_URL_BYTES} bytes");
                (excerpt(&url).into_owned(), Had::Not { because })
            }
        };
        self.add(Licence {
            url,
            carrier,
            stage,
            document,
            said: OnceLock::new(),
        });
    }

    /// Adds a licence embedded in the page with this URL.
    pub(super) fn hear_in_page(
        &mut self,
        page: &str,
        document: Rsl,
        covered: Result<Covered, TooCostly>,
    ) {
        self.add(Licence {
            url: page.to_owned(),
            carrier: Carrier::Meta,
            stage: Stage::Body,
            document: Had::document(Arc::new(document), covered),
            said: OnceLock::new(),
        });
    }

    /// Adds a licence. The first one beyond the limit is added as unavailable, later ones are ignored.
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

    /// Returns whether any licence allows a use on condition of attribution.
    pub(super) fn ask_attribution(&self, asker: Asker<'_>) -> bool {
        let asks = |(_, says): &(Purpose, Says)| {
            matches!(
                says,
                Says::Allows {
                    attribution: true,
                    ..
                }
            )
        };
        let mut licences = self.0.iter();
        licences.any(|licence| licence.says(asker).iter().any(asks))
    }

    /// Returns the statement of each licence for each purpose; licences that were not fetched come last, since that is
    /// the only reason for which they refuse.
    pub(super) fn statements(&self, asker: Asker<'_>) -> Vec<Statement> {
        let missing = self.0.iter().filter(|it| it.is_missing());
        let tried = self.0.iter().filter(|it| !it.is_missing());
        let each = tried.chain(missing).flat_map(|licence| {
            let says = licence.says(asker).into_iter();
            says.filter_map(|(purpose, says)| licence.statement(purpose, says))
        });
        each.collect()
    }
}

impl Had {
    fn document(document: Arc<Rsl>, covered: Result<Covered, TooCostly>) -> Self {
        match covered {
            Ok(covered) => Self::Document(document, Arc::new(covered)),
            Err(TooCostly) => Self::TooCostly,
        }
    }
}

impl Licence {
    /// Returns whether the document is still to be fetched.
    fn is_missing(&self) -> bool {
        matches!(self.document, Had::Missing)
    }

    fn text(&self) -> String {
        match &self.document {
            Had::Not { because } => format!("License: {} ({because})", self.url),
            Had::Document(..) | Had::TooCostly | Had::Missing => format!("License: {}", self.url),
        }
    }

    /// Returns the location of the deciding statement: a licence named by robots.txt is a file of its own.
    fn decides_at(&self) -> Carrier {
        match self.stage {
            Stage::Before => Carrier::File {
                url: self.url.clone(),
            },
            Stage::Head | Stage::Body => self.carrier.clone(),
        }
    }

    fn statement(&self, purpose: Purpose, says: Says) -> Option<Statement> {
        let of_purpose = Purposes::of(&[purpose]);
        let (refuses, allows, clause) = match says {
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

    /// Returns the verdict for each purpose.
    fn says(&self, asker: Asker<'_>) -> Vec<(Purpose, Says)> {
        let said = self.said.get_or_init(|| self.said_to(asker));
        if said.is_to(asker) {
            said.says.clone()
        } else {
            self.said_to(asker).says
        }
    }

    fn said_to(&self, asker: Asker<'_>) -> Said {
        let to = |purpose| match &self.document {
            Had::Document(document, covered) => {
                let names_page = self.stage != Stage::Before;
                rsl::read(document, covered, names_page, purpose, asker)
            }
            Had::TooCostly => Says::Refuses { clause: TOO_COSTLY },
            Had::Missing | Had::Not { .. } => rsl::UNAVAILABLE,
        };
        let purposes = asker.declaration.purposes;
        Said {
            purposes,
            user: asker.reading.rsl_user.clone(),
            geo: asker.reading.rsl_geo.clone(),
            says: purposes.iter().map(|it| (it, to(it))).collect(),
        }
    }
}

impl Said {
    fn is_to(&self, asker: Asker<'_>) -> bool {
        let reading = asker.reading;
        self.purposes == asker.declaration.purposes
            && self.user == reading.rsl_user
            && self.geo == reading.rsl_geo
    }
}
