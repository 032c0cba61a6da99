//! The origin's response on its way to the client.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use wayleave_clock::timeout;
use wayleave_decision::{ContentStart, Reason, Refusal, SubresourceKind, content_start};
use wayleave_http_wire::field_pairs::FieldPair;
use wayleave_http_wire::http1::{BodyFraming, SWITCHING_PROTOCOLS, Trailers};
use wayleave_http_wire::page::PageBuffer;
use wayleave_http_wire::received::{HttpVersion, ReceivedHead};
use wayleave_pacing::PacingSlot;
use wayleave_pacing::budget::ByteMeter;
use wayleave_transport::http::downstream::{ClientGone, DownstreamWriter, ResponseField};
use wayleave_upstream::error::UpstreamError;
use wayleave_upstream::{UpstreamHead, UpstreamReader};

use super::client_rate::ClientRate;
use super::error::RelayError;
use super::interim::{FINAL_RESPONSE_DELAY, InterimResponses, is_interim};
use super::progress::RelayProgress;
use crate::exchange::headers;
use crate::exchange::response_notes::ResponseNotes;
use crate::exchange::response_policy::{LabelStep, ResponseLabeller};
use crate::exchange::websocket;

/// Inspects a response's head, with its fields, as soon as it arrives. Returns an error that withholds the response.
pub(crate) type InspectHead<'a> =
    dyn Fn(&UpstreamHead, &[FieldPair<'_>]) -> Result<InspectedHead, RelayError> + Send + Sync + 'a;

/// A response's head that the client may get.
pub(crate) struct InspectedHead {
    /// The fields to add.
    pub(crate) own_fields: Vec<ResponseField<'static>>,
    pub(crate) content: ContentTreatment,
}

/// The treatment of a response's content.
pub(crate) enum ContentTreatment {
    Relay,
    /// The response is refused if it begins as a page or a document does, and not as content of this kind.
    RefuseDocument(SubresourceKind, Box<Refusal>),
    /// The client gets only the head.
    Omit,
}

/// The start of a body that shows whether it is a document: the usual one, and one for white space and comments. A licence in
/// front of a script has a few KiB.
const DOCUMENT_START_BYTES: [usize; 2] = [512, 64 * 1024];

/// The parameters of relaying both bodies.
#[derive(Clone, Copy)]
pub(crate) struct RelayContext<'a> {
    pub(crate) received: &'a ReceivedHead,
    /// The proxy's pseudonym.
    pub(crate) name: &'a str,
    /// The timeout of each upstream read and write.
    pub(crate) timeout: Duration,
    pub(crate) inspect_head: &'a InspectHead<'a>,
    /// Receives the head of a response that nothing withholds any more.
    pub(crate) accept: &'a (dyn Fn(&UpstreamHead) + Send + Sync),
    /// Judges the response's usage preferences, for a crawler with purposes.
    pub(crate) labeller: Option<&'a ResponseLabeller<'a>>,
    /// The request's slot, if it needed one.
    pub(crate) slot: Option<&'a PacingSlot<'a>>,
    /// Notes the start of some bodies.
    pub(in crate::exchange) notes: &'a ResponseNotes,
    /// Counts the bytes of the body that the client got.
    pub(crate) relayed_bytes: &'a AtomicU64,
    /// Counts the bytes of the body that the origin sent, if they are limited.
    pub(crate) byte_meter: Option<ByteMeter<'a>>,
    /// Counts the interim responses that the client did not get.
    pub(crate) dropped_interim: &'a AtomicU64,
}

/// The buffered start of a body, and whether it is the whole body.
#[derive(Default)]
struct BufferedStart {
    bytes: Bytes,
    has_ended: bool,
}

/// Returns the error of an origin that sends the start of a body byte by byte, for all of which its client would wait.
fn too_slow() -> RelayError {
    let details = "the beginning of the body, which is read before any of it is forwarded, did not arrive in time";
    UpstreamError::new(Reason::HttpResponseTimeout, details.to_owned()).into()
}

/// Awaits a judgement, which may take a while, as long as the client is connected.
async fn unless_gone<T>(
    client: &mut DownstreamWriter,
    judging: impl Future<Output = Result<T, Box<Refusal>>>,
) -> Result<T, RelayError> {
    tokio::select! {
        biased;
        judged = judging => judged.map_err(RelayError::Refused),
        () = client.wait_until_reset() => Err(ClientGone::Left.into()),
    }
}

/// The response on its way to the client.
pub(super) struct ResponseRelay<'a> {
    context: RelayContext<'a>,
    reader: &'a mut UpstreamReader,
    progress: &'a RelayProgress,
    /// The rate at which the client reads, if it occupies one of a limited number of slots.
    rate: Option<ClientRate>,
}

impl<'a> ResponseRelay<'a> {
    pub(super) fn new(
        context: RelayContext<'a>,
        reader: &'a mut UpstreamReader,
        progress: &'a RelayProgress,
    ) -> Self {
        let is_limited = context.slot.is_some_and(PacingSlot::has_concurrency_slot);
        Self { context, reader, progress, rate: is_limited.then(ClientRate::default) }
    }

    pub(super) async fn run(mut self, client: &mut DownstreamWriter) -> Result<u16, RelayError> {
        let head = self.final_head(client).await?;
        // Listed once for all who look for one.
        let (status, fields) = (head.status(), head.fields());
        // Before the client gets anything: an error here withholds the response.
        let InspectedHead { own_fields, content } = (self.context.inspect_head)(&head, &fields)?;
        let (labels, mut start) = match self.context.labeller {
            // Few crawlers have purposes: in a box it takes no room in every exchange.
            Some(labeller) => Box::pin(self.label(labeller, &head, client)).await?,
            None => Default::default(),
        };
        if let ContentTreatment::RefuseDocument(kind, refusal) = &content {
            let checked = Box::pin(self.check_start(*kind, &fields, start, client)).await?;
            start = checked.ok_or_else(|| RelayError::Refused(refusal.clone()))?;
        }
        (self.context.accept)(&head);
        let mut response =
            headers::response(&head, &fields, self.context.received, self.context.name);
        if matches!(content, ContentTreatment::Omit) {
            headers::omit_content(&mut response);
            self.progress.is_body_omitted.store(true, Ordering::Relaxed);
        }
        response.fields.extend(labels.into_iter().chain(own_fields));
        if headers::authenticates_connection(self.context.received, &fields) {
            self.progress.is_connection_authenticated.store(true, Ordering::Relaxed);
        }
        let has_body = response.framing != BodyFraming::Length(0);
        self.progress.is_answered.store(true, Ordering::Relaxed);
        if !self.progress.is_upload_complete.load(Ordering::Relaxed) {
            // The origin may never take the rest, and then another request cannot follow it (RFC 9112 section 9.3).
            client.close_after_response();
        }
        client.send_head(&response).await?;
        // The bytes that follow belong to the new protocol.
        if status == SWITCHING_PROTOCOLS {
            client.flush().await?;
            return Ok(status);
        }
        if has_body {
            self.body(client, start).await?;
        } else {
            // The client has everything then, whatever the origin does with its stream.
            client.flush().await?;
        }
        let trailers = match content {
            ContentTreatment::Omit => Trailers::default(),
            _ => self.trailers(client).await?,
        };
        self.deliver(pin!(client.finish(&trailers))).await?;
        Ok(status)
    }

    /// Returns the start of the body, of which `start` is here already, once it shows that it is no document. Returns `None` if it
    /// is one, or cannot be read.
    async fn check_start(
        &mut self,
        kind: SubresourceKind,
        fields: &[FieldPair<'_>],
        mut start: BufferedStart,
        client: &mut DownstreamWriter,
    ) -> Result<Option<BufferedStart>, RelayError> {
        for limit in DOCUMENT_START_BYTES {
            let mut page = PageBuffer::new(fields, limit);
            page.take(&start.bytes);
            if !start.has_ended {
                (page, start.has_ended) = self.buffer_page(page, client).await?;
            }
            let starts: Vec<_> = page.texts().map(|text| content_start(kind, &text)).collect();
            if page.is_doubtful() || starts.contains(&ContentStart::Document) {
                return Ok(None);
            }
            // Only the end shows that nothing follows white space.
            let is_whole = start.has_ended && page.wants_more();
            start.bytes = page.into_buffered();
            if is_whole || !starts.contains(&ContentStart::Open) {
                return Ok(Some(start));
            }
        }
        Ok(None)
    }

    /// Relays the trailers. An HTTP/2 stream may remain open after its last octet.
    async fn trailers(&mut self, client: &mut DownstreamWriter) -> Result<Trailers, RelayError> {
        let reading = pin!(self.reader.trailers());
        tokio::select! {
            biased;
            read = timeout(self.context.timeout, reading) => {
                let mut trailers = read
                    .unwrap_or_else(|_| {
                        let details = "the origin did not finish its response".to_owned();
                        Err(UpstreamError::new(Reason::HttpResponseTimeout, details))
                    })
                    .map_err(|fault| self.progress.upstream_error(fault))?;
                // Only this proxy may say in them what was decided.
                trailers.retain(|(field, _)| !headers::is_own_field(field));
                Ok(trailers)
            }
            () = client.wait_until_reset() => Err(ClientGone::Left.into()),
        }
    }

    /// Returns the final response's head and relays interim ones (RFC 9110 section 15.2).
    async fn final_head(
        &mut self,
        client: &mut DownstreamWriter,
    ) -> Result<UpstreamHead, RelayError> {
        let (mut interim, mut next) = (InterimResponses::default(), None);
        loop {
            let head = match next.take() {
                Some(head) => head,
                None => tokio::select! {
                    biased;
                    head = self.head() => head?,
                    () = client.wait_until_reset() => return Err(ClientGone::Left.into()),
                },
            };
            if head.status() == SWITCHING_PROTOCOLS {
                return match websocket::check(self.context.received, &head) {
                    Ok(()) => Ok(head),
                    Err(details) => {
                        let reason = Reason::HttpProtocolError;
                        Err(UpstreamError::new(reason, details.to_owned()).into())
                    }
                };
            }
            if !is_interim(head.status()) {
                return Ok(head);
            }
            interim.count()?;
            // HTTP/1.0 knows no interim responses.
            if self.context.received.version() != HttpVersion::Http10 {
                next = self.pass_interim(head, client, &mut interim).await?;
            }
        }
    }

    /// Relays an interim response and those that arrive before it has been sent, as far as they fit. Returns the final head if
    /// that arrived in the meantime.
    async fn pass_interim(
        &mut self,
        first: UpstreamHead,
        client: &mut DownstreamWriter,
        interim: &mut InterimResponses,
    ) -> Result<Option<UpstreamHead>, RelayError> {
        // HTTP/2 sends what it has accepted even if this does not wait for it.
        let may_be_left = matches!(client, DownstreamWriter::Http2 { .. });
        let (mut buffered, mut last) = (VecDeque::new(), None);
        self.buffer_interim(first, interim, &mut buffered);
        while let Some(head) = buffered.pop_front() {
            let response = headers::interim(&head);
            let mut sending = pin!(client.send_interim(&response));
            loop {
                let head = tokio::select! {
                    biased;
                    sent = &mut sending => {
                        sent?;
                        break;
                    }
                    head = self.head(), if last.is_none() => head,
                    () = tokio::time::sleep(FINAL_RESPONSE_DELAY), if last.is_some() && may_be_left => {
                        // The client does not read them, and its response must not wait for that.
                        buffered.iter().for_each(|_| self.drop_interim());
                        return Ok(last);
                    }
                };
                match head {
                    Ok(head) if is_interim(head.status()) => {
                        interim.count()?;
                        self.buffer_interim(head, interim, &mut buffered);
                    }
                    Ok(head) => last = Some(head),
                    // Half a head of HTTP/1 would become a part of the answer that follows.
                    Err(broken) if !may_be_left => {
                        sending.await?;
                        return Err(broken);
                    }
                    Err(broken) => return Err(broken),
                }
            }
        }
        Ok(last)
    }

    /// Buffers an interim response until it can be sent, if it fits.
    fn buffer_interim(
        &self,
        head: UpstreamHead,
        interim: &mut InterimResponses,
        buffered: &mut VecDeque<UpstreamHead>,
    ) {
        if interim.fits(&head) {
            buffered.push_back(head);
        } else {
            self.drop_interim();
        }
    }

    /// Counts an interim response that the client does not get.
    fn drop_interim(&self) {
        self.context.dropped_interim.fetch_add(1, Ordering::Relaxed);
    }

    async fn head(&mut self) -> Result<UpstreamHead, RelayError> {
        let method = self.context.received.method();
        // The timeout starts again for as long as the upload makes progress.
        loop {
            let sent = self.progress.sent_chunks();
            match timeout(self.context.timeout, pin!(self.reader.next_head(method))).await {
                Ok(head) => return head.map_err(|fault| self.progress.upstream_error(fault)),
                Err(_) => self.progress.check_upload_progress(sent)?,
            }
        }
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, RelayError> {
        loop {
            let sent = self.progress.sent_chunks();
            match timeout(self.context.timeout, pin!(self.reader.next_chunk())).await {
                Ok(chunk) => {
                    if let (Some(meter), Ok(Some(bytes))) = (self.context.byte_meter, &chunk) {
                        meter.add(bytes.len());
                    }
                    return chunk.map_err(|fault| self.progress.upstream_error(fault));
                }
                Err(_) => self.progress.check_upload_progress(sent)?,
            }
        }
    }

    /// Returns the fields that label the response, and the start of the body that had to be read for them.
    async fn label(
        &mut self,
        labeller: &ResponseLabeller<'_>,
        head: &UpstreamHead,
        client: &mut DownstreamWriter,
    ) -> Result<(Vec<ResponseField<'static>>, BufferedStart), RelayError> {
        match unless_gone(client, labeller.judge(head)).await? {
            LabelStep::Relay(labels) => Ok((labels, BufferedStart::default())),
            LabelStep::ReadPage(page) => {
                let (page, has_ended) = self.buffer_page(page, client).await?;
                let labels = unless_gone(client, labeller.judge_page(&page)).await?;
                Ok((labels, BufferedStart { bytes: page.into_buffered(), has_ended }))
            }
        }
    }

    /// Buffers the start of the body, and returns whether that is all of it. The client gets nothing of it yet.
    async fn buffer_page(
        &mut self,
        mut page: PageBuffer,
        client: &mut DownstreamWriter,
    ) -> Result<(PageBuffer, bool), RelayError> {
        let limit = self.context.timeout;
        let reading = async {
            while page.wants_more() {
                match self.next_chunk().await? {
                    Some(chunk) => page.take(&chunk),
                    None => return Ok(true),
                }
            }
            Ok(self.reader.has_ended())
        };
        let has_ended = tokio::select! {
            biased;
            read = tokio::time::timeout(limit, reading) => read.unwrap_or_else(|_| Err(too_slow()))?,
            () = client.wait_until_reset() => return Err(ClientGone::Left.into()),
        };
        Ok((page, has_ended))
    }

    /// Awaits a step in which the client reads. One that reads slowly must not occupy its slot while others wait for it.
    async fn deliver(
        &mut self,
        step: Pin<&mut impl Future<Output = Result<(), ClientGone>>>,
    ) -> Result<(), ClientGone> {
        match (&mut self.rate, self.context.slot) {
            (Some(rate), Some(slot)) => {
                let delivered = rate.measure(step, || !slot.is_concurrency_wanted()).await;
                delivered.unwrap_or(Err(ClientGone::ReadSlowly))
            }
            _ => step.await,
        }
    }

    async fn send_chunk(
        &mut self,
        client: &mut DownstreamWriter,
        chunk: Bytes,
        is_last: bool,
    ) -> Result<(), ClientGone> {
        let bytes = chunk.len();
        self.context.notes.take_chunk(&chunk);
        self.deliver(pin!(client.send_chunk(chunk, is_last))).await?;
        if let Some(rate) = &mut self.rate {
            rate.add(bytes);
        }
        self.context.relayed_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    async fn body(
        &mut self,
        client: &mut DownstreamWriter,
        start: BufferedStart,
    ) -> Result<(), RelayError> {
        if !start.bytes.is_empty() {
            let is_last = self.reader.has_ended();
            self.send_chunk(client, start.bytes, is_last).await?;
        }
        if start.has_ended {
            return Ok(());
        }
        loop {
            // Flushing and watching the client must not delay the next chunk, so both run while it is read.
            let meanwhile = async {
                if client.has_unflushed() {
                    // No other chunk is ready, so what was buffered to be sent with it leaves now.
                    return client.flush().await;
                }
                client.wait_until_reset().await;
                Err(ClientGone::Left)
            };
            let chunk = tokio::select! {
                biased;
                chunk = self.next_chunk() => chunk,
                flushed = meanwhile => {
                    flushed?;
                    continue;
                }
            };
            match chunk {
                Ok(Some(chunk)) => {
                    let is_last = self.reader.has_ended();
                    self.send_chunk(client, chunk, is_last).await?;
                    if is_last {
                        return Ok(());
                    }
                }
                Ok(None) => return Ok(()),
                Err(broken) => {
                    // The client gets what came so far, cut off as it is.
                    client.flush().await?;
                    return Err(broken);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use tokio::io::{AsyncWriteExt, duplex};
    use wayleave_http_wire::http1::RequestHead;
    use wayleave_transport::http::downstream::Downstream;
    use wayleave_transport::http::transport::{BoxedStream, Transport};
    use wayleave_upstream::start_http1;

    use super::*;

    fn stream(near: tokio::io::DuplexStream) -> BoxedStream {
        Box::new(Transport::new(near))
    }

    /// Buffers a page of this many bytes that arrive one by one, each within the timeout.
    async fn buffer_slow_page(bytes: usize) -> Result<(PageBuffer, bool), RelayError> {
        let timeout = Duration::from_secs(60);
        let (near, _far) = duplex(1024);
        let framing = BodyFraming::Length(0);
        let mut client = Downstream::http1(stream(near).into(), framing, true, timeout);
        let (near, mut origin) = duplex(1024);
        let started = start_http1(stream(near), b"", framing, timeout).await;
        let (_writer, mut reader) = started.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
        origin.write_all(head.as_bytes()).await.unwrap();
        let head = reader.next_head("GET").await.unwrap();
        let page = PageBuffer::new(&head.fields(), 64 * 1024);
        let sending = tokio::spawn(async move {
            for _ in 0..bytes {
                tokio::time::sleep(timeout / 8).await;
                origin.write_all(b" ").await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let request = b"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n";
        let received = RequestHead::read(&mut &request[..], &mut BytesMut::new()).await;
        let mut download = ResponseRelay {
            context: RelayContext {
                received: &ReceivedHead::Http1(received.unwrap()),
                name: "wayleave",
                timeout,
                inspect_head: &|_, _| {
                    let content = ContentTreatment::Relay;
                    Ok(InspectedHead { own_fields: Vec::new(), content })
                },
                accept: &|_| {},
                labeller: None,
                slot: None,
                notes: &ResponseNotes::default(),
                relayed_bytes: &AtomicU64::new(0),
                byte_meter: None,
                dropped_interim: &AtomicU64::new(0),
            },
            reader: &mut reader,
            progress: &RelayProgress::default(),
            rate: None,
        };
        let buffered = download.buffer_page(page, &mut client.writer).await;
        sending.abort();
        buffered
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_start_of_a_page_has_one_timeout_for_all_of_it() {
        let (_, has_ended) = buffer_slow_page(7).await.unwrap();
        assert!(has_ended);
        assert!(matches!(
            buffer_slow_page(9).await,
            Err(RelayError::Upstream {
                fault: UpstreamError { reason: Reason::HttpResponseTimeout, .. },
                answered: false,
            })
        ));
    }
}
