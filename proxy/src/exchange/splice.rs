//! An upgraded connection: bytes are copied in both directions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pingora_timeout::timeout;

use crate::http::downstream::Downstream;
use crate::http::http1::BodyError;
use crate::upstream::{UpstreamReader, UpstreamWriter};

/// The longest time for which the origin of an upgraded connection may accept nothing, or send nothing once the client has ended
/// its side.
const UPGRADED_PATIENCE: Duration = Duration::from_secs(60);

/// Copies bytes in both directions until the origin ends the connection or either side breaks. After the client has ended its
/// side the origin may go on sending, but not be silent for long.
pub(super) async fn splice(
    client: &mut Downstream,
    writer: &mut UpstreamWriter,
    reader: &mut UpstreamReader,
) {
    client.reader.switch_to_raw();
    writer.switch_to_raw();
    let (body, answer) = (&mut client.reader, &mut client.writer);
    let parts = AtomicUsize::new(0);
    let to_origin = async {
        loop {
            match body.next_chunk().await {
                Ok(Some(part)) => {
                    if writer.send_chunk(part, UPGRADED_PATIENCE).await.is_err() {
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
        while let Ok(Some(part)) = reader.next_chunk().await {
            if answer.send_chunk(part, false).await.is_err() || answer.flush().await.is_err() {
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
    use crate::http::downstream::DownstreamResponse;
    use crate::http::http1::BodyFraming;
    use crate::http::transport::{BoxedStream, Transport};
    use crate::upstream::start_http1;

    const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";

    fn stream(near: DuplexStream) -> BoxedStream {
        Box::new(Transport::new(near))
    }

    /// Returns how long an upgraded connection remains whose client ended its side, with an origin that sends at this interval.
    async fn copy_until_closed(words: u32) -> Duration {
        let patience = UPGRADED_PATIENCE;
        let (near, mut far) = duplex(1024);
        let framing = BodyFraming::Length(0);
        let mut client = Downstream::http1(stream(near).into(), framing, true, patience);
        far.shutdown().await.unwrap();
        let (near, mut origin) = duplex(1024);
        let started = start_http1(stream(near), b"", framing, patience).await;
        let (mut writer, mut reader) = started.unwrap();
        origin.write_all(SWITCHING).await.unwrap();
        assert_eq!(reader.next_head("GET").await.unwrap().status(), 101);
        let switching = DownstreamResponse {
            status: 101,
            reason: b"",
            framing: BodyFraming::UntilClose,
            fields: Vec::new(),
        };
        client.writer.send_head(&switching).await.unwrap();
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
        assert!(copy_until_closed(0).await <= 2 * UPGRADED_PATIENCE);
        let talked = copy_until_closed(20).await;
        assert!(talked >= 10 * UPGRADED_PATIENCE, "{talked:?}");
        assert!(talked <= 13 * UPGRADED_PATIENCE, "{talked:?}");
    }
}
