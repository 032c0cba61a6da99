//! The format of entries on disk.
//!
//! These types are encoded by postcard, which writes no names: a field added, removed or moved is another format, whose
//! number is `FORMAT` in `store/upkeep.rs`. Bodies are stored separately, by digest, because many origins share one.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{
    CacheEntry, FailureRun, FetchEnding, FetchError, FetchErrorKind, FetchOutcome, FetchResult,
    FetchedBody, FetchedResponse, FinishedFetch, RedirectHop, Resource, ResponseFields,
};

/// An entry without its body.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EntryRecord {
    answer: Option<FetchRecord>,
    failing: Option<FailureRunRecord>,
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
    /// A response that asks for a signature which its request did not have. It must remain the last variant, so that
    /// older stores decode as before.
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
        Self {
            answer: entry.answer.as_deref().map(|answer| FetchRecord::new(resource, answer)),
            failing: failing.map(|failing| FailureRunRecord {
                since: millis(failing.since),
                count: failing.count,
                last: FetchRecord::new(resource, &failing.last),
            }),
        }
    }

    /// Returns the body of the answer, if it has one.
    pub(super) fn body(&self) -> Option<BodyRecord> {
        match &self.answer.as_ref()?.ending {
            EndingRecord::Response { body, .. } => *body,
            _ => None,
        }
    }

    /// Returns when the answer was seen, and the version that it belongs to.
    pub(super) fn version(&self) -> Option<(u64, VersionRecord)> {
        let answer = self.answer.as_ref()?;
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
        let answered_at = self.answer.as_ref().map_or(0, |answer| answer.fetched_at);
        let failed_at = self.failing.as_ref().map_or(0, |failing| failing.last.fetched_at);
        answered_at.max(failed_at)
    }

    /// Moves all times so that the origin was last contacted `at`: times from another node are relative to its clock.
    pub(super) fn shift_to(&mut self, at: SystemTime) {
        let (from, to) = (self.last_contact_at(), millis(at));
        let failing = self.failing.iter_mut();
        let times = failing.flat_map(|failing| {
            let last = failing.last.times();
            last.chain([&mut failing.since])
        });
        let answer = self.answer.iter_mut().flat_map(FetchRecord::times);
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
        let answer = self.answer.map(|answer| answer.into_finished(resource, bytes));
        // Another version of this program may have accepted more as an answer, such as a truncated file.
        let answer = answer.filter(|answer| answer.outcome.result() != FetchResult::Unreachable);
        CacheEntry {
            answer: answer.map(Arc::new),
            failures: self.failing.map(|failing| FailureRun {
                since: time(failing.since),
                count: failing.count,
                last: Arc::new(failing.last.into_finished(resource, None)),
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

    fn into_finished(self, resource: &Resource, bytes: Option<Arc<[u8]>>) -> FinishedFetch {
        let redirects = self.redirects.into_iter();
        FinishedFetch {
            fetched_at: time(self.fetched_at),
            outcome: FetchOutcome {
                redirects: redirects.map(|(uri, status)| RedirectHop { uri, status }).collect(),
                uri: if self.uri.is_empty() { resource.uri() } else { self.uri },
                ending: self.ending.into_ending(bytes),
            },
        }
    }
}

impl EndingRecord {
    fn new(ending: &FetchEnding) -> Self {
        match ending {
            FetchEnding::Response(response) if response.fields.asks_for_signature => {
                Self::AsksForSignature {
                    status: response.status,
                    fields: FieldsRecord::new(&response.fields),
                }
            }
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
                fields: ResponseFields { asks_for_signature: true, ..fields.into_fields() },
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
            asks_for_signature: false,
        }
    }
}
