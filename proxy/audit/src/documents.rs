//! Parsed documents of an export other than robots.txt.

use std::mem;
use std::time::Duration;

use quick_cache::sync::Cache;
use wayleave_decision::{DocumentBatch, DocumentResult};
use wayleave_decision_log::{DecisionRecord, DocumentRecord};
use wayleave_lifecycle::Resource;
use wayleave_usage_preferences::PreferenceDocument;

use crate::robots::BodyReader;

/// The number of parsed documents that are cached. Each is at most `robots.max_size` long.
const MAX_PARSED: usize = 64;

/// A cache of parsed documents, by digest and URL: how a document is read depends on its URL, too.
pub(crate) struct ParsedDocuments {
    parsed: Cache<DocumentRecord, PreferenceDocument>,
}

impl ParsedDocuments {
    pub(crate) fn new() -> Self {
        Self { parsed: Cache::new(MAX_PARSED) }
    }

    /// Returns the documents of a batch, as a decision names them.
    ///
    /// # Errors
    ///
    /// Returns an error if one is missing, or cannot be parsed.
    pub(crate) fn results(
        &self,
        decision: &DecisionRecord,
        batch: &mut DocumentBatch,
        body: &BodyReader<'_>,
    ) -> Result<Vec<DocumentResult>, String> {
        let mut context = mem::take(&mut batch.context);
        let documents = batch.documents.iter();
        let results = documents.map(|document| {
            // Until all that could refuse have come there are no preferences.
            if decision.preferences.is_empty() {
                return Ok(DocumentResult::Pending { retry_after: Duration::ZERO });
            }
            let resource = match document.resource() {
                Ok(resource) => resource,
                Err(cause) => return Ok(DocumentResult::NotAsked(cause)),
            };
            // The robots.txt of other origins is not archived: a document that was not asked for there is not named either.
            let is_at_home = *resource.origin() == batch.origin;
            let robots_txt = batch.robots_txt.access();
            if is_at_home && !batch.allows(robots_txt, resource, &mut context) {
                return Ok(DocumentResult::NotAsked(DocumentBatch::NOT_ALLOWED.to_owned()));
            }
            let url = resource.uri();
            let seen = decision.documents.iter().find(|seen| seen.url == url);
            let document = seen.map_or(Ok(None), |seen| self.read(seen, body))?;
            Ok(DocumentResult::Archived(document))
        });
        let results = results.collect();
        batch.context = context;
        results
    }

    /// Returns a document that a decision names; `None` if it could not be fetched then.
    fn read(
        &self,
        seen: &DocumentRecord,
        body: &BodyReader<'_>,
    ) -> Result<Option<PreferenceDocument>, String> {
        let Some(digest) = seen.sha256 else {
            return Ok(None);
        };
        let key = DocumentRecord { fetched_at: None, ..seen.clone() };
        if let Some(parsed) = self.parsed.get(&key) {
            return Ok(Some(parsed));
        }
        let bytes = body(digest);
        let bytes =
            bytes.ok_or_else(|| format!("the document {} ({digest}) is missing", seen.url))?;
        let resource = Resource::parse(&seen.url).map_err(|error| format!("documents: {error}"))?;
        let document = resource.kind().parse(&bytes, seen.cut);
        let document =
            document.ok_or_else(|| format!("{} is not a document about use", seen.url))?;
        self.parsed.insert(key, document.clone());
        Ok(Some(document))
    }
}
