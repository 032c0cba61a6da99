//! A client of a running proxy's admin listener.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Whoever does not answer in this time is not asked any longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer of the admin listener.
#[derive(Debug)]
struct Answer {
    status: http::StatusCode,
    body: Bytes,
}

impl Answer {
    /// What it says; nothing if it says nothing.
    ///
    /// # Errors
    ///
    /// The proxy's own complaint, or that its answer is unreadable.
    fn value(&self) -> anyhow::Result<Value> {
        if self.body.is_empty() && self.status.is_success() {
            return Ok(Value::Null);
        }
        let Ok(value) = serde_json::from_slice::<Value>(&self.body) else {
            bail!("the admin listener answered with {}", self.status);
        };
        if !self.status.is_success() {
            bail!("{}", value["error"].as_str().unwrap_or("unknown"));
        }
        Ok(value)
    }
}

/// The variable with what `admin.token_sha256` wants to see.
const TOKEN: &str = "WAYLEAVE_ADMIN_TOKEN";

/// Asks the admin listener at `admin`; `path` begins with `/`.
///
/// # Errors
///
/// The proxy cannot be asked, or complains.
pub(super) fn ask(admin: SocketAddr, method: &str, path: &str) -> anyhow::Result<Value> {
    answer(admin, method, path)?.value()
}

/// Bytes that the proxy serves at `path`, if there are any.
///
/// # Errors
///
/// The proxy cannot be asked, or complains of something else.
pub(super) fn ask_bytes(admin: SocketAddr, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let answer = answer(admin, "GET", path)?;
    if answer.status == http::StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if !answer.status.is_success() {
        answer.value()?;
    }
    Ok(Some(answer.body.to_vec()))
}

/// What the proxy says of itself if it takes requests.
///
/// # Errors
///
/// It cannot be asked, or does not take requests.
pub(super) fn readiness(admin: SocketAddr) -> anyhow::Result<String> {
    let answer = answer(admin, "GET", "/readyz")?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    anyhow::ensure!(
        answer.status.is_success(),
        "the proxy is not ready: {}",
        text.trim_end()
    );
    Ok(text)
}

fn answer(admin: SocketAddr, method: &str, path: &str) -> anyhow::Result<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let asking = async { tokio::time::timeout(PATIENCE, exchange(admin, method, path)).await };
    match runtime.block_on(asking) {
        Ok(Ok(answer)) if answer.status == http::StatusCode::UNAUTHORIZED => {
            match std::env::var_os(TOKEN) {
                None => {
                    bail!("the proxy at http://{admin} needs its token in the variable {TOKEN}")
                }
                Some(_) => bail!(
                    "the variable {TOKEN} does not hold the token of the proxy at http://{admin}: \
                     its SHA-256 is not admin.token_sha256"
                ),
            }
        }
        Ok(answer) => answer.with_context(|| {
            format!("asking the proxy at http://{admin} (is `wayleave serve` running?)")
        }),
        Err(_) => bail!("the proxy at http://{admin} does not answer"),
    }
}

async fn exchange(admin: SocketAddr, method: &str, path: &str) -> anyhow::Result<Answer> {
    #[expect(clippy::disallowed_methods, reason = "the proxy's own admin listener")]
    let stream = TcpStream::connect(admin).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driving = tokio::spawn(connection);
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::HOST, admin.to_string());
    if let Ok(token) = std::env::var(TOKEN) {
        request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .with_context(|| format!("{TOKEN} cannot be sent"))?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    driving.abort();
    Ok(Answer { status, body })
}
