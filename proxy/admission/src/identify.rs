//! Identifies the crawler by the client's address, certificate, credentials and `User-Agent`.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use wayleave_decision::{
    CertificateName, ClientFacts, Crawler, Identified, Identity, Reason, Refusal,
};
use wayleave_lifecycle::FetchIdentity;
use wayleave_robots_cache::Requester;

use super::request::{ClientConnection, GatewayCrawler, RequestView};
use super::settings::Settings;
use crate::identity::{Authenticator, ClientCertificate, PasswordProof, TooManyChecks};

/// The client of a request, and the crawler behind it.
#[derive(Debug)]
pub struct IdentifiedClient {
    pub address: IpAddr,
    /// The password that was proved.
    pub proof: Option<PasswordProof>,
    /// The proxies that the request has passed. Fetches that it causes name them, too, so that a loop through a parent proxy is
    /// noticed.
    pub via: Option<Arc<[u8]>>,
    pub identified: Identified,
    /// The identity that robots.txt has to count for.
    pub(crate) fetch_identity: Arc<FetchIdentity>,
}

impl IdentifiedClient {
    pub(crate) fn identity(&self) -> &Identity {
        &self.identified.identity
    }

    /// Returns the requester of what a decision about its request needs.
    pub(crate) fn requester(&self) -> Requester<'_> {
        Requester {
            crawler: self.identity().label(),
            client: Some(self.address),
            identity: Arc::clone(&self.fetch_identity),
            // A fetch that comes back to this proxy through a parent proxy is recognised by it.
            via: self.via.as_ref(),
        }
    }
}

/// Identifies the configured crawler behind a request, or else the name that the request gives itself.
pub async fn identify(
    settings: &Settings,
    connection: &ClientConnection,
    request: &RequestView<'_>,
) -> IdentifiedClient {
    let (proof, objection) = match prove(&settings.authenticator, connection, request).await {
        Ok(proof) => (proof, None),
        Err(refusal) => (None, Some(refusal)),
    };
    let mut client = identify_with_proof(settings, connection, proof, request);
    // A wrong password explains whatever else speaks against the name.
    if objection.is_some() {
        client.identified.objection = objection;
    }
    client
}

/// Identifies the crawler by what was proved, and objects to a name that is not its own.
pub fn identify_with_proof(
    settings: &Settings,
    connection: &ClientConnection,
    proof: Option<PasswordProof>,
    request: &RequestView<'_>,
) -> IdentifiedClient {
    let purposes = stated_words(connection, request);
    let facts = client_facts(connection, proof.as_ref(), request, &purposes);
    let identified = match gateway_crawler(settings, connection) {
        None => settings.crawlers.identify(&facts),
        Some(Ok(crawler)) => settings.crawlers.identify_as(crawler, &facts),
        Some(Err(refusal)) => {
            let objection = Some(refusal);
            Identified { objection, ..settings.crawlers.identify(&facts) }
        }
    };
    IdentifiedClient {
        address: connection.client,
        fetch_identity: settings.identities.of(&identified.identity, request.user_agent),
        identified,
        via: passed_proxies(connection, request),
        proof,
    }
}

/// Returns the identity without looking for objections.
pub fn identity_of(
    settings: &Settings,
    connection: &ClientConnection,
    proof: Option<&PasswordProof>,
    request: &RequestView<'_>,
) -> Identity {
    let purposes = stated_words(connection, request);
    let facts = client_facts(connection, proof, request, &purposes);
    match gateway_crawler(settings, connection) {
        Some(Ok(crawler)) => Identity::Known(crawler),
        _ => settings.crawlers.identity_of(&facts),
    }
}

/// Returns the crawler that a gateway's token or a program names, if it does.
///
/// # Errors
///
/// Returns the refusal if it was removed since the gateway asked.
fn gateway_crawler(
    settings: &Settings,
    connection: &ClientConnection,
) -> Option<Result<Arc<Crawler>, Refusal>> {
    let crawler = match connection.gateway.as_ref()?.crawler.as_ref()? {
        GatewayCrawler::OfToken(sha256) => settings.crawler_of_token(sha256),
        GatewayCrawler::Named(name) => settings.crawlers.named(name),
    };
    let details = "the gateway's token is not in gateway.tokens any more";
    Some(crawler.ok_or_else(|| Refusal::new(Reason::WrongPassword, details)))
}

fn client_facts<'a>(
    connection: &'a ClientConnection,
    proof: Option<&'a PasswordProof>,
    request: &RequestView<'a>,
    purposes: &'a [String],
) -> ClientFacts<'a> {
    ClientFacts {
        client: connection.client,
        username: proof.map(|proof| &*proof.username),
        certificate: certificate_names(connection),
        user_agent: request.user_agent,
        purposes,
    }
}

/// Returns the words by which the client states purposes: those of the request, and those of the `CONNECT` of its tunnel.
pub(crate) fn stated_words<'a>(
    connection: &'a ClientConnection,
    request: &'a RequestView<'_>,
) -> Cow<'a, [String]> {
    match (&connection.purposes[..], &request.purposes[..]) {
        (outside, []) => Cow::Borrowed(outside),
        ([], inside) => Cow::Borrowed(inside),
        (outside, inside) => Cow::Owned([outside, inside].concat()),
    }
}

/// Returns the names in the client's certificate; none without one.
fn certificate_names(connection: &ClientConnection) -> &[CertificateName] {
    connection.certificate.as_deref().map_or(&[], ClientCertificate::names)
}

/// Returns the proxies that a request has passed, to its tunnel and inside it.
fn passed_proxies(connection: &ClientConnection, request: &RequestView<'_>) -> Option<Arc<[u8]>> {
    let tunnel = connection.tunnel.as_ref();
    match (tunnel.and_then(|tunnel| tunnel.via.clone()), &request.via) {
        // In the order in which the request passed them (RFC 9110 section 7.6.3).
        (Some(outside), Some(inside)) => Some([&outside, &b", "[..], inside].concat().into()),
        (outside, inside) => outside.or_else(|| inside.clone()),
    }
}

/// Checks whether a client may open a tunnel, as far as that is certain before the first request inside. Returns what it proved,
/// which is valid for all of them until it is revoked.
///
/// # Errors
///
/// Returns the refusal if credentials are wrong, or if only credentials could show which crawler this is and there are none.
pub async fn admit_tunnel(
    settings: &Settings,
    connection: &ClientConnection,
    request: &RequestView<'_>,
) -> Result<Option<PasswordProof>, Refusal> {
    let proof = prove(&settings.authenticator, connection, request).await?;
    let crawlers = &settings.crawlers;
    // The requests inside may still name a crawler that needs no password.
    let may_be_known =
        crawlers.may_match_without_password(connection.client, certificate_names(connection));
    if crawlers.require_crawler && !may_be_known && proof.is_none() {
        let details = "every [[crawler]] at this address needs a user name";
        let refusal = Refusal { is_policy: true, ..Refusal::new(Reason::Unidentified, details) };
        // If it is only observed, the tunnel opens; each request inside notes the same.
        return refusal.observe_or_refuse(crawlers.mode).map(|_| None);
    }
    Ok(proof)
}

async fn prove(
    authenticator: &Authenticator,
    connection: &ClientConnection,
    request: &RequestView<'_>,
) -> Result<Option<PasswordProof>, Refusal> {
    // Inside a tunnel the proof is that of its CONNECT, and after SOCKS5 that of the handshake: clients do not send credentials
    // for the proxy there.
    if !connection.is_to_proxy() {
        return earlier_proof(authenticator, connection);
    }
    check_certificate(authenticator, connection)?;
    match request.credentials {
        Some(credentials) => prove_password(authenticator, connection.client, credentials).await,
        None => Ok(None),
    }
}

/// Checks credentials in the form of `Proxy-Authorization`. Where no crawler has a password there is nothing to prove.
///
/// # Errors
///
/// Returns the refusal if they are wrong, or if too many verifications wait.
pub async fn prove_password(
    authenticator: &Authenticator,
    client: IpAddr,
    credentials: &[u8],
) -> Result<Option<PasswordProof>, Refusal> {
    if !authenticator.uses_passwords() {
        return Ok(None);
    }
    match authenticator.prove(client, credentials).await {
        Ok(Some(proof)) => Ok(Some(proof)),
        Ok(None) => {
            let details = "the user name or the password for the proxy is wrong";
            Err(Refusal::new(Reason::WrongPassword, details))
        }
        Err(TooManyChecks) => Err(too_many_checks()),
    }
}

/// Checks that the client's certificate is still trusted.
fn check_certificate(
    authenticator: &Authenticator,
    connection: &ClientConnection,
) -> Result<(), Refusal> {
    match &connection.certificate {
        Some(certificate) if !authenticator.is_still_trusted(certificate) => {
            let details = "the client's certificate has expired, or proxy.client_ca has changed, since this connection began";
            Err(Refusal {
                closes_connection: true,
                ..Refusal::new(Reason::WrongCertificate, details)
            })
        }
        _ => Ok(()),
    }
}

/// Returns what the `CONNECT` of the connection's tunnel proved.
///
/// # Errors
///
/// Returns the refusal if the password has been changed since, or the user name removed, or if the certificate is no longer
/// trusted.
pub(crate) fn earlier_proof(
    authenticator: &Authenticator,
    connection: &ClientConnection,
) -> Result<Option<PasswordProof>, Refusal> {
    check_certificate(authenticator, connection)?;
    match &connection.proof {
        Some(proof) if !authenticator.is_still_valid(proof) => {
            let details = "the password that opened this connection has been changed since";
            Err(Refusal { closes_connection: true, ..Refusal::new(Reason::WrongPassword, details) })
        }
        proof => Ok(proof.clone()),
    }
}

fn too_many_checks() -> Refusal {
    let details = "too many passwords are waiting to be checked, from this client or in total";
    Refusal {
        retry_after: Some(std::time::Duration::from_secs(1)),
        ..Refusal::new(Reason::PasswordChecks, details)
    }
}
