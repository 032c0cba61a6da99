//! The origin's response on its way to the client.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pingora_timeout::timeout;

use super::interim::{Interim, LAST_WAITS, is_interim};
use super::progress::{Progress, RelayError};
use crate::decide::refusal::Refusal;
use crate::exchange::fields;
use crate::exchange::label::{HandOn, Label};
use crate::exchange::page::Page;
use crate::exchange::websocket;
use crate::http::client::{ClientGone, Field, Responder};
use crate::http::http1::{Framing, Trailers};
use crate::http::proxy_status::ErrorType;
use crate::http::received::{Received, Version};
use crate::origin::error::Fault;
use crate::origin::{OriginHead, OriginReader};
use crate::politeness::Turn;

/// What is told of a response's head as soon as it is there: it says which fields are added, or keeps the response from its client.
pub(crate) type Heard<'a> =
    dyn Fn(&OriginHead) -> Result<Vec<Field<'static>>, RelayError> + Send + Sync + 'a;

/// What both bodies are relayed by.
#[derive(Clone, Copy)]
pub(crate) struct Relaying<'a> {
    pub(crate) received: &'a Received,
    /// The proxy's pseudonym.
    pub(crate) name: &'a str,
    /// With the origin.
    pub(crate) patience: Duration,
    pub(crate) heard: &'a Heard<'a>,
    /// What the response says about its use is asked, if anything is here.
    pub(crate) label: Option<&'a Label<'a>>,
    /// The request's, if it needed one.
    pub(crate) turn: Option<&'a Turn<'a>>,
    /// Counts the bytes of the body that the client was handed.
    pub(crate) handed_on: &'a AtomicU64,
    /// Counts interim responses that it was not.
    pub(crate) dropped_interim: &'a AtomicU64,
}

/// The part of a body that was held back, and whether that is all of it.
#[derive(Default)]
struct Beginning {
    part: Bytes,
    has_ended: bool,
}

/// An origin that sends the beginning of a page little by little keeps its client waiting for the whole of that.
fn too_slow() -> RelayError {
    let details = "the beginning of the page, which is read first for what it says about its use, did not arrive in time";
    Fault::new(ErrorType::HttpResponseTimeout, details.to_owned()).into()
}

/// What judging comes to, which may take a while, for as long as its client waits for it.
async fn while_there<T>(
    client: &mut Responder,
    judging: impl Future<Output = Result<T, Box<Refusal>>>,
) -> Result<T, RelayError> {
    tokio::select! {
        biased;
        judged = judging => judged.map_err(RelayError::Refused),
        () = client.given_up() => Err(RelayError::ClientGone),
    }
}

/// The response on its way.
pub(super) struct Download<'a> {
    pub(super) relaying: Relaying<'a>,
    pub(super) reader: &'a mut OriginReader,
    pub(super) progress: &'a Progress,
}

impl Download<'_> {
    pub(super) async fn run(mut self, client: &mut Responder) -> Result<u16, RelayError> {
        let head = self.final_head(client).await?;
        let status = head.status();
        let named = (self.relaying.heard)(&head)?;
        let (added, beginning) = match self.relaying.label {
            // Few crawlers have purposes: in a box it takes no room in every exchange.
            Some(label) => Box::pin(self.label(label, &head, client)).await?,
            None => Default::default(),
        };
        let mut response = fields::response(&head, self.relaying.received, self.relaying.name);
        response.fields.extend(added.into_iter().chain(named));
        if fields::authenticates_connection(self.relaying.received, &head) {
            self.progress.is_somebodys.store(true, Ordering::Relaxed);
        }
        let has_body = response.framing != Framing::Length(0);
        self.progress.is_answered.store(true, Ordering::Relaxed);
        if !self.progress.is_sent.load(Ordering::Relaxed) {
            // The origin may never take the rest, and then another request cannot follow it (RFC 9112 section 9.3).
            client.close_afterwards();
        }
        client.head(&response).await?;
        if status == 101 {
            client.flush().await?;
            return Ok(status);
        }
        if has_body {
            self.body(client, beginning).await?;
        } else {
            // The client has all then, whatever the origin does with its stream.
            client.flush().await?;
        }
        let trailers = self.trailers(client).await?;
        client.finish(&trailers).await?;
        Ok(status)
    }

    /// What follows the body. An HTTP/2 stream may stay open behind its last octet.
    async fn trailers(&mut self, client: &mut Responder) -> Result<Trailers, RelayError> {
        tokio::select! {
            biased;
            trailers = timeout(self.relaying.patience, self.reader.trailers()) => {
                let trailers = trailers.unwrap_or_else(|_| {
                    let details = "the origin did not finish its response".to_owned();
                    Err(Fault::new(ErrorType::HttpResponseTimeout, details))
                });
                let mut trailers = trailers.map_err(|fault| self.progress.answered(fault))?;
                trailers.retain(|(field, _)| !fields::is_ours(field));
                Ok(trailers)
            }
            () = client.given_up() => Err(RelayError::ClientGone),
        }
    }

    /// The final response's head. Passes interim ones on (RFC 9110 section 15.2).
    async fn final_head(&mut self, client: &mut Responder) -> Result<OriginHead, RelayError> {
        let (mut interim, mut next) = (Interim::default(), None);
        loop {
            let head = match next.take() {
                Some(head) => head,
                None => tokio::select! {
                    biased;
                    head = self.head() => head?,
                    () = client.given_up() => return Err(RelayError::ClientGone),
                },
            };
            if head.status() == 101 {
                let checked = websocket::check(self.relaying.received, &head);
                checked.map_err(|details| {
                    Fault::new(ErrorType::HttpProtocolError, details.to_owned())
                })?;
                return Ok(head);
            }
            if !is_interim(head.status()) {
                return Ok(head);
            }
            interim.hear()?;
            // HTTP/1.0 knows no interim responses.
            if self.relaying.received.version() != Version::Http10 {
                next = self.pass_interim(head, client, &mut interim).await?;
            }
        }
    }

    /// Passes an interim response on, and those that come before it has left as far as there is room: each when the one before
    /// has left. Returns the final head, if that came meanwhile.
    async fn pass_interim(
        &mut self,
        first: OriginHead,
        client: &mut Responder,
        interim: &mut Interim,
    ) -> Result<Option<OriginHead>, RelayError> {
        // What HTTP/2 has once, it sends whether somebody waits for that or not.
        let may_be_left = matches!(client, Responder::Http2 { .. });
        let (mut held, mut last) = (VecDeque::new(), None);
        self.hold(first, interim, &mut held);
        while let Some(head) = held.pop_front() {
            let response = fields::interim(&head);
            let mut passing = pin!(client.interim(&response));
            loop {
                let head = tokio::select! {
                    biased;
                    passed = &mut passing => {
                        passed?;
                        break;
                    }
                    head = self.head(), if last.is_none() => head,
                    () = tokio::time::sleep(LAST_WAITS), if last.is_some() && may_be_left => {
                        held.iter().for_each(|_| self.drop_interim());
                        return Ok(last);
                    }
                };
                match head {
                    Ok(head) if is_interim(head.status()) => {
                        interim.hear()?;
                        self.hold(head, interim, &mut held);
                    }
                    Ok(head) => last = Some(head),
                    // Half a head of HTTP/1 would become a part of what the client is told.
                    Err(broken) if !may_be_left => {
                        passing.await?;
                        return Err(broken);
                    }
                    Err(broken) => return Err(broken),
                }
            }
        }
        Ok(last)
    }

    /// Holds an interim response until it can be passed on, if there is room for it.
    fn hold(&self, head: OriginHead, interim: &mut Interim, held: &mut VecDeque<OriginHead>) {
        if interim.fits(&head) {
            held.push_back(head)
        } else {
            self.drop_interim()
        }
    }

    /// Counts an interim response that the client does not get.
    fn drop_interim(&self) {
        self.relaying
            .dropped_interim
            .fetch_add(1, Ordering::Relaxed);
    }

    async fn head(&mut self) -> Result<OriginHead, RelayError> {
        let method = self.relaying.received.method();
        loop {
            let sent = self.progress.sent();
            match timeout(self.relaying.patience, self.reader.head(method)).await {
                Ok(head) => return head.map_err(|fault| self.progress.answered(fault)),
                Err(_) => self.progress.goes_on(sent)?,
            }
        }
    }

    async fn part(&mut self) -> Result<Option<Bytes>, RelayError> {
        loop {
            let sent = self.progress.sent();
            match timeout(self.relaying.patience, self.reader.part()).await {
                Ok(part) => return part.map_err(|fault| self.progress.answered(fault)),
                Err(_) => self.progress.goes_on(sent)?,
            }
        }
    }

    /// The fields that say what the response says about its use, and as much of its body as that took.
    async fn label(
        &mut self,
        label: &Label<'_>,
        head: &OriginHead,
        client: &mut Responder,
    ) -> Result<(Vec<Field<'static>>, Beginning), RelayError> {
        match while_there(client, label.judge(head)).await? {
            HandOn::With(added) => Ok((added, Beginning::default())),
            HandOn::AfterPage(page) => {
                let (page, has_ended) = self.hold_back(page, client).await?;
                let added = while_there(client, label.judge_page(&page)).await?;
                let part = page.into_held();
                Ok((added, Beginning { part, has_ended }))
            }
        }
    }

    /// Reads the beginning of the body, of which nothing is handed on yet; whether that is all of it.
    async fn hold_back(
        &mut self,
        mut page: Page,
        client: &mut Responder,
    ) -> Result<(Page, bool), RelayError> {
        let patience = self.relaying.patience;
        let reading = async {
            while page.takes_more() {
                match self.part().await? {
                    Some(part) => page.take(&part),
                    None => return Ok(true),
                }
            }
            Ok(self.reader.has_ended())
        };
        let has_ended = tokio::select! {
            biased;
            read = tokio::time::timeout(patience, reading) => read.unwrap_or_else(|_| Err(too_slow()))?,
            () = client.given_up() => return Err(RelayError::ClientGone),
        };
        Ok((page, has_ended))
    }

    async fn hand_on(
        &self,
        client: &mut Responder,
        part: Bytes,
        is_last: bool,
    ) -> Result<(), ClientGone> {
        let bytes = part.len() as u64;
        client.part(part, is_last).await?;
        self.relaying.handed_on.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    async fn body(
        &mut self,
        client: &mut Responder,
        beginning: Beginning,
    ) -> Result<(), RelayError> {
        if !beginning.part.is_empty() {
            let is_last = self.reader.has_ended();
            self.hand_on(client, beginning.part, is_last).await?;
        }
        if beginning.has_ended {
            return Ok(());
        }
        loop {
            let meanwhile = async {
                if client.holds_back() {
                    // Nothing more is at hand: what waits for company leaves.
                    return client.flush().await;
                }
                client.given_up().await;
                Err(ClientGone)
            };
            let part = tokio::select! {
                biased;
                part = self.part() => part,
                flushed = meanwhile => {
                    flushed?;
                    continue;
                }
            };
            match part {
                Ok(Some(part)) => {
                    let is_last = self.reader.has_ended();
                    self.hand_on(client, part, is_last).await?;
                    if is_last {
                        return Ok(());
                    }
                }
                Ok(None) => return Ok(()),
                Err(broken) => {
                    // What came so far is the client's, cut off as it is.
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

    use super::*;
    use crate::http::client::Client;
    use crate::http::http1::RequestHead;
    use crate::http::transport::{Stream, Transport};
    use crate::origin::start_http1;

    fn stream(near: tokio::io::DuplexStream) -> Stream {
        Box::new(Transport::new(near, 1))
    }

    /// What becomes of a page of this many bytes that comes one by one, each in time.
    async fn held_back(bytes: usize) -> Result<(Page, bool), RelayError> {
        let patience = Duration::from_secs(60);
        let (near, _far) = duplex(1024);
        let framing = Framing::Length(0);
        let mut client = Client::http1(stream(near).into(), framing, true, patience);
        let (near, mut origin) = duplex(1024);
        let started = start_http1(stream(near), b"", framing, patience).await;
        let (_writer, mut reader) = started.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
        origin.write_all(head.as_bytes()).await.unwrap();
        let head = reader.head("GET").await.unwrap();
        let page = Page::new(&head.fields(), 64 * 1024);
        let dripping = tokio::spawn(async move {
            for _ in 0..bytes {
                tokio::time::sleep(patience / 8).await;
                origin.write_all(b" ").await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let request = b"GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\n\r\n";
        let received = RequestHead::read(&mut &request[..], &mut BytesMut::new()).await;
        let mut download = Download {
            relaying: Relaying {
                received: &Received::Http1(received.unwrap()),
                name: "wayleave",
                patience,
                heard: &|_| Ok(Vec::new()),
                label: None,
                turn: None,
                handed_on: &AtomicU64::new(0),
                dropped_interim: &AtomicU64::new(0),
            },
            reader: &mut reader,
            progress: &Progress::default(),
        };
        let held = download.hold_back(page, &mut client.answer).await;
        dripping.abort();
        held
    }

    #[tokio::test(start_paused = true)]
    async fn a_beginning_that_comes_drop_by_drop_has_its_time() {
        let (_, has_ended) = held_back(7).await.unwrap();
        assert!(has_ended);
        assert!(matches!(
            held_back(9).await,
            Err(RelayError::Origin {
                fault: Fault {
                    error: ErrorType::HttpResponseTimeout,
                    ..
                },
                answered: false,
            })
        ));
    }
}
