//! Requests to the listeners of a running proxy, from the commands and tools that ask it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A response of which the body may be cut.
#[derive(Debug)]
pub struct LoopbackResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether the body is longer than the limit, or had not ended in time.
    pub is_cut: bool,
    /// Whether it had not ended in time.
    pub is_late: bool,
}

impl LoopbackResponse {
    /// Returns the text of a field; empty if there is none.
    pub fn field(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Sends a request, whose target may be in absolute form, to a listener. Reads at most `limit` bytes of the body.
///
/// # Errors
///
/// Returns an error if the listener cannot be reached, or breaks the connection.
pub async fn send(
    listener: SocketAddr,
    request: Request<Empty<Bytes>>,
    limit: usize,
) -> anyhow::Result<LoopbackResponse> {
    open(listener, request).await?.read(limit, Duration::MAX).await
}

/// Sends a request like [`send`], from the address `source` of this machine. The response must begin within `time`, and of its body
/// counts the bytes that arrive in as much time again: a page that comes slowly is not lost.
///
/// # Errors
///
/// Returns an error if the listener cannot be reached from there, does not respond in time, or breaks the connection.
pub async fn send_from(
    source: IpAddr,
    listener: SocketAddr,
    request: Request<Empty<Bytes>>,
    (limit, time): (usize, Duration),
) -> anyhow::Result<LoopbackResponse> {
    let socket = if source.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind((source, 0).into())?;
    #[expect(clippy::disallowed_methods, reason = "a listener of a proxy, not an origin")]
    let stream = socket.connect(listener).await?;
    open_over(stream, request, time).await?.read(limit, time).await
}

/// A response of which the body is still to be read.
#[derive(Debug)]
pub struct OpenResponse {
    pub status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    /// The task of the connection, which ends with the response.
    _connection: JoinSet<hyper::Result<()>>,
}

impl OpenResponse {
    /// Returns the next bytes of the body; `None` at its end.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection breaks.
    pub async fn next_chunk(&mut self) -> anyhow::Result<Option<Bytes>> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// Reads at most `limit` bytes of the body, as far as they arrive within `time`.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection breaks.
    pub async fn read(mut self, limit: usize, time: Duration) -> anyhow::Result<LoopbackResponse> {
        let mut read = BytesMut::new();
        let mut is_cut = false;
        let reading = async {
            while let Some(data) = self.next_chunk().await? {
                let room = limit - read.len();
                read.extend_from_slice(&data[..data.len().min(room)]);
                if data.len() > room {
                    is_cut = true;
                    break;
                }
            }
            anyhow::Ok(())
        };
        let is_late = timeout(time, reading).await.map_or(Ok(true), |read| read.map(|()| false))?;
        let is_cut = is_cut || is_late;
        let status = self.status;
        let body = read.freeze();
        Ok(LoopbackResponse { status, headers: self.headers, body, is_cut, is_late })
    }
}

/// Sends a request to a listener, and returns the response once its head has arrived.
///
/// # Errors
///
/// Returns an error if the listener cannot be reached, or breaks the connection.
pub async fn open(
    listener: SocketAddr,
    request: Request<Empty<Bytes>>,
) -> anyhow::Result<OpenResponse> {
    #[expect(clippy::disallowed_methods, reason = "a listener of a proxy, not an origin")]
    let stream = TcpStream::connect(listener).await?;
    open_over(stream, request, Duration::MAX).await
}

async fn open_over(
    stream: TcpStream,
    request: Request<Empty<Bytes>>,
    time: Duration,
) -> anyhow::Result<OpenResponse> {
    let (mut sender, driver) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut connection = JoinSet::new();
    connection.spawn(driver);
    let responding = timeout(time, sender.send_request(request)).await;
    let (head, body) = responding.context("it does not respond")??.into_parts();
    Ok(OpenResponse { status: head.status, headers: head.headers, body, _connection: connection })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_body_that_does_not_end_in_time_counts_as_far_as_it_came() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nthe begin";
            stream.write_all(response).await.unwrap();
            // Until the client has left.
            stream.read_to_end(&mut Vec::new()).await.unwrap();
        });
        let request = Request::get("/").body(Empty::new()).unwrap();
        let limits = (1000, Duration::from_secs(2));
        let response = send_from(Ipv4Addr::LOCALHOST.into(), address, request, limits).await;
        let response = response.unwrap();
        assert_eq!(
            (response.is_late, response.is_cut, &*response.body),
            (true, true, &b"the begin"[..])
        );
        serving.await.unwrap();
    }
}
