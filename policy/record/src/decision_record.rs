//! The record of one exchange.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::SystemTime;

use wayleave_decision::{
    ASSERTED, CrawlerProof, EnforcementMode, Reason, RequestOutcome, TargetScope,
};
use wayleave_notation::json_object::JsonObject;
use wayleave_notation::{EdgeRefusal, Oddity, Sha256Digest, rfc3339};
use wayleave_robots_txt::AccessVerdict;
use wayleave_usage_preferences::Purpose;

use super::closed_sets::{AnswerSource, AskedVia, RecordedIdentity, RequestSignature};
use super::decision_id::DecisionId;
use super::finding::{FindingRecord, PaymentRecord, RuleRecord, SubresourceRecord};
use super::logged_client::LoggedClient;
use super::use_preference::{DocumentRecord, UsePreference};
use super::word::Word;

/// The longest `User-Agent` that is recorded. Real ones are shorter.
pub const MAX_USER_AGENT_BYTES: usize = 512;

/// The word for people for requests that match no `[[crawler]]`. The log, the API and metrics call them [`ASSERTED`].
pub const UNNAMED: &str = "unnamed";

/// Returns a crawler's name as people read it.
pub fn crawler_in_words(name: &str) -> &str {
    if name == ASSERTED { UNNAMED } else { name }
}

/// A name: a constant of this program, or a string from the configuration or a log.
pub type LogWord = Cow<'static, str>;

record! {
    /// One exchange: the crawler, the request, the decision with its reason, and the outcome.
    ///
    /// This is a line of the decision log and an object of the API. Members that do not apply are left out.
    #[derive(Clone, Debug)]
    #[schema(as = Decision)]
    pub struct DecisionRecord {
        #[schema(value_type = String, pattern = "^[0-9a-f]{32}$")]
        id: DecisionId,
        /// The time at which the request's head had been read.
        #[serde(serialize_with = "rfc3339::serialize", deserialize_with = "rfc3339::deserialize")]
        #[schema(value_type = String, format = DateTime)]
        at: SystemTime,
        /// `forwarded`, `refused`, `failed`, `tunnelled` or `observed`.
        #[schema(value_type = String)]
        outcome: Word<RequestOutcome>,
        /// The reason, a word of a closed set: the metric's label and the problem's `reason`.
        #[schema(value_type = String)]
        reason: Word<Reason>,
        /// The status code of the response to the client.
        status: u16,
        /// The crawler's configured name, or `asserted`.
        #[schema(value_type = String)]
        crawler: LogWord,
        /// `known` to the configuration, or `asserted` by the client alone.
        #[schema(value_type = String)]
        identity: Word<RecordedIdentity>,
        /// The team or the address that answers for a known crawler, if the configuration states it.
        owner?: Option<String>,
        /// The proof of a known crawler's identity: `certificate`, `password` or `address`. Left out if there is none but the
        /// User-Agent.
        #[schema(value_type = Option<String>)]
        proven_by?: Option<Word<CrawlerProof>>,
        /// The name in the client's certificate, if it presented one: its first URI, DNS name or common name, else its SHA-256.
        certificate?: Option<String>,
        /// The product tokens that were matched against robots.txt, in this order.
        tokens?: Vec<String>,
        /// The `User-Agent` of the request, cut off at 512 bytes.
        user_agent?: Option<String>,
        /// Present if it was cut off. The crawler was recognised by all of it.
        #[schema(required = false)]
        user_agent_cut?: bool,
        /// The client's address, its network, or a digest, as `log.client_address` says.
        #[schema(value_type = String)]
        client: LoggedClient,
        /// The load balancer that passed on the client's address by the PROXY protocol, or the gateway that named it.
        #[schema(value_type = Option<String>)]
        peer?: Option<IpAddr>,
        method: String,
        /// The target if it could be parsed, else the request target as received, of which at most 1 KiB is kept.
        url: String,
        origin?: Option<String>,
        /// The scope of the request if it is not a path: `robots-txt` (robots.txt itself), `server`, `every-path` or `bypass`.
        #[schema(value_type = Option<String>)]
        scope?: Option<Word<TargetScope>>,
        /// The user name, if its password was right.
        username?: Option<String>,
        /// The delay between requests that robots.txt asks for, in microseconds.
        robots_delay_us?: Option<u64>,
        /// The trace id of the client's `traceparent`.
        trace_id?: Option<String>,
        /// The organisation's rule that matched, if any.
        policy?: Option<RuleRecord>,
        /// The verdict of robots.txt, if it was consulted.
        ..finding: Option<FindingRecord>,
        /// The site's usage preference for each of the crawler's purposes.
        preferences?: Vec<UsePreference>,
        /// The documents other than robots.txt that were consulted for usage preferences, whatever they state.
        documents?: Vec<DocumentRecord>,
        /// The page because of which the request passed robots.txt, which disallows it.
        subresource?: Option<SubresourceRecord>,
        /// Whether a refused request had reached the origin. Its response was withheld then.
        #[schema(value_type = Option<bool>)]
        reached_origin?: bool,
        /// `copy` if the answer is from the copy of robots.txt that decides, `pinned` if it is the text that the configuration
        /// states. The origin was not asked.
        #[schema(value_type = Option<String>)]
        from?: Option<Word<AnswerSource>>,
        /// The way in which the origin, or the bot manager in front of it, turned away this request that robots.txt allows: `challenge`, `forbidden`,
        /// `rate`, `payment` or `unavailable`.
        #[schema(value_type = Option<String>)]
        edge?: Option<Word<EdgeRefusal>>,
        /// The price that the origin asks for, if it follows a known scheme. It is never paid.
        ..payment: Option<PaymentRecord>,
        /// The status code of a refusal that was only observed.
        would_be?: Option<u16>,
        /// The time for which enforcement would have held the request for its slot, in microseconds. Observed requests do not wait.
        would_wait_us?: Option<u64>,
        /// The number of bytes of the origin's response body that the client was sent, as encoded by the origin. Left out if no
        /// request was sent to an origin, and for tunnels.
        body_bytes?: Option<u64>,
        /// The repairs to the origin's response: the kinds of `wayleave_origin_oddities_total`. A response with `incomplete-close`
        /// may be incomplete.
        #[schema(value_type = Vec<String>)]
        oddities?: Vec<Word<Oddity>>,
        /// `signed` with the crawler's key, or `tunnel` if it could not be, because the tunnel is not intercepted.
        #[schema(value_type = Option<String>)]
        signature?: Option<Word<RequestSignature>>,
        /// `enforce` or `observe`.
        #[schema(value_type = String)]
        mode: Word<EnforcementMode>,
        /// The number of the configuration that decided, counted from 1 at the start of the process.
        configuration: u64,
        /// A sentence that explains why the request was refused or failed.
        details?: Option<String>,
        /// The time from a parsed target to the decision, in microseconds.
        decided_us: u64,
        /// The time spent waiting for a slot at the origin, in microseconds.
        #[serde(default)]
        waited_us: u64,
        /// The time from the request's head to the end of its response, in microseconds.
        took_us: u64,
        /// The crawler in whose name the robots.txt that decided was fetched; `-` for the proxy itself, and `asserted` if with the
        /// User-Agent of a client that is no configured crawler.
        robots_fetched_as?: Option<String>,
        /// The length of the request target in bytes, if `url` is only its beginning.
        url_bytes?: Option<usize>,
        /// The SHA-256 of the whole request target, without credentials, if `url` is only its beginning.
        #[schema(value_type = Option<String>)]
        url_sha256?: Option<Sha256Digest>,
        /// The purposes that the crawler declares.
        #[schema(value_type = Vec<String>)]
        purposes?: Vec<Word<Purpose>>,
        /// The URL of the agent in whose name the request was signed.
        agent?: Option<String>,
        /// The words of the request's `Wayleave-Purpose`: the purposes that the client states, if they name some.
        stated_purposes?: Vec<String>,
        /// `gateway` if another proxy asked about the request. It sends the request itself: `status` is that of the verdict.
        #[schema(value_type = Option<String>)]
        via?: Option<Word<AskedVia>>,
        /// The SHA-256 of the `body_bytes` bytes of the response body that the client was sent, as encoded by the origin. Left
        /// out unless `log.body_digest` asks for it, and if there were none.
        #[schema(value_type = Option<String>)]
        body_sha256?: Option<Sha256Digest>,
    }
}

impl DecisionRecord {
    /// Appends the line without a line feed.
    pub fn write_json(&self, line: &mut Vec<u8>) {
        let mut object = JsonObject::begin(line);
        self.write_members(&mut object);
        object.end();
    }

    /// Returns whether the request was allowed and sent.
    pub fn was_let_through(&self) -> bool {
        self.request_outcome().is_some_and(RequestOutcome::was_let_through)
    }

    /// Returns the outcome, unless another version wrote a word that is not known here.
    pub fn request_outcome(&self) -> Option<RequestOutcome> {
        self.outcome.known()
    }

    /// Returns whether the request was signed with the crawler's key.
    pub fn is_signed(&self) -> bool {
        self.signature.as_ref().is_some_and(|word| *word == RequestSignature::Signed)
    }

    /// Returns whether one of the organisation's rules decided.
    pub fn is_by_policy_rule(&self) -> bool {
        matches!(self.reason.known(), Some(Reason::PolicyRule | Reason::PolicyException))
    }

    /// Returns whether refusals were only observed.
    pub fn is_observed(&self) -> bool {
        self.mode == EnforcementMode::Observe
    }

    /// Returns whether the request failed before anything was sent, because the origin's name could not be resolved and so its
    /// robots.txt could not be fetched.
    pub fn failed_before_sending(&self) -> bool {
        // Whatever else failed had been allowed before it was sent, unless refusals are only observed.
        self.outcome == RequestOutcome::Failed
            && !self.is_observed()
            && self.subresource.is_none()
            && self.finding.as_ref().is_some_and(|found| found.verdict == AccessVerdict::Disallow)
    }

    /// Returns the host of the origin, if there is one.
    pub fn host(&self) -> Option<&str> {
        host(self.origin.as_deref()?)
    }
}

/// Returns the host of an origin: `[::1]` for `https://[::1]:8443`.
pub fn host(origin: &str) -> Option<&str> {
    let authority = origin.split_once("://")?.1;
    // The colons of an IPv6 literal are not the one before the port.
    let after_literal = authority.find(']').map_or(0, |end| end + 1);
    let port = authority[after_literal..].find(':');
    Some(port.map_or(authority, |at| &authority[..after_literal + at]))
}
