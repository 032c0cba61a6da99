//! A request as far as a decision needs it, and the connection on which it came.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use wayleave_decision::{Reason, Refusal};
use wayleave_http_wire::field_pairs;
use wayleave_http_wire::http1::request_override::RequestOverride;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_robots_txt::Origin;

use super::refusal::{head_refusal, looped};
use crate::identity::{ClientCertificate, PasswordProof};

/// The connection on which a request came.
#[derive(Clone, Debug)]
pub(crate) struct ClientConnection {
    pub(crate) client: IpAddr,
    /// The load balancer that named the client.
    pub(crate) peer: Option<IpAddr>,
    /// The certificate that the client presented when TLS to the proxy began.
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
    /// The password that the `CONNECT` of the tunnel proved.
    pub(crate) proof: Option<PasswordProof>,
    pub(crate) tunnel: Option<ConnectTunnel>,
}

impl ClientConnection {
    /// Returns the connection as one on which a password was proved.
    pub(crate) fn with_proof(&self, proof: Option<PasswordProof>) -> Self {
        Self { proof: proof.or_else(|| self.proof.clone()), ..self.clone() }
    }
}

/// An open tunnel: every request inside is for its origin.
#[derive(Clone, Debug)]
pub(crate) struct ConnectTunnel {
    pub(crate) origin: Origin,
    /// The server name of the TLS handshake, if it is another host than the origin's.
    pub(crate) foreign_server_name: Option<String>,
    /// The proxies that the `CONNECT` has passed, if any.
    pub(crate) via: Option<Arc<[u8]>>,
}

/// A request as far as a decision needs it, whatever its HTTP version.
#[derive(Clone, Debug)]
pub(crate) struct RequestView<'a> {
    pub(crate) method: &'a str,
    /// The request target as received; for HTTP/2 the `:path`.
    pub(crate) target: Cow<'a, str>,
    /// HTTP/2's `:scheme`.
    pub(crate) scheme: Option<&'a str>,
    /// `Host`, or HTTP/2's `:authority`.
    pub(crate) authority: Option<&'a str>,
    pub(crate) user_agent: &'a [u8],
    /// `Proxy-Authorization`. Inside a tunnel it is ignored: the `CONNECT` has been answered.
    pub(crate) credentials: Option<&'a [u8]>,
    /// Whether it is a GET or HEAD without content that does not change the protocol: such requests for robots.txt are always
    /// allowed.
    pub(crate) only_reads: bool,
    /// The paths in fields by which some servers serve another path than the target's.
    pub(crate) other_paths: Vec<&'a [u8]>,
    /// The proxies that it has passed (`Via`), if any.
    pub(crate) via: Option<Arc<[u8]>>,
    /// The refusal of a request that is malformed, or has passed this proxy before.
    pub(crate) objection: Option<Box<Refusal>>,
}

impl<'a> RequestView<'a> {
    /// Reads a request head. `name` is the proxy's pseudonym.
    pub(crate) fn from_received(received: &'a ReceivedHead, name: &str) -> Self {
        Self {
            method: received.method(),
            target: received.target(),
            scheme: received.scheme(),
            authority: received.authority(),
            user_agent: received.field("user-agent").unwrap_or_default(),
            credentials: received.field("proxy-authorization"),
            only_reads: received.is_plain_read(),
            other_paths: other_paths(received),
            // Listing the fields allocates, and few requests have one.
            via: received
                .field("via")
                .and_then(|_| field_pairs::combined_via(&received.fields()))
                .map(Arc::from),
            objection: objection(received, name).map(Box::new),
        }
    }

    /// Returns a `CONNECT` whose target is known, by a client with this `User-Agent`.
    pub(crate) fn connect(user_agent: &'a [u8]) -> Self {
        Self {
            method: "CONNECT",
            target: "".into(),
            scheme: None,
            authority: None,
            user_agent,
            credentials: None,
            only_reads: false,
            other_paths: Vec::new(),
            via: None,
            objection: None,
        }
    }
}

fn other_paths(received: &ReceivedHead) -> Vec<&[u8]> {
    received
        .overrides()
        .into_iter()
        .filter(|(kind, _)| *kind == RequestOverride::Path)
        .map(|(_, path)| path)
        .collect()
}

/// Returns whether a field asks servers to use another method than the request's.
fn has_other_method(received: &ReceivedHead) -> bool {
    let method = received.method().as_bytes();
    received
        .overrides()
        .into_iter()
        .any(|(kind, value)| kind == RequestOverride::Method && !value.eq_ignore_ascii_case(method))
}

fn objection(received: &ReceivedHead, name: &str) -> Option<Refusal> {
    if let Some(refusal) = received.validate().err().and_then(head_refusal) {
        // Unlike a head that could not be read, it says who sent it.
        let reason = Reason::MalformedRequest;
        return Some(Refusal { reason, ..refusal });
    }
    // Otherwise a rule against POST would not stop a GET that servers take for a POST.
    if has_other_method(received) {
        let details = "a field that overrides the method differs from the request's";
        return Some(Refusal::malformed(details));
    }
    let is_loop =
        received.field("via").is_some() && field_pairs::passed_through(&received.fields(), name);
    is_loop.then(looped)
}
