//! The page for operators. Its files are compiled into the program, so that it needs neither a build step nor another server.
//!
//! The files hold no data: the scripts get everything from the API, with the token if there is one.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use wayleave_notation::harmless::escape_html;

use super::response::error_response;

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

/// The files below `/assets/`. uPlot (MIT, see uPlot.LICENSE) draws the chart: 50 kB, and fast with many points.
const ASSETS: [(&str, &str, &str); 32] = [
    ("page.css", CSS, include_str!("page/page.css")),
    ("page.js", JAVASCRIPT, include_str!("page/page.js")),
    ("api.js", JAVASCRIPT, include_str!("page/api.js")),
    ("dom.js", JAVASCRIPT, include_str!("page/dom.js")),
    ("diff.js", JAVASCRIPT, include_str!("page/diff.js")),
    ("chart.js", JAVASCRIPT, include_str!("page/chart.js")),
    ("overview.js", JAVASCRIPT, include_str!("page/overview.js")),
    ("decisions.js", JAVASCRIPT, include_str!("page/decisions.js")),
    ("decision.js", JAVASCRIPT, include_str!("page/decision.js")),
    ("environment.js", JAVASCRIPT, include_str!("page/environment.js")),
    ("owner.js", JAVASCRIPT, include_str!("page/owner.js")),
    ("rule.js", JAVASCRIPT, include_str!("page/rule.js")),
    ("docs.js", JAVASCRIPT, include_str!("page/docs.js")),
    ("refusals.js", JAVASCRIPT, include_str!(concat!(env!("OUT_DIR"), "/refusals.js"))),
    ("changes.js", JAVASCRIPT, include_str!("page/changes.js")),
    ("politeness.js", JAVASCRIPT, include_str!("page/politeness.js")),
    ("range.js", JAVASCRIPT, include_str!("page/range.js")),
    ("sortable.js", JAVASCRIPT, include_str!("page/sortable.js")),
    ("strip.js", JAVASCRIPT, include_str!("page/strip.js")),
    ("unnamed.js", JAVASCRIPT, include_str!("page/unnamed.js")),
    ("reasons.js", JAVASCRIPT, include_str!("page/reasons.js")),
    ("crawlers.js", JAVASCRIPT, include_str!("page/crawlers.js")),
    ("fleet.js", JAVASCRIPT, include_str!("page/fleet.js")),
    ("connect.js", JAVASCRIPT, include_str!("page/connect.js")),
    ("robots.js", JAVASCRIPT, include_str!("page/robots.js")),
    ("origins.js", JAVASCRIPT, include_str!("page/origins.js")),
    ("attempt.js", JAVASCRIPT, include_str!("page/attempt.js")),
    ("replay.js", JAVASCRIPT, include_str!("page/replay.js")),
    ("settings.js", JAVASCRIPT, include_str!("page/settings.js")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("uPlot.js", JAVASCRIPT, include_str!("page/uPlot.iife.min.js")),
    ("uPlot.css", CSS, include_str!("page/uPlot.min.css")),
];

/// The documents below `/docs/`: name, title and content, which the build script has rendered. Links lead from one to another
/// as they do in `docs/`, so the names are those of the files; the last part of the path for files outside of it.
const DOCUMENTS: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/documents.rs"));

/// The document that lists the others.
const LIST: &str = "README.md";

const HTML: &str = "text/html; charset=utf-8";

pub(super) async fn index() -> Response {
    let html = include_str!("page/index.html");
    ([(CONTENT_TYPE, HTML)], html).into_response()
}

pub(super) async fn documents() -> Response {
    document(Path(LIST.to_owned())).await
}

pub(super) async fn document(Path(name): Path<String>) -> Response {
    let Some((_, title, content)) = DOCUMENTS.iter().find(|(known, ..)| *known == name) else {
        return error_response(StatusCode::NOT_FOUND, "nothing is served at this path");
    };
    let title = escape_html(title);
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} · wayleave</title>\n\
         <link rel=\"icon\" href=\"/assets/icon.svg\" type=\"image/svg+xml\">\n\
         <link rel=\"stylesheet\" href=\"/assets/page.css\">\n</head>\n<body>\n\
         <header><a class=\"brand\" href=\"/\"><img src=\"/assets/icon.svg\" alt=\"\" width=\"22\" height=\"22\">\
         <span>wayleave</span></a> <nav aria-label=\"Documentation\"><a href=\"/docs/\">Documentation</a></nav></header>\n\
         <main class=\"document\">\n{content}</main>\n</body>\n</html>\n"
    );
    ([(CONTENT_TYPE, HTML)], html).into_response()
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    // Names of a closed set: no path leads to any other file.
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => ([(CONTENT_TYPE, *kind)], *text).into_response(),
        None => error_response(StatusCode::NOT_FOUND, "nothing is served at this path"),
    }
}
