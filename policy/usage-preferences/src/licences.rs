//! Licences named by robots.txt, the response's fields or its page, and their verdicts.

use std::sync::{Arc, OnceLock};

use wayleave_robots_txt::excerpt;
use wayleave_robots_txt::internal::TooCostly;

use super::rsl::{self, CoveredContent, LicenceVerdict};
use super::statement::{StatementMeaning, TOO_COSTLY};
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
        for licence in self.0.iter().filter(|licence| licence.is_missing()) {
            if !missing.contains(&licence.url) {
                missing.push(licence.url.clone());
            }
        }
        missing
    }

    /// Removes the licences that are still to be fetched.
    pub(super) fn drop_missing(&mut self) {
        self.0.retain(|licence| !licence.is_missing());
    }

    /// Returns whether a named licence is still to be fetched.
    pub(super) fn is_missing(&self, url: &str) -> bool {
        self.0.iter().any(|licence| licence.url == url && licence.is_missing())
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
        let named = self.0.iter_mut().filter(|licence| licence.url == url);
        for licence in named.filter(|licence| licence.is_missing()) {
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
        if self.0.iter().any(|licence| licence.url == url && licence.stage == stage) {
            return;
        }
        let known = self
            .0
            .iter()
            .find(|licence| licence.url == url)
            .map(|licence| licence.document.clone());
        // The URL appears in responses and logs.
        let (url, document) = if url.len() <= MAX_URL_BYTES {
            (url, known.unwrap_or(LicenceDocument::Missing))
        } else {
            let because = format!("its URL has more than {MAX_URL_BYTES} bytes");
            (excerpt(&url).into_owned(), LicenceDocument::Unavailable { because })
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
        let document = match self.0.len() {
            ..MAX_LICENCES => licence.document,
            // One refusal is enough, and the list remains short.
            MAX_LICENCES => LicenceDocument::Unavailable {
                because: format!("no more than {MAX_LICENCES} licences are read"),
            },
            _ => return,
        };
        self.0.push(NamedLicence { document, ..licence });
    }

    /// Returns whether any licence allows a use on condition of attribution.
    pub(super) fn require_attribution(&self, query: PreferenceQuery<'_>) -> bool {
        self.0
            .iter()
            .flat_map(|licence| licence.verdicts_for(query))
            .any(|(_, verdict)| matches!(verdict, LicenceVerdict::Allows { attribution: true, .. }))
    }

    /// Returns the statement of each licence for each purpose; licences that were not fetched come last, since that is
    /// the only reason for which they refuse.
    pub(super) fn statements(&self, query: PreferenceQuery<'_>) -> Vec<PreferenceStatement> {
        let (missing, fetched): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|licence| licence.is_missing());
        let mut statements = Vec::new();
        for licence in fetched.into_iter().chain(missing) {
            let verdicts = licence.verdicts_for(query).into_iter();
            statements.extend(verdicts.filter_map(|(purpose, it)| licence.statement(purpose, it)));
        }
        statements
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

    fn statement(&self, purpose: Purpose, verdict: LicenceVerdict) -> Option<PreferenceStatement> {
        let url = &self.url;
        let (is_allowed, clause, price) = match verdict {
            LicenceVerdict::Refuses { clause, price } => (false, clause, price),
            LicenceVerdict::Allows { clause, .. } => (true, clause, None),
            LicenceVerdict::Nothing => return None,
        };
        let carrier = match self.stage {
            // A licence that robots.txt names is a file of its own.
            PreferenceStage::Before => StatementCarrier::File { url: url.clone() },
            PreferenceStage::Head | PreferenceStage::Body => self.carrier.clone(),
        };
        let text = match &self.document {
            LicenceDocument::Unavailable { because } => format!("License: {url} ({because})"),
            _ => format!("License: {url}"),
        };
        let meaning = StatementMeaning::new(PurposeSet::of(&[purpose]), is_allowed, clause);
        Some(PreferenceStatement {
            policy: Some(url.clone()),
            price,
            stage: self.stage,
            ..PreferenceStatement::new(PreferenceSource::Rsl, carrier, text, meaning)
        })
    }

    /// Returns the verdict for each purpose.
    fn verdicts_for(&self, query: PreferenceQuery<'_>) -> Vec<(Purpose, LicenceVerdict)> {
        let terms = self.terms.get_or_init(|| self.read_terms(query));
        // A later query may have other settings.
        if terms.is_for(query) { terms.verdicts.clone() } else { self.read_terms(query).verdicts }
    }

    fn read_terms(&self, query: PreferenceQuery<'_>) -> LicenceTerms {
        let verdict = |purpose| match &self.document {
            LicenceDocument::Document(document, covered) => {
                // Only a licence that the response names may cover its page without a URL.
                let names_page = self.stage != PreferenceStage::Before;
                rsl::evaluate(document, covered, names_page, purpose, query)
            }
            LicenceDocument::TooCostly => {
                LicenceVerdict::Refuses { clause: TOO_COSTLY, price: None }
            }
            LicenceDocument::Missing | LicenceDocument::Unavailable { .. } => rsl::UNAVAILABLE,
        };
        let purposes = query.declaration.purposes;
        LicenceTerms {
            purposes,
            user: query.settings.rsl_user.clone(),
            geo: query.settings.rsl_geo.clone(),
            verdicts: purposes.iter().map(|purpose| (purpose, verdict(purpose))).collect(),
        }
    }
}

impl LicenceTerms {
    fn is_for(&self, query: PreferenceQuery<'_>) -> bool {
        self.purposes == query.declaration.purposes
            && self.user == query.settings.rsl_user
            && self.geo == query.settings.rsl_geo
    }
}
