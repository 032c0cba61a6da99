//! The admin listener: metrics, health, decisions, robots.txt files, the page, and the settings of clients.

#![allow(
    unused_qualifications,
    reason = "utoipa's macro qualifies the types it is given, and the lint blames who wrote them"
)]

mod access;
mod changes;
mod clients;
mod configuration;
mod connection_limit;
pub(crate) mod crawler_naming;
mod crawlers;
mod decision_basis;
mod decision_filter;
mod decisions;
mod download;
mod edge;
mod evidence;
mod fleet;
mod guard;
mod health;
mod live;
mod marked_lines;
mod openapi;
mod overview;
mod pace;
mod pace_costs;
mod page;
mod parameters;
pub(crate) mod preview;
mod problems;
mod refresh_limit;
mod reload_handle;
mod replay;
mod report;
mod response;
mod robots;
mod robots_view;
mod rules;
mod serve;
mod signatures;
mod state;

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{Redirect, Response};
use axum::routing::MethodRouter;
use axum::{Router, middleware, routing};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::Semaphore;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wayleave_config::{ListenAddress, ListenProtocol};

pub(crate) use self::connection_limit::MAX_CONNECTIONS;
pub(crate) use self::decisions::ShownDecision;
pub(crate) use self::guard::AdminGuard;
pub(crate) use self::marked_lines::decision_marks;
pub(crate) use self::reload_handle::{
    ConfigStatus, ReloadAttempt, ReloadHandle, ReloadReply, ReloadResult, Reloaded,
};
pub(crate) use self::robots_view::DecidingFile;
pub(crate) use self::serve::serve;
pub(crate) use self::state::AdminState;
use crate::mcp::McpServer;
use crate::publication::RANGES_PATH;

/// The most answers to agents at a time: a page takes several times its size, as text and as JSON.
const MAX_AGENT_ANSWERS: usize = 32;

/// Returns the routes of the admin listener, behind `guard`.
pub(crate) fn router(admin: AdminState, guard: Arc<ArcSwap<AdminGuard>>) -> Router {
    let (router, document) = api_routes();
    let description = openapi::complete(&document).expect("a description is JSON");
    // Serialised once, not per request; as `Bytes` because each connection clones the routes with everything they hold.
    let json = Bytes::from(description.to_string());
    let agents = MethodRouter::new().fallback_service(agents_service(&admin));
    let answers = Arc::new(Semaphore::new(MAX_AGENT_ANSWERS));
    router
        .route(
            access::MCP_PATH,
            agents
                .layer(middleware::from_fn(accept_any_type))
                .layer(middleware::from_fn_with_state(answers, bound_answers)),
        )
        .route("/crawlers/{file}", routing::get(signatures::page))
        .route(RANGES_PATH, routing::get(signatures::ranges))
        .route("/", routing::get(page::index))
        .route("/assets/{name}", routing::get(page::asset))
        .route("/docs", routing::get(|| async { Redirect::permanent("/docs/") }))
        .route("/docs/", routing::get(page::documents))
        .route("/docs/{name}", routing::get(page::document))
        .route(
            "/v1/openapi.json",
            routing::get(|| async { ([(CONTENT_TYPE, "application/json")], json) }),
        )
        // axum's own responses to these have no body, and every error of this API is JSON.
        .fallback(signatures::key_set_at_path)
        .method_not_allowed_fallback(|| async {
            response::error_response(
                StatusCode::METHOD_NOT_ALLOWED,
                "this method is not allowed here",
            )
        })
        .with_state(admin)
        // After the fallbacks: the guard, and the header fields that it adds, apply only to the routes that the router has
        // by then.
        .layer(middleware::from_fn_with_state(guard, guard::guard))
}

/// Bounds the answers to agents until they are sent: each may hold a page, and an agent need not read it.
async fn bound_answers(
    State(answers): State<Arc<Semaphore>>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(permit) = answers.try_acquire_owned() else {
        return response::error_response(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many agents ask at once",
        );
    };
    let holding_permit = move |frame| {
        let _until_the_body_is_dropped = &permit;
        frame
    };
    next.run(request).await.map(|body| Body::new(body.map_frame(holding_permit)))
}

/// Lets agents ask for any media type. Answers are JSON, but the service refuses a client that would not read a stream of
/// events, too, such as curl with `Accept: */*`.
async fn accept_any_type(mut request: Request, next: Next) -> Response {
    let accepted = HeaderValue::from_static("application/json, text/event-stream");
    request.headers_mut().insert(ACCEPT, accepted);
    next.run(request).await
}

/// Returns the service for agents. The guard has checked the host and the token before it, and the tools pass the token on.
fn agents_service(admin: &AdminState) -> StreamableHttpService<McpServer, NeverSessionManager> {
    let server = McpServer {
        admin: ListenAddress::http(admin.own_address).dialable().address,
        proxy: admin
            .proxy
            .filter(|listener| listener.protocol == ListenProtocol::Http)
            .map(|listener| listener.address),
        authorization: None,
        token: None,
    };
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_cancellation_token(admin.stopping.child_token());
    StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), config)
}

/// Returns every endpoint of the API together with the document that describes them, so that no handler is missing in one.
fn api_routes() -> (Router<AdminState>, OpenApi) {
    OpenApiRouter::with_openapi(openapi::base_document())
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(clients::certificate))
        .routes(routes!(clients::proof))
        .routes(routes!(clients::proxy_auto_config))
        .routes(routes!(clients::connect))
        .routes(routes!(signatures::directory))
        .routes(routes!(signatures::card))
        .routes(routes!(preview::preview))
        .routes(routes!(decisions::list))
        .routes(routes!(live::stream))
        .routes(routes!(download::download))
        .routes(routes!(decisions::show))
        .routes(routes!(decision_basis::grounds))
        .routes(routes!(decisions::top))
        .routes(routes!(report::overview))
        .routes(routes!(edge::edge))
        .routes(routes!(evidence::signing))
        .routes(routes!(evidence::body))
        .routes(routes!(changes::list))
        .routes(routes!(robots::list))
        .routes(routes!(robots::show, robots::forget))
        .routes(routes!(robots::refresh))
        .routes(routes!(overview::traffic))
        .routes(routes!(overview::status))
        .routes(routes!(problems::list))
        .routes(routes!(configuration::configuration))
        .routes(routes!(rules::list))
        .routes(routes!(crawlers::list))
        .routes(routes!(fleet::fleet))
        .routes(routes!(pace::pace))
        .routes(routes!(configuration::reload))
        .routes(routes!(replay::replay))
        .split_for_parts()
}
