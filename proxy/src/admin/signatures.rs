//! The documents that verifiers of signed requests fetch: the key directory, and a card for each crawler. A web server
//! publishes them at `signing.agent`.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use wayleave_clock::system_time;
use wayleave_signing::agent_card::CardSubject;
use wayleave_signing::directory::{self, MEDIA_TYPE};

use super::response::{ErrorBody, error_response};
use super::state::AdminState;

/// The public keys of the crawlers, as JSON Web Keys, signed by each of them for the host of `signing.agent`.
#[utoipa::path(get, path = "/.well-known/http-message-signatures-directory", tag = "clients", security(()), responses((status = 200, body = String, content_type = "application/http-message-signatures-directory+json"), (status = 404, body = ErrorBody, description = "There is none")))]
pub(super) async fn directory(State(admin): State<AdminState>) -> Response {
    let settings = admin.decider.settings();
    let signer = &settings.signer;
    if signer.keys.is_empty() {
        return error_response(StatusCode::NOT_FOUND, "no crawler has a signing_key");
    }
    let body = directory::body(&signer.keys);
    // A day, after which the signatures are still valid for another one.
    let fields = [(CONTENT_TYPE, MEDIA_TYPE), (CACHE_CONTROL, "max-age=86400")];
    match &signer.settings.agent {
        Some(agent) => {
            let signed = directory::signature_fields(&signer.keys, agent, &body, system_time());
            (fields, signed, body).into_response()
        }
        // Each signature covers the agent's authority.
        None => (fields, body).into_response(),
    }
}

/// The signature agent card of a crawler with a key.
#[utoipa::path(get, path = "/.well-known/signature-agent-card/{crawler}", tag = "clients", security(()), params(("crawler" = String, Path, description = "The crawler's name")), responses((status = 200, body = String, content_type = "application/json"), (status = 404, body = ErrorBody, description = "There is none")))]
pub(super) async fn card(State(admin): State<AdminState>, Path(name): Path<String>) -> Response {
    let settings = admin.decider.settings();
    let crawler = settings.crawlers.named(&name).filter(|crawler| crawler.signing_key.is_some());
    let (Some(crawler), Some(agent)) = (crawler, &settings.signer.settings.agent) else {
        return error_response(
            StatusCode::NOT_FOUND,
            "no crawler of this name signs for a signing.agent",
        );
    };
    let subject = CardSubject {
        agent,
        crawler: &crawler,
        pacing: &settings.pacing,
        sources: settings.preferences.reading.sources,
        // Only `wayleave publish` writes the other files that a card can name.
        has_page_and_ranges: false,
    };
    ([(CONTENT_TYPE, "application/json")], subject.card()).into_response()
}
