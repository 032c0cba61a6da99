//! The OpenAPI document, apart from the endpoints' own descriptions.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};

/// The document without endpoints.
pub(super) fn head() -> OpenApi {
    let info = InfoBuilder::new()
        .title("wayleave")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "What a wayleave proxy decided and why, and what it knows of robots.txt files.",
        ));
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("Needed if the configuration has admin.token_sha256."))
        .build();
    let components = ComponentsBuilder::new().security_scheme("token", SecurityScheme::Http(token));
    let anonymous = SecurityRequirement::default();
    let with_token = SecurityRequirement::new("token", Vec::<String>::new());
    OpenApiBuilder::new()
        .info(info.build())
        .components(Some(components.build()))
        .security(Some([anonymous, with_token]))
        .build()
}
