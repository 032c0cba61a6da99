//! The origin's response on its way to the client.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;

use bytes::Bytes;
use wayleave_admission::record::is_own_field;
use wayleave_admission::{AdmittedHead, BodyStart, ContentTreatment, SeenBody};
use wayleave_clock::timeout;
use wayleave_decision::Reason;
use wayleave_http_wire::field_pairs::FieldPair;
use wayleave_http_wire::http1::{BodyFraming, SWITCHING_PROTOCOLS, Trailers};
use wayleave_http_wire::received::HttpVersion;
use wayleave_pacing::PacingSlot;
use wayleave_transport::http::downstream::{ClientGone, DownstreamWriter, ResponseField};
use wayleave_upstream::UpstreamHead;
use wayleave_upstream::error::UpstreamError;

use super::client_rate::ClientRate;
use super::context::RelayContext;
use super::error::RelayError;
use super::interim::{FINAL_RESPONSE_DELAY, InterimResponses, is_interim};
use super::origin_reader::OriginReader;
use super::watch::ResponseWatch;
use crate::exchange::headers;
use crate::exchange::websocket;

/// The end of a response that reached the client.
pub(super) struct DownloadEnd {
    pub(super) status: u16,
    /// Whether another request may follow on the origin's connection.
    pub(super) leaves_connection_usable: bool,
}

/// The response on its way to the client.
pub(super) struct ResponseRelay<'a, 'w, 'x> {
    context: RelayContext<'a>,
    watch: &'a mut ResponseWatch<'w, 'x>,
    origin: OriginReader<'a>,
    /// The rate at which the client reads, if it occupies one of a limited number of slots.
    rate: Option<ClientRate>,
}

impl<'a, 'w, 'x> ResponseRelay<'a, 'w, 'x> {
    pub(super) fn new(
        context: RelayContext<'a>,
        watch: &'a mut ResponseWatch<'w, 'x>,
        origin: OriginReader<'a>,
    ) -> Self {
        let is_limited = context.slot.is_some_and(PacingSlot::has_concurrency_slot);
        Self { context, watch, origin, rate: is_limited.then(ClientRate::default) }
    }

    pub(super) async fn run(
        mut self,
        client: &mut DownstreamWriter,
    ) -> Result<DownloadEnd, RelayError> {
        let head = self.final_head(client).await?;
        let status = head.status();
        // Listed once for all who look for one.
        let fields = head.fields();
        // Before the client gets anything: an error here withholds the response.
        let AdmittedHead { own_fields, content } = self.watch.on_head(&head, &fields)?;
        // Few crawlers have purposes: in a box it takes no room in every exchange.
        let (labels, start) = if self.watch.admission.wants_start(&content) {
            Box::pin(self.judge_start(&head, &fields, &content, client)).await?
        } else {
            Default::default()
        };
        self.watch.admission.relayed(&head);
        let mut response =
            headers::response(&head, &fields, self.context.received, self.context.name);
        let omits_content = matches!(content, ContentTreatment::Omit);
        if omits_content {
            headers::omit_content(&mut response);
        }
        response.fields.extend(labels.into_iter().chain(own_fields));
        // A connection that is authenticated for one client (NTLM, Negotiate) must not serve another.
        let is_authenticated = headers::authenticates_connection(self.context.received, &fields);
        let has_body = response.framing != BodyFraming::Length(0);
        let progress = self.origin.progress;
        progress.is_answered.store(true, Ordering::Relaxed);
        if !progress.is_upload_complete.load(Ordering::Relaxed) {
            // The origin may never take the rest, and then another request cannot follow it (RFC 9112 section 9.3).
            client.close_after_response();
        }
        client.send_head(&response).await?;
        // The bytes that follow belong to the new protocol.
        if status == SWITCHING_PROTOCOLS {
            client.flush().await?;
            return Ok(DownloadEnd { status, leaves_connection_usable: false });
        }
        if has_body {
            self.body(client, start).await?;
        } else {
            // The client has everything then, whatever the origin does with its stream.
            client.flush().await?;
        }
        let trailers =
            if omits_content { Trailers::default() } else { self.trailers(client).await? };
        self.deliver(pin!(client.finish(&trailers))).await?;
        let leaves_connection_usable = !omits_content && !is_authenticated;
        Ok(DownloadEnd { status, leaves_connection_usable })
    }

    /// Judges the response by the start of its body, which may take a while, as long as the client is connected. The client gets
    /// nothing of it yet.
    async fn judge_start(
        &mut self,
        head: &UpstreamHead,
        fields: &[FieldPair<'_>],
        content: &ContentTreatment,
        client: &mut DownstreamWriter,
    ) -> Result<(Vec<ResponseField<'static>>, BodyStart), RelayError> {
        tokio::select! {
            biased;
            judged = self.watch.admission.judge_start(head, fields, content, &mut self.origin) => {
                Ok(judged?)
            }
            () = client.wait_until_reset() => Err(ClientGone::Left.into()),
        }
    }

    /// Relays the trailers. An HTTP/2 stream may remain open after its last octet.
    async fn trailers(&mut self, client: &mut DownstreamWriter) -> Result<Trailers, RelayError> {
        let progress = self.origin.progress;
        let reading = pin!(self.origin.reader.trailers());
        tokio::select! {
            biased;
            read = timeout(self.context.timeout, reading) => {
                let mut trailers = read
                    .unwrap_or_else(|_| {
                        let details = "the origin did not finish its response".to_owned();
                        Err(UpstreamError::new(Reason::HttpResponseTimeout, details))
                    })
                    .map_err(|fault| progress.upstream_error(fault))?;
                // Only this proxy may report its decision in them.
                trailers.retain(|(field, _)| !is_own_field(field));
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
        let mut interim = InterimResponses::default();
        let mut next = None;
        loop {
            let head = match next.take() {
                Some(head) => head,
                None => tokio::select! {
                    biased;
                    head = self.origin.head() => head?,
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
        // HTTP/2 sends the accepted bytes even if this does not wait for it.
        let may_be_left = matches!(client, DownstreamWriter::Http2 { .. });
        let mut buffered = VecDeque::new();
        let mut last = None;
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
                    head = self.origin.head(), if last.is_none() => head,
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
        &mut self,
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
    fn drop_interim(&mut self) {
        self.watch.dropped_interim += 1;
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
    ) -> Result<(), RelayError> {
        if let Err(refusal) = self.watch.admission.on_chunk(&chunk) {
            // The client gets the bytes so far, cut off as they are.
            client.flush().await?;
            return Err(RelayError::Refused { refusal, answered: true });
        }
        // Shared, not copied: a chunk counts, and is hashed, only after the client's connection has taken it.
        let sent = chunk.clone();
        self.deliver(pin!(client.send_chunk(chunk, is_last))).await?;
        if let Some(rate) = &mut self.rate {
            rate.add(sent.len());
        }
        self.watch.admission.delivered(&sent);
        Ok(())
    }

    async fn body(
        &mut self,
        client: &mut DownstreamWriter,
        start: BodyStart,
    ) -> Result<(), RelayError> {
        if !start.bytes.is_empty() {
            let is_last = self.origin.reader.has_ended();
            self.send_chunk(client, start.bytes, is_last).await?;
        }
        if start.has_ended {
            return Ok(());
        }
        loop {
            // Flushing and watching the client must not delay the next chunk, so both run while it is read.
            let meanwhile = async {
                if client.has_unflushed() {
                    // No other chunk is ready, so bytes that were buffered to be sent with it leave now.
                    return client.flush().await;
                }
                client.wait_until_reset().await;
                Err(ClientGone::Left)
            };
            let chunk = tokio::select! {
                biased;
                chunk = self.origin.next_chunk() => chunk,
                flushed = meanwhile => {
                    flushed?;
                    continue;
                }
            };
            match chunk {
                Ok(Some(chunk)) => {
                    let is_last = self.origin.reader.has_ended();
                    self.send_chunk(client, chunk, is_last).await?;
                    if is_last {
                        return Ok(());
                    }
                }
                Ok(None) => return Ok(()),
                Err(broken) => {
                    // The client gets the bytes so far, cut off as they are.
                    client.flush().await?;
                    return Err(broken);
                }
            }
        }
    }
}
