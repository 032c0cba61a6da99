//! The OpenAPI document, except for the descriptions of the endpoints.

use axum::http::StatusCode;
use serde_json::{Value, json};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};
use wayleave_decision::Reason;

/// Returns the document without endpoints.
pub(super) fn base_document() -> OpenApi {
    let info = InfoBuilder::new().title("wayleave").version(env!("CARGO_PKG_VERSION")).description(
        Some("What a wayleave proxy decided and why, and what it knows of robots.txt files."),
    );
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("Needed if the configuration has admin.token_sha256 or admin.tokens. With the role `read` nothing can be changed; a token of a team is told of its own crawlers only."))
        .build();
    let components = ComponentsBuilder::new().security_scheme("token", SecurityScheme::Http(token));
    // Alternatives: whether a token is needed depends on the configuration.
    let anonymous = SecurityRequirement::default();
    let with_token = SecurityRequirement::new("token", Vec::<String>::new());
    OpenApiBuilder::new()
        .info(info.build())
        .components(Some(components.build()))
        .security(Some([anonymous, with_token]))
        .build()
}

/// Completes the document with the parts that OpenAPI requires of each operation and the endpoints do not declare: a unique
/// id, and a description of each response.
///
/// # Errors
///
/// If the document is not JSON.
pub(super) fn complete(document: &OpenApi) -> serde_json::Result<Value> {
    let mut document = serde_json::to_value(document)?;
    let paths = document["paths"].as_object_mut();
    for (path, operations) in paths.into_iter().flatten() {
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            operation["operationId"] = json!(operation_id(method, path));
            // Public paths declare that they need no token.
            if operation.get("security").is_none() {
                operation["responses"]["403"] = forbidden_response();
            }
            let responses = operation["responses"].as_object_mut();
            for (status, response) in responses.into_iter().flatten() {
                if response["description"].as_str().is_none_or(str::is_empty) {
                    response["description"] = json!(status_description(status));
                }
            }
        }
    }
    // For utoipa the reason is any string: a line of the log may have been written by another version.
    let decision = &mut document["components"]["schemas"]["Decision"];
    decision["properties"]["reason"]["enum"] =
        Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    Ok(document)
}

/// Returns the response to a token that is not for an operation.
fn forbidden_response() -> Value {
    json!({
        "description": "The token's role or team does not allow it",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Mistake" } } },
    })
}

/// Returns the id of an operation, such as `get_v1_decisions_id` for GET of `/v1/decisions/{id}`.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    [method].into_iter().chain(words).collect::<Vec<_>>().join("_")
}

fn status_description(status: &str) -> &'static str {
    StatusCode::from_bytes(status.as_bytes())
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Answer")
}
