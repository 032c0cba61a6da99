//! A client for the admin listener of a running proxy.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::BytesMut;
use bytesize::ByteSize;
use http_body_util::Empty;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use wayleave_clock::{Clock, TimeArgument};
use wayleave_transport::http::loopback::{self, LoopbackResponse, OpenResponse};

/// The time after which a request is given up.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The longest answer, such as that of thousands of decisions.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// Parses the body as JSON; an empty one is `null`.
///
/// # Errors
///
/// The proxy's own error, or that its response is unreadable.
fn parse_json(response: &LoopbackResponse) -> anyhow::Result<Value> {
    // 204 No Content is the response to a deletion.
    if response.body.is_empty() && response.status.is_success() {
        return Ok(Value::Null);
    }
    let Ok(value) = serde_json::from_slice::<Value>(&response.body) else {
        bail!("the admin listener answered with {}", response.status);
    };
    if !response.status.is_success() {
        bail!("{}", value["error"].as_str().unwrap_or("unknown"));
    }
    Ok(value)
}

/// The environment variable with a token whose digest is in `[admin]`.
pub(super) const TOKEN: &str = "WAYLEAVE_ADMIN_TOKEN";

/// Sends a request to the admin listener at `admin`, and parses the JSON of its response. `path` begins with `/`.
///
/// # Errors
///
/// The proxy cannot be reached, or answers with an error.
pub(super) fn request_json(admin: SocketAddr, method: &str, path: &str) -> anyhow::Result<Value> {
    parse_json(&request(admin, method, path)?)
}

/// Fetches the bytes that the proxy serves at `path`; none if it answers 404.
///
/// # Errors
///
/// The proxy cannot be reached, or answers with another error.
pub(super) fn request_bytes(admin: SocketAddr, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let response = request(admin, "GET", path)?;
    if response.status == http::StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if !response.status.is_success() {
        parse_json(&response)?;
    }
    Ok(Some(response.body.to_vec()))
}

/// Returns the text of `/readyz` if the proxy is ready for requests.
///
/// # Errors
///
/// The proxy cannot be reached, or is not ready.
pub(super) fn readiness(admin: SocketAddr) -> anyhow::Result<String> {
    let response = request(admin, "GET", "/readyz")?;
    let text = String::from_utf8_lossy(&response.body).into_owned();
    anyhow::ensure!(response.status.is_success(), "the proxy is not ready: {}", text.trim_end());
    Ok(text)
}

/// Encodes a value of a query. A space becomes "+", which a path would take literally.
pub(super) fn encoded(value: &str) -> String {
    url::form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

/// Returns the time that an argument names as a value of a query.
pub(super) fn encoded_time(argument: &TimeArgument) -> String {
    let at = humantime::format_rfc3339_nanos(argument.start(Clock::start().now()));
    encoded(&at.to_string())
}

/// An endless stream of server-sent events from a running proxy.
pub(super) struct EventStream {
    runtime: Runtime,
    response: OpenResponse,
    /// The bytes that are no whole event yet.
    received: BytesMut,
}

/// A server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerSentEvent {
    pub(super) name: String,
    pub(super) data: String,
}

impl EventStream {
    /// Opens the stream at `path`.
    ///
    /// # Errors
    ///
    /// The proxy cannot be reached, or answers with an error.
    pub(super) fn open(admin: SocketAddr, path: &str) -> anyhow::Result<Self> {
        let runtime = runtime()?;
        let response = runtime.block_on(async {
            let response = open(admin, "GET", path).await?;
            if response.status.is_success() {
                return Ok(response);
            }
            parse_json(&read(response).await?)?;
            bail!("the proxy at http://{admin} did not open a stream")
        })?;
        Ok(Self { runtime, response, received: BytesMut::new() })
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// The proxy stops, or the connection breaks.
    pub(super) fn next(&mut self) -> anyhow::Result<ServerSentEvent> {
        let Self { runtime, response, received } = self;
        runtime.block_on(async {
            loop {
                while let Some(end) = received.windows(2).position(|two| two == b"\n\n") {
                    let block = received.split_to(end + 2);
                    if let Some(event) = parse_event(&String::from_utf8_lossy(&block)) {
                        return Ok(event);
                    }
                }
                let chunk =
                    response.next_chunk().await?.context("the proxy has ended the stream")?;
                received.extend_from_slice(&chunk);
            }
        })
    }
}

/// Parses one event; `None` for a comment.
fn parse_event(block: &str) -> Option<ServerSentEvent> {
    let mut event = ServerSentEvent::default();
    for line in block.lines() {
        if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut event.name);
        } else if let Some(data) = line.strip_prefix("data: ") {
            data.clone_into(&mut event.data);
        }
    }
    (event != ServerSentEvent::default()).then_some(event)
}

fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("starting the runtime")
}

fn request(admin: SocketAddr, method: &str, path: &str) -> anyhow::Result<LoopbackResponse> {
    runtime()?.block_on(async { read(open(admin, method, path).await?).await })
}

/// Sends a request, and returns the response once its head has arrived. Needs a tokio runtime.
async fn open(admin: SocketAddr, method: &str, path: &str) -> anyhow::Result<OpenResponse> {
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        // The guard accepts addresses whether or not a token is required.
        .header(http::header::HOST, admin.to_string());
    if let Ok(token) = std::env::var(TOKEN) {
        request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Empty::new()).with_context(|| format!("{TOKEN} cannot be sent"))?;
    let Ok(opened) = timeout(TIMEOUT, loopback::open(admin, request)).await else {
        bail!("the proxy at http://{admin} does not answer")
    };
    let response = opened.with_context(|| {
        format!("asking the proxy at http://{admin} (is `wayleave serve` running?)")
    })?;
    if response.status == http::StatusCode::UNAUTHORIZED {
        match std::env::var_os(TOKEN) {
            None => bail!("the proxy at http://{admin} needs its token in the variable {TOKEN}"),
            Some(_) => bail!(
                "the variable {TOKEN} does not contain the token of the proxy at http://{admin}: \
                 its SHA-256 is not in [admin]"
            ),
        }
    }
    Ok(response)
}

async fn read(response: OpenResponse) -> anyhow::Result<LoopbackResponse> {
    let response = response.read(MAX_BYTES, TIMEOUT).await?;
    anyhow::ensure!(!response.is_late, "the proxy does not answer");
    anyhow::ensure!(
        !response.is_cut,
        "the answer is longer than {}",
        ByteSize::b(MAX_BYTES as u64)
    );
    Ok(response)
}
