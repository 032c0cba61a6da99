//! Asks a running proxy, through its admin listener.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Whoever does not answer in this time is not asked any longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer of the admin listener.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: http::StatusCode,
    pub(super) body: Bytes,
}

/// The variable with what `admin.token_sha256` wants to see.
const TOKEN: &str = "WAYLEAVE_ADMIN_TOKEN";

/// Asks the admin listener at `admin`; `path` begins with `/`.
pub(super) fn ask(admin: SocketAddr, method: &str, path: &str) -> anyhow::Result<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let asking = async { tokio::time::timeout(PATIENCE, exchange(admin, method, path)).await };
    match runtime.block_on(asking) {
        Ok(Ok(answer)) if answer.status == http::StatusCode::UNAUTHORIZED => {
            bail!("the proxy at http://{admin} wants its token in the variable {TOKEN}")
        }
        Ok(answer) => answer.with_context(|| {
            format!("asking the proxy at http://{admin} (is `wayleave serve` running?)")
        }),
        Err(_) => bail!("the proxy at http://{admin} does not answer"),
    }
}

async fn exchange(admin: SocketAddr, method: &str, path: &str) -> anyhow::Result<Answer> {
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
