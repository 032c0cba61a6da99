//! A client for the admin listener of a running proxy.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use bytesize::ByteSize;
use http_body_util::Empty;
use serde_json::Value;

use crate::http::loopback::{self, LoopbackResponse};

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

fn request(admin: SocketAddr, method: &str, path: &str) -> anyhow::Result<LoopbackResponse> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    // Within the runtime, because a timeout needs its timer.
    let sending = async { tokio::time::timeout(TIMEOUT, exchange(admin, method, path)).await };
    match runtime.block_on(sending) {
        Ok(Ok(response)) if response.status == http::StatusCode::UNAUTHORIZED => {
            match std::env::var_os(TOKEN) {
                None => {
                    bail!("the proxy at http://{admin} needs its token in the variable {TOKEN}")
                }
                Some(_) => bail!(
                    "the variable {TOKEN} does not contain the token of the proxy at http://{admin}: \
                     its SHA-256 is not in [admin]"
                ),
            }
        }
        Ok(response) => response.with_context(|| {
            format!("asking the proxy at http://{admin} (is `wayleave serve` running?)")
        }),
        Err(_) => bail!("the proxy at http://{admin} does not answer"),
    }
}

async fn exchange(admin: SocketAddr, method: &str, path: &str) -> anyhow::Result<LoopbackResponse> {
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        // The guard accepts addresses whether or not a token is required.
        .header(http::header::HOST, admin.to_string());
    if let Ok(token) = std::env::var(TOKEN) {
        request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Empty::new()).with_context(|| format!("{TOKEN} cannot be sent"))?;
    let response = loopback::send(admin, request, MAX_BYTES).await?;
    anyhow::ensure!(
        !response.is_cut,
        "the answer is longer than {}",
        ByteSize::b(MAX_BYTES as u64)
    );
    Ok(response)
}
