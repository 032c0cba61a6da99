//! Both bodies, both ways at once: the client's to the origin, the origin's to the client.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pingora_timeout::timeout;

use super::fields;
use super::websocket;
use crate::decide::refusal::Refusal;
use crate::http::client::{Client, ClientBody, ClientGone, Field, Responder};
use crate::http::http1::{BodyError, Framing, Trailers};
use crate::http::proxy_status::ErrorType;
use crate::http::received::{Received, Version};
use crate::origin::egress::Parent;
use crate::origin::error::Fault;
use crate::origin::{self, OriginHead, OriginReader, OriginWriter};

/// How long the origin of an upgraded connection may take nothing, or say nothing once the client does not.
const UPGRADED_PATIENCE: Duration = Duration::from_secs(60);

/// A response that reached the client whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relayed {
    pub(crate) status: u16,
    pub(crate) connection_serves_again: bool,
}

/// What broke an exchange that was under way.
#[derive(Debug)]
pub(crate) enum RelayError {
    /// The origin or the way to it. `answered`: the client has a response's head already.
    Origin { fault: Fault, answered: bool },
    /// The client sent a malformed body.
    Body {
        details: &'static str,
        answered: bool,
    },
    /// The client sent nothing more of its body for too long.
    Late { answered: bool },
    /// Its use is refused; nothing of the response was handed on.
    Refused(Box<Refusal>),
    /// The client left.
    ClientGone,
    /// The origin's answer is not for the client.
    Withheld,
}

impl RelayError {
    /// The same on the way through a parent proxy, if it is one.
    pub(super) fn by(self, parent: Option<&Parent>) -> Self {
        match self {
            Self::Origin { fault, answered } => Self::Origin {
                fault: fault.by(parent),
                answered,
            },
            other => other,
        }
    }
}

impl From<Fault> for RelayError {
    fn from(fault: Fault) -> Self {
        Self::Origin {
            fault,
            answered: false,
        }
    }
}

impl From<ClientGone> for RelayError {
    fn from(_: ClientGone) -> Self {
        Self::ClientGone
    }
}

/// How far an exchange is, as both directions see it.
#[derive(Debug, Default)]
struct Progress {
    sent_parts: AtomicUsize,
    is_sent: AtomicBool,
    is_answered: AtomicBool,
    /// The connection authenticates whoever asks on it.
    is_somebodys: AtomicBool,
}

impl Progress {
    fn sent(&self) -> usize {
        self.sent_parts.load(Ordering::Relaxed)
    }

    /// Whether waiting for the origin goes on: it does for as long as the client's body is on its way.
    fn goes_on(&self, sent_before: usize) -> Result<(), RelayError> {
        if self.sent() == sent_before {
            let details = "the origin did not answer".to_owned();
            return Err(self.answered(Fault::new(ErrorType::HttpResponseTimeout, details)));
        }
        Ok(())
    }

    fn answered(&self, fault: Fault) -> RelayError {
        RelayError::Origin {
            fault,
            answered: self.is_answered.load(Ordering::Relaxed),
        }
    }
}

/// What is told of a response's head as soon as it is there: it says which fields are added, or why the response is not handed on.
pub(super) type Heard<'a> =
    dyn Fn(&OriginHead) -> Result<Vec<Field<'static>>, RelayError> + Send + Sync + 'a;

/// What both bodies are relayed by.
#[derive(Clone, Copy)]
pub(super) struct Relaying<'a> {
    pub(super) received: &'a Received,
    /// The proxy's pseudonym.
    pub(super) name: &'a str,
    /// With the origin.
    pub(super) patience: Duration,
    pub(super) heard: &'a Heard<'a>,
}

/// Sends the client's body to the origin, and the origin's response to the client.
pub(super) async fn relay(
    relaying: Relaying<'_>,
    client: &mut Client,
    writer: &mut OriginWriter,
    reader: &mut OriginReader,
) -> Result<Relayed, RelayError> {
    let Relaying {
        received, patience, ..
    } = relaying;
    let progress = Progress::default();
    // Then the head said all, and the upload has only to watch the client.
    let is_sent = received.framing() == Framing::Length(0);
    progress.is_sent.store(is_sent, Ordering::Relaxed);
    let upload = upload(&mut client.body, writer, &progress, patience);
    let download = Download {
        relaying,
        reader,
        progress: &progress,
    };
    let status = both(upload, download.run(&mut client.answer)).await?;
    let is_somebodys = progress.is_somebodys.load(Ordering::Relaxed);
    let is_upgraded = status == 101;
    if is_upgraded {
        splice(client, writer, reader).await;
    }
    let is_sent = progress.is_sent.load(Ordering::Relaxed);
    let connection_serves_again = is_sent && !is_upgraded && !is_somebodys;
    Ok(Relayed {
        status,
        connection_serves_again,
    })
}

/// Drives both directions until the response is complete or one of them breaks the exchange.
async fn both(
    upload: impl Future<Output = RelayError>,
    download: impl Future<Output = Result<u16, RelayError>>,
) -> Result<u16, RelayError> {
    let (mut upload, mut download) = (pin!(upload), pin!(download));
    let mut is_uploading = true;
    loop {
        tokio::select! {
            biased;
            done = &mut download => return done,
            broken = &mut upload, if is_uploading => match broken {
                // The origin may have answered before it stopped to listen.
                RelayError::Origin { .. } => is_uploading = false,
                broken => return Err(broken),
            },
        }
    }
}

/// Passes whatever comes, both ways, until the origin ends it or either side breaks. To a client that says nothing more the
/// origin may go on talking, but not be silent for long.
async fn splice(client: &mut Client, writer: &mut OriginWriter, reader: &mut OriginReader) {
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

/// Passes the client's body on, and then watches whether the client stays. Ends only with what broke.
async fn upload(
    body: &mut ClientBody,
    writer: &mut OriginWriter,
    progress: &Progress,
    patience: Duration,
) -> RelayError {
    if !progress.is_sent.load(Ordering::Relaxed) {
        if let Err(broken) = pass(body, writer, progress, patience).await {
            return broken;
        }
        progress.is_sent.store(true, Ordering::Relaxed);
    }
    body.gone().await;
    RelayError::ClientGone
}

async fn pass(
    body: &mut ClientBody,
    writer: &mut OriginWriter,
    progress: &Progress,
    patience: Duration,
) -> Result<(), RelayError> {
    let broke = |error| body_broke(&error, progress);
    let failed = |fault| progress.answered(fault);
    while let Some(part) = body.next().await.map_err(broke)? {
        writer.part(part, patience).await.map_err(failed)?;
        progress.sent_parts.fetch_add(1, Ordering::Relaxed);
    }
    let trailers = body.trailers().await.map_err(broke)?;
    writer.finish(&trailers, patience).await.map_err(failed)
}

fn body_broke(error: &BodyError, progress: &Progress) -> RelayError {
    let answered = progress.is_answered.load(Ordering::Relaxed);
    match error {
        BodyError::Malformed(details) => RelayError::Body { details, answered },
        BodyError::Incomplete => RelayError::Body {
            details: "the request body is cut short",
            answered,
        },
        BodyError::Late => RelayError::Late { answered },
        BodyError::Io(_) => RelayError::ClientGone,
    }
}

/// The response on its way.
struct Download<'a> {
    relaying: Relaying<'a>,
    reader: &'a mut OriginReader,
    progress: &'a Progress,
}

impl Download<'_> {
    async fn run(mut self, client: &mut Responder) -> Result<u16, RelayError> {
        let head = self.final_head(client).await?;
        let status = head.status();
        let added = (self.relaying.heard)(&head)?;
        let mut response = fields::response(&head, self.relaying.received, self.relaying.name);
        response.fields.extend(added);
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
            self.body(client).await?;
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
                trailers.map_err(|fault| self.progress.answered(fault))
            }
            () = client.given_up() => Err(RelayError::ClientGone),
        }
    }

    /// The final response's head. Passes interim ones on (RFC 9110 section 15.2).
    async fn final_head(&mut self, client: &mut Responder) -> Result<OriginHead, RelayError> {
        for _ in 0..origin::MAX_INTERIM {
            let head = tokio::select! {
                biased;
                head = self.head() => head?,
                () = client.given_up() => return Err(RelayError::ClientGone),
            };
            match head.status() {
                101 => {
                    let checked = websocket::check(self.relaying.received, &head);
                    checked.map_err(|details| {
                        Fault::new(ErrorType::HttpProtocolError, details.to_owned())
                    })?;
                    return Ok(head);
                }
                // HTTP/1.0 knows no interim responses.
                100..=199 if self.relaying.received.version() == Version::Http10 => {}
                100..=199 => client.interim(&fields::interim(&head)).await?,
                _ => return Ok(head),
            }
        }
        Err(origin::only_interim().into())
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

    async fn body(&mut self, client: &mut Responder) -> Result<(), RelayError> {
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
                    client.part(part, is_last).await?;
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
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;
    use crate::http::client::OnwardResponse;
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
        let mut client = Client::http1(stream(near), BytesMut::new(), framing, true, patience);
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
