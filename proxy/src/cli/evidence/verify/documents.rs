//! Parsed documents of an export other than robots.txt.

use quick_cache::sync::Cache;
use wayleave_evidence::verify::CheckedMaterials;
use wayleave_lifecycle::Resource;
use wayleave_usage_preferences::PreferenceDocument;

use crate::decision_log::DocumentRecord;

/// The number of parsed documents that are cached. Each is at most `robots.max_size` long.
const MAX_PARSED: usize = 64;

/// A cache of parsed documents, by digest and URL: how a document is read depends on its URL, too.
pub(super) struct ParsedDocuments {
    parsed: Cache<DocumentRecord, PreferenceDocument>,
}

impl ParsedDocuments {
    pub(super) fn new() -> Self {
        Self { parsed: Cache::new(MAX_PARSED) }
    }

    /// Returns a document that a decision names; `None` if it could not be fetched then.
    ///
    /// # Errors
    ///
    /// Returns an error if it is missing in the export, or cannot be parsed.
    pub(super) fn read(
        &self,
        seen: &DocumentRecord,
        materials: &CheckedMaterials,
    ) -> Result<Option<PreferenceDocument>, String> {
        let Some(digest) = seen.sha256 else {
            return Ok(None);
        };
        let key = DocumentRecord { fetched_at: None, ..seen.clone() };
        if let Some(parsed) = self.parsed.get(&key) {
            return Ok(Some(parsed));
        }
        let bytes = materials.body(digest);
        let bytes =
            bytes.ok_or_else(|| format!("the document {} ({digest}) is missing", seen.url))?;
        let resource = Resource::parse(&seen.url).map_err(|error| format!("documents: {error}"))?;
        let document = resource.kind().parse(&bytes, seen.cut);
        let document = document.ok_or_else(|| format!("{} is not such a document", seen.url))?;
        self.parsed.insert(key, document.clone());
        Ok(Some(document))
    }
}
