//! The body of a request as far as its origin was sent it, so that it can be sent again.

use bytes::Bytes;
use wayleave_http_wire::http1::Trailers;

/// The longest body that is kept, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// The part of a request's body that was read from the client.
#[derive(Debug, Default)]
pub struct SentBody {
    chunks: Vec<Bytes>,
    bytes: usize,
    /// Whether it was too long to be kept, or sent to an origin that does not tell the requests that it has begun to serve.
    is_lost: bool,
    /// Present once the client has sent all of it.
    trailers: Option<Trailers>,
}

impl SentBody {
    /// Keeps the next chunk, if the whole body so far is kept and `may_be_repeated`.
    pub fn keep(&mut self, chunk: &Bytes, may_be_repeated: bool) {
        self.bytes += chunk.len();
        if !may_be_repeated || self.bytes > MAX_BYTES {
            self.is_lost = true;
            self.chunks = Vec::new();
        }
        if !self.is_lost {
            self.chunks.push(chunk.clone());
        }
    }

    /// Records the end of the body.
    pub fn end(&mut self, trailers: Trailers) {
        self.trailers = Some(trailers);
    }

    /// Returns whether it can be sent again.
    pub fn is_kept(&self) -> bool {
        !self.is_lost
    }

    /// Returns the chunks, and the trailers if there is no more to come.
    pub fn sent(&self) -> (Vec<Bytes>, Option<Trailers>) {
        (self.chunks.clone(), self.trailers.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_kept_up_to_a_limit() {
        let mut body = SentBody::default();
        assert!(body.is_kept());
        body.keep(&Bytes::from(vec![b'a'; MAX_BYTES]), true);
        assert!(body.is_kept());
        assert_eq!(body.sent().0.concat().len(), MAX_BYTES);
        body.keep(&Bytes::from_static(b"b"), true);
        assert!(!body.is_kept());
        assert!(body.sent().0.is_empty());
        let mut other = SentBody::default();
        other.keep(&Bytes::from_static(b"b"), false);
        assert!(!other.is_kept());
    }
}
