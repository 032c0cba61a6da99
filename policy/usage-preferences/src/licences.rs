//! Licences named by robots.txt, the response's fields or its page, and their verdicts.

use std::sync::{Arc, OnceLock};

use wayleave_robots_txt::excerpt;
use wayleave_robots_txt::matching::TooCostly;

use super::rsl::{self, CoveredContent, LicenceVerdict};
use super::statement::TOO_COSTLY;
use super::{
    PreferenceQuery, PreferenceSource, PreferenceStage, PreferenceStatement, Purpose, PurposeSet,
    RslLicence, StatementCarrier,
};

/// The most licences for one request. Any beyond that count as unavailable, which refuses: otherwise a site could make
/// crawlers fetch hundreds of documents from anybody.
const MAX_LICENCES: usize = 8;

/// The longest URL of a licence; a licence with a longer one counts as unavailable.
const MAX_URL_BYTES: usize = 2048;

/// The licences named for one request.
#[derive(Clone, Debug, Default)]
pub(super) struct LicenceList(Vec<NamedLicence>);

/// A named licence.
#[derive(Clone, Debug)]
struct NamedLicence {
    url: String,
    carrier: StatementCarrier,
    stage: PreferenceStage,
    document: LicenceDocument,
    /// Its verdicts, computed on first use and read again at each stage.
    terms: OnceLock<LicenceTerms>,
}

/// The verdicts of a licence for some purposes of a class of user in a country.
#[derive(Clone, Debug)]
struct LicenceTerms {
    purposes: PurposeSet,
    user: String,
    geo: String,
    verdicts: Vec<(Purpose, LicenceVerdict)>,
}

/// The document of a licence, as far as it is known.
#[derive(Clone, Debug)]
enum LicenceDocument {
    /// The document, and the part of it that covers the page.
    Document(Arc<RslLicence>, Arc<CoveredContent>),
    /// Finding the part that covers the page takes too long.
    TooCostly,
    /// The document was not fetched.
    Missing,
    /// The document cannot be fetched.
    Unavailable { because: String },
}

impl LicenceList {
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
    pub(super) fn add_document(
        &mut self,
        url: &str,
        document: &Arc<RslLicence>,
        covered: Result<CoveredContent, TooCostly>,
    ) {
        self.resolve(url, &LicenceDocument::document(Arc::clone(document), covered));
    }

    /// Records why a named licence is unavailable.
    pub(super) fn set_unavailable(&mut self, url: &str, why_not: &str) {
        let because = why_not.to_owned();
        self.resolve(url, &LicenceDocument::Unavailable { because });
    }

    fn resolve(&mut self, url: &str, document: &LicenceDocument) {
        let named = self.0.iter_mut().filter(|it| it.url == url);
        for licence in named.filter(|it| it.is_missing()) {
            licence.document = document.clone();
            // Verdicts computed without the document are void.
            licence.terms = OnceLock::new();
        }
    }

    /// Adds a licence named at a stage, which is still to be fetched unless its document is known.
    pub(super) fn add_reference(
        &mut self,
        url: String,
        carrier: StatementCarrier,
        stage: PreferenceStage,
    ) {
        // A licence named at several stages counts at each, with the same document.
        let mut named = self.0.iter();
        if named.any(|it| it.url == url && it.stage == stage) {
            return;
        }
        let known = self.0.iter().find(|it| it.url == url);
        let document = known.map_or(LicenceDocument::Missing, |it| it.document.clone());
        // The URL appears in answers and logs.
        let (url, document) = match url.len() {
            ..=MAX_URL_BYTES => (url, document),
            _ => {
                let because = format!("its URL has more than {MAX_URL_BYTES} bytes");
                (excerpt(&url).into_owned(), LicenceDocument::Unavailable { because })
            }
        };
        self.add(NamedLicence { url, carrier, stage, document, terms: OnceLock::new() });
    }

    /// Adds a licence embedded in the page with this URL.
    pub(super) fn add_in_page(
        &mut self,
        page: &str,
        document: RslLicence,
        covered: Result<CoveredContent, TooCostly>,
    ) {
        self.add(NamedLicence {
            url: page.to_owned(),
            carrier: StatementCarrier::Meta,
            stage: PreferenceStage::Body,
            document: LicenceDocument::document(Arc::new(document), covered),
            terms: OnceLock::new(),
        });
    }

    /// Adds a licence. The first one beyond the limit is added as unavailable, later ones are ignored.
    fn add(&mut self, licence: NamedLicence) {
        let because = || format!("no more than {MAX_LICENCES} licences are read");
        let document = match self.0.len() {
            ..MAX_LICENCES => licence.document,
            MAX_LICENCES => LicenceDocument::Unavailable { because: because() },
            _ => return,
        };
        self.0.push(NamedLicence { document, ..licence });
    }

    /// Returns whether any licence allows a use on condition of attribution.
    pub(super) fn require_attribution(&self, asker: PreferenceQuery<'_>) -> bool {
        let asks = |(_, says): &(Purpose, LicenceVerdict)| {
            matches!(says, LicenceVerdict::Allows { attribution: true, .. })
        };
        let mut licences = self.0.iter();
        licences.any(|licence| licence.verdicts_for(asker).iter().any(asks))
    }

    /// Returns the statement of each licence for each purpose; licences that were not fetched come last, since that is
    /// the only reason for which they refuse.
    pub(super) fn statements(&self, asker: PreferenceQuery<'_>) -> Vec<PreferenceStatement> {
        let missing = self.0.iter().filter(|it| it.is_missing());
        let tried = self.0.iter().filter(|it| !it.is_missing());
        let each = tried.chain(missing).flat_map(|licence| {
            let says = licence.verdicts_for(asker).into_iter();
            says.filter_map(|(purpose, says)| licence.statement(purpose, says))
        });
        each.collect()
    }
}

impl LicenceDocument {
    fn document(document: Arc<RslLicence>, covered: Result<CoveredContent, TooCostly>) -> Self {
        match covered {
            Ok(covered) => Self::Document(document, Arc::new(covered)),
            Err(TooCostly) => Self::TooCostly,
        }
    }
}

impl NamedLicence {
    /// Returns whether the document is still to be fetched.
    fn is_missing(&self) -> bool {
        matches!(self.document, LicenceDocument::Missing)
    }

    fn text(&self) -> String {
        match &self.document {
            LicenceDocument::Unavailable { because } => {
                format!("License: {} ({because})", self.url)
            }
            LicenceDocument::Document(..)
            | LicenceDocument::TooCostly
            | LicenceDocument::Missing => format!("License: {}", self.url),
        }
    }

    /// Returns the location of the deciding statement: a licence named by robots.txt is a file of its own.
    fn deciding_carrier(&self) -> StatementCarrier {
        match self.stage {
            PreferenceStage::Before => StatementCarrier::File { url: self.url.clone() },
            PreferenceStage::Head | PreferenceStage::Body => self.carrier.clone(),
        }
    }

    fn statement(&self, purpose: Purpose, says: LicenceVerdict) -> Option<PreferenceStatement> {
        let of_purpose = PurposeSet::of(&[purpose]);
        let (refuses, allows, clause) = match says {
            LicenceVerdict::Refuses { clause } => (of_purpose, PurposeSet::NONE, clause),
            LicenceVerdict::Allows { clause, .. } => (PurposeSet::NONE, of_purpose, clause),
            LicenceVerdict::Nothing => return None,
        };
        Some(PreferenceStatement {
            source: PreferenceSource::Rsl,
            carrier: self.deciding_carrier(),
            text: self.text(),
            clause,
            policy: Some(self.url.clone()),
            stage: self.stage,
            refuses,
            allows,
        })
    }

    /// Returns the verdict for each purpose.
    fn verdicts_for(&self, asker: PreferenceQuery<'_>) -> Vec<(Purpose, LicenceVerdict)> {
        let said = self.terms.get_or_init(|| self.read_terms(asker));
        if said.is_for(asker) { said.verdicts.clone() } else { self.read_terms(asker).verdicts }
    }

    fn read_terms(&self, asker: PreferenceQuery<'_>) -> LicenceTerms {
        let to = |purpose| match &self.document {
            LicenceDocument::Document(document, covered) => {
                let names_page = self.stage != PreferenceStage::Before;
                rsl::evaluate(document, covered, names_page, purpose, asker)
            }
            LicenceDocument::TooCostly => LicenceVerdict::Refuses { clause: TOO_COSTLY },
            LicenceDocument::Missing | LicenceDocument::Unavailable { .. } => rsl::UNAVAILABLE,
        };
        let purposes = asker.declaration.purposes;
        LicenceTerms {
            purposes,
            user: asker.settings.rsl_user.clone(),
            geo: asker.settings.rsl_geo.clone(),
            verdicts: purposes.iter().map(|it| (it, to(it))).collect(),
        }
    }
}

impl LicenceTerms {
    fn is_for(&self, asker: PreferenceQuery<'_>) -> bool {
        let reading = asker.settings;
        self.purposes == asker.declaration.purposes
            && self.user == reading.rsl_user
            && self.geo == reading.rsl_geo
    }
}
