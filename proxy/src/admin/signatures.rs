//! The files published about the crawlers: for each agent its key directory, and its crawlers' cards, pages and address ranges. A
//! web server publishes them at the agents' URLs: it passes on `Host`, or has one agent.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use wayleave_clock::system_time;
use wayleave_config::Config;
use wayleave_signing::SigningAgent;
use wayleave_signing::directory;

use super::response::{ErrorBody, error_response};
use super::state::AdminState;
use crate::publication::PublishedHost;

/// The policy for pages that others read: they have a style of their own, and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// The public keys of an agent's crawlers, as JSON Web Keys, signed by each of them for the agent's host: of the agent whose host is in
/// `Host`, else of `signing.agent`.
#[utoipa::path(get, path = "/.well-known/http-message-signatures-directory", tag = "clients", security(()), responses((status = 200, body = String, content_type = "application/http-message-signatures-directory+json"), (status = 404, body = ErrorBody, description = "There is none")))]
pub(super) async fn directory(State(admin): State<AdminState>, fields: HeaderMap) -> Response {
    let config = admin.config.published();
    let agent = match asked_host(&config, &fields) {
        Some(host) => host.agent_at(directory::DIRECTORY_PATH),
        // Whoever names no agent's host gets the first agent's keys, wherever its set is.
        None => config.signing.agents.first(),
    };
    match agent {
        Some(agent) => key_set(agent),
        None if !config.signing.keys_without_agent.is_empty() => {
            let fields = [(CONTENT_TYPE, directory::MEDIA_TYPE)];
            // Unsigned: each signature covers the agent's authority.
            (fields, directory::body(&config.signing.keys_without_agent)).into_response()
        }
        None => error_response(StatusCode::NOT_FOUND, "no crawler has a signing_key"),
    }
}

/// Serves the JWK Set of the agent whose URL has this path, and for other paths 404.
pub(super) async fn key_set_at_path(
    State(admin): State<AdminState>,
    uri: Uri,
    fields: HeaderMap,
) -> Response {
    let config = admin.config.published();
    let agent = match asked_host(&config, &fields) {
        Some(host) => host.agent_at(uri.path()),
        None => {
            let agents = config.signing.agents.iter();
            let mut agents = agents.filter(|agent| agent.key_set_path() == uri.path());
            // With two of them, only `Host` can say which is meant.
            agents.next().filter(|_| agents.next().is_none())
        }
    };
    match agent {
        Some(agent) => key_set(agent),
        None => error_response(StatusCode::NOT_FOUND, "nothing is served at this path"),
    }
}

/// The signature agent card of a crawler with a key.
#[utoipa::path(get, path = "/.well-known/signature-agent-card/{crawler}", tag = "clients", security(()), params(("crawler" = String, Path, description = "The crawler's name")), responses((status = 200, body = String, content_type = "application/json"), (status = 404, body = ErrorBody, description = "There is none")))]
pub(super) async fn card(State(admin): State<AdminState>, Path(name): Path<String>) -> Response {
    let config = admin.config.published();
    // No two crawlers have one name, so the host need not say which is meant.
    match PublishedHost::all(&config).iter().find_map(|host| host.card(&name)) {
        Some(card) => ([(CONTENT_TYPE, "application/json")], card).into_response(),
        None => error_response(
            StatusCode::NOT_FOUND,
            "no crawler of this name signs for a signing.agent",
        ),
    }
}

/// The page about a crawler: who runs it, what for, and how to block it.
pub(super) async fn page(State(admin): State<AdminState>, Path(file): Path<String>) -> Response {
    let config = admin.config.published();
    let hosts = PublishedHost::all(&config);
    let name = file.strip_suffix(".html");
    match name.and_then(|name| hosts.iter().find_map(|host| host.page(name))) {
        Some(page) => {
            let fields = [
                (CONTENT_TYPE, "text/html; charset=utf-8"),
                (CONTENT_SECURITY_POLICY, PAGE_POLICY),
            ];
            (fields, page).into_response()
        }
        None => error_response(StatusCode::NOT_FOUND, "there is no crawler of this name"),
    }
}

/// The addresses that the crawlers' requests come from (JAFAR): of the agents whose host is in `Host`, else of `signing.agent`'s.
pub(super) async fn ranges(State(admin): State<AdminState>, fields: HeaderMap) -> Response {
    let config = admin.config.published();
    let first = || PublishedHost::all(&config).into_iter().next();
    match asked_host(&config, &fields).or_else(first) {
        Some(host) => {
            ([(CONTENT_TYPE, "application/json")], host.ranges(system_time())).into_response()
        }
        None => error_response(StatusCode::NOT_FOUND, "there is no crawler"),
    }
}

fn asked_host<'c>(config: &'c Config, fields: &HeaderMap) -> Option<PublishedHost<'c>> {
    PublishedHost::named(config, fields.get(HOST)?.to_str().ok()?)
}

fn key_set(agent: &Arc<SigningAgent>) -> Response {
    if agent.keys.is_empty() {
        return error_response(StatusCode::NOT_FOUND, "no crawler of this agent has a signing_key");
    }
    let body = directory::body(&agent.keys);
    // A day, after which the signatures are still valid for another one.
    let fields = [(CONTENT_TYPE, directory::media_type(agent)), (CACHE_CONTROL, "max-age=86400")];
    let signed = directory::signature_fields(agent, &body, system_time());
    (fields, signed, body).into_response()
}
