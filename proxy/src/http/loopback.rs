//! Requests to the listeners of a running proxy, from the commands and tools that ask it.

use std::net::{IpAddr, SocketAddr};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};

/// A response of which the body may be cut.
#[derive(Debug)]
pub(crate) struct LoopbackResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether the body is longer than the limit.
    pub(crate) is_cut: bool,
}

impl LoopbackResponse {
    /// Returns the text of a field; empty if there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Sends a request, whose target may be in absolute form, to a listener. Reads at most `limit` bytes of the body.
///
/// # Errors
///
/// Returns an error if the listener cannot be reached, or breaks the connection.
pub(crate) async fn send(
    listener: SocketAddr,
    request: Request<Empty<Bytes>>,
    limit: usize,
) -> anyhow::Result<LoopbackResponse> {
    #[expect(clippy::disallowed_methods, reason = "a listener of a proxy, not an origin")]
    let stream = TcpStream::connect(listener).await?;
    send_over(stream, request, limit).await
}

/// Sends a request like [`send`], from the address `source` of this machine.
///
/// # Errors
///
/// Returns an error if the listener cannot be reached from there, or breaks the connection.
pub(crate) async fn send_from(
    source: IpAddr,
    listener: SocketAddr,
    request: Request<Empty<Bytes>>,
    limit: usize,
) -> anyhow::Result<LoopbackResponse> {
    let socket = if source.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind((source, 0).into())?;
    #[expect(clippy::disallowed_methods, reason = "a listener of a proxy, not an origin")]
    let stream = socket.connect(listener).await?;
    send_over(stream, request, limit).await
}

async fn send_over(
    stream: TcpStream,
    request: Request<Empty<Bytes>>,
    limit: usize,
) -> anyhow::Result<LoopbackResponse> {
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
