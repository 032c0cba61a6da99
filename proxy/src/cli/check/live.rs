//! What origins serve now: robots.txt, and what stands beside it and speaks of use.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use wayleave_decision::{
    DocumentBatch, DocumentResult, DocumentToFetch, documents_to_fetch, may_fetch,
};
use wayleave_lifecycle::FetchResult;
use wayleave_robots_txt::{AccessResult, MatchContext, Origin};
use wayleave_usage_preferences::{
    DocumentKind, PreferenceDocument, PreferenceQuery, PreferenceState,
};

use crate::cli::progress::ProgressLine;
use crate::cli::robots_fetcher::{RobotsFetcher, failure_text};
use crate::cli::terminal::print_errors;

/// All that was fetched, each file once.
pub(super) struct FetchedFiles {
    fetcher: RobotsFetcher,
    robots: HashMap<Origin, Rc<AccessResult>>,
    documents: HashMap<String, Option<Rc<PreferenceDocument>>>,
    progress: ProgressLine,
}

impl FetchedFiles {
    /// Nothing yet, of so many origins.
    pub(super) fn of(origins: usize, fetcher: RobotsFetcher) -> Self {
        Self {
            fetcher,
            robots: HashMap::new(),
            documents: HashMap::new(),
            progress: ProgressLine::new(origins),
        }
    }

    /// What an origin's robots.txt says.
    pub(super) fn access(&mut self, origin: &Origin) -> Rc<AccessResult> {
        let entry = match self.robots.entry(origin.clone()) {
            Entry::Occupied(known) => return Rc::clone(known.get()),
            Entry::Vacant(entry) => entry,
        };
        let uri = origin.robots_txt_uri();
        self.progress.start_part(&uri);
        let facts = self.fetcher.fetch(origin);
        let access = facts.access();
        if matches!(access, AccessResult::Unreachable) {
            warn(&self.progress, &uri, &failure_text(&facts));
        }
        Rc::clone(entry.insert(Rc::new(access)))
    }

    /// What was heard, with what documents say that the proxy would ask for.
    pub(super) fn with_documents(
        &mut self,
        mut heard: PreferenceState,
        asker: PreferenceQuery<'_>,
        origin: &Origin,
    ) -> PreferenceState {
        for wanted in documents_to_fetch(asker, origin, &heard) {
            let document = self.document(asker, &wanted).as_deref().cloned();
            // Nothing is pending here.
            let _ = wanted.add_to(&mut heard, asker, &DocumentResult::Archived(document));
        }
        heard
    }

    fn document(
        &mut self,
        asker: PreferenceQuery<'_>,
        wanted: &DocumentToFetch,
    ) -> Option<Rc<PreferenceDocument>> {
        let url = wanted.url();
        if let Some(known) = self.documents.get(&url) {
            return known.clone();
        }
        let document = self.look(asker, wanted).unwrap_or_else(|why_not| {
            warn(&self.progress, &url, &why_not);
            None
        });
        let document = document.map(Rc::new);
        self.documents.insert(url, document.clone());
        document
    }

    fn look(
        &mut self,
        asker: PreferenceQuery<'_>,
        wanted: &DocumentToFetch,
    ) -> Result<Option<PreferenceDocument>, String> {
        let resource = wanted.resource()?;
        let access = self.access(resource.origin());
        let crawler = (asker.dialect, asker.tokens);
        if !may_fetch(crawler, &access, resource, &mut MatchContext::default()) {
            return Err(DocumentBatch::NOT_ALLOWED.to_owned());
        }
        let facts = self.fetcher.fetch(resource.clone());
        let kind = resource.kind();
        match (facts.outcome.result(), facts.outcome.body()) {
            (FetchResult::Successful, Some(body)) => Ok(kind.parse(&body.bytes, body.is_cut)),
            // Most origins have none.
            (FetchResult::Unavailable, _) if kind != DocumentKind::Rsl => Ok(None),
            _ => Err(failure_text(&facts)),
        }
    }
}

fn warn(progress: &ProgressLine, url: &str, why_not: &str) {
    progress.suspend(|| print_errors(&format!("wayleave: {url}: {why_not}\n")));
}
