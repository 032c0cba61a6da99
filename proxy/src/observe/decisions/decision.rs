//! `Decision`: the record of one exchange.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::client::Client;
use super::use_preference::{DocumentSeen, UsePreference};
use crate::clock::rfc3339;
use crate::observe::digest::Digest;
use crate::observe::harmless::harmless_json;

/// The longest `User-Agent` that is recorded. Real ones are shorter; the rest of a longer one is nothing that anybody asks for.
pub(crate) const MAX_USER_AGENT_BYTES: usize = 512;

/// A word of ours, or one that was read back from the log.
pub(crate) type Word = Cow<'static, str>;

/// What a decision is known by: in the answer, in the log and in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DecisionId(Uuid);

impl DecisionId {
    /// Version 7: ordered by time.
    pub(crate) fn new() -> Self {
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

    /// Takes the 32 digits with or without hyphens.
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

/// One exchange: who asked for what, what was decided and why, and what came of it.
///
/// This is a line of the decision log and an object of the API. Members that do not apply are left out.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Decision {
    #[schema(value_type = String, pattern = "^[0-9a-f]{32}$")]
    pub(crate) id: DecisionId,
    /// When the request's head had been read.
    #[serde(
        serialize_with = "rfc3339::serialize",
        deserialize_with = "rfc3339::deserialize"
    )]
    #[schema(value_type = String, format = DateTime)]
    pub(crate) at: SystemTime,
    /// `forwarded`, `refused`, `failed`, `tunnelled` or `observed`.
    #[schema(value_type = String)]
    pub(crate) outcome: Word,
    /// Why, as a word of a closed set: the metric's label and the problem's `reason`.
    #[schema(value_type = String)]
    pub(crate) reason: Word,
    /// What the client was answered with.
    pub(crate) status: u16,
    /// The crawler's configured name, or `asserted`.
    #[schema(value_type = String)]
    pub(crate) crawler: Word,
    /// `known` to the configuration, or `asserted` by the client alone.
    #[schema(value_type = String)]
    pub(crate) identity: Word,
    /// How a known crawler was recognised: by `certificate`, `password` or `address`; left out: by its User-Agent alone, or not
    /// at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) proven_by: Option<Word>,
    /// What the client's certificate says of it, if it showed one: its first URI, DNS name or common name, else its SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<String>,
    /// The product tokens that were looked for, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tokens: Vec<String>,
    /// The `User-Agent` that came with the request, cut off at 512 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user_agent: Option<String>,
    /// Present if it was cut off there: who asks was found by all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub(crate) user_agent_cut: bool,
    /// Its address, its network, or a digest: `log.client_address`.
    #[schema(value_type = String)]
    pub(crate) client: Client,
    /// The load balancer that said so by the PROXY protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) peer: Option<IpAddr>,
    pub(crate) method: String,
    /// The target if it was understood, else the request target as received.
    pub(crate) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    /// What it asks for, if not a path: `robots-txt` to read, the `server`, `every-path`, or a `bypass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) scope: Option<Word>,
    /// The user name that was proved by a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) username: Option<String>,
    /// The time that robots.txt wants between requests, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) robots_delay_us: Option<u64>,
    /// The trace that the client says the request is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trace_id: Option<String>,
    /// The organisation's rule that matched, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<Policy>,
    /// What robots.txt said, if it was asked.
    #[serde(flatten)]
    pub(crate) finding: Option<Finding>,
    /// What was said about the use of what was asked for, to each of the crawler's purposes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) preferences: Vec<UsePreference>,
    /// The documents beside robots.txt that were asked about use, whatever they said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) documents: Vec<DocumentSeen>,
    /// Whether a request that was refused had reached the origin, whose answer was withheld then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reached_origin: Option<bool>,
    /// What would have been answered, if a refusal was only observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) would_be: Option<u16>,
    /// How many bytes of the body of the origin's response the client was handed, as they came. Left out where nothing was asked of an
    /// origin, and for what became a tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) body_bytes: Option<u64>,
    /// What was odd about the origin's response and was mended: the kinds of `wayleave_origin_oddities_total`. One that ended
    /// by `incomplete-close` may be incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub(crate) oddities: Vec<Word>,
    /// `signed`: with the crawler's key; `tunnel`: it could not be, because nobody looks into the tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) signature: Option<Word>,
    /// `enforce` or `observe`.
    #[schema(value_type = String)]
    pub(crate) mode: Word,
    /// Which configuration decided, counted from 1 at the start of the process.
    pub(crate) configuration: u64,
    /// Why it was refused or failed, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<String>,
    /// From a known target to a decision, in microseconds.
    pub(crate) decided_us: u64,
    /// Waiting for its turn at the origin, in microseconds.
    #[serde(default)]
    pub(crate) waited_us: u64,
    /// From the request's head to the end of its response, in microseconds.
    pub(crate) took_us: u64,
}

/// The bytes of most lines; a longer one grows.
const USUAL_LINE: usize = 1024;

/// A decision as its line of the log, made once for all who keep it.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) id: DecisionId,
    /// Which configuration decided.
    pub(super) configuration: u64,
    pub(super) line: Vec<u8>,
}

impl Recorded {
    pub(super) fn new(decision: &Decision) -> Self {
        let mut line = Vec::with_capacity(USUAL_LINE);
        serde_json::to_writer(&mut line, decision).expect("strings and numbers serialise");
        let mut line = harmless_json(line);
        line.push(b'\n');
        Self {
            id: decision.id,
            configuration: decision.configuration,
            line,
        }
    }
}

/// A rule of the organisation.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Policy {
    /// Which `[[rule]]` of the configuration, from 1.
    pub(crate) number: usize,
    /// `refuse` or `allow`.
    #[schema(value_type = String)]
    pub(crate) action: Word,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// What an origin's robots.txt says of one request, and which copy said so.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Finding {
    /// `allow` or `disallow`.
    #[schema(value_type = String, required = false)]
    pub(crate) verdict: Word,
    /// What the verdict rests on.
    #[schema(value_type = String, required = false)]
    pub(crate) basis: Word,
    /// The dialect that gave it.
    #[schema(value_type = String, required = false)]
    pub(crate) dialect: Word,
    /// The deciding rule's line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
    /// The deciding rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<String>,
    /// What came of fetching robots.txt: `successful`, `unavailable`, `redirect-lost`, `unreachable`, `long-unreachable`,
    /// `lapsed` or `long-lapsed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) robots_access: Option<Word>,
    /// The status that it was answered with, where that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) robots_status: Option<u16>,
    /// Present if there was more of the file than is read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub(crate) robots_cut: bool,
    /// The SHA-256 of the copy that decided, if it had rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(crate) robots_sha256: Option<Digest>,
    /// When the copy that decided was fetched or last confirmed.
    #[serde(
        default,
        serialize_with = "rfc3339::serialize_some",
        deserialize_with = "rfc3339::deserialize_some",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) robots_fetched_at: Option<SystemTime>,
}

impl Decision {
    /// Whether it failed before robots.txt could be asked, because the origin's name leads nowhere: then nothing of it was sent.
    pub(crate) fn failed_unsent(&self) -> bool {
        let is_disallowed = |finding: &Finding| finding.verdict == "disallow";
        self.outcome == "failed"
            && self.mode != "observe"
            && self.finding.as_ref().is_some_and(is_disallowed)
    }

    /// The host of the origin, if there was one.
    pub(crate) fn host(&self) -> Option<&str> {
        host(self.origin.as_deref()?)
    }
}

/// The host of an origin such as `https://[::1]:8443`.
pub(super) fn host(origin: &str) -> Option<&str> {
    let authority = origin.split_once("://")?.1;
    let after_literal = authority.find(']').map_or(0, |end| end + 1);
    let port = authority[after_literal..].find(':');
    Some(port.map_or(authority, |at| &authority[..after_literal + at]))
}
