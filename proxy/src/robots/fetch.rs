//! Fetches robots.txt and follows redirects, within one deadline.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{HeaderMap, StatusCode, header};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Url;
use wayleave_policy::lifecycle::{
    Ending, FetchError, FetchErrorKind, FetchOutcome, FetchRequest, Hop, Response,
};

use super::body::{self, Coding};
use super::fields;
use super::redirect::{ChosenBy, Gate};
use super::room::{Place, Room};
use crate::clock::Clock;
use crate::observe::metrics::Metrics;
use crate::observe::traces::Traces;
use crate::origin::egress::Egress;
use crate::origin::pool::Idle;
use crate::tls;

/// A longer `Location` is not followed.
const MAX_URI_BYTES: usize = 8 * 1024;

/// Fetches robots.txt files: over HTTP, or in tests from a script.
pub trait Fetch: Send + Sync + 'static {
    /// Fetches one, by `user_agent` if one is given instead of its own; always comes to an end, and in bounded time.
    fn fetch(
        &self,
        request: FetchRequest,
        user_agent: Option<&str>,
    ) -> impl Future<Output = Fetched> + Send;
}

/// What a fetch brought.
#[derive(Debug)]
pub struct Fetched {
    /// How it ended.
    pub outcome: FetchOutcome,
    /// What its file holds of the room, to be dropped when that is counted.
    pub(super) place: Option<Place>,
}

impl From<FetchOutcome> for Fetched {
    fn from(outcome: FetchOutcome) -> Self {
        Self {
            outcome,
            place: None,
        }
    }
}

/// How robots.txt is fetched; part of `[robots]` and `[upstream]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchOptions {
    /// The `User-Agent` field of fetches that nobody has made by another. Default: `wayleave/` and the version.
    pub user_agent: String,
    /// For one fetch from the first look-up to the last byte, all redirects together. Default: 10 s.
    pub timeout: Duration,
    /// For the look-up, TCP and TLS together, of each redirect anew. Default: 10 s.
    pub connect_timeout: Duration,
    /// Redirects followed; one more, and the file counts as unavailable. Default: 5 (RFC 9309, 2.3.1.2).
    pub max_redirects: usize,
    /// What is read of a body after decoding, in bytes. Default: 500 KiB (RFC 9309, 2.5).
    pub max_size: usize,
    /// What long files may hold while they are fetched, in bytes. Default: 32 MiB, the share of 256 MiB.
    pub memory: usize,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            user_agent: concat!("wayleave/", env!("CARGO_PKG_VERSION")).to_owned(),
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            max_redirects: 5,
            max_size: 500 * 1024,
            memory: 32 << 20,
        }
    }
}

/// Fetches over HTTP/1.1, or HTTP/2 where nothing else is spoken, each time on a connection of its own: an origin is
/// asked once a day. The request that waits for the answer can have the connection then.
pub struct HttpFetch {
    pub(super) egress: Arc<Egress>,
    /// Offers HTTP/1.1, which all origins speak but a few: its connection serves whoever waits for the answer.
    pub(super) tls: TlsConnector,
    /// Offers HTTP/2, too.
    pub(super) tls_any: TlsConnector,
    pub(super) idle: Option<Arc<Idle>>,
    pub(super) options: FetchOptions,
    pub(super) gate: OnceLock<Gate>,
    pub(super) clock: Clock,
    traces: Option<Arc<Traces>>,
    metrics: Option<Arc<Metrics>>,
    pub(super) room: Room,
}

impl std::fmt::Debug for HttpFetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpFetch")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Where a fetch has got to.
struct Way {
    redirects: Vec<Hop>,
    uri: String,
    /// Who named the host of `uri`.
    chosen: ChosenBy,
    place: Option<Place>,
}

impl HttpFetch {
    /// Fetches by `options` through `egress`, trusting whom `tls` trusts. The protocols that `tls` offers are replaced.
    pub fn new(
        egress: Arc<Egress>,
        tls: &rustls::ClientConfig,
        options: FetchOptions,
        clock: Clock,
    ) -> Self {
        Self {
            egress,
            tls: tls::offering(tls, &[b"http/1.1"]),
            tls_any: tls::offering(tls, &[b"h2", b"http/1.1"]),
            idle: None,
            // A long file may come slowly, but not for as long as others can wait.
            room: Room::new(options.memory, options.timeout / 10),
            options,
            gate: OnceLock::new(),
            clock,
            traces: None,
            metrics: None,
        }
    }

    /// The same, but its connections to origins go to `idle` when they are done.
    pub(crate) fn handing_over(mut self, idle: Arc<Idle>) -> Self {
        self.idle = Some(idle);
        self
    }

    /// The same, but each fetch is also sent as a span.
    pub(crate) fn traced(mut self, traces: Option<Arc<Traces>>) -> Self {
        self.traces = traces;
        self
    }

    /// The same, but what is odd about responses is counted.
    pub(crate) fn counted(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// From now on redirects pass `gate`.
    pub(crate) fn follow_by(&self, gate: Gate) {
        // There is one for the life of the process, whose parts are made after this.
        let _ = self.gate.set(gate);
    }

    async fn follow(
        &self,
        request: &FetchRequest,
        user_agent: &str,
        way: &mut Way,
    ) -> Result<Ending, FetchError> {
        loop {
            let url = Url::parse(&way.uri).map_err(|error| bad_redirect(error.to_string()))?;
            let validators = request
                .validators
                .as_ref()
                .filter(|validators| validators.uri == way.uri);
            let asking = self.ask(&url, validators, user_agent, way.chosen);
            let mut exchange = match way.redirects.is_empty() {
                true => asking.await?,
                false => self.pass(&url, asking).await?,
            };
            way.chosen = way.chosen.then(exchange.is_public);
            let status = exchange.response.status();
            if !is_redirect(status) {
                let is_conditional = validators.is_some();
                let (ending, place) = self.finish(&mut exchange.response, is_conditional).await?;
                way.place = place;
                if way.redirects.is_empty() {
                    self.hand_over(&request.origin, exchange).await;
                }
                return Ok(ending);
            }
            if way.redirects.len() >= self.options.max_redirects {
                return Ok(Ending::RedirectLost(status.as_u16()));
            }
            let next = redirect_target(&url, exchange.response.headers())?;
            let uri = std::mem::replace(&mut way.uri, next.into());
            let status = status.as_u16();
            way.redirects.push(Hop { uri, status });
        }
    }

    /// Reads what counts of a response that is not a redirect to follow.
    async fn finish(
        &self,
        response: &mut http::Response<hyper::body::Incoming>,
        is_conditional: bool,
    ) -> Result<(Ending, Option<Place>), FetchError> {
        let status = response.status();
        let fields = fields::read(response.headers(), self.clock.now());
        if status == StatusCode::NOT_MODIFIED && is_conditional {
            return Ok((Ending::NotModified(fields), None));
        }
        // The bodies of other answers say nothing to a crawler.
        let (mut body, mut place) = Default::default();
        if status.is_success() {
            let coding = Coding::of(response.headers())?;
            let read = body::read(response, coding, self.options.max_size, &self.room).await?;
            if let Some(metrics) = &self.metrics {
                metrics.origin_oddities(read.oddities);
            }
            (body, place) = (read.body, read.place);
        }
        let status = status.as_u16();
        let response = Response {
            status,
            fields,
            body,
        };
        Ok((Ending::Response(response), place))
    }
}

impl Fetch for HttpFetch {
    async fn fetch(&self, request: FetchRequest, user_agent: Option<&str>) -> Fetched {
        let user_agent = user_agent.unwrap_or(&self.options.user_agent);
        let started_at = self.clock.now();
        let mut way = Way {
            redirects: Vec::new(),
            uri: request.origin.robots_txt_uri(),
            chosen: ChosenBy::Crawler,
            place: None,
        };
        let follow = self.follow(&request, user_agent, &mut way);
        let ending = match timeout(self.options.timeout, follow).await {
            Ok(ending) => ending.unwrap_or_else(Ending::Failed),
            Err(_) => Ending::Failed(FetchError {
                kind: FetchErrorKind::Timeout,
                detail: format!("not done within {:?}", self.options.timeout),
            }),
        };
        let outcome = FetchOutcome {
            redirects: way.redirects,
            uri: way.uri,
            ending,
        };
        if let Some(traces) = &self.traces {
            let uri = request.origin.robots_txt_uri();
            traces.robots_fetch(&uri, started_at, self.clock.now(), &outcome);
        }
        Fetched {
            outcome,
            place: way.place,
        }
    }
}

/// Fetches by what is there when a fetch begins, and by that to its end: what is there can be replaced.
impl<F: Fetch> Fetch for Arc<ArcSwap<F>> {
    async fn fetch(&self, request: FetchRequest, user_agent: Option<&str>) -> Fetched {
        let current = self.load_full();
        current.fetch(request, user_agent).await
    }
}

/// The redirects that name where to go on (RFC 9110, 15.4): 300 leaves the choice to people, 305 and 306 are no more.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn redirect_target(from: &Url, headers: &HeaderMap) -> Result<Url, FetchError> {
    let mut locations = headers.get_all(header::LOCATION).iter();
    let (Some(location), None) = (locations.next(), locations.next()) else {
        return Err(bad_redirect("there is not exactly one Location field"));
    };
    let location = std::str::from_utf8(location.as_bytes())
        .map_err(|_| bad_redirect("the Location is not text"))?;
    if location.len() > MAX_URI_BYTES {
        return Err(bad_redirect("the Location is too long"));
    }
    let mut target = from
        .join(location)
        .map_err(|error| bad_redirect(format!("Location: {error}")))?;
    if !matches!(target.scheme(), "http" | "https") {
        let scheme = target.scheme();
        return Err(bad_redirect(format!("Location with scheme {scheme}")));
    }
    target.set_fragment(None);
    // Neither fails for a URL with a host, which http and https ones have.
    let _ = target.set_username("");
    let _ = target.set_password(None);
    Ok(target)
}

fn bad_redirect(detail: impl Into<String>) -> FetchError {
    FetchError {
        kind: FetchErrorKind::BadRedirect,
        detail: detail.into(),
    }
}
