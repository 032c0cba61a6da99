//! What origins serve now: robots.txt, and what stands beside it and speaks of use.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use wayleave_robots_txt::lifecycle::FetchResult;
use wayleave_robots_txt::preferences::{Asker, Preferences};
use wayleave_robots_txt::{AccessResult, Document, Kind, Origin, Work};

use crate::cli::fetch::{Fetcher, why_not};
use crate::cli::progress::Progress;
use crate::cli::terminal::complain;
use crate::decide::documents::{NOT_ALLOWED, Wanted, allows, wanted};

/// All that was fetched, each file once.
pub(super) struct Live {
    fetcher: Fetcher,
    robots: HashMap<Origin, Rc<AccessResult>>,
    documents: HashMap<String, Option<Rc<Document>>>,
    progress: Progress,
}

impl Live {
    /// Nothing yet, of so many origins.
    pub(super) fn of(origins: usize, fetcher: Fetcher) -> Self {
        Self {
            fetcher,
            robots: HashMap::new(),
            documents: HashMap::new(),
            progress: Progress::of(origins),
        }
    }

    /// What an origin's robots.txt says.
    pub(super) fn access(&mut self, origin: &Origin) -> Rc<AccessResult> {
        let entry = match self.robots.entry(origin.clone()) {
            Entry::Occupied(known) => return Rc::clone(known.get()),
            Entry::Vacant(entry) => entry,
        };
        let uri = origin.robots_txt_uri();
        self.progress.begin(&uri);
        let facts = self.fetcher.fetch(origin);
        let access = facts.access();
        if matches!(access, AccessResult::Unreachable) {
            warn(&self.progress, &uri, &why_not(&facts));
        }
        Rc::clone(entry.insert(Rc::new(access)))
    }

    /// What was heard, with what documents say that the proxy would ask for.
    pub(super) fn with_documents(
        &mut self,
        mut heard: Preferences,
        asker: Asker<'_>,
        origin: &Origin,
    ) -> Preferences {
        for wanted in wanted(asker, origin, &heard) {
            let document = self.document(asker, &wanted);
            heard = wanted.heard(heard, asker, document.as_deref());
        }
        heard
    }

    fn document(&mut self, asker: Asker<'_>, wanted: &Wanted) -> Option<Rc<Document>> {
        let url = wanted.shown_url();
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

    fn look(&mut self, asker: Asker<'_>, wanted: &Wanted) -> Result<Option<Document>, String> {
        let resource = wanted.resource()?;
        let access = self.access(resource.origin());
        if !allows(&access, asker, resource, &mut Work::default()) {
            return Err(NOT_ALLOWED.to_owned());
        }
        let facts = self.fetcher.fetch(resource.clone());
        let kind = resource.kind();
        match (facts.outcome.result(), facts.outcome.body()) {
            (FetchResult::Successful, Some(body)) => Ok(kind.read(&body.bytes, body.is_cut)),
            // Most origins have none.
            (FetchResult::Unavailable, _) if kind != Kind::Rsl => Ok(None),
            _ => Err(why_not(&facts)),
        }
    }
}

fn warn(progress: &Progress, url: &str, why_not: &str) {
    progress.aside(|| complain(&format!("wayleave: {url}: {why_not}\n")));
}
