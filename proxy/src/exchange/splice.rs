//! An upgraded connection: whatever comes is passed on, both ways.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pingora_timeout::timeout;

use crate::http::client::Client;
use crate::http::http1::BodyError;
use crate::origin::{OriginReader, OriginWriter};

/// How long the origin of an upgraded connection may take nothing, or say nothing once the client does not.
const UPGRADED_PATIENCE: Duration = Duration::from_secs(60);

/// Passes whatever comes, both ways, until the origin ends it or either side breaks. To a client that says nothing more the
/// origin may go on talking, but not be silent for long.
pub(super) async fn splice(
    client: &mut Client,
    writer: &mut OriginWriter,
    reader: &mut OriginReader,
) {
    client.body.becomes_raw();
    writer.becomes_raw();
    let (body, answer) = (&mut client.body, &mut client.answer);
    let parts = AtomicUsize::new(0);
    let to_origin = async {
        loop {
            match body.next().await {
                Ok(Some(part)) => {
                    if writer.part(part, UPGRADED_PATIENCE).await.is_err() {
                        return;
                    }
                }
                Err(BodyError::Io(_)) => return,
                Ok(None) | Err(_) => break,
            }
        }
        // If that takes longer, the origin's silence is noticed below.
        let _ = timeout(UPGRADED_PATIENCE, writer.close()).await;
        let mut heard = None;
        while heard != Some(parts.load(Ordering::Relaxed)) {
            heard = Some(parts.load(Ordering::Relaxed));
            tokio::time::sleep(UPGRADED_PATIENCE).await;
        }
    };
    let to_client = async {
        while let Ok(Some(part)) = reader.part().await {
            if answer.part(part, false).await.is_err() || answer.flush().await.is_err() {
                return;
            }
            parts.fetch_add(1, Ordering::Relaxed);
        }
    };
    tokio::select! {
        () = to_origin => {}
        () = to_client => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;
    use crate::http::client::OnwardResponse;
    use crate::http::http1::Framing;
    use crate::http::transport::{Stream, Transport};
    use crate::origin::start_http1;

    const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";

    fn stream(near: DuplexStream) -> Stream {
        Box::new(Transport::new(near, 1))
    }

    /// How long an upgraded connection lasts whose client ended its side, with an origin that says something so often.
    async fn lasts(words: u32) -> Duration {
        let patience = UPGRADED_PATIENCE;
        let (near, mut far) = duplex(1024);
        let framing = Framing::Length(0);
        let mut client = Client::http1(stream(near).into(), framing, true, patience);
        far.shutdown().await.unwrap();
        let (near, mut origin) = duplex(1024);
        let started = start_http1(stream(near), b"", framing, patience).await;
        let (mut writer, mut reader) = started.unwrap();
        origin.write_all(SWITCHING).await.unwrap();
        assert_eq!(reader.head("GET").await.unwrap().status(), 101);
        let switching = OnwardResponse {
            status: 101,
            reason: b"",
            framing: Framing::UntilClose,
            fields: Vec::new(),
        };
        client.answer.head(&switching).await.unwrap();
        let talking = tokio::spawn(async move {
            for _ in 0..words {
                tokio::time::sleep(UPGRADED_PATIENCE / 2).await;
                origin.write_all(b"word").await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let started = Instant::now();
        splice(&mut client, &mut writer, &mut reader).await;
        talking.abort();
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_origin_does_not_keep_an_upgraded_connection_whose_client_left() {
        assert!(lasts(0).await <= 2 * UPGRADED_PATIENCE);
        let talked = lasts(20).await;
        assert!(talked >= 10 * UPGRADED_PATIENCE, "{talked:?}");
        assert!(talked <= 13 * UPGRADED_PATIENCE, "{talked:?}");
    }
}
