//! Fetches robots.txt and the documents next to it, following redirects, within one deadline. `wayleave-lifecycle` classifies
//! how a fetch ended ([`FetchResult`]).

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use http::{HeaderMap, header};
use tokio::time::{Instant, timeout_at};
use url::Url;
use wayleave_clock::Clock;
use wayleave_fairness::WorkPool;
use wayleave_lifecycle::{
    CacheValidators, ChosenBy, FetchEnding, FetchError, FetchErrorKind, FetchIdentity,
    FetchOutcome, FetchRequest, FetchResult, FetchedResponse, RedirectHop, ResponseFields,
};
use wayleave_otlp::traces::Traces;
use wayleave_robots_txt::Target;
use wayleave_upstream::{Upstream, UpstreamReader};

use super::body;
use super::dialled_hosts::DialledHosts;
use super::document_sender::DocumentSender;
use super::fetch_memory::{FetchMemory, MemoryReservation};
use super::fields;
use super::identities::FetchIdentities;
use super::own_request::{OwnRequest, OwnRequestPolicy};
use super::queue::FetchLimits;
use super::redirect_targets::{HopAnswer, NextHop, RedirectTargets, TargetKey};

/// The maximum length of a `Location` that is followed.
const MAX_LOCATION_BYTES: usize = 8 * 1024;

/// Fetches robots.txt files: over HTTP, or from a script in tests.
pub trait DocumentFetcher: Send + Sync + 'static {
    /// Fetches one document, for a request that passed the proxies in `via`. Always ends, and in bounded time.
    fn fetch(
        &self,
        request: FetchRequest,
        via: Option<&[u8]>,
    ) -> impl Future<Output = FetchedDocument> + Send;

    /// Returns the identity to fetch as now, of which an earlier one may have been `stored`; `None` if it no longer exists.
    fn current_identity(&self, stored: &Arc<FetchIdentity>) -> Option<Arc<FetchIdentity>> {
        Some(Arc::clone(stored))
    }

    /// Forgets the answers that a fetch with this outcome would share with other origins, because a new one is wanted.
    fn forget_shared(&self, _previous: &FetchOutcome) {}
}

/// The result of a fetch.
#[derive(Debug)]
pub struct FetchedDocument {
    /// The outcome, from the first request to the last redirect's answer.
    pub outcome: FetchOutcome,
    /// The memory reserved for its body, to be released once the body is counted as an entry.
    pub(super) reservation: Option<MemoryReservation>,
    /// The time at which it was received, perhaps for another origin that redirects to the same URL; `None`: now.
    pub(super) fetched_at: Option<SystemTime>,
}

impl From<FetchOutcome> for FetchedDocument {
    fn from(outcome: FetchOutcome) -> Self {
        Self { outcome, reservation: None, fetched_at: None }
    }
}

/// The configuration of fetches; part of `[robots]` and `[upstream]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchConfig {
    /// The `User-Agent` of fetches that no crawler gives another one. Default: `wayleave/` and the version.
    pub user_agent: String,
    /// The timeout of a fetch, from the first look-up to the last byte, including all redirects. Default: 10 s.
    pub timeout: Duration,
    /// The maximum number of redirects; after one more, the file counts as unavailable. Default: 5 (RFC 9309, 2.3.1.2).
    pub max_redirects: usize,
    /// The longest time for which an answer is fresh: `robots.max_age`.
    pub max_age: Duration,
    /// The maximum number of bytes read of a body, after decoding. Default: 500 KiB (RFC 9309, 2.5).
    pub max_size_bytes: usize,
    /// The maximum number of bytes that long files hold while they are fetched. Default: 32 MiB, their share of 256
    /// MiB.
    pub memory_bytes: usize,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self {
            user_agent: concat!("wayleave/", env!("CARGO_PKG_VERSION")).to_owned(),
            timeout: Duration::from_secs(10),
            max_redirects: 5,
            max_age: Duration::from_hours(24),
            max_size_bytes: 500 * 1024,
            memory_bytes: 32 << 20,
        }
    }
}

/// Fetches over HTTP/1.1, or HTTP/2 where that is all an origin speaks, on a new connection each time: an origin is
/// asked once a day. Afterwards the connection is left to the request that waits for the answer.
pub struct HttpFetcher {
    pub(super) upstream: Arc<Upstream>,
    pub(super) options: FetchConfig,
    /// The rules for the proxy's own requests, such as redirects; without them all are sent.
    pub(super) own_request_policy: Option<Arc<dyn OwnRequestPolicy>>,
    pub(super) clock: Clock,
    traces: Option<Arc<Traces>>,
    pub(super) memory: FetchMemory,
    /// The pool for listings of FTP servers.
    pub(super) parser: WorkPool,
    /// The identities in effect, which a reload replaces.
    pub(super) identities: Arc<ArcSwap<FetchIdentities>>,
    pub(super) dialled: DialledHosts,
    targets: RedirectTargets,
}

impl std::fmt::Debug for HttpFetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpFetcher")
            .field("options", &self.options)
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

/// The state of a fetch that follows redirects.
struct FetchProgress {
    redirects: Vec<RedirectHop>,
    uri: String,
    /// The party that chose the host of `uri`.
    chosen: ChosenBy,
    reservation: Option<MemoryReservation>,
    /// The time of the last answer.
    fetched_at: Option<SystemTime>,
}

impl HttpFetcher {
    /// Returns a fetcher that uses `upstream`.
    pub fn new(upstream: Arc<Upstream>, options: FetchConfig, clock: Clock) -> Self {
        Self {
            upstream,
            // A long file may arrive slowly, but others that wait for memory give up after the timeout: a tenth of it
            // must do.
            memory: FetchMemory::new(options.memory_bytes, options.timeout / 10),
            dialled: DialledHosts::new(FetchLimits::default().per_host),
            targets: RedirectTargets::new(options.max_age, clock),
            parser: WorkPool::new(),
            options,
            own_request_policy: None,
            clock,
            traces: None,
            identities: Arc::default(),
        }
    }

    /// Returns the same fetcher, which parses in this pool.
    pub fn with_parser(mut self, parser: WorkPool) -> Self {
        self.parser = parser;
        self
    }

    /// Returns the same fetcher, which also exports each fetch as a span.
    pub fn with_traces(mut self, traces: Option<Arc<Traces>>) -> Self {
        self.traces = traces;
        self
    }

    /// Returns the identities of the configured crawlers.
    pub fn identities(&self) -> Arc<FetchIdentities> {
        self.identities.load_full()
    }

    /// Replaces the identities of the configured crawlers.
    pub fn set_identities(&self, identities: Arc<FetchIdentities>) {
        self.identities.store(identities);
    }

    /// Returns the same fetcher with the policy, identities, parser and traces of the one that it replaces.
    pub fn replacing(self, previous: &Self) -> Self {
        Self {
            own_request_policy: previous.own_request_policy.clone(),
            traces: previous.traces.clone(),
            identities: Arc::clone(&previous.identities),
            parser: previous.parser.clone(),
            ..self
        }
    }

    /// Returns the client that connects to origins.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Returns whether it uses this upstream.
    #[cfg(any(test, feature = "test-util"))]
    pub fn uses(&self, upstream: &Arc<Upstream>) -> bool {
        Arc::ptr_eq(&self.upstream, upstream)
    }

    /// Returns the same fetcher, whose requests are subject to `policy` where no crawler asked for them.
    pub fn with_own_request_policy(mut self, policy: Arc<dyn OwnRequestPolicy>) -> Self {
        self.own_request_policy = Some(policy);
        self
    }

    async fn fetch_final(
        &self,
        request: &FetchRequest,
        (via, deadline): (Option<&[u8]>, Instant),
        progress: &mut FetchProgress,
    ) -> Result<FetchEnding, FetchError> {
        let identity = &request.identity;
        let signer = self.identities.load().signer_of(identity);
        let sender = DocumentSender { identity, signer: signer.as_ref(), via, deadline };
        let mut varies = false;
        loop {
            let target = Target::parse(&progress.uri).map_err(|e| bad_redirect(e.to_string()))?;
            let chosen = progress.chosen;
            let is_elsewhere = target.origin().host() != request.resource.origin().host();
            // Others named it, and redirects may have led there as well.
            let is_named = progress.redirects.is_empty()
                && request.identity.chosen != ChosenBy::Crawler
                && request.validators.is_none();
            let hop = if is_elsewhere || is_named {
                let key = TargetKey::new(&progress.uri, identity, chosen);
                // Without validators, which belong to one of those that share the answer.
                // Boxed like the other: one in the other's place would make this future twice as large.
                let asking = Box::pin(self.ask(&target, (request, None), sender, chosen, is_named));
                let (hop, reservation) = self.targets.get_or_fetch(key, asking).await?;
                progress.reservation = reservation;
                Arc::unwrap_or_clone(hop)
            } else {
                let validators = request.validators.as_ref();
                // Validators belong to the URL that sent them: after a redirect they would be those of another resource.
                let validators = validators.filter(|validators| validators.uri == progress.uri);
                let is_first = progress.redirects.is_empty();
                let asking =
                    Box::pin(self.ask(&target, (request, validators), sender, chosen, is_first));
                let (hop, reservation) = asking.await?;
                progress.reservation = reservation;
                hop
            };
            // If this is a redirect, the next host is this server's choice.
            progress.chosen = chosen.for_next_host(hop.is_public);
            varies |= hop.varies;
            match hop.next {
                NextHop::End(mut ending) => {
                    progress.fetched_at = Some(hop.fetched_at);
                    ending.set_varies(varies);
                    return Ok(ending);
                }
                // RFC 9309, 2.3.1.2: after five redirects the file may be assumed to be unavailable.
                NextHop::Redirect { status, .. }
                    if progress.redirects.len() >= self.options.max_redirects =>
                {
                    return Ok(FetchEnding::RedirectLost(status));
                }
                NextHop::Redirect { status, to } => {
                    let uri = std::mem::replace(&mut progress.uri, to?.into());
                    progress.redirects.push(RedirectHop { uri, status });
                }
            }
        }
    }

    /// Sends one request of a fetch, once it may be sent, and reads the answer.
    async fn ask(
        &self,
        target: &Target,
        (request, validators): (&FetchRequest, Option<&CacheValidators>),
        sender: DocumentSender<'_>,
        chosen: ChosenBy,
        is_first: bool,
    ) -> Result<(HopAnswer, Option<MemoryReservation>), FetchError> {
        let host = target.origin().host();
        let entering = timeout_at(sender.deadline, self.dialled.enter(host, !is_first));
        let _place = entering.await.map_err(|_| {
            let detail = format!("{target}: too many requests to {host} are in progress");
            FetchError { kind: FetchErrorKind::OwnPace, detail }
        })?;
        // The robots.txt of a host that the crawler chose needs no admission. Others named the rest.
        let is_crawlers = chosen == ChosenBy::Crawler && request.resource.is_robots_txt();
        let own_request = OwnRequest {
            target: target.clone(),
            identity: Arc::clone(&request.identity),
            kind: request.resource.kind(),
            is_same_origin: target.origin() == request.resource.origin(),
            is_first,
        };
        let send = async |signature| {
            let sending = Box::pin(self.request(target, validators, (sender, signature), chosen));
            if is_crawlers {
                sending.await
            } else {
                self.request_admitted(&own_request, sender.deadline, sending).await
            }
        };
        let mut response = send(None).await?;
        // The second request is admitted like the first one. That response is left unread, and its connection with it.
        if let Some(signature) = response.requested_signature.take() {
            drop(response);
            response = send(Some(signature)).await?;
        }
        let status = response.status;
        let is_public = response.is_public;
        let fields = fields::read(&response.fields, self.clock.now());
        let varies = fields.varies;
        let mut reservation = None;
        let next = if is_redirect(status) {
            let to = redirect_target(&target.to_string(), &response.fields);
            NextHop::Redirect { status, to }
        } else {
            let received = (&response.fields, &mut response.reader);
            let read = self.read_response(status, fields, received, validators.is_some());
            let (ending, reserved) = read.await?;
            reservation = reserved;
            NextHop::End(ending)
        };
        response.finish(&self.upstream);
        let fetched_at = self.clock.now();
        Ok((HopAnswer { next, is_public, varies, fetched_at }, reservation))
    }

    /// Reads the parts of a final response that count.
    async fn read_response(
        &self,
        status: u16,
        response_fields: ResponseFields,
        (headers, reader): (&HeaderMap, &mut UpstreamReader),
        is_conditional: bool,
    ) -> Result<(FetchEnding, Option<MemoryReservation>), FetchError> {
        // Without a condition there is nothing to confirm, and RFC 9309, 2.3.1 gives the status no meaning.
        if status == 304 && is_conditional {
            return Ok((FetchEnding::NotModified(response_fields), None));
        }
        // The body of another response has no meaning in a robots.txt fetch (RFC 9309, 2.3.1).
        let (mut body, mut reservation) = Default::default();
        if FetchResult::of_status(status) == FetchResult::Successful {
            let codings = body::codings(headers)?;
            (body, reservation) =
                body::read(reader, &codings, self.options.max_size_bytes, &self.memory).await?;
        }
        let response = FetchedResponse { status, fields: response_fields, body };
        Ok((FetchEnding::Response(response), reservation))
    }
}

impl DocumentFetcher for HttpFetcher {
    async fn fetch(&self, request: FetchRequest, via: Option<&[u8]>) -> FetchedDocument {
        let started_at = self.clock.now();
        // Outside the future, so that a timeout still reports how far the fetch got.
        let mut progress = FetchProgress {
            redirects: Vec::new(),
            uri: request.resource.uri(),
            chosen: request.identity.chosen,
            reservation: None,
            fetched_at: None,
        };
        let deadline = Instant::now() + self.options.timeout;
        let follow = self.fetch_final(&request, (via, deadline), &mut progress);
        let ended = timeout_at(deadline, follow).await;
        let ending = ended
            .unwrap_or_else(|_| Err(timed_out(self.options.timeout)))
            .unwrap_or_else(FetchEnding::Failed);
        let outcome = FetchOutcome { redirects: progress.redirects, uri: progress.uri, ending };
        if let Some(traces) = &self.traces {
            let uri = request.resource.uri();
            traces.record_robots_fetch(&uri, started_at, self.clock.now(), &outcome);
        }
        FetchedDocument {
            outcome,
            reservation: progress.reservation,
            fetched_at: progress.fetched_at,
        }
    }

    fn forget_shared(&self, previous: &FetchOutcome) {
        let hops = previous.redirects.iter().map(|hop| hop.uri.as_str());
        let uris: Vec<_> = hops.chain([previous.uri.as_str()]).collect();
        self.targets.forget(&uris);
    }

    fn current_identity(&self, stored: &Arc<FetchIdentity>) -> Option<Arc<FetchIdentity>> {
        self.identities.load().current(stored)
    }
}

/// A fetcher that can be replaced. A fetch that has begun keeps the one that it began with.
impl<F: DocumentFetcher> DocumentFetcher for Arc<ArcSwap<F>> {
    async fn fetch(&self, request: FetchRequest, via: Option<&[u8]>) -> FetchedDocument {
        self.load_full().fetch(request, via).await
    }

    fn current_identity(&self, stored: &Arc<FetchIdentity>) -> Option<Arc<FetchIdentity>> {
        self.load().current_identity(stored)
    }

    fn forget_shared(&self, previous: &FetchOutcome) {
        self.load().forget_shared(previous);
    }
}

/// Returns whether a status is a redirect to follow (RFC 9110, 15.4): 300 leaves the choice to people, 305 is
/// deprecated and 306 unused.
fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

fn redirect_target(from: &str, headers: &HeaderMap) -> Result<Url, FetchError> {
    let from = Url::parse(from).map_err(|error| bad_redirect(error.to_string()))?;
    // RFC 9110, 10.2.2: the value is one URI, not a list that a client could choose from.
    let mut locations = headers.get_all(header::LOCATION).iter();
    let (Some(location), None) = (locations.next(), locations.next()) else {
        return Err(bad_redirect("there is not exactly one Location field"));
    };
    let location = std::str::from_utf8(location.as_bytes())
        .map_err(|_| bad_redirect("the Location is not text"))?;
    if location.len() > MAX_LOCATION_BYTES {
        return Err(bad_redirect("the Location is too long"));
    }
    let mut target =
        from.join(location).map_err(|error| bad_redirect(format!("Location: {error}")))?;
    if !matches!(target.scheme(), "http" | "https") {
        return Err(bad_redirect(format!("Location with scheme {}", target.scheme())));
    }
    target.set_fragment(None);
    // The origin must not make us send credentials to a host of its choice. Neither call fails for a URL with a host,
    // which http and https URLs have.
    let _ = target.set_username("");
    let _ = target.set_password(None);
    Ok(target)
}

/// Returns the error of a fetch that took too long.
pub(super) fn timed_out(timeout: Duration) -> FetchError {
    let detail = format!("not complete within {}", humantime::format_duration(timeout));
    FetchError { kind: FetchErrorKind::Timeout, detail }
}

fn bad_redirect(detail: impl Into<String>) -> FetchError {
    FetchError { kind: FetchErrorKind::BadRedirect, detail: detail.into() }
}
