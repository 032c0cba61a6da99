//! Who is asking? The client, what it proved and its `User-Agent` to a crawler.

use std::sync::Arc;

use super::exchange::{Connection, Identity, Refusal};
use super::request::Request;
use crate::crawlers::Crawlers;
use crate::metrics::Metrics;
use crate::proxy_status::ErrorType;

/// Who asks, and what speaks against listening to them.
#[derive(Debug)]
pub(super) struct Identified {
    pub(super) identity: Identity,
    /// What was proved.
    pub(super) username: Option<Arc<str>>,
    pub(super) objection: Option<Refusal>,
}

/// The configured crawler behind a request, or else the name that the request gives itself.
pub(super) async fn identify(
    crawlers: &Crawlers,
    metrics: &Metrics,
    connection: &Connection,
    request: &Request<'_>,
) -> Identified {
    let (username, objection) = match prove(crawlers, connection, request).await {
        Ok(username) => (username, None),
        Err(refusal) => (None, Some(refusal)),
    };
    let identity = recognise(crawlers, connection, username.as_deref(), request);
    if let Some(crawler) = identity.crawler()
        && !crawler.is_named_in(request.user_agent)
    {
        metrics.user_agent_mismatch(&crawler.name);
    }
    let objection = objection.or_else(|| object(crawlers, &identity, request));
    Identified {
        identity,
        username,
        objection,
    }
}

/// Whether a client may open a tunnel as far as that can be told before the first request inside, and the user name
/// that it proved, which holds for all of them.
///
/// # Errors
///
/// Returns the refusal if credentials are wrong, or if only credentials could tell who this is and there are none.
pub(super) async fn admit(
    crawlers: &Crawlers,
    connection: &Connection,
    request: &Request<'_>,
) -> Result<Option<Arc<str>>, Refusal> {
    let username = prove(crawlers, connection, request).await?;
    let must_prove = crawlers.require_crawler && !crawlers.may_be_known(connection.client);
    if must_prove && username.is_none() {
        let refusal = unidentified("no [[crawler]] is at this address without a user name");
        return refusal.tolerated(crawlers.mode).map(|_| None);
    }
    Ok(username)
}

async fn prove(
    crawlers: &Crawlers,
    connection: &Connection,
    request: &Request<'_>,
) -> Result<Option<Arc<str>>, Refusal> {
    if connection.tunnel.is_some() {
        return Ok(connection.username.clone());
    }
    match request.credentials {
        // Where nobody has a password there is nothing to prove.
        Some(credentials) if crawlers.uses_passwords() => {
            let proven = crawlers.prove(credentials).await;
            proven.map(Some).ok_or_else(|| {
                unauthenticated(
                    "wrong-password",
                    "the user name or the password in Proxy-Authorization is wrong",
                )
            })
        }
        _ => Ok(None),
    }
}

/// The identity that a client at this address with this user name and `User-Agent` has.
pub(super) fn recognise(
    crawlers: &Crawlers,
    connection: &Connection,
    username: Option<&str>,
    request: &Request<'_>,
) -> Identity {
    match crawlers.find(connection.client, username, request.user_agent) {
        Some(crawler) => Identity::Known(Arc::clone(crawler)),
        None => Identity::Asserted {
            claim: crawlers.claim(request.user_agent),
            dialect: crawlers.dialect,
            mode: crawlers.mode,
        },
    }
}

/// What speaks against an identity and the name it gives itself.
pub(super) fn object(
    crawlers: &Crawlers,
    identity: &Identity,
    request: &Request<'_>,
) -> Option<Refusal> {
    let crawler = identity.crawler();
    if crawler.is_none() && crawlers.require_crawler {
        return Some(unidentified("no [[crawler]] matches this request"));
    }
    if let Some(owner) = crawlers.claim(request.user_agent).foreign_owner(crawler) {
        let details = format!(
            "User-Agent names a crawler of {owner}, and no [[crawler]] here owns that token"
        );
        return Some(denied("Token belongs to another", "foreign-token", details));
    }
    let crawler = crawler?;
    let must_be_named = crawler.user_agent_must_contain_token;
    (must_be_named && !crawler.is_named_in(request.user_agent)).then(|| {
        let details = format!("User-Agent contains no token of crawler {}", crawler.name);
        denied("Token missing in User-Agent", "token-missing", details)
    })
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
        ErrorType::HttpRequestError,
        reason,
        details,
    )
}

fn denied(phrase: &'static str, reason: &'static str, details: String) -> Refusal {
    Refusal {
        is_policy: true,
        ..Refusal::new(403, phrase, ErrorType::HttpRequestDenied, reason, details)
    }
}
