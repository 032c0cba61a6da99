//! The content of a response that the gate has seen.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use wayleave_admission::asked::record_cut;
use wayleave_admission::request::ClientConnection;
use wayleave_admission::{Gate, SeenBody};
use wayleave_http_wire::received::ReceivedHead;

pub(crate) const TOO_LONG: &str = "the response is longer than the crawler's max_response_bytes";

/// The content of a response: as it came, cut at `max_response_bytes`, or the refusal in its place.
pub struct GateBody<B: Body> {
    /// The start, which was read to judge the response, or content of ours.
    start: Bytes,
    /// `None` for content of ours, and at the end.
    rest: Option<Pin<Box<B>>>,
    /// The trailers, if they came already.
    trailers: Option<HeaderMap>,
    /// The error at which reading the start ended.
    broken: Option<B::Error>,
    limit: Option<ContentLimit>,
}

/// The most bytes of the content of one response: `max_response_bytes`, if its head did not state a length.
pub(crate) struct ContentLimit {
    pub(crate) gate: Arc<Gate>,
    pub(crate) connection: Arc<ClientConnection>,
    pub(crate) received: Arc<ReceivedHead>,
    /// The status of the response.
    pub(crate) status: u16,
    pub(crate) max_bytes: u64,
    /// The bytes that have passed so far.
    pub(crate) passed: u64,
}

impl ContentLimit {
    /// Counts a part of the content. Returns whether it may pass; the first that may not is recorded.
    pub(crate) fn lets_pass(&mut self, length: u64) -> bool {
        let before = self.passed;
        self.passed = before.saturating_add(length);
        let is_first = before <= self.max_bytes && self.passed > self.max_bytes;
        if is_first {
            record_cut(&self.gate, &self.connection, &self.received, self.status, self.max_bytes);
        }
        self.passed <= self.max_bytes
    }
}

/// The reason why content ends early.
#[derive(Debug)]
pub enum GateBodyError<E> {
    /// It broke, or its sender did.
    Body(E),
    /// It is longer than its crawler's `max_response_bytes`.
    TooLong,
}

impl<B: Body<Data = Bytes>> GateBody<B> {
    /// Returns content that was not read yet.
    pub(crate) fn unread(body: B) -> Self {
        Self { rest: Some(Box::pin(body)), ..Self::own(Bytes::new()) }
    }

    /// Returns content of ours.
    pub(crate) fn own(content: Bytes) -> Self {
        Self { start: content, rest: None, trailers: None, broken: None, limit: None }
    }

    /// Puts back the start that was read, and limits the whole.
    pub(crate) fn put_back(&mut self, start: Bytes, limit: Option<ContentLimit>) {
        self.start = start;
        self.limit = limit;
    }

    /// Passes nothing but an error.
    pub(crate) fn broken(self, error: B::Error) -> Self {
        Self { broken: Some(error), ..Self::own(Bytes::new()) }
    }

    /// Counts a frame that is about to pass.
    fn passed(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, GateBodyError<B::Error>> {
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        if self.limit.as_mut().is_none_or(|limit| limit.lets_pass(length)) {
            return Ok(frame);
        }
        *self = Self::own(Bytes::new());
        Err(GateBodyError::TooLong)
    }
}

impl<B> SeenBody for GateBody<B>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Send,
{
    type Error = B::Error;

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, B::Error> {
        while let Some(rest) = &mut self.rest {
            let Some(frame) = poll_fn(|context| rest.as_mut().poll_frame(context)).await else {
                self.rest = None;
                break;
            };
            match frame?.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Ok(Some(data)),
                Err(other) => self.trailers = other.into_trailers().ok(),
            }
        }
        Ok(None)
    }
}

impl<B: Body<Data = Bytes>> Body for GateBody<B>
where
    B::Error: Unpin,
{
    type Data = Bytes;
    type Error = GateBodyError<B::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if let Some(error) = this.broken.take() {
            return Poll::Ready(Some(Err(GateBodyError::Body(error))));
        }
        if !this.start.is_empty() {
            let start = std::mem::take(&mut this.start);
            return Poll::Ready(Some(this.passed(Frame::data(start))));
        }
        if let Some(rest) = &mut this.rest {
            match ready!(rest.as_mut().poll_frame(context)) {
                Some(Ok(frame)) => return Poll::Ready(Some(this.passed(frame))),
                Some(Err(error)) => {
                    this.rest = None;
                    return Poll::Ready(Some(Err(GateBodyError::Body(error))));
                }
                None => this.rest = None,
            }
        }
        Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.start.is_empty()
            && self.broken.is_none()
            && self.trailers.is_none()
            && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let start = self.start.len() as u64;
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(start.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(start)) {
            hint.set_upper(upper);
        }
        hint
    }
}

impl<B: Body> fmt::Debug for GateBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateBody").field("start", &self.start.len()).finish_non_exhaustive()
    }
}

impl<E: fmt::Display> fmt::Display for GateBodyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(error) => error.fmt(f),
            Self::TooLong => f.write_str(TOO_LONG),
        }
    }
}

impl<E: Error + 'static> Error for GateBodyError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Not itself, which `Display` shows already.
            Self::Body(error) => error.source(),
            Self::TooLong => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream::iter;
    use http::HeaderValue;
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    fn trailers() -> HeaderMap {
        HeaderMap::from_iter([(http::header::EXPIRES, HeaderValue::from_static("0"))])
    }

    #[tokio::test]
    async fn the_start_passes_before_the_rest() {
        for read in 0..4 {
            let frames = ["ab", "", "cd"].map(|text| Frame::data(Bytes::from(text)));
            let frames = frames.into_iter().chain([Frame::trailers(trailers())]);
            let mut body = GateBody::unread(StreamBody::new(iter(frames.map(Ok::<_, Infallible>))));
            let mut start = Vec::new();
            for _ in 0..read {
                start.extend(body.next_chunk().await.unwrap().unwrap_or_default());
            }
            body.put_back(start.into(), None);
            let passed = body.collect().await.unwrap();
            assert_eq!(passed.trailers(), Some(&trailers()), "{read}");
            assert_eq!(passed.to_bytes(), "abcd", "{read}");
        }
    }

    #[tokio::test]
    async fn content_that_broke_passes_only_its_error() {
        let frames = [Ok(Frame::data(Bytes::from("ab"))), Err("broken")];
        let mut body = GateBody::unread(StreamBody::new(iter(frames)));
        assert_eq!(body.next_chunk().await, Ok(Some(Bytes::from("ab"))));
        let error = body.next_chunk().await.unwrap_err();
        let error = body.broken(error).collect().await.unwrap_err();
        assert!(matches!(error, GateBodyError::Body("broken")));
    }

    #[test]
    fn its_length_is_known_when_that_of_the_rest_is() {
        let mut body = GateBody::unread(Full::new(Bytes::from("cd")));
        assert!(!body.is_end_stream());
        body.put_back(Bytes::from("ab"), None);
        assert_eq!(body.size_hint().exact(), Some(4));
        let own = GateBody::<Full<Bytes>>::own(Bytes::new());
        assert!(own.is_end_stream() && own.size_hint().exact() == Some(0));
    }
}
