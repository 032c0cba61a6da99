//! Documents beside robots.txt, as the export holds them, parsed.

use quick_cache::sync::Cache;
use wayleave_robots_txt::Document;
use wayleave_robots_txt::lifecycle::Resource;

use super::materials::Materials;
use crate::observe::decisions::DocumentSeen;

/// Parsed documents that are kept at hand. Each is as large as `robots.max_size` lets it be.
const PARSED: usize = 64;

/// By what they were when they decided: how one is read depends on its URL, too.
pub(super) struct Documents {
    parsed: Cache<DocumentSeen, Document>,
}

impl Documents {
    pub(super) fn new() -> Self {
        Self {
            parsed: Cache::new(PARSED),
        }
    }

    /// A document that a decision names; none if it could not be had then.
    ///
    /// # Errors
    ///
    /// Returns an error if it is missing in the export.
    pub(super) fn read(
        &self,
        seen: &DocumentSeen,
        materials: &Materials,
    ) -> Result<Option<Document>, String> {
        let Some(digest) = seen.sha256 else {
            return Ok(None);
        };
        let key = DocumentSeen {
            fetched_at: None,
            ..seen.clone()
        };
        if let Some(parsed) = self.parsed.get(&key) {
            return Ok(Some(parsed));
        }
        let bytes = materials.body(digest);
        let bytes =
            bytes.ok_or_else(|| format!("the document {} ({digest}) is missing", seen.url))?;
        let resource = Resource::parse(&seen.url).map_err(|error| format!("documents: {error}"))?;
        let document = resource.kind().read(&bytes, seen.cut);
        let document = document.ok_or_else(|| format!("{} is not such a document", seen.url))?;
        self.parsed.insert(key, document.clone());
        Ok(Some(document))
    }
}
