//! Requests to the listeners of this machine's own proxy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The longest time for one request: a page that has to wait for its slot takes as long as the origin's Crawl-delay.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A response of which the body may be cut.
#[derive(Debug)]
pub(super) struct LoopbackResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Whether the body is longer than the limit.
    pub(super) is_cut: bool,
}

impl LoopbackResponse {
    /// Returns the text of a field; empty if there is none.
    pub(super) fn field(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Sends a request, whose target may be in absolute form, to a listener. Reads at most `limit` bytes of the body.
///
/// # Errors
///
/// Returns an error if the listener does not respond in time.
pub(super) async fn send(
    listener: SocketAddr,
    request: Request<Empty<Bytes>>,
    limit: usize,
) -> anyhow::Result<LoopbackResponse> {
    let address = reachable(listener);
    tokio::time::timeout(TIMEOUT, exchange(address, request, limit))
        .await
        .with_context(|| format!("the listener at {address} does not respond"))?
        .with_context(|| format!("asking the proxy at {address} (is `wayleave serve` running?)"))
}

async fn exchange(
    address: SocketAddr,
    request: Request<Empty<Bytes>>,
    limit: usize,
) -> anyhow::Result<LoopbackResponse> {
    #[expect(clippy::disallowed_methods, reason = "the proxy's own listeners")]
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let (head, mut body) = sender.send_request(request).await?.into_parts();
    let (mut read, mut is_cut) = (BytesMut::new(), false);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            let room = limit - read.len();
            read.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() > room {
                is_cut = true;
                break;
            }
        }
    }
    driver.abort();
    Ok(LoopbackResponse { status: head.status, headers: head.headers, body: read.freeze(), is_cut })
}

/// Returns the address at which this machine reaches a listener, which may be for all of its addresses.
fn reachable(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}
