//! Access control of the admin listener, and the header fields of every response.
//!
//! Without a token, everybody who can connect is an operator: the listener is on loopback then. But a browser on the same
//! machine can connect too, on behalf of any page that it shows. So requests from other sites are refused, and so are those
//! with a foreign name in `Host` (DNS rebinding: the site's own name resolves to this machine). With a token neither attack
//! works, because another site does not have it. The token also decides the operator's rights.

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::{StreamExt as _, future};
use ring::digest;
use wayleave_config::{AdminToken, Config};
use wayleave_signing::directory;

use super::access::{Operator, is_change};
use super::connection_limit::ConnectionState;
use super::live::EVENT_STREAM;
use super::response::error_response;
use crate::publication::{self, CARD_PATH, PAGE_PATH, RANGES_PATH};

/// The paths that need no token: they are for load balancers and clients, or serve no data.
const PUBLIC_PATHS: [&str; 7] =
    ["/", "/livez", "/readyz", "/ca.pem", "/ca-proof.cer", "/proxy.pac", "/v1/openapi.json"];

/// The policy that allows the page to run its own scripts and connect to this listener, and forbids everything else, such as
/// being framed.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The check that every request to the admin listener passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminGuard {
    /// The tokens, of which a request must have one; empty: none is required.
    pub(crate) tokens: Vec<AdminToken>,
    /// The paths of agents' JWK Sets.
    pub(crate) key_set_paths: Vec<String>,
}

/// Refuses requests that `guard` rejects, logs those that change something, and adds security headers to every response.
pub(super) async fn guard(
    State(guard): State<Arc<ArcSwap<AdminGuard>>>,
    mut request: Request,
    next: Next,
) -> Response {
    let checked = guard.load().check(&request);
    let change = is_change(request.method(), request.uri().path())
        .then(|| (request.method().clone(), request.uri().path().to_owned()));
    let who = checked.as_ref().ok().map(|operator| operator.who.clone());
    let is_public = guard.load().is_public(&request);
    let allowed = checked.and_then(|operator| operator.allow(&request, is_public));
    let token = request.headers().get(AUTHORIZATION).cloned();
    let mut response = match allowed {
        Ok(operator) => {
            request.extensions_mut().insert(operator.scope());
            // Anybody can request a public path, so that proves nothing about who has the connection.
            if let Some(connection) = request.extensions().get::<Arc<ConnectionState>>()
                && !is_public
            {
                connection.mark_operator();
            }
            let response = next.run(request).await;
            if is_endless(&response) {
                end_with_rights(response, operator, token, Arc::clone(&guard))
            } else {
                response
            }
        }
        Err(rejection) => rejection.response(),
    };
    if let Some((who, (method, path))) = who.zip(change) {
        let status = response.status().as_u16();
        tracing::info!(who, %method, path, status, "an operator's request to change something");
    }
    add_security_fields(response.headers_mut());
    response
}

/// Returns whether a response goes on for as long as its client is connected.
fn is_endless(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes() == EVENT_STREAM.as_bytes())
}

/// Ends the response before its next event if a reload has taken or changed the rights that it began with.
fn end_with_rights(
    response: Response,
    operator: Operator,
    token: Option<HeaderValue>,
    guard: Arc<ArcSwap<AdminGuard>>,
) -> Response {
    let is_as_before = move || {
        let now = guard.load().authenticate(token.as_ref());
        now.is_ok_and(|now| now == operator)
    };
    response.map(|body| {
        let events = body.into_data_stream().take_while(move |_| future::ready(is_as_before()));
        Body::from_stream(events)
    })
}

impl Operator {
    /// Returns the operator unless its token does not allow the request.
    fn allow(self, request: &Request, is_public: bool) -> Result<Self, AdminRejection> {
        let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        match self.objection(request.method(), route) {
            Some(objection) if !is_public => Err(AdminRejection::NotAllowed(objection)),
            _ => Ok(self),
        }
    }
}

/// The reason for rejecting a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdminRejection {
    ForeignSite,
    ForeignHost,
    NoToken,
    WrongToken,
    /// The token is right, but not for this request.
    NotAllowed(&'static str),
}

impl AdminRejection {
    fn response(self) -> Response {
        let (status, message) = match self {
            Self::ForeignSite => (StatusCode::FORBIDDEN, "another site sent this request"),
            Self::ForeignHost => (
                StatusCode::MISDIRECTED_REQUEST,
                "Host is neither an address nor localhost: other names need a token in [admin]",
            ),
            Self::NoToken => (
                StatusCode::UNAUTHORIZED,
                "the admin listener needs a token: Authorization: Bearer TOKEN",
            ),
            Self::WrongToken => (
                StatusCode::UNAUTHORIZED,
                "this is not a token of this proxy: its SHA-256 is not in [admin]",
            ),
            Self::NotAllowed(objection) => (StatusCode::FORBIDDEN, objection),
        };
        let mut response = error_response(status, message);
        if let Some(challenge) = self.challenge() {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response
    }

    /// Returns the challenge that RFC 6750 section 3 asks for.
    fn challenge(self) -> Option<&'static str> {
        match self {
            Self::NoToken => Some("Bearer realm=\"wayleave\""),
            Self::WrongToken => Some("Bearer realm=\"wayleave\", error=\"invalid_token\""),
            Self::NotAllowed(_) => Some("Bearer realm=\"wayleave\", error=\"insufficient_scope\""),
            Self::ForeignSite | Self::ForeignHost => None,
        }
    }
}

impl AdminGuard {
    /// Returns the guard of a configuration.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            tokens: config.admin.tokens.clone(),
            key_set_paths: publication::key_set_paths(config),
        }
    }

    fn check(&self, request: &Request) -> Result<Operator, AdminRejection> {
        let fields = request.headers();
        check_site(request)?;
        if self.tokens.is_empty() {
            // A web server that publishes these paths may forward its own public name in `Host`.
            if !self.is_published(request) {
                check_host(fields)?;
            }
            return Ok(Operator::without_token());
        }
        if self.is_public(request) {
            return Ok(Operator::without_token());
        }
        self.authenticate(fields.get(AUTHORIZATION))
    }

    fn is_public(&self, request: &Request) -> bool {
        let path = request.uri().path();
        PUBLIC_PATHS.contains(&path)
            || path.starts_with("/assets/")
            || path == "/docs"
            || path.starts_with("/docs/")
            || self.is_published(request)
    }

    /// Returns whether sites and verifiers of signatures fetch this path from an agent's host.
    fn is_published(&self, request: &Request) -> bool {
        let path = request.uri().path();
        // An agent's path opens nothing else: an endpoint of the same path comes first, and stays closed.
        let is_key_set = || {
            request.extensions().get::<MatchedPath>().is_none()
                && self.key_set_paths.iter().any(|known| known == path)
        };
        path == directory::DIRECTORY_PATH
            || path == RANGES_PATH
            || is_below(path, CARD_PATH)
            || is_below(path, PAGE_PATH)
            || is_key_set()
    }

    /// Returns the operator with this token, which is the value of `Authorization`.
    fn authenticate(&self, field: Option<&HeaderValue>) -> Result<Operator, AdminRejection> {
        if self.tokens.is_empty() {
            return Ok(Operator::without_token());
        }
        let sent = field.and_then(bearer_token).ok_or(AdminRejection::NoToken)?;
        let found = self.tokens.iter().find(|token| matches_digest(sent, &token.sha256));
        found.map(Operator::from).ok_or(AdminRejection::WrongToken)
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the token in `Authorization`, right or wrong.
fn bearer_token(field: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = field.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

/// Compares digests, so that the time it takes reveals nothing about the token.
fn matches_digest(token: &[u8], expected: &[u8; 32]) -> bool {
    // A random token needs no slow hash, as a password would.
    digest::digest(&digest::SHA256, token).as_ref() == expected
}

/// Refuses requests that a browser sends on behalf of another site. Another port of this host counts as another site.
fn check_site(request: &Request) -> Result<(), AdminRejection> {
    let fields = request.headers();
    let is_one_of = |name: &str, words: &[&str]| {
        let value = fields.get(name)?.as_bytes();
        Some(words.iter().any(|word| word.as_bytes() == value))
    };
    // Links from other sites may lead to the page, which has no data by itself and cannot be framed, and to public paths.
    let is_link = request.method() == Method::GET
        && PUBLIC_PATHS.contains(&request.uri().path())
        && is_one_of("sec-fetch-mode", &["navigate"]) == Some(true)
        && is_one_of("sec-fetch-dest", &["document"]) == Some(true);
    if is_one_of("sec-fetch-site", &["same-origin", "none"]) == Some(false) && !is_link {
        return Err(AdminRejection::ForeignSite);
    }
    // Browsers send the fields above only over HTTPS and to loopback, but `Origin` to any address.
    let Some(origin) = fields.get(ORIGIN).map(HeaderValue::as_bytes) else {
        return Ok(());
    };
    // `null`, which the browser sends for sandboxed frames, has no scheme and so is foreign, too.
    let authority =
        [&b"http://"[..], b"https://"].iter().find_map(|scheme| origin.strip_prefix(*scheme));
    if authority.is_some() && authority == fields.get(HOST).map(HeaderValue::as_bytes) {
        Ok(())
    } else {
        Err(AdminRejection::ForeignSite)
    }
}

/// Refuses every `Host` but addresses and `localhost`: the owner of any other name could make it resolve to this machine.
fn check_host(fields: &HeaderMap) -> Result<(), AdminRejection> {
    // Every one: which of several fields counts is up to the reader.
    for host in fields.get_all(HOST) {
        let authority = host.to_str().ok().and_then(|host| host.parse().ok());
        if !authority.as_ref().is_some_and(is_local) {
            return Err(AdminRejection::ForeignHost);
        }
    }
    Ok(())
}

fn is_local(authority: &Authority) -> bool {
    let host = authority.host().to_ascii_lowercase();
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    // Nobody can own a name below `localhost`: they all mean loopback (RFC 6761 section 6.3).
    host == "localhost"
        || host.ends_with(".localhost")
        || literal.parse::<std::net::IpAddr>().is_ok()
}

fn add_security_fields(fields: &mut HeaderMap) {
    // The pages about crawlers have their own.
    let policy = HeaderValue::from_static(CONTENT_POLICY);
    fields.entry(CONTENT_SECURITY_POLICY).or_insert(policy);
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        // Pages of other sites can neither keep a handle to this window nor embed its responses.
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        fields.insert(name, HeaderValue::from_static(value));
    }
    // Whatever sets no lifetime of its own may name clients, URLs or rules.
    fields.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use wayleave_config::AdminRole;

    use super::*;

    fn status(guard: &AdminGuard, path: &str, fields: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().uri(path);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        guard
            .check(&request)
            .map_or_else(|rejection| rejection.response().status().as_u16(), |_| 200)
    }

    #[test]
    fn names_that_others_own_are_refused_without_a_token() {
        let open = AdminGuard { tokens: Vec::new(), key_set_paths: Vec::new() };
        for host in ["127.0.0.1:3129", "[::1]:3129", "localhost:3129", "LOCALHOST", "10.0.0.1"] {
            assert_eq!(status(&open, "/v1/top", &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.test",
            "evil-localhost:3129",
            "localhost.evil.test:3129",
            "127.0.0.1.evil.test",
            "",
            "a b",
        ] {
            assert_eq!(status(&open, "/v1/top", &[("host", host)]), 421, "{host}");
        }
        let both = [("host", "localhost"), ("host", "evil.test")];
        assert_eq!(status(&open, "/v1/top", &both), 421);
        let card = "/.well-known/signature-agent-card/news";
        for published in [directory::DIRECTORY_PATH, card] {
            assert_eq!(status(&open, published, &[("host", "bot.test")]), 200);
        }
    }

    #[test]
    fn requests_from_other_sites_are_refused() {
        let open = AdminGuard { tokens: Vec::new(), key_set_paths: Vec::new() };
        let from = |site: &str| {
            [("host", "localhost:3129"), ("sec-fetch-site", site)].map(|(n, v)| (n, v.to_owned()))
        };
        for (site, expected) in
            [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)]
        {
            let fields = from(site);
            let fields: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_str())).collect();
            assert_eq!(status(&open, "/metrics", &fields), expected, "{site}");
        }
        for (origin, expected) in [
            ("http://localhost:3129", 200),
            ("https://localhost:3129", 200),
            ("http://localhost:3000", 403),
            ("http://localhost", 403),
            ("http://evil.test", 403),
            ("null", 403),
        ] {
            let fields = [("host", "localhost:3129"), ("origin", origin)];
            assert_eq!(status(&open, "/v1/reload", &fields), expected, "{origin}");
        }
    }

    #[test]
    fn links_from_other_sites_reach_only_public_paths() {
        let open = AdminGuard { tokens: Vec::new(), key_set_paths: Vec::new() };
        let link = [
            ("host", "localhost"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(status(&open, "/", &link), 200);
        assert_eq!(status(&open, "/ca.pem", &link), 200);
        assert_eq!(status(&open, "/v1/decisions", &link), 403);
        let mut framed = link;
        framed[3].1 = "iframe";
        assert_eq!(status(&open, "/", &framed), 403);
    }

    #[test]
    fn a_token_is_required_if_one_is_set() {
        let digest = digest::digest(&digest::SHA256, b"secret");
        let guard = AdminGuard {
            tokens: vec![AdminToken {
                sha256: digest.as_ref().try_into().unwrap(),
                name: None,
                role: AdminRole::Read,
                team: None,
            }],
            key_set_paths: vec!["/search".to_owned()],
        };
        for path in ["/v1/top?by=host", "/metrics", "/v1/reload", "//", "/livez/"] {
            assert_eq!(status(&guard, path, &[]), 401, "{path}");
            for (shown, expected) in [
                ("Bearer secret", 200),
                ("bearer secret", 200),
                ("Bearer secre", 401),
                ("Bearer  secret", 401),
                ("Basic secret", 401),
                ("Bearer", 401),
            ] {
                let fields = [("authorization", shown), ("host", "wayleave.test")];
                assert_eq!(status(&guard, path, &fields), expected, "{path} {shown}");
            }
        }
        let rejection = |shown: &str| {
            let request = Request::builder().uri("/metrics").header(AUTHORIZATION, shown);
            guard.check(&request.body(Body::empty()).unwrap()).unwrap_err()
        };
        assert_eq!(rejection("Bearer secre"), AdminRejection::WrongToken);
        assert_eq!(rejection("Basic secret"), AdminRejection::NoToken);
        for path in
            ["/", "/livez", "/readyz", "/ca.pem", "/assets/page.js", "/docs", "/docs/refusals.md"]
        {
            assert_eq!(status(&guard, path, &[]), 200, "{path}");
        }
        for published in ["/search", "/ips.json", "/crawlers/news.html"] {
            assert_eq!(status(&guard, published, &[]), 200, "{published}");
        }
        for closed in ["/search/", "/searches", "/crawlers", "/crawlersx"] {
            assert_eq!(status(&guard, closed, &[]), 401, "{closed}");
        }
    }
}
