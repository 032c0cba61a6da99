//! An upgraded connection: bytes are copied in both directions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use wayleave_http_wire::http1::BodyError;
use wayleave_pacing::budget::ByteMeter;
use wayleave_transport::http::downstream::Downstream;
use wayleave_upstream::{UpstreamReader, UpstreamWriter};

/// The longest time for which the origin of an upgraded connection may accept nothing, or send nothing once the client has ended
/// its side.
const UPGRADED_TIMEOUT: Duration = Duration::from_secs(60);

/// Copies bytes in both directions until the origin ends the connection or either side breaks. After the client has ended its
/// side the origin may go on sending, but not be silent for long. Ends once the bytes that `byte_meter` counts are spent.
pub(super) async fn splice(
    client: &mut Downstream,
    writer: &mut UpstreamWriter,
    reader: &mut UpstreamReader,
    byte_meter: Option<ByteMeter<'_>>,
) {
    client.reader.switch_to_raw();
    writer.switch_to_raw();
    let from_client = &mut client.reader;
    let to_client = &mut client.writer;
    let chunk_count = AtomicUsize::new(0);
    let up = async {
        loop {
            match from_client.next_chunk().await {
                Ok(Some(chunk)) => {
                    if writer.send_chunk(chunk, UPGRADED_TIMEOUT).await.is_err() {
                        return;
                    }
                }
                Err(BodyError::Io(_)) => return,
                Ok(None) | Err(_) => break,
            }
        }
        // If closing takes longer, the origin's silence is noticed below.
        let _ = timeout(UPGRADED_TIMEOUT, writer.close()).await;
        // A half-closed connection is watched in intervals: one timer for each chunk would cost more than the copying.
        let mut chunks_before = None;
        while chunks_before != Some(chunk_count.load(Ordering::Relaxed)) {
            chunks_before = Some(chunk_count.load(Ordering::Relaxed));
            tokio::time::sleep(UPGRADED_TIMEOUT).await;
        }
    };
    let down = async {
        while let Ok(Some(chunk)) = reader.next_chunk().await {
            let bytes = chunk.len();
            // The other protocol's peers wait for each message, so nothing is held back to be sent with the next chunk.
            if to_client.send_chunk(chunk, false).await.is_err() || to_client.flush().await.is_err()
            {
                return;
            }
            chunk_count.fetch_add(1, Ordering::Relaxed);
            if let Some(meter) = byte_meter {
                meter.add(bytes);
                // The connection may stay open for days.
                if meter.ends_streams() {
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::Instant;
    use wayleave_http_wire::http1::BodyFraming;
    use wayleave_transport::http::downstream::DownstreamResponse;
    use wayleave_transport::http::transport::{BoxedStream, Transport};
    use wayleave_upstream::start_http1;

    use super::*;

    const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";

    fn stream(near: DuplexStream) -> BoxedStream {
        Box::new(Transport::new(near))
    }

    /// Returns how long an upgraded connection stays open whose client ended its side, while the origin sends so many words.
    async fn copy_until_closed(words: u32) -> Duration {
        let timeout = UPGRADED_TIMEOUT;
        let (near, mut far) = duplex(1024);
        let framing = BodyFraming::Length(0);
        let mut client = Downstream::http1(stream(near).into(), framing, true, timeout);
        far.shutdown().await.unwrap();
        let (near, mut origin) = duplex(1024);
        let started = start_http1(stream(near), b"", framing, timeout).await;
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
        let sending = tokio::spawn(async move {
            for _ in 0..words {
                tokio::time::sleep(UPGRADED_TIMEOUT / 2).await;
                origin.write_all(b"word").await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let started = Instant::now();
        splice(&mut client, &mut writer, &mut reader, None).await;
        sending.abort();
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_origin_does_not_keep_an_upgraded_connection_whose_client_left() {
        assert!(copy_until_closed(0).await <= 2 * UPGRADED_TIMEOUT);
        let sent_at_intervals = copy_until_closed(20).await;
        assert!(sent_at_intervals >= 10 * UPGRADED_TIMEOUT, "{sent_at_intervals:?}");
        assert!(sent_at_intervals <= 13 * UPGRADED_TIMEOUT, "{sent_at_intervals:?}");
    }
}
