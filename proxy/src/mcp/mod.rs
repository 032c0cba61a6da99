//! The Model Context Protocol: agents ask whether they may fetch, fetch through the proxy, and learn why they may not.
//!
//! Every answer comes from the listeners of a running proxy, with the credentials of the client: an agent may do here what it
//! may do there.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Request, StatusCode, Uri, request};
use http_body_util::Empty;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, schemars, tool, tool_handler, tool_router};
use serde::Deserialize;
use serde_json::{Value, json};
use wayleave_decision::RequestOutcome;
use wayleave_transport::http::loopback::{self, LoopbackResponse};

/// The default of `max_bytes`.
const DEFAULT_BYTES: usize = 256 * 1024;

/// The most bytes of a page that are read into memory.
const MAX_BYTES: usize = 1024 * 1024;

/// The most bytes of an answer of the admin listener: a decision with its robots.txt.
const MAX_ADMIN_BYTES: usize = 16 * 1024 * 1024;

/// The longest time until a response begins, because a page that has to wait for its slot takes as long as the origin's
/// Crawl-delay; and again that of its body.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The field by which refusals of the proxy differ from an origin's responses.
const PROXY_STATUS: &str = "proxy-status";

/// An agent's way to a running proxy.
#[derive(Clone, Debug)]
pub(crate) struct McpServer {
    /// The admin listener.
    pub(crate) admin: SocketAddr,
    /// The listener for clients, if one is an HTTP proxy without TLS.
    pub(crate) proxy: Option<SocketAddr>,
    /// The field `Authorization` for the admin listener, unless the agent's own request has one.
    pub(crate) authorization: Option<HeaderValue>,
    /// The product token of requests that name none.
    pub(crate) token: Option<String>,
}

/// A page, and the crawler on whose behalf it is asked for.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct MayFetchArguments {
    /// The URL, such as https://example.com/page
    url: String,
    /// The crawler's product token, such as ExampleBot; default: the one that the server was started with
    token: Option<String>,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct FetchArguments {
    /// The URL, such as https://example.com/page
    url: String,
    /// The crawler's product token, such as ExampleBot; default: the one that the server was started with
    token: Option<String>,
    /// The most bytes to return, up to 1 MiB; default: 256 KiB
    max_bytes: Option<usize>,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct WhyArguments {
    /// The decision_id of a refusal
    decision_id: Option<String>,
    /// Or a URL that was asked about
    url: Option<String>,
    /// The crawler's product token, if there is a URL
    token: Option<String>,
}

#[tool_router]
impl McpServer {
    #[tool(
        description = "Ask whether robots.txt, the site's usage preferences and the organisation's rules allow a page to be fetched. Nothing is fetched but robots.txt.",
        annotations(read_only_hint = true)
    )]
    async fn may_fetch(
        &self,
        Parameters(arguments): Parameters<MayFetchArguments>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let preview = self.preview(&arguments.url, arguments.token.as_deref(), &context).await;
        tool_result(
            preview.map(|preview| json!({ "may_fetch": may_fetch(&preview), "decision": preview })),
        )
    }

    #[tool(
        description = "Fetch a page by GET through the proxy. What is disallowed is refused, with the reason and what may be done instead.",
        annotations(read_only_hint = true, open_world_hint = true)
    )]
    async fn fetch(
        &self,
        Parameters(arguments): Parameters<FetchArguments>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        match self.fetch_page(&arguments, &context).await {
            Ok(result) => result,
            Err(error) => failure(&error),
        }
    }

    #[tool(
        description = "Explain a decision: the rule, its line and its group in robots.txt, by the decision_id of a refusal or by URL.",
        annotations(read_only_hint = true)
    )]
    async fn why(
        &self,
        Parameters(arguments): Parameters<WhyArguments>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let answer = match (&arguments.decision_id, &arguments.url) {
            (Some(id), None) if id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                self.ask(&format!("/v1/decisions/{id}"), &context).await
            }
            (Some(id), None) => Err(anyhow::anyhow!("{id:?} is not a decision_id")),
            (None, Some(url)) => self.preview(url, arguments.token.as_deref(), &context).await,
            _ => Err(anyhow::anyhow!("either decision_id or url is needed")),
        };
        tool_result(answer)
    }
}

#[tool_handler(
    name = "wayleave",
    instructions = "Tools for crawling within robots.txt. Ask may_fetch before you plan; fetch refuses what is disallowed; why explains."
)]
impl ServerHandler for McpServer {}

impl McpServer {
    fn user_agent(&self, token: Option<&str>) -> anyhow::Result<String> {
        let token = token.or(self.token.as_deref()).context(
            "no crawler is named: give its product token as `token`, or start with --token",
        )?;
        wayleave_robots_txt::ProductToken::new(token)
            .with_context(|| format!("token {token:?}"))?;
        Ok(format!("{token}/1.0"))
    }

    async fn preview(
        &self,
        url: &str,
        token: Option<&str>,
        context: &RequestContext<RoleServer>,
    ) -> anyhow::Result<Value> {
        let agent = self.user_agent(token)?;
        let client = self.client().to_string();
        let [url, agent, client] =
            [url, &agent, &client].map(|text| utf8_percent_encode(text, NON_ALPHANUMERIC));
        let path = format!("/v1/decision?url={url}&user_agent={agent}&client={client}");
        self.ask(&path, context).await
    }

    /// Returns the address that requests come from. Crawlers are recognised by it, too: a preview must be about the address
    /// that a fetch has, whichever one of this machine the proxy listens on.
    fn client(&self) -> IpAddr {
        match self.proxy {
            Some(SocketAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
            _ => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Asks the admin listener, as the agent's own request to it if there was one.
    async fn ask(&self, path: &str, context: &RequestContext<RoleServer>) -> anyhow::Result<Value> {
        let mut request = Request::get(path).header(HOST, self.admin.to_string());
        let own = context.extensions.get::<request::Parts>();
        let authorization =
            own.map_or(self.authorization.as_ref(), |parts| parts.headers.get(AUTHORIZATION));
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Empty::new())?;
        let sending = loopback::send(self.admin, request, MAX_ADMIN_BYTES);
        let response = in_time(self.admin, sending).await?;
        let answer: Value = serde_json::from_slice(&response.body)
            .with_context(|| format!("the admin listener answered with {}", response.status))?;
        if response.status.is_success() {
            return Ok(answer);
        }
        anyhow::bail!("{}", answer["error"].as_str().unwrap_or("the admin listener refused"))
    }

    async fn fetch_page(
        &self,
        arguments: &FetchArguments,
        context: &RequestContext<RoleServer>,
    ) -> anyhow::Result<CallToolResult> {
        // The listener for clients knows no admin tokens, so the crawlers that a team may ask about are checked here.
        self.preview(&arguments.url, arguments.token.as_deref(), context).await?;
        let agent = self.user_agent(arguments.token.as_deref())?;
        let limit = arguments.max_bytes.unwrap_or(DEFAULT_BYTES).min(MAX_BYTES);
        let response = self.get(&arguments.url, &agent, limit).await?;
        if response.headers.contains_key(PROXY_STATUS) {
            return Ok(self.refusal(&arguments.url, &agent, &response).await);
        }
        let head = json!({
            "url": arguments.url,
            "status": response.status.as_u16(),
            "content_type": response.field(CONTENT_TYPE.as_str()),
            "location": response.field(LOCATION.as_str()),
            "is_cut": response.is_cut,
            "cut_because": cut_because(&response, limit),
        });
        let text = match str::from_utf8(&response.body) {
            Ok(text) => Cow::Borrowed(text),
            // The limit may have cut a character.
            Err(error) if response.is_cut && error.error_len().is_none() => {
                String::from_utf8_lossy(&response.body[..error.valid_up_to()])
            }
            Err(_) if response.field(CONTENT_TYPE.as_str()).starts_with("text/") => {
                String::from_utf8_lossy(&response.body)
            }
            Err(_) => Cow::Borrowed("(not text)"),
        };
        let content = vec![ContentBlock::text(head.to_string()), ContentBlock::text(text)];
        Ok(CallToolResult::success(content))
    }

    async fn get(&self, url: &str, agent: &str, limit: usize) -> anyhow::Result<LoopbackResponse> {
        let proxy = self.proxy.context("no listener of proxy.listen is a plain HTTP proxy")?;
        let uri: Uri = url.parse().with_context(|| format!("{url:?} is not a URL"))?;
        let authority =
            uri.authority().with_context(|| format!("{url:?} has no host"))?.to_string();
        anyhow::ensure!(!authority.contains('@'), "a URL with a user name is not fetched");
        let request = Request::get(uri)
            .header(HOST, authority)
            .header(USER_AGENT, agent)
            .body(Empty::<Bytes>::new())?;
        loopback::send_from(self.client(), proxy, request, (limit, TIMEOUT))
            .await
            .with_context(|| asking(proxy))
    }

    /// Describes a refusal or a failure, and the alternatives.
    async fn refusal(&self, url: &str, agent: &str, response: &LoopbackResponse) -> CallToolResult {
        let problem: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let is_failure =
            matches!(response.status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT);
        let mut instead = Vec::new();
        match response.field(RETRY_AFTER.as_str()) {
            "" if is_failure => instead.push(
                "Nothing was refused: the origin cannot be reached. It may work later.".to_owned(),
            ),
            "" => instead
                .push("Do not ask again: the same request would be refused again.".to_owned()),
            seconds => instead.push(format!("Ask again after {seconds} seconds.")),
        }
        // Where there is a delay, a request for the guide would take the place of one for a page.
        let has_pace = response.headers.contains_key("ratelimit-policy");
        if response.status == StatusCode::FORBIDDEN
            && !has_pace
            && let Some(guide) = self.guide_for_agents(url, agent).await
        {
            instead.push(format!("The site has a guide for agents, which may be fetched: {guide}"));
        }
        let answer = json!({
            "refused": !is_failure,
            "status": response.status.as_u16(),
            "problem": problem,
            "instead": instead,
        });
        CallToolResult::error(vec![ContentBlock::text(answer.to_string())])
    }

    /// Returns the URL of the site's `llms.txt`, if there is one that may be fetched.
    async fn guide_for_agents(&self, url: &str, agent: &str) -> Option<String> {
        let origin = wayleave_robots_txt::Target::parse(url).ok()?.origin().to_string();
        let guide = format!("{origin}/llms.txt");
        let response = self.get(&guide, agent, 1).await.ok()?;
        let is_text = response.field(CONTENT_TYPE.as_str()).starts_with("text/plain")
            || response.field(CONTENT_TYPE.as_str()).starts_with("text/markdown");
        (response.status.is_success() && is_text).then_some(guide)
    }
}

/// Waits for the response of a listener of the proxy.
async fn in_time(
    listener: SocketAddr,
    sending: impl Future<Output = anyhow::Result<LoopbackResponse>>,
) -> anyhow::Result<LoopbackResponse> {
    tokio::time::timeout(TIMEOUT, sending)
        .await
        .with_context(|| format!("the listener at {listener} does not respond"))?
        .with_context(|| asking(listener))
}

fn asking(listener: SocketAddr) -> String {
    format!("asking the proxy at {listener} (is `wayleave serve` running?)")
}

/// Returns why a page is not here as a whole; none if it is.
fn cut_because(response: &LoopbackResponse, limit: usize) -> Option<String> {
    if response.is_late {
        let seconds = TIMEOUT.as_secs();
        return Some(format!("it comes slowly, and had not ended {seconds} s after it began"));
    }
    response.is_cut.then(|| format!("it is longer than {limit} bytes (max_bytes)"))
}

/// Returns whether a previewed request would be sent.
fn may_fetch(preview: &Value) -> bool {
    let outcome = preview["outcome"].as_str().and_then(RequestOutcome::named);
    outcome.is_some_and(RequestOutcome::was_let_through)
}

fn tool_result(answer: anyhow::Result<Value>) -> CallToolResult {
    match answer {
        Ok(answer) => CallToolResult::success(vec![ContentBlock::text(answer.to_string())]),
        Err(error) => failure(&error),
    }
}

fn failure(error: &anyhow::Error) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("{error:#}"))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_may_be_fetched_in_a_tunnel_too() {
        for outcome in RequestOutcome::ALL {
            let preview = json!({ "outcome": outcome.as_str() });
            let may = matches!(outcome, RequestOutcome::Forwarded | RequestOutcome::Tunnelled);
            assert_eq!(may_fetch(&preview), may, "{outcome:?}");
        }
        assert!(!may_fetch(&json!({ "outcome": "a later version's" })));
        assert!(!may_fetch(&json!({})));
    }
}
