//! Identifies the crawler by the client's address, certificate, credentials and `User-Agent`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use wayleave_robots_txt::{Dialect, ProductToken};
use wayleave_usage_preferences::PurposeSet;

use super::refusal::Refusal;
use super::request::ClientConnection;
use super::request::RequestView;
use crate::http::proxy_status::ProxyErrorType;
use crate::identity::{
    ClaimedNames, ClientFacts, Crawler, Crawlers, EnforcementMode, PasswordProof, TooManyChecks,
};
use crate::telemetry::metrics::ASSERTED;

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    /// A crawler that the configuration knows.
    Known(Arc<Crawler>),
    /// A client whose name is its own word.
    Asserted {
        claim: Arc<ClaimedNames>,
        dialect: Dialect,
        mode: EnforcementMode,
    },
}

impl Identity {
    /// The crawler that the configuration knows, if it is one.
    pub(crate) fn crawler(&self) -> Option<&Crawler> {
        match self {
            Self::Known(crawler) => Some(crawler),
            Self::Asserted { .. } => None,
        }
    }

    pub(crate) fn label(&self) -> &str {
        match self {
            Self::Known(crawler) => &crawler.name,
            Self::Asserted { .. } => ASSERTED,
        }
    }

    pub(crate) fn tokens(&self) -> &[ProductToken] {
        match self {
            Self::Known(crawler) => &crawler.tokens,
            Self::Asserted { claim, .. } => &claim.tokens,
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Known(crawler) => crawler.dialect,
            Self::Asserted { dialect, .. } => *dialect,
        }
    }

    pub(crate) fn mode(&self) -> EnforcementMode {
        match self {
            Self::Known(crawler) => crawler.mode,
            Self::Asserted { mode, .. } => *mode,
        }
    }
}

/// Who asks, and what speaks against listening to them.
#[derive(Debug)]
pub(crate) struct IdentifiedClient {
    pub(crate) client: IpAddr,
    pub(crate) identity: Identity,
    /// What was proved.
    pub(crate) proof: Option<PasswordProof>,
    pub(crate) objection: Option<Refusal>,
    /// With other purposes than its own, for a preview: what is said about these is looked for.
    pub(crate) purposes_from: Option<Arc<Crawler>>,
    /// The proxies that the request has come by. What is fetched for it says so, too: where parents lead back to us, we know it.
    pub(crate) via: Option<Arc<[u8]>>,
}

impl IdentifiedClient {
    /// The crawler whose purposes count, if it declares any.
    pub(crate) fn declaring(&self) -> Option<&Arc<Crawler>> {
        let known = match &self.identity {
            Identity::Known(crawler) => Some(crawler),
            Identity::Asserted { .. } => None,
        };
        let crawler = self.purposes_from.as_ref().or(known)?;
        (!crawler.declaration.purposes.is_empty()).then_some(crawler)
    }

    /// The purposes it declares.
    pub(crate) fn purposes(&self) -> PurposeSet {
        let declaring = self.declaring();
        declaring.map_or(PurposeSet::NONE, |crawler| crawler.declaration.purposes)
    }
}

/// The configured crawler behind a request, or else the name that the request gives itself.
pub(crate) async fn identify(
    crawlers: &Crawlers,
    connection: &ClientConnection,
    request: &RequestView<'_>,
) -> IdentifiedClient {
    let (proof, objection) = match prove(crawlers, connection, request).await {
        Ok(proof) => (proof, None),
        Err(refusal) => (None, Some(refusal)),
    };
    let identified = recognised(crawlers, connection, proof, request);
    IdentifiedClient {
        objection: objection.or(identified.objection),
        ..identified
    }
}

/// Who asks with this proof, and what speaks against the name it gives itself.
pub(crate) fn recognised(
    crawlers: &Crawlers,
    connection: &ClientConnection,
    proof: Option<PasswordProof>,
    request: &RequestView<'_>,
) -> IdentifiedClient {
    let identity = recognise(crawlers, connection, proof.as_ref(), request);
    let objection = objection_to(crawlers, &identity, request.user_agent);
    IdentifiedClient {
        client: connection.client,
        identity,
        proof,
        objection,
        purposes_from: None,
        via: come_by(connection, request),
    }
}

/// The proxies that a request has come by, in its tunnel or to it.
fn come_by(connection: &ClientConnection, request: &RequestView<'_>) -> Option<Arc<[u8]>> {
    let tunnel = connection.tunnel.as_ref();
    match (tunnel.and_then(|tunnel| tunnel.via.clone()), &request.via) {
        (Some(outside), Some(inside)) => Some([&outside, &b", "[..], inside].concat().into()),
        (outside, inside) => outside.or_else(|| inside.clone()),
    }
}

/// Whether a client may open a tunnel as far as that can be told before the first request inside, and what it proved, which
/// holds for all of them until it is revoked.
///
/// # Errors
///
/// Returns the refusal if credentials are wrong, or if only credentials could tell who this is and there are none.
pub(crate) async fn admit_tunnel(
    crawlers: &Crawlers,
    connection: &ClientConnection,
    request: &RequestView<'_>,
) -> Result<Option<PasswordProof>, Refusal> {
    let proof = prove(crawlers, connection, request).await?;
    let certificate = connection.certificate.as_deref();
    let may_be_known = crawlers.may_match_without_password(connection.client, certificate);
    let must_prove = crawlers.require_crawler && !may_be_known;
    if must_prove && proof.is_none() {
        let refusal = unidentified("every [[crawler]] at this address needs a user name");
        return refusal.enforce(crawlers.mode).map(|_| None);
    }
    Ok(proof)
}

async fn prove(
    crawlers: &Crawlers,
    connection: &ClientConnection,
    request: &RequestView<'_>,
) -> Result<Option<PasswordProof>, Refusal> {
    if connection.tunnel.is_some() {
        return proven_before(crawlers, connection);
    }
    certificate_holds(crawlers, connection)?;
    match request.credentials {
        // Where nobody has a password there is nothing to prove.
        Some(credentials) if crawlers.uses_passwords() => {
            let proven = crawlers.prove(connection.client, credentials).await;
            let proof = proven.map_err(|TooManyChecks| too_many_checks())?;
            proof.map(Some).ok_or_else(|| {
                unauthenticated(
                    "wrong-password",
                    "the user name or the password in Proxy-Authorization is wrong",
                )
            })
        }
        _ => Ok(None),
    }
}

/// Whether the client's certificate is as good as when the connection began.
fn certificate_holds(crawlers: &Crawlers, connection: &ClientConnection) -> Result<(), Refusal> {
    match &connection.certificate {
        Some(certificate) if !crawlers.is_still_trusted(certificate) => Err(Refusal {
            closes: true,
            ..Refusal::new(
                403,
                "Certificate no longer good",
                ProxyErrorType::HttpRequestDenied,
                "wrong-certificate",
                "the client's certificate has expired, or proxy.client_ca has changed, since this connection began",
            )
        }),
        _ => Ok(()),
    }
}

/// What was proved when the connection's tunnel was asked for.
///
/// # Errors
///
/// Returns the refusal if the password has been changed since, or the user name taken away, or if the certificate is not good any more.
pub(crate) fn proven_before(
    crawlers: &Crawlers,
    connection: &ClientConnection,
) -> Result<Option<PasswordProof>, Refusal> {
    certificate_holds(crawlers, connection)?;
    match &connection.proof {
        Some(proof) if !crawlers.is_still_valid(proof) => Err(Refusal {
            closes: true,
            ..unauthenticated(
                "wrong-password",
                "the password that opened this connection has been changed since",
            )
        }),
        proof => Ok(proof.clone()),
    }
}

/// The identity that a client at this address with this proof and `User-Agent` has.
pub(crate) fn recognise(
    crawlers: &Crawlers,
    connection: &ClientConnection,
    proof: Option<&PasswordProof>,
    request: &RequestView<'_>,
) -> Identity {
    identity_of(
        crawlers,
        &ClientFacts {
            client: connection.client,
            username: proof.map(|proof| &*proof.username),
            certificate: connection.certificate.as_deref(),
            user_agent: request.user_agent,
        },
    )
}

/// The identity of whoever is seen so.
pub(crate) fn identity_of(crawlers: &Crawlers, seen: &ClientFacts<'_>) -> Identity {
    match crawlers.find(seen) {
        Some(crawler) => Identity::Known(Arc::clone(crawler)),
        None => Identity::Asserted {
            claim: crawlers.claim(seen.user_agent),
            dialect: crawlers.dialect,
            mode: crawlers.mode,
        },
    }
}

/// What speaks against an identity and the name it gives itself.
pub(crate) fn objection_to(
    crawlers: &Crawlers,
    identity: &Identity,
    user_agent: &[u8],
) -> Option<Refusal> {
    let crawler = identity.crawler();
    if crawler.is_none() && crawlers.require_crawler {
        return Some(unidentified("no [[crawler]] matches this request"));
    }
    if let Some(owner) = crawlers.claim(user_agent).foreign_owner(crawler) {
        let details = format!(
            "User-Agent names a crawler of {owner}, and no [[crawler]] here owns that token"
        );
        return Some(denied("Token belongs to another", "foreign-token", details));
    }
    let crawler = crawler?;
    let must_be_named = crawler.user_agent_must_contain_token;
    (must_be_named && !crawler.is_named_in(user_agent)).then(|| {
        let details = format!("User-Agent contains no token of crawler {}", crawler.name);
        denied("Token missing in User-Agent", "token-missing", details)
    })
}

fn too_many_checks() -> Refusal {
    Refusal {
        retry_after: Some(Duration::from_secs(1)),
        ..Refusal::new(
            429,
            "Too many password checks",
            ProxyErrorType::HttpRequestDenied,
            "password-checks",
            "too many passwords are waiting to be checked, from this client or in all",
        )
    }
}

fn unidentified(details: &'static str) -> Refusal {
    Refusal {
        is_policy: true,
        ..unauthenticated("unidentified", details)
    }
}

fn unauthenticated(reason: &'static str, details: &'static str) -> Refusal {
    Refusal::new(
        407,
        "Proxy authentication required",
        ProxyErrorType::HttpRequestError,
        reason,
        details,
    )
}

fn denied(phrase: &'static str, reason: &'static str, details: String) -> Refusal {
    Refusal {
        is_policy: true,
        ..Refusal::new(
            403,
            phrase,
            ProxyErrorType::HttpRequestDenied,
            reason,
            details,
        )
    }
}
