//! The record of one exchange.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use wayleave_decision::{ASSERTED, AccessFinding, RequestOutcome};
use wayleave_evidence::{Sha256Digest, rfc3339};
use wayleave_telemetry::json_object::JsonObject;

use super::client_address::LoggedClient;
use super::use_preference::{DocumentRecord, UsePreference};

/// The longest `User-Agent` that is recorded. Real ones are shorter.
pub const MAX_USER_AGENT_BYTES: usize = 512;

/// The word for people for requests that match no `[[crawler]]`. The log, the API and metrics call them [`ASSERTED`].
pub const UNNAMED: &str = "unnamed";

/// Returns a crawler's name as people read it.
pub fn crawler_in_words(name: &str) -> &str {
    if name == ASSERTED { UNNAMED } else { name }
}

/// A word: a constant of this program, or a string read from a log.
pub type LogWord = Cow<'static, str>;

/// The id of a decision in the response, the log and the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecisionId(Uuid);

impl DecisionId {
    /// Makes a UUID of version 7, so that ids sort by time (RFC 9562 section 5.7).
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl FromStr for DecisionId {
    type Err = uuid::Error;

    /// Parses 32 hexadecimal digits with or without hyphens.
    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        Uuid::try_parse(text).map(Self)
    }
}

impl Serialize for DecisionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DecisionId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// One exchange: the crawler, the request, the decision with its reason, and the outcome.
///
/// This is a line of the decision log and an object of the API. Members that do not apply are left out.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Decision)]
pub struct DecisionRecord {
    #[schema(value_type = String, pattern = "^[0-9a-f]{32}$")]
    pub id: DecisionId,
    /// The time at which the request's head had been read.
    #[serde(serialize_with = "rfc3339::serialize", deserialize_with = "rfc3339::deserialize")]
    #[schema(value_type = String, format = DateTime)]
    pub at: SystemTime,
    /// `forwarded`, `refused`, `failed`, `tunnelled` or `observed`.
    #[schema(value_type = String)]
    pub outcome: LogWord,
    /// The reason, a word of a closed set: the metric's label and the problem's `reason`.
    #[schema(value_type = String)]
    pub reason: LogWord,
    /// The status code of the response to the client.
    pub status: u16,
    /// The crawler's configured name, or `asserted`.
    #[schema(value_type = String)]
    pub crawler: LogWord,
    /// `known` to the configuration, or `asserted` by the client alone.
    #[schema(value_type = String)]
    pub identity: LogWord,
    /// The team or the address that answers for a known crawler, if the configuration states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The proof of a known crawler's identity: `certificate`, `password` or `address`. Left out if there is none but the
    /// User-Agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub proven_by: Option<LogWord>,
    /// The name in the client's certificate, if it presented one: its first URI, DNS name or common name, else its SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The product tokens that were matched against robots.txt, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<String>,
    /// The `User-Agent` of the request, cut off at 512 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// Present if it was cut off. The crawler was recognised by all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub user_agent_cut: bool,
    /// The client's address, its network, or a digest, as `log.client_address` says.
    #[schema(value_type = String)]
    pub client: LoggedClient,
    /// The load balancer that passed on the client's address by the PROXY protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub peer: Option<IpAddr>,
    pub method: String,
    /// The target if it could be parsed, else the request target as received, of which at most 1 KiB is kept.
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The scope of the request if it is not a path: `robots-txt` (robots.txt itself), `server`, `every-path` or `bypass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub scope: Option<LogWord>,
    /// The user name, if its password was right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The delay between requests that robots.txt asks for, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robots_delay_us: Option<u64>,
    /// The trace id of the client's `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The organisation's rule that matched, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<RuleRecord>,
    /// The verdict of robots.txt, if it was consulted.
    #[serde(flatten)]
    pub finding: Option<FindingRecord>,
    /// The site's usage preference for each of the crawler's purposes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferences: Vec<UsePreference>,
    /// The documents other than robots.txt that were consulted for usage preferences, whatever they state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<DocumentRecord>,
    /// The page because of which the request passed robots.txt, which disallows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<SubresourceRecord>,
    /// Whether a refused request had reached the origin. Its response was withheld then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_origin: Option<bool>,
    /// `copy` if the answer is from the copy of robots.txt that decides, and the origin was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub from: Option<LogWord>,
    /// The way in which the origin, or the bot manager in front of it, turned away this request that robots.txt allows: `challenge`, `forbidden`,
    /// `rate`, `payment` or `unavailable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub edge: Option<LogWord>,
    /// The price that the origin asks for, if it follows a known scheme. It is never paid.
    #[serde(flatten)]
    pub payment: Option<PaymentRecord>,
    /// The status code of a refusal that was only observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_be: Option<u16>,
    /// The time for which enforcement would have held the request for its slot, in microseconds. Observed requests do not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_wait_us: Option<u64>,
    /// The number of bytes of the origin's response body that the client was sent, as encoded by the origin. Left out if no
    /// request was sent to an origin, and for tunnels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// The repairs to the origin's response: the kinds of `wayleave_origin_oddities_total`. A response with `incomplete-close`
    /// may be incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub oddities: Vec<LogWord>,
    /// `signed` with the crawler's key, or `tunnel` if it could not be, because the tunnel is not intercepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub signature: Option<LogWord>,
    /// `enforce` or `observe`.
    #[schema(value_type = String)]
    pub mode: LogWord,
    /// The number of the configuration that decided, counted from 1 at the start of the process.
    pub configuration: u64,
    /// A sentence that explains why the request was refused or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// The time from a parsed target to the decision, in microseconds.
    pub decided_us: u64,
    /// The time spent waiting for a slot at the origin, in microseconds.
    #[serde(default)]
    pub waited_us: u64,
    /// The time from the request's head to the end of its response, in microseconds.
    pub took_us: u64,
    /// The crawler in whose name the robots.txt that decided was fetched; `-` for the proxy itself, and `asserted` if with the
    /// User-Agent of a client that is no configured crawler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robots_fetched_as: Option<String>,
    /// The length of the request target in bytes, if `url` is only its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_bytes: Option<usize>,
    /// The SHA-256 of the whole request target, without credentials, if `url` is only its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub url_sha256: Option<Sha256Digest>,
}

/// The initial capacity for a line, which most lines fit.
const TYPICAL_LINE_BYTES: usize = 1024;

/// A decision encoded as its line of the log, once for memory and file.
#[derive(Debug)]
pub(super) struct EncodedDecision {
    pub(super) id: DecisionId,
    /// The number of the configuration that decided.
    pub(super) configuration: u64,
    pub(super) line: Vec<u8>,
}

impl EncodedDecision {
    pub(super) fn new(decision: &DecisionRecord) -> Self {
        let mut line = Vec::with_capacity(TYPICAL_LINE_BYTES);
        decision.write_json(&mut line);
        line.push(b'\n');
        Self { id: decision.id, configuration: decision.configuration, line }
    }
}

/// A rule of the organisation that matched.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Policy)]
pub struct RuleRecord {
    /// The number of the `[[rule]]` in the configuration, from 1.
    pub number: usize,
    /// `refuse` or `allow`.
    #[schema(value_type = String)]
    pub action: LogWord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A demand for payment, in the origin's response or in the licence by which a use is refused.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Payment)]
pub struct PaymentRecord {
    /// `cloudflare` (`crawler-price`), `x402` or `rsl` (a licence is asked for).
    #[schema(value_type = String, required = false)]
    pub scheme: LogWord,
    /// A decimal number, if one is stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// The currency, such as `USD`; for x402 `USDC`, or another asset, of which the price is then in the smallest unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
}

/// A page's subresource.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Subresource)]
pub struct SubresourceRecord {
    /// The URL of the page.
    pub page: String,
    /// `script`, `style`, `image`, `font`, `media` or `track`.
    #[schema(value_type = String)]
    pub kind: LogWord,
    /// The id of the decision about the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^[0-9a-f]{32}$")]
    pub decision: Option<DecisionId>,
}

/// The verdict of an origin's robots.txt about one request, and the copy that it is from.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Finding)]
pub struct FindingRecord {
    /// `allow` or `disallow`.
    #[schema(value_type = String, required = false)]
    pub verdict: LogWord,
    /// The basis of the verdict.
    #[schema(value_type = String, required = false)]
    pub basis: LogWord,
    /// The dialect by which robots.txt was read.
    #[schema(value_type = String, required = false)]
    pub dialect: LogWord,
    /// The deciding rule's line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The deciding rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The result of fetching robots.txt: `successful`, `unavailable`, `redirect-lost`, `unreachable`, `long-unreachable`,
    /// `lapsed` or `long-lapsed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub robots_access: Option<LogWord>,
    /// The status code of the response to that fetch, where it decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robots_status: Option<u16>,
    /// Present if the file is longer than what is read of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub robots_cut: bool,
    /// The SHA-256 of the copy that decided, if it had rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub robots_sha256: Option<Sha256Digest>,
    /// The time at which the copy that decided was fetched or last revalidated.
    #[serde(
        default,
        serialize_with = "rfc3339::serialize_some",
        deserialize_with = "rfc3339::deserialize_some",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub robots_fetched_at: Option<SystemTime>,
}

impl FindingRecord {
    fn write_members(&self, object: &mut JsonObject<'_>) {
        let fetched_at = self.robots_fetched_at.map(humantime::format_rfc3339_micros);
        object.text("verdict", Some(&self.verdict));
        object.text("basis", Some(&self.basis));
        object.text("dialect", Some(&self.dialect));
        object.plain("line", self.line);
        object.text("rule", self.rule.as_deref());
        object.text("robots_access", self.robots_access.as_deref());
        object.plain("robots_status", self.robots_status);
        object.plain("robots_cut", self.robots_cut.then_some(true));
        object.shown("robots_sha256", self.robots_sha256);
        object.shown("robots_fetched_at", fetched_at);
    }
}

impl From<AccessFinding> for FindingRecord {
    fn from(finding: AccessFinding) -> Self {
        Self {
            verdict: finding.verdict.as_str().into(),
            basis: finding.basis.as_str().into(),
            dialect: finding.dialect.as_str().into(),
            line: finding.line,
            rule: finding.rule,
            robots_access: Some(finding.access.into()),
            robots_status: finding.status,
            robots_cut: finding.is_cut,
            robots_sha256: finding.sha256.map(Sha256Digest),
            robots_fetched_at: finding.fetched_at,
        }
    }
}

impl DecisionRecord {
    /// Appends the line without a line feed: the members that serde would write, in the same order.
    fn write_json(&self, line: &mut Vec<u8>) {
        let mut object = JsonObject::begin(line);
        object.shown("id", Some(self.id));
        object.shown("at", Some(humantime::format_rfc3339_micros(self.at)));
        object.text("outcome", Some(&self.outcome));
        object.text("reason", Some(&self.reason));
        object.plain("status", Some(self.status));
        object.text("crawler", Some(&self.crawler));
        object.text("identity", Some(&self.identity));
        object.text("owner", self.owner.as_deref());
        object.text("proven_by", self.proven_by.as_deref());
        object.text("certificate", self.certificate.as_deref());
        object.texts("tokens", &self.tokens);
        object.text("user_agent", self.user_agent.as_deref());
        object.plain("user_agent_cut", self.user_agent_cut.then_some(true));
        object.plain("client", Some(self.client));
        object.plain("peer", self.peer);
        object.text("method", Some(&self.method));
        object.text("url", Some(&self.url));
        object.text("origin", self.origin.as_deref());
        object.text("scope", self.scope.as_deref());
        object.text("username", self.username.as_deref());
        object.plain("robots_delay_us", self.robots_delay_us);
        object.text("trace_id", self.trace_id.as_deref());
        object.value("policy", self.policy.as_ref());
        if let Some(finding) = &self.finding {
            finding.write_members(&mut object);
        }
        object.value("preferences", some_unless_empty(&self.preferences));
        object.value("documents", some_unless_empty(&self.documents));
        object.value("subresource", self.subresource.as_ref());
        object.plain("reached_origin", self.reached_origin);
        object.text("from", self.from.as_deref());
        object.text("edge", self.edge.as_deref());
        object.members(self.payment.as_ref());
        object.plain("would_be", self.would_be);
        object.plain("would_wait_us", self.would_wait_us);
        object.plain("body_bytes", self.body_bytes);
        object.texts("oddities", &self.oddities);
        object.text("signature", self.signature.as_deref());
        object.text("mode", Some(&self.mode));
        object.plain("configuration", Some(self.configuration));
        object.text("details", self.details.as_deref());
        object.plain("decided_us", Some(self.decided_us));
        object.plain("waited_us", Some(self.waited_us));
        object.plain("took_us", Some(self.took_us));
        object.text("robots_fetched_as", self.robots_fetched_as.as_deref());
        object.plain("url_bytes", self.url_bytes);
        object.shown("url_sha256", self.url_sha256);
        object.end();
    }

    /// Returns the outcome, unless another version wrote a word that is not known here.
    pub fn request_outcome(&self) -> Option<RequestOutcome> {
        RequestOutcome::named(&self.outcome)
    }

    /// Returns whether the request failed before anything was sent, because the origin's name could not be resolved and so its
    /// robots.txt could not be fetched.
    pub fn failed_before_sending(&self) -> bool {
        // Whatever else failed had been allowed before it was sent, unless refusals are only observed.
        let is_disallowed = |finding: &FindingRecord| finding.verdict == "disallow";
        self.request_outcome() == Some(RequestOutcome::Failed)
            && self.mode != "observe"
            && self.subresource.is_none()
            && self.finding.as_ref().is_some_and(is_disallowed)
    }

    /// Returns the host of the origin, if there is one.
    pub fn host(&self) -> Option<&str> {
        host(self.origin.as_deref()?)
    }
}

/// Returns the host of an origin: `[::1]` for `https://[::1]:8443`.
pub(super) fn host(origin: &str) -> Option<&str> {
    let authority = origin.split_once("://")?.1;
    // The colons of an IPv6 literal are not the one before the port.
    let after_literal = authority.find(']').map_or(0, |end| end + 1);
    let port = authority[after_literal..].find(':');
    Some(port.map_or(authority, |at| &authority[..after_literal + at]))
}

fn some_unless_empty<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}
