//! The format of entries on disk.
//!
//! These types are encoded by postcard, which writes no names: a field added, removed or moved is another format, whose
//! number is `FORMAT` in `store/upkeep.rs`. Only at the very end can something be added, as [`Trailing`]: earlier programs
//! leave it unread. Bodies are stored separately, by digest, because many origins share one.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize};
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{
    CacheEntry, ChosenBy, FailureRun, FetchEnding, FetchError, FetchErrorKind, FetchIdentity,
    FetchOutcome, FetchResult, FetchedBody, FetchedResponse, FinishedFetch, RedirectHop, Resource,
    ResponseFields,
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
    redirects: Vec<(String, u16)>,
    /// The URL of the last request; empty for the resource's own.
    uri: String,
    ending: EndingRecord,
}

#[derive(Debug, Serialize, Deserialize)]
enum EndingRecord {
    Response {
        status: u16,
        fields: FieldsRecord,
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
        fields: FieldsRecord,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BodyRecord {
    pub(super) digest: [u8; 32],
    pub(super) is_cut: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct FieldsRecord {
    age: Option<Box<str>>,
    cache_control: Option<Box<str>>,
    content_type: Option<Box<str>>,
    etag: Option<Box<str>>,
    expires_at: Option<u64>,
    last_modified: Option<Box<str>>,
    retry_at: Option<u64>,
}

/// As whom the fetches of an entry were made, and whether others may get other answers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Provenance {
    answer: Option<SourceRecord>,
    failing: Option<SourceRecord>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct SourceRecord {
    identity: IdentityRecord,
    varies: bool,
}

/// A [`FetchIdentity`].
#[derive(Debug, Default, Serialize, Deserialize)]
struct IdentityRecord {
    crawler: Option<Box<str>>,
    user_agent: Option<Box<str>>,
    key: Option<Box<str>>,
    agent: Option<Box<str>>,
    source: Option<IpAddr>,
    chosen: u8,
}

/// The parties that may have chosen a host, by their number in records.
const CHOOSERS: [ChosenBy; 3] = [ChosenBy::Crawler, ChosenBy::Internal, ChosenBy::Public];

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
            identity: IdentityRecord::new(&finished.fetched_as),
            varies: finished.outcome.fields().is_some_and(|fields| fields.varies),
        }
    }
}

impl IdentityRecord {
    fn new(identity: &FetchIdentity) -> Self {
        let text = |text: &Option<Arc<str>>| text.as_deref().map(Box::from);
        let chosen = CHOOSERS.iter().position(|chosen| *chosen == identity.chosen);
        Self {
            crawler: text(&identity.crawler),
            user_agent: text(&identity.user_agent),
            key: text(&identity.key),
            agent: text(&identity.agent),
            source: identity.source,
            chosen: chosen.and_then(|number| u8::try_from(number).ok()).unwrap_or_default(),
        }
    }

    fn into_identity(self) -> Arc<FetchIdentity> {
        let text = |text: Option<Box<str>>| text.map(Arc::from);
        let identity = FetchIdentity {
            crawler: text(self.crawler),
            user_agent: text(self.user_agent),
            key: text(self.key),
            agent: text(self.agent),
            source: self.source,
            // A number of a later program: the narrowest.
            chosen: CHOOSERS.get(usize::from(self.chosen)).copied().unwrap_or(ChosenBy::Public),
        };
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
}

/// One version of a document, with the time when it was last seen.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VersionRecord {
    pub(super) last_seen_at: u64,
    pub(super) status: u16,
    pub(super) body: Option<BodyRecord>,
}

/// Returns the milliseconds since the epoch.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn time(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}

impl EntryRecord {
    pub(super) fn new(resource: &Resource, entry: &CacheEntry) -> Self {
        let failing = entry.failures.as_ref();
        let fetches = FetchesRecord {
            answer: entry.answer.as_deref().map(|answer| FetchRecord::new(resource, answer)),
            failing: failing.map(|failing| FailureRunRecord {
                since: millis(failing.since),
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
        let (from, to) = (self.last_contact_at(), millis(at));
        let failing = self.fetches.failing.iter_mut();
        let times = failing.flat_map(|failing| {
            let last = failing.last.times();
            last.chain([&mut failing.since])
        });
        let answer = self.fetches.answer.iter_mut().flat_map(FetchRecord::times);
        for time in times.chain(answer) {
            *time = if to >= from {
                time.saturating_add(to - from)
            } else {
                time.saturating_sub(from - to)
            };
        }
    }

    /// Returns the entry whose answer has the body `bytes`.
    pub(super) fn into_entry(self, resource: &Resource, bytes: Option<Arc<[u8]>>) -> CacheEntry {
        let Self { fetches, provenance } = self;
        let Provenance { answer: answer_from, failing: failing_from } = provenance.0;
        let answer = fetches.answer.map(|it| it.into_finished(resource, answer_from, bytes));
        // Another version of this program may have accepted more as an answer, such as a truncated file.
        let answer = answer.filter(|answer| answer.outcome.result() != FetchResult::Unreachable);
        CacheEntry {
            answer: answer.map(Arc::new),
            failures: fetches.failing.map(|failing| FailureRun {
                since: time(failing.since),
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
        let redirects = outcome.redirects.iter();
        Self {
            fetched_at: millis(finished.fetched_at),
            redirects: redirects.map(|hop| (hop.uri.clone(), hop.status)).collect(),
            uri: if is_usual { String::new() } else { outcome.uri.clone() },
            ending: EndingRecord::new(&outcome.ending),
        }
    }

    fn times(&mut self) -> impl Iterator<Item = &mut u64> {
        let fields = match &mut self.ending {
            EndingRecord::Response { fields, .. }
            | EndingRecord::AsksForSignature { fields, .. } => Some(fields),
            _ => None,
        };
        let stated = fields.into_iter().flat_map(|fields| {
            let expires_at = fields.expires_at.iter_mut();
            // The epoch stands for an invalid date, and must remain in the past.
            let expires_at = expires_at.filter(|at| **at != 0);
            expires_at.chain(fields.retry_at.iter_mut())
        });
        stated.chain([&mut self.fetched_at])
    }

    fn into_finished(
        self,
        resource: &Resource,
        source: Option<SourceRecord>,
        bytes: Option<Arc<[u8]>>,
    ) -> FinishedFetch {
        let redirects = self.redirects.into_iter();
        // Programs that did not record it did not look at `Vary` either.
        let source = source.unwrap_or_default();
        let mut ending = self.ending.into_ending(bytes);
        if let FetchEnding::Response(response) = &mut ending {
            response.fields.varies = source.varies;
        }
        FinishedFetch {
            fetched_at: time(self.fetched_at),
            fetched_as: source.identity.into_identity(),
            outcome: FetchOutcome {
                redirects: redirects.map(|(uri, status)| RedirectHop { uri, status }).collect(),
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
                    fields: FieldsRecord::new(&response.fields),
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
                Self::Response { status: 304, fields: FieldsRecord::new(fields), body: None }
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
                fields: fields.into_fields(),
                body: FetchedBody {
                    bytes: bytes.unwrap_or_default(),
                    is_cut: body.is_some_and(|body| body.is_cut),
                    digest: body.map(|body| Arc::new(body.digest)),
                },
            }),
            Self::AsksForSignature { status, fields } => FetchEnding::Response(FetchedResponse {
                status,
                fields: fields.into_fields(),
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

impl FieldsRecord {
    fn new(fields: &ResponseFields) -> Self {
        Self {
            age: fields.age.clone(),
            cache_control: fields.cache_control.clone(),
            content_type: fields.content_type.clone(),
            etag: fields.etag.clone(),
            expires_at: fields.expires_at.map(millis),
            last_modified: fields.last_modified.clone(),
            retry_at: fields.retry_at.map(millis),
        }
    }

    fn into_fields(self) -> ResponseFields {
        ResponseFields {
            age: self.age,
            cache_control: self.cache_control,
            content_type: self.content_type,
            etag: self.etag,
            expires_at: self.expires_at.map(time),
            last_modified: self.last_modified,
            retry_at: self.retry_at.map(time),
            varies: false,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
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
}
