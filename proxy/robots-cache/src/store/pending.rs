//! The changes that wait to be written, with a limit.

use std::collections::HashMap;
use std::sync::Arc;

use wayleave_lifecycle::{CacheEntry, Resource};

/// A change of one document's entry.
#[derive(Clone, Debug)]
pub(super) enum StoreChange {
    Save(Arc<CacheEntry>),
    Forget,
}

impl StoreChange {
    /// Returns whether nothing is lost if only `next` is written. A save with a different answer adds a version to the
    /// history.
    fn is_covered_by(&self, next: &Self) -> bool {
        let content = |entry: &CacheEntry| {
            let outcome = &entry.answer.as_ref()?.outcome;
            Some((outcome.status(), outcome.body().cloned()))
        };
        match (self, next) {
            (Self::Forget, _) => true,
            (Self::Save(_), Self::Forget) => false,
            (Self::Save(before), Self::Save(next)) => content(before) == content(next),
        }
    }

    /// Returns roughly how much memory it takes.
    fn bytes(&self) -> usize {
        const OVERHEAD: usize = 512;
        let body = match self {
            Self::Save(entry) => entry.answer.as_ref().and_then(|answer| answer.outcome.body()),
            Self::Forget => None,
        };
        OVERHEAD + body.map_or(0, |body| body.bytes.len())
    }
}

/// The changes to be written, in order for each document: usually one, but every different answer belongs in the
/// history.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    changes: HashMap<Resource, Vec<StoreChange>>,
    bytes: usize,
}

impl PendingChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the last change of a document.
    pub(super) fn last(&self, resource: &Resource) -> Option<&StoreChange> {
        self.changes.get(resource).and_then(|changes| changes.last())
    }

    /// Returns all changes, each document's in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Resource, &StoreChange)> {
        self.changes
            .iter()
            .flat_map(|(resource, changes)| changes.iter().map(move |change| (resource, change)))
    }

    /// Adds a change, replacing the previous one if nothing is lost by that.
    pub(super) fn push(&mut self, resource: &Resource, change: StoreChange) {
        self.bytes += change.bytes();
        let changes = self.changes.entry(resource.clone()).or_default();
        // The first of several equal answers is kept, because it tells since when the version has existed.
        if let [.., first, last] = &changes[..]
            && first.is_covered_by(&change)
            && last.is_covered_by(&change)
        {
            self.bytes -= last.bytes();
            changes.pop();
        }
        changes.push(change);
    }

    /// Removes the changes of some documents, of `bytes` in total but at least of one.
    pub(super) fn take(&mut self, bytes: usize) -> Self {
        let mut taken = Self::default();
        while taken.bytes < bytes {
            let Some(resource) = self.changes.keys().next().cloned() else {
                break;
            };
            let changes = self.remove(&resource);
            taken.bytes += changes.iter().map(StoreChange::bytes).sum::<usize>();
            taken.changes.insert(resource, changes);
        }
        // A map that was large once must not keep its memory.
        self.changes.shrink_to(2 * self.changes.len());
        taken
    }

    /// Puts changes back that were not written, before those that came later.
    pub(super) fn put_back(&mut self, taken: &Self) {
        for (resource, changes) in &taken.changes {
            let later = self.remove(resource);
            for change in changes.iter().cloned().chain(later) {
                self.push(resource, change);
            }
        }
    }

    /// Drops changes beyond `most` bytes, and returns how many.
    pub(super) fn drop_excess(&mut self, most: usize) -> usize {
        let mut lost = 0;
        while self.bytes > most {
            let Some(resource) = self.changes.keys().next().cloned() else {
                break;
            };
            lost += self.remove(&resource).len();
        }
        lost
    }

    fn remove(&mut self, resource: &Resource) -> Vec<StoreChange> {
        let changes = self.changes.remove(resource).unwrap_or_default();
        self.bytes -= changes.iter().map(StoreChange::bytes).sum::<usize>();
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use wayleave_lifecycle::{
        FetchEnding, FetchOutcome, FetchedBody, FetchedResponse, FinishedFetch, ResponseFields,
    };

    use super::*;

    fn shop() -> Resource {
        Resource::parse("https://shop.example").expect("a resource")
    }

    fn save(text: &str) -> StoreChange {
        let response = FetchedResponse {
            status: 200,
            fields: ResponseFields::default(),
            body: FetchedBody { bytes: text.as_bytes().into(), is_cut: false, digest: None },
        };
        let outcome = FetchOutcome {
            redirects: Vec::new(),
            uri: shop().uri(),
            ending: FetchEnding::Response(response),
        };
        StoreChange::Save(Arc::new(
            CacheEntry::default()
                .after_fetch(FinishedFetch::of_proxy(outcome, SystemTime::UNIX_EPOCH)),
        ))
    }

    /// Returns the bodies to be written, in order.
    fn texts(waiting: &PendingChanges) -> Vec<String> {
        let text = |(_, change): (_, &StoreChange)| match change {
            StoreChange::Save(entry) => {
                let answer = entry.answer.as_ref().expect("an answer");
                let body = answer.outcome.body().expect("a body");
                String::from_utf8_lossy(&body.bytes).into_owned()
            }
            StoreChange::Forget => "forget".to_owned(),
        };
        waiting.iter().map(text).collect()
    }

    fn waiting(changes: impl IntoIterator<Item = StoreChange>) -> PendingChanges {
        let mut waiting = PendingChanges::default();
        for change in changes {
            waiting.push(&shop(), change);
        }
        waiting
    }

    #[test]
    fn unwritten_changes_precede_later_ones() {
        let mut waiting = waiting([save("first")]);
        let taken = waiting.take(1);
        assert!(waiting.is_empty());
        waiting.push(&shop(), save("second"));
        waiting.put_back(&taken);
        assert_eq!(texts(&waiting), ["first", "second"]);
        assert!(matches!(waiting.last(&shop()), Some(StoreChange::Save(_))));
    }

    #[test]
    fn versions_before_a_forget_are_written_too() {
        let waiting = waiting([save("first"), save("second"), StoreChange::Forget]);
        assert_eq!(texts(&waiting), ["first", "second", "forget"]);
    }

    #[test]
    fn replaced_changes_are_not_counted() {
        let one = waiting([save("same")]).bytes;
        let mut waiting = waiting([save("same"), save("same"), save("same"), save("same")]);
        assert_eq!(waiting.bytes, 2 * one, "the first and the last");
        assert_eq!(waiting.drop_excess(2 * one), 0);
        assert_eq!(waiting.drop_excess(2 * one - 1), 2);
        assert_eq!((waiting.bytes, waiting.is_empty()), (0, true));
    }
}
