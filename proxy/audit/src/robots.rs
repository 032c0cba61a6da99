//! The robots.txt files that decisions rest on.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use wayleave_decision::{Reason, RequestOutcome};
use wayleave_decision_log::{DecisionRecord, FindingRecord};
use wayleave_evidence::Sha256Digest;
use wayleave_lifecycle::{FetchErrorKind, FetchedBody};
use wayleave_record::RobotsAccess;
use wayleave_robots_txt::{AccessResult, Dialect, RobotsTxt};

/// The memory for parsed files, in bytes.
const PARSED_BYTES: u64 = 64 << 20;

/// Reads the body with a digest, if it is there.
pub(crate) type BodyReader<'a> = dyn Fn(Sha256Digest) -> Option<Vec<u8>> + 'a;

/// A cache of parsed robots.txt files.
pub(crate) struct ParsedRobots {
    parsed: Cache<(Sha256Digest, bool), Arc<AccessResult>, ParsedSize>,
}

#[derive(Clone)]
struct ParsedSize;

impl Weighter<(Sha256Digest, bool), Arc<AccessResult>> for ParsedSize {
    fn weight(&self, _: &(Sha256Digest, bool), access: &Arc<AccessResult>) -> u64 {
        match &**access {
            AccessResult::Successful(robots) => robots.heap_bytes() as u64 + 256,
            _ => 256,
        }
    }
}

impl ParsedRobots {
    pub(crate) fn new() -> Self {
        Self::with_memory(PARSED_BYTES)
    }

    /// Creates a cache of so many bytes.
    pub(crate) fn with_memory(bytes: u64) -> Self {
        Self { parsed: Cache::with_weighter(1024, bytes, ParsedSize) }
    }

    /// Returns the result of fetching the file, as the decision records it.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is missing, or the line cannot be read.
    pub(crate) fn access(
        &self,
        finding: &FindingRecord,
        body: &BodyReader<'_>,
    ) -> Result<Arc<AccessResult>, String> {
        let word = finding.robots_access.as_ref();
        let word = word.ok_or("the line does not record the result of fetching robots.txt")?;
        let result = word
            .known()
            .ok_or_else(|| format!("this version does not know robots_access {word:?}"))?;
        let copy = || match finding.robots_sha256 {
            Some(digest) => self.parse_copy(digest, finding.robots_cut, body),
            None => Err("the line does not name the robots.txt".to_owned()),
        };
        let robots = |wrap: fn(RobotsTxt) -> AccessResult| {
            let access = copy()?;
            let AccessResult::Successful(robots) = &*access else {
                unreachable!("copies are parsed as such");
            };
            Ok(Arc::new(wrap(robots.clone())))
        };
        match result {
            RobotsAccess::Successful | RobotsAccess::Pinned => copy(),
            RobotsAccess::Unavailable => match finding.robots_status {
                Some(status) => Ok(Arc::new(AccessResult::Unavailable { status })),
                None => Err(format!("this version does not know robots_access {word:?}")),
            },
            RobotsAccess::RedirectLost => Ok(Arc::new(AccessResult::RedirectLost)),
            RobotsAccess::LongUnreachable => Ok(Arc::new(AccessResult::LongUnreachable)),
            // A copy that does not decide is not recorded.
            RobotsAccess::Lapsed if finding.robots_sha256.is_some() => robots(AccessResult::Lapsed),
            RobotsAccess::LongLapsed if finding.robots_sha256.is_some() => {
                robots(AccessResult::LongLapsed)
            }
            // For "strictest" it allowed the request in the other dialects, as an empty one does.
            RobotsAccess::LongLapsed if finding.dialect == Dialect::Koster1996 => {
                Ok(Arc::new(AccessResult::LongLapsed(RobotsTxt::parse(b""))))
            }
            RobotsAccess::Unreachable | RobotsAccess::Lapsed | RobotsAccess::LongLapsed => {
                Ok(Arc::new(AccessResult::Unreachable))
            }
        }
    }

    /// Returns the file with a digest.
    ///
    /// # Errors
    ///
    /// Returns an error if it is missing.
    pub(crate) fn parse_copy(
        &self,
        digest: Sha256Digest,
        is_cut: bool,
        body: &BodyReader<'_>,
    ) -> Result<Arc<AccessResult>, String> {
        if let Some(parsed) = self.parsed.get(&(digest, is_cut)) {
            return Ok(parsed);
        }
        let bytes = body(digest);
        let bytes = bytes.ok_or_else(|| format!("the robots.txt {digest} is missing"))?;
        let body = FetchedBody { bytes: bytes.into(), is_cut, digest: None };
        let parsed = Arc::new(AccessResult::Successful(body.parse()));
        self.parsed.insert((digest, is_cut), Arc::clone(&parsed));
        Ok(parsed)
    }
}

/// Returns the kind of error of fetching robots.txt, if that was the reason of the decision.
pub(crate) fn fetch_error_kind(decision: &DecisionRecord) -> Option<FetchErrorKind> {
    match decision.reason.known()? {
        Reason::DestinationIpProhibited if decision.outcome == RequestOutcome::Refused => {
            Some(FetchErrorKind::Prohibited)
        }
        // That the name may exist is answered with 503: it is worth asking again.
        Reason::DnsError if decision.status == 503 => Some(FetchErrorKind::Dns),
        Reason::DnsError => Some(FetchErrorKind::NoSuchName),
        Reason::DnsTimeout => Some(FetchErrorKind::DnsTimeout),
        Reason::ProxyInternalError => Some(FetchErrorKind::Local),
        _ => None,
    }
}
