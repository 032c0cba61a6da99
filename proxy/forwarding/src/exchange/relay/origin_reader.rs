//! The response as its origin sends it, within the timeout.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use wayleave_admission::{SeenBody, buffer_start};
use wayleave_clock::timeout;
use wayleave_decision::Reason;
use wayleave_http_wire::page::PageBuffer;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_pacing::budget::ByteMeter;
use wayleave_upstream::error::UpstreamError;
use wayleave_upstream::{UpstreamHead, UpstreamReader};

use super::error::RelayError;
use super::progress::RelayProgress;

/// Reads a response. The timeout of each step starts again for as long as the upload makes progress.
pub(super) struct OriginReader<'a> {
    pub(super) reader: &'a mut UpstreamReader,
    pub(super) received: &'a ReceivedHead,
    /// The timeout of each read.
    pub(super) timeout: Duration,
    /// Counts the bytes of the body, if they are limited.
    pub(super) byte_meter: Option<ByteMeter<'a>>,
    pub(super) progress: &'a RelayProgress,
}

/// Returns the error of an origin that sends the start of a body byte by byte, for all of which its client would wait.
fn too_slow() -> RelayError {
    let details = "the beginning of the body, which is read before any of it is forwarded, did not arrive in time";
    UpstreamError::new(Reason::HttpResponseTimeout, details.to_owned()).into()
}

impl OriginReader<'_> {
    /// Reads the next head, interim or final.
    pub(super) async fn head(&mut self) -> Result<UpstreamHead, RelayError> {
        let method = self.received.method();
        // The timeout starts again for as long as the upload makes progress.
        loop {
            let sent = self.progress.sent_chunks();
            match timeout(self.timeout, pin!(self.reader.next_head(method))).await {
                Ok(head) => return head.map_err(|fault| self.progress.upstream_error(fault)),
                Err(_) => self.progress.check_upload_progress(sent)?,
            }
        }
    }
}

impl SeenBody for OriginReader<'_> {
    type Error = RelayError;

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, RelayError> {
        loop {
            let sent = self.progress.sent_chunks();
            match timeout(self.timeout, pin!(self.reader.next_chunk())).await {
                Ok(chunk) => {
                    if let (Some(meter), Ok(Some(bytes))) = (self.byte_meter, &chunk) {
                        meter.add(bytes.len());
                    }
                    return chunk.map_err(|fault| self.progress.upstream_error(fault));
                }
                Err(_) => self.progress.check_upload_progress(sent)?,
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.reader.has_ended()
    }

    async fn buffer(&mut self, page: &mut PageBuffer) -> Result<bool, RelayError> {
        let limit = self.timeout;
        let reading = buffer_start(self, page);
        tokio::time::timeout(limit, reading).await.unwrap_or_else(|_| Err(too_slow()))
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use tokio::io::{AsyncWriteExt, duplex};
    use wayleave_http_wire::http1::BodyFraming;
    use wayleave_http_wire::http1::RequestHead;
    use wayleave_transport::http::transport::{BoxedStream, Transport};
    use wayleave_upstream::start_http1;

    use super::*;

    fn stream(near: tokio::io::DuplexStream) -> BoxedStream {
        Box::new(Transport::new(near))
    }

    /// Buffers a page of this many bytes that arrive one by one, each within the timeout.
    async fn buffer_slow_page(bytes: usize) -> Result<bool, RelayError> {
        let timeout = Duration::from_secs(60);
        let framing = BodyFraming::Length(0);
        let (near, mut origin) = duplex(1024);
        let started = start_http1(stream(near), b"", framing, timeout).await;
        let (_writer, mut reader) = started.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
        origin.write_all(head.as_bytes()).await.unwrap();
        let head = reader.next_head("GET").await.unwrap();
        let mut page = PageBuffer::new(&head.fields(), 64 * 1024);
        let sending = tokio::spawn(async move {
            for _ in 0..bytes {
                tokio::time::sleep(timeout / 8).await;
                origin.write_all(b" ").await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let request = b"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n";
        let received = RequestHead::read(&mut &request[..], &mut BytesMut::new()).await;
        let mut origin_reader = OriginReader {
            reader: &mut reader,
            received: &ReceivedHead::Http1(received.unwrap()),
            timeout,
            byte_meter: None,
            progress: &RelayProgress::default(),
        };
        let buffered = origin_reader.buffer(&mut page).await;
        sending.abort();
        buffered
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_start_of_a_page_has_one_timeout_for_all_of_it() {
        assert!(buffer_slow_page(7).await.unwrap());
        assert!(matches!(
            buffer_slow_page(9).await,
            Err(RelayError::Upstream {
                fault: UpstreamError { reason: Reason::HttpResponseTimeout, .. },
                answered: false,
            })
        ));
    }
}
