//! An uninspected tunnel: its server name is checked, then bytes are copied in both directions.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use wayleave_admission::outcome::NotSent;
use wayleave_admission::{refusal, target};
use wayleave_decision::Refusal;
use wayleave_pacing::budget::ByteMeter;
use wayleave_robots_txt::Origin;
use wayleave_transport::http::transport::BufferedStream;
use wayleave_upstream as upstream;

use super::client_hello::{self, HelloError};
use super::server::DownstreamServer;
use crate::exchange::error_response;
use crate::exchange::tunnel::PendingBlindTunnel;

/// The most bytes read at once.
const CHUNK_BYTES: usize = 16 * 1024;
/// The fatal alert `unrecognized_name` (RFC 6066 section 3).
const UNRECOGNIZED_NAME: &[u8] = &[0x15, 3, 3, 0, 2, 2, 112];

/// Relays TLS whose server name belongs to the tunnel's origin, and refuses any other. At least one byte has been buffered.
pub(super) async fn relay_tls(
    server: &DownstreamServer,
    mut incoming: BufferedStream,
    origin: &Origin,
    blind: Box<PendingBlindTunnel<'_>>,
) {
    let header_timeout = server.settings().options.header_timeout;
    let hello = tokio::select! {
        hello = timeout(header_timeout, client_hello::read_server_name(&mut incoming)) => {
            match hello {
                Ok(hello) => hello.map_err(not_sent),
                Err(_) => Err(NotSent::Refused(refusal::tunnel_timeout())),
            }
        }
        () = server.exchanges.gate.shutdown.cancelled() => Err(NotSent::ShutDown),
    };
    let server_name = match hello {
        Ok(server_name) => server_name,
        Err(not_sent) => return blind.close_unused(not_sent),
    };
    let refusal = match server_name.filter(|name| !target::names_host_of(name, origin)) {
        Some(name) => target::foreign_server_name(&name, origin),
        None if blind.is_for_tls() => return relay(server, incoming, blind).await,
        None => target::unexpected_tls_in_tunnel(origin),
    };
    blind.close_unused(NotSent::Refused(refusal));
    // The client may be gone already, which changes nothing.
    let _ = incoming.stream.write_all(UNRECOGNIZED_NAME).await;
    error_response::close_gracefully(incoming.stream).await;
}

fn not_sent(error: HelloError) -> NotSent {
    match error {
        HelloError::Closed => NotSent::ClientLeft,
        HelloError::Unreadable => {
            let details = "TLS in the tunnel does not begin with a ClientHello that can be read";
            NotSent::Refused(Refusal::malformed(details))
        }
    }
}

/// Relays bytes in both directions, without looking at them, until the tunnel ends or its permission is revoked.
pub(super) async fn relay(
    server: &DownstreamServer,
    incoming: BufferedStream,
    blind: Box<PendingBlindTunnel<'_>>,
) {
    let Some((mut to_origin, open)) = blind.open() else {
        return;
    };
    let idle_timeout = server.settings().options.idle_timeout;
    // Returning drops both connections, however the tunnel ended.
    let relayed = tokio::select! {
        relayed = relay_both_ways(incoming, &mut to_origin, idle_timeout, open.byte_meter()) => relayed,
        () = open.until_revoked() => Ok(()),
    };
    // A reset by the client must reach the origin as a reset: a clean close would make a cut-off upload look complete
    // (RFC 9113 section 8.5).
    let is_reset = |kind| matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    if relayed.is_err_and(|error| is_reset(error.kind())) {
        upstream::reset_on_drop(&to_origin);
    }
}

/// Copies bytes until both sides have closed, one fails, neither direction moves for `idle_timeout`, or the bytes that
/// `byte_meter` counts are spent.
async fn relay_both_ways(
    client: BufferedStream,
    origin: impl AsyncRead + AsyncWrite,
    idle_timeout: Duration,
    byte_meter: Option<ByteMeter<'_>>,
) -> io::Result<()> {
    let moved = AtomicU64::new(0);
    let (mut from_client, mut to_client) = tokio::io::split(client.stream);
    let (mut from_origin, mut to_origin) = tokio::io::split(origin);
    let up = async {
        to_origin.write_all(&client.buffered).await?;
        relay_direction(&mut from_client, &mut to_origin, &moved, idle_timeout, None).await
    };
    let down = relay_direction(&mut from_origin, &mut to_client, &moved, idle_timeout, byte_meter);
    tokio::try_join!(up, down).map(|_| ())
}

/// Copies one direction up to its end, then closes the writing side, too.
async fn relay_direction(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    moved: &AtomicU64,
    idle_timeout: Duration,
    byte_meter: Option<ByteMeter<'_>>,
) -> io::Result<()> {
    let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
    loop {
        let before = moved.load(Ordering::Relaxed);
        match timeout(idle_timeout, read_chunk(from, to, &mut chunk)).await {
            Ok(Ok(0)) => return to.shutdown().await,
            Ok(read) => read?,
            // Silence counts only if the other direction was silent as well.
            Err(_) if moved.load(Ordering::Relaxed) != before => continue,
            Err(silence) => return Err(silence.into()),
        };
        moved.fetch_add(1, Ordering::Relaxed);
        let writing = async {
            to.write_all(&chunk).await?;
            to.flush().await
        };
        timeout(idle_timeout, writing).await??;
        if let Some(meter) = byte_meter {
            meter.add(chunk.len());
            // It may stay open for days.
            if meter.ends_streams() {
                return Err(io::Error::other("the bytes of this crawler's day are spent"));
            }
        }
        chunk.clear();
    }
}

/// Reads the next chunk from one side, or fails when the other side does: that a peer which sends nothing is gone shows only
/// when its writing side is polled.
async fn read_chunk(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    chunk: &mut BytesMut,
) -> io::Result<usize> {
    let broken = poll_fn(|cx| match Pin::new(&mut *to).poll_flush(cx) {
        Poll::Ready(Err(error)) => Poll::Ready(error),
        _ => Poll::Pending,
    });
    tokio::select! {
        read = from.read_buf(chunk) => read,
        error = broken => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};
    use wayleave_transport::http::transport::Transport;

    use super::*;

    const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

    /// Starts a tunnel and returns its task and both ends.
    async fn tunnel()
    -> (tokio::task::JoinHandle<io::Result<()>>, tokio::io::DuplexStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        #[expect(clippy::disallowed_methods, reason = "an origin of this test")]
        let to_origin = TcpStream::connect(address).await.unwrap();
        let (origin, _) = listener.accept().await.unwrap();
        let (near, client) = tokio::io::duplex(1024);
        let buffered = BytesMut::from(&b"ahead,"[..]);
        let client_side = BufferedStream { stream: Box::new(Transport::new(near)), buffered };
        let relaying = tokio::spawn(relay_both_ways(client_side, to_origin, IDLE_TIMEOUT, None));
        (relaying, client, origin)
    }

    #[tokio::test]
    async fn each_direction_closes_on_its_own() {
        let (relaying, mut client, mut origin) = tunnel().await;
        client.write_all(b"hello").await.unwrap();
        client.shutdown().await.unwrap();
        let mut received = Vec::new();
        origin.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"ahead,hello");
        origin.write_all(b"later").await.unwrap();
        drop(origin);
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"later");
        relaying.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn silence_in_both_directions_ends_the_tunnel() {
        let (relaying, _client, mut origin) = tunnel().await;
        let mut received = [0; 6];
        origin.read_exact(&mut received).await.unwrap();
        tokio::time::pause();
        let ended = relaying.await.unwrap();
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
