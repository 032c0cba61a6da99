//! The format of entries on disk.
//!
//! These types are encoded by postcard, which writes no names: a field added, removed or moved is another format, whose
//! number is `FORMAT` in `store/upkeep.rs`. Only at the very end can something be added, as [`Trailing`]: earlier programs
//! leave it unread. Bodies are stored separately, by digest, because many origins share one.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize};
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{
    CacheEntry, FailureRun, FetchEnding, FetchError, FetchErrorKind, FetchIdentity, FetchOutcome,
    FetchResult, FetchedBody, FetchedResponse, FinishedFetch, RedirectHop, Resource,
    ResponseFields, from_unix_millis, to_unix_millis,
};

/// An entry without its body.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EntryRecord {
    pub(super) fetches: FetchesRecord,
    pub(super) provenance: Trailing<Provenance>,
}

/// The fetches of an entry, without the identities that made them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FetchesRecord {
    answer: Option<FetchRecord>,
    failing: Option<FailureRunRecord>,
}

/// The last part of a record, which earlier programs did not write: then it is the default.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Trailing<T>(T);

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Trailing<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Records have checksums, so the only error is that nothing follows.
        Ok(Self(T::deserialize(deserializer).unwrap_or_default()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct FailureRunRecord {
    since: u64,
    count: u32,
    last: FetchRecord,
}

#[derive(Debug, Serialize, Deserialize)]
struct FetchRecord {
    fetched_at: u64,
    redirects: Vec<RedirectHop>,
    /// The URL of the last request; empty for the resource's own.
    uri: String,
    ending: EndingRecord,
}

#[derive(Debug, Serialize, Deserialize)]
enum EndingRecord {
    Response {
        status: u16,
        fields: ResponseFields,
        body: Option<BodyRecord>,
    },
    RedirectLost(u16),
    Failed {
        kind: String,
        detail: String,
    },
    /// A response that asks for a signature which its request did not have. No longer written.
    AsksForSignature {
        status: u16,
        fields: ResponseFields,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BodyRecord {
    pub(super) digest: [u8; 32],
    pub(super) is_cut: bool,
}

/// As whom the fetches of an entry were made, and whether others may get other answers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Provenance {
    answer: Option<SourceRecord>,
    failing: Option<SourceRecord>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct SourceRecord {
    identity: FetchIdentity,
    varies: bool,
}

/// The identities that were read lately: thousands of entries have the same.
static IDENTITIES: LazyLock<Mutex<HashSet<Arc<FetchIdentity>>>> = LazyLock::new(Mutex::default);
const MAX_IDENTITIES: usize = 1000;

impl Provenance {
    fn new(entry: &CacheEntry) -> Self {
        let failing = entry.failures.as_ref().map(|failing| &*failing.last);
        Self {
            answer: entry.answer.as_deref().map(SourceRecord::new),
            failing: failing.map(SourceRecord::new),
        }
    }
}

impl SourceRecord {
    fn new(finished: &FinishedFetch) -> Self {
        Self {
            identity: FetchIdentity::clone(&finished.fetched_as),
            varies: finished.outcome.fields().is_some_and(|fields| fields.varies),
        }
    }
}

/// Returns an identity that was read, shared with the entries that have the same.
fn shared(identity: FetchIdentity) -> Arc<FetchIdentity> {
    if identity == FetchIdentity::default() {
        return FetchIdentity::proxy();
    }
    let mut known = IDENTITIES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(&identity) {
        return Arc::clone(known);
    }
    if known.len() >= MAX_IDENTITIES {
        known.clear();
    }
    let identity = Arc::new(identity);
    known.insert(Arc::clone(&identity));
    identity
}

/// One version of a document, with the time when it was last seen.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VersionRecord {
    pub(super) last_seen_at: u64,
    pub(super) status: u16,
    pub(super) body: Option<BodyRecord>,
}

impl EntryRecord {
    pub(super) fn new(resource: &Resource, entry: &CacheEntry) -> Self {
        let failing = entry.failures.as_ref();
        let fetches = FetchesRecord {
            answer: entry.answer.as_deref().map(|answer| FetchRecord::new(resource, answer)),
            failing: failing.map(|failing| FailureRunRecord {
                since: to_unix_millis(failing.since),
                count: failing.count,
                last: FetchRecord::new(resource, &failing.last),
            }),
        };
        Self { fetches, provenance: Trailing(Provenance::new(entry)) }
    }

    /// Returns the body of the answer, if it has one.
    pub(super) fn body(&self) -> Option<BodyRecord> {
        match &self.fetches.answer.as_ref()?.ending {
            EndingRecord::Response { body, .. } => *body,
            _ => None,
        }
    }

    /// Returns when the answer was seen, and the version that it belongs to.
    pub(super) fn version(&self) -> Option<(u64, VersionRecord)> {
        let answer = self.fetches.answer.as_ref()?;
        let status = match &answer.ending {
            EndingRecord::Response { status, .. }
            | EndingRecord::AsksForSignature { status, .. }
            | EndingRecord::RedirectLost(status) => *status,
            EndingRecord::Failed { .. } => return None,
        };
        let version = VersionRecord { last_seen_at: answer.fetched_at, status, body: self.body() };
        Some((answer.fetched_at, version))
    }

    /// Returns when the origin last answered or failed to, in milliseconds.
    pub(super) fn last_contact_at(&self) -> u64 {
        let answered_at = self.fetches.answer.as_ref().map_or(0, |answer| answer.fetched_at);
        let failed_at = self.fetches.failing.as_ref().map_or(0, |failing| failing.last.fetched_at);
        answered_at.max(failed_at)
    }

    /// Moves all times so that the origin was last contacted `at`: times from another node are relative to its clock.
    pub(super) fn shift_to(&mut self, at: SystemTime) {
        let from = self.last_contact_at();
        let to = to_unix_millis(at);
        let moved = |time: u64| match to.checked_sub(from) {
            Some(later) => time.saturating_add(later),
            None => time.saturating_sub(from - to),
        };
        if let Some(answer) = &mut self.fetches.answer {
            answer.move_times(moved);
        }
        if let Some(failing) = &mut self.fetches.failing {
            failing.since = moved(failing.since);
            failing.last.move_times(moved);
        }
    }

    /// Returns the entry whose answer has the body `bytes`.
    pub(super) fn into_entry(self, resource: &Resource, bytes: Option<Arc<[u8]>>) -> CacheEntry {
        let Self { fetches, provenance } = self;
        let Provenance { answer: answer_from, failing: failing_from } = provenance.0;
        let answer =
            fetches.answer.map(|answer| answer.into_finished(resource, answer_from, bytes));
        // Another version of this program may have accepted more as an answer, such as a truncated file.
        let answer = answer.filter(|answer| answer.outcome.result() != FetchResult::Unreachable);
        CacheEntry {
            answer: answer.map(Arc::new),
            failures: fetches.failing.map(|failing| FailureRun {
                since: from_unix_millis(failing.since),
                count: failing.count,
                last: Arc::new(failing.last.into_finished(resource, failing_from, None)),
            }),
        }
    }
}

impl FetchRecord {
    fn new(resource: &Resource, finished: &FinishedFetch) -> Self {
        let outcome = &finished.outcome;
        let is_usual = outcome.uri == resource.uri();
        Self {
            fetched_at: to_unix_millis(finished.fetched_at),
            redirects: outcome.redirects.clone(),
            uri: if is_usual { String::new() } else { outcome.uri.clone() },
            ending: EndingRecord::new(&outcome.ending),
        }
    }

    fn move_times(&mut self, moved: impl Fn(u64) -> u64) {
        self.fetched_at = moved(self.fetched_at);
        if let EndingRecord::Response { fields, .. }
        | EndingRecord::AsksForSignature { fields, .. } = &mut self.ending
        {
            // The epoch stands for an invalid date, and must remain in the past.
            let expires_at = fields.expires_at.iter_mut().filter(|at| **at != UNIX_EPOCH);
            for at in expires_at.chain(&mut fields.retry_at) {
                *at = from_unix_millis(moved(to_unix_millis(*at)));
            }
        }
    }

    fn into_finished(
        self,
        resource: &Resource,
        source: Option<SourceRecord>,
        bytes: Option<Arc<[u8]>>,
    ) -> FinishedFetch {
        // Programs that did not record it did not look at `Vary` either.
        let source = source.unwrap_or_default();
        let mut ending = self.ending.into_ending(bytes);
        if let FetchEnding::Response(response) = &mut ending {
            response.fields.varies = source.varies;
        }
        FinishedFetch {
            fetched_at: from_unix_millis(self.fetched_at),
            fetched_as: shared(source.identity),
            outcome: FetchOutcome {
                redirects: self.redirects,
                uri: if self.uri.is_empty() { resource.uri() } else { self.uri },
                ending,
            },
        }
    }
}

impl EndingRecord {
    fn new(ending: &FetchEnding) -> Self {
        match ending {
            FetchEnding::Response(response) => {
                let body = &response.body;
                let has_body = response.status < 300 || !body.bytes.is_empty();
                Self::Response {
                    status: response.status,
                    fields: response.fields.clone(),
                    body: has_body.then(|| {
                        let known = body.digest.as_deref().copied();
                        BodyRecord {
                            digest: known.unwrap_or_else(|| Sha256Digest::of(&body.bytes).0),
                            is_cut: body.is_cut,
                        }
                    }),
                }
            }
            FetchEnding::RedirectLost(status) => Self::RedirectLost(*status),
            // An entry holds the answer that a 304 confirmed, never the 304 itself.
            FetchEnding::NotModified(fields) => {
                Self::Response { status: 304, fields: fields.clone(), body: None }
            }
            FetchEnding::Failed(error) => {
                Self::Failed { kind: error.kind.as_str().to_owned(), detail: error.detail.clone() }
            }
        }
    }

    fn into_ending(self, bytes: Option<Arc<[u8]>>) -> FetchEnding {
        match self {
            Self::Response { status, fields, body } => FetchEnding::Response(FetchedResponse {
                status,
                fields,
                body: FetchedBody {
                    bytes: bytes.unwrap_or_default(),
                    is_cut: body.is_some_and(|body| body.is_cut),
                    digest: body.map(|body| Arc::new(body.digest)),
                },
            }),
            Self::AsksForSignature { status, fields } => FetchEnding::Response(FetchedResponse {
                status,
                fields,
                body: FetchedBody::default(),
            }),
            Self::RedirectLost(status) => FetchEnding::RedirectLost(status),
            Self::Failed { kind, detail } => {
                let kind = FetchErrorKind::ALL
                    .into_iter()
                    .find(|known| known.as_str() == kind)
                    .unwrap_or(FetchErrorKind::Internal);
                FetchEnding::Failed(FetchError { kind, detail })
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use wayleave_lifecycle::ChosenBy;
    use wayleave_robots_txt::Origin;

    use super::*;

    /// An answer with status 403 at 1 ms after the epoch, as programs wrote it that did not record identities.
    pub(crate) const EARLIER: [u8; 16] = [1, 1, 0, 0, 0, 0x93, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    /// The same of an answer with status 401 that asked for a signature.
    const EARLIER_ASKING: [u8; 15] = [1, 1, 0, 0, 3, 0x91, 0x03, 0, 0, 0, 0, 0, 0, 0, 0];

    fn shop() -> Resource {
        Origin::parse("https://shop.example").expect("an origin").into()
    }

    pub(crate) fn identity() -> FetchIdentity {
        FetchIdentity {
            crawler: Some("news".into()),
            user_agent: Some("NewsBot/1".into()),
            key: Some("thumbprint".into()),
            agent: Some("https://bot.example".into()),
            source: Some([192, 0, 2, 1].into()),
            chosen: ChosenBy::Public,
        }
    }

    #[test]
    fn entries_of_earlier_programs_are_the_proxys_own() {
        for (bytes, status) in [(&EARLIER[..], 403), (&EARLIER_ASKING, 401)] {
            let record: EntryRecord = postcard::from_bytes(bytes).expect("it is read");
            let answer = record.into_entry(&shop(), None).answer.expect("it has one");
            assert_eq!(answer.outcome.status(), Some(status));
            assert_eq!(answer.fetched_as, FetchIdentity::proxy());
            assert!(!answer.counts_for(&identity()));
        }
    }

    #[test]
    fn earlier_programs_read_our_entries() {
        let record: EntryRecord = postcard::from_bytes(&EARLIER).expect("it is read");
        let mut entry = record.into_entry(&shop(), None);
        if let Some(answer) = &mut entry.answer {
            Arc::make_mut(answer).fetched_as = identity().into();
        }
        let written = postcard::to_stdvec(&EntryRecord::new(&shop(), &entry)).expect("it fits");
        assert!(written.len() > EARLIER.len());
        let earlier: FetchesRecord = postcard::from_bytes(&written).expect("it is read");
        assert_eq!(postcard::to_stdvec(&earlier).expect("it fits"), EARLIER);
        let ours: EntryRecord = postcard::from_bytes(&written).expect("it is read");
        assert_eq!(ours.into_entry(&shop(), None), entry);
    }

    #[test]
    fn identities_are_stored_as_by_earlier_programs() {
        let mut expected = Vec::new();
        for text in ["news", "NewsBot/1", "thumbprint", "https://bot.example"] {
            expected.extend([1, u8::try_from(text.len()).expect("it is short")]);
            expected.extend_from_slice(text.as_bytes());
        }
        expected.extend([1, 0, 192, 0, 2, 1, 2]);
        assert_eq!(postcard::to_stdvec(&identity()).expect("it fits"), expected);
        // A party that a later version knows.
        *expected.last_mut().expect("it has bytes") = 3;
        let read: FetchIdentity = postcard::from_bytes(&expected).expect("it is read");
        assert_eq!(read.chosen, ChosenBy::Public);
    }
}
