//! A request as far as a decision needs it, and the connection on which it came.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use wayleave_decision::{PURPOSE_FIELD, Reason, Refusal, stated_words};
use wayleave_evidence::Sha256Digest;
use wayleave_http_wire::field_pairs;
use wayleave_http_wire::http1::request_override::RequestOverride;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_http_wire::request_target::TargetError;
use wayleave_robots_txt::{InvalidUrl, Origin, UrlScheme, excerpt};

use super::refusal::{head_refusal, looped};
use crate::identity::{ClientCertificate, PasswordProof};

/// The connection on which a request came.
#[derive(Clone, Debug)]
pub struct ClientConnection {
    pub client: IpAddr,
    /// The load balancer that named the client.
    pub peer: Option<IpAddr>,
    /// The certificate that the client presented when TLS to the proxy began.
    pub certificate: Option<Arc<ClientCertificate>>,
    /// The password that the `CONNECT` of the tunnel proved.
    pub proof: Option<PasswordProof>,
    /// The words by which the `CONNECT` of the tunnel stated purposes, for all requests inside.
    pub purposes: Box<[String]>,
    pub tunnel: Option<ConnectTunnel>,
    /// The destination that the client dialled, if it knows no HTTP proxy.
    pub dialled: Option<DialledDestination>,
    /// The gateway that asks about the client's requests, or the program that does, and sends them itself.
    pub gateway: Option<Box<AskingGateway>>,
}

/// A gateway that asks about requests, or a program with the gate inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AskingGateway {
    /// The crawler of all its requests; `None` if they are identified as the proxy's own are.
    pub crawler: Option<GatewayCrawler>,
    /// Whether it also shows the responses (`asked::judge_response`).
    pub shows_responses: bool,
}

/// The crawler of all requests of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GatewayCrawler {
    /// By the SHA-256 of its token.
    OfToken(Sha256Digest),
    Named(Arc<str>),
}

impl ClientConnection {
    /// Returns a connection to the proxy of which nothing but the client's address is known.
    pub fn new(client: IpAddr) -> Self {
        Self {
            client,
            peer: None,
            certificate: None,
            proof: None,
            purposes: Box::default(),
            tunnel: None,
            dialled: None,
            gateway: None,
        }
    }

    /// Returns whether its requests are made to this proxy, not to an origin that it stands in for.
    pub fn is_to_proxy(&self) -> bool {
        self.tunnel.is_none() && self.dialled.is_none()
    }

    /// Returns the connection as one on which a password was proved.
    pub fn with_proof(&self, proof: Option<PasswordProof>) -> Self {
        Self { proof: proof.or_else(|| self.proof.clone()), ..self.clone() }
    }
}

/// An open tunnel: every request inside is for its origin.
#[derive(Clone, Debug)]
pub struct ConnectTunnel {
    pub origin: Origin,
    /// The server name of the TLS handshake, if it is another host than the origin's.
    pub foreign_server_name: Option<String>,
    /// The proxies that the `CONNECT` has passed, if any.
    pub via: Option<Arc<[u8]>>,
}

/// The destination of a connection whose client believes to be connected to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialledDestination {
    /// The host, which is an address or, by SOCKS5, may be a name; the port; and the scheme if the client speaks no TLS.
    plain: Origin,
}

impl DialledDestination {
    /// Returns the destination of this name or address.
    ///
    /// # Errors
    ///
    /// Returns an error if the host cannot be part of a URI.
    pub fn new(host: &str, port: u16) -> Result<Self, InvalidUrl> {
        Origin::from_authority(UrlScheme::Http, &format!("{host}:{port}"))
            .map(|plain| Self { plain })
    }

    /// Returns the destination at this address.
    ///
    /// # Errors
    ///
    /// Returns an error if the port is 0.
    pub fn at(address: SocketAddr) -> Result<Self, InvalidUrl> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        Origin::from_authority(UrlScheme::Http, &address.to_string()).map(|plain| Self { plain })
    }

    /// Returns the host as `Origin::host` spells it.
    pub fn host(&self) -> &str {
        self.plain.host()
    }

    /// Returns the authority of this host, or of the host that the client named otherwise, at the port that it dialled.
    pub fn authority(&self, named: Option<&str>) -> String {
        format!("{}:{}", named.unwrap_or(self.host()), self.plain.port())
    }

    /// Returns the origin of a request in plain HTTP with this `Host`: the port is the one that was dialled.
    ///
    /// # Errors
    ///
    /// Returns an error if `Host` is invalid, or names another port.
    pub fn origin_of(&self, authority: Option<&str>) -> Result<Origin, TargetError> {
        let Some(authority) = authority else {
            return Ok(self.plain.clone());
        };
        let named = Origin::from_authority(UrlScheme::Http, authority)?;
        let port = self.plain.port();
        // Clients leave out the scheme's port, and some leave out any.
        if named.port() == port {
            Ok(named)
        } else if named.port() == UrlScheme::Http.default_port() {
            Ok(Self::new(named.host(), port)?.plain)
        } else {
            let details = format!(
                "the request names {}, but the client dialled port {port}",
                excerpt(authority)
            );
            Err(TargetError::Misdirected(details))
        }
    }
}

/// A request as far as a decision needs it, whatever its HTTP version.
#[derive(Clone, Debug)]
pub struct RequestView<'a> {
    pub method: &'a str,
    /// The request target as received; for HTTP/2 the `:path`.
    pub target: Cow<'a, str>,
    /// HTTP/2's `:scheme`.
    pub scheme: Option<&'a str>,
    /// `Host`, or HTTP/2's `:authority`.
    pub authority: Option<&'a str>,
    pub user_agent: &'a [u8],
    /// `Proxy-Authorization`. Inside a tunnel it is ignored: the `CONNECT` has been answered.
    pub credentials: Option<&'a [u8]>,
    /// The words of `Wayleave-Purpose`.
    pub purposes: Vec<String>,
    /// Whether it is a GET or HEAD without content that does not change the protocol: such requests for robots.txt are always
    /// allowed.
    pub only_reads: bool,
    /// The fields by which some servers serve another host or path than the target's.
    pub other_targets: Vec<(RequestOverride, &'a [u8])>,
    /// The proxies that it has passed (`Via`), if any.
    pub via: Option<Arc<[u8]>>,
    /// The refusal of a request that is malformed, or has passed this proxy before.
    pub objection: Option<Box<Refusal>>,
}

impl<'a> RequestView<'a> {
    /// Reads a request head. `name` is the proxy's pseudonym.
    pub fn from_received(received: &'a ReceivedHead, name: &str) -> Self {
        let overrides = received.overrides();
        Self {
            method: received.method(),
            target: received.target(),
            scheme: received.scheme(),
            authority: received.authority(),
            user_agent: received.field("user-agent").unwrap_or_default(),
            credentials: received.field("proxy-authorization"),
            purposes: purposes(received),
            only_reads: received.is_plain_read(),
            // Listing the fields allocates, and few requests have one.
            via: received
                .field("via")
                .and_then(|_| field_pairs::combined_via(&received.fields()))
                .map(Arc::from),
            objection: objection(received, &overrides, name).map(Box::new),
            other_targets: overrides,
        }
    }

    /// Returns a `CONNECT` whose target is known, by a client with this `User-Agent`.
    pub fn connect(user_agent: &'a [u8]) -> Self {
        Self {
            method: "CONNECT",
            target: "".into(),
            scheme: None,
            authority: None,
            user_agent,
            credentials: None,
            purposes: Vec::new(),
            only_reads: false,
            other_targets: Vec::new(),
            via: None,
            objection: None,
        }
    }
}

/// Returns the words of `Wayleave-Purpose`. Listing the fields allocates, and few requests have one.
fn purposes(received: &ReceivedHead) -> Vec<String> {
    if received.field(PURPOSE_FIELD).is_none() {
        return Vec::new();
    }
    let fields = received.fields();
    field_pairs::values(&fields, PURPOSE_FIELD).flat_map(stated_words).collect()
}

/// Returns whether a field asks servers to use another method than the request's.
fn has_other_method(method: &str, overrides: &[(RequestOverride, &[u8])]) -> bool {
    let is_other = |value: &[u8]| !value.eq_ignore_ascii_case(method.as_bytes());
    overrides.iter().any(|(kind, value)| *kind == RequestOverride::Method && is_other(value))
}

fn objection(
    received: &ReceivedHead,
    overrides: &[(RequestOverride, &[u8])],
    name: &str,
) -> Option<Refusal> {
    if let Some(refusal) = received.validate().err().and_then(head_refusal) {
        // Unlike a head that could not be read, it says who sent it.
        let reason = Reason::MalformedRequest;
        return Some(Refusal { reason, ..refusal });
    }
    // Otherwise a rule against POST would not stop a GET that servers take for a POST.
    if has_other_method(received.method(), overrides) {
        let details = "a field that overrides the method differs from the request's";
        return Some(Refusal::malformed(details));
    }
    let is_loop =
        received.field("via").is_some() && field_pairs::passed_through(&received.fields(), name);
    is_loop.then(looped)
}
