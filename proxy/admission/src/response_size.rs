//! The longest response that a crawler wants: `max_response_bytes`.

use wayleave_decision::{Reason, Refusal};
use wayleave_http_wire::http1::has_content;
use wayleave_upstream::UpstreamHead;

/// The size of one response's body, as the origin encodes it, and the crawler's limit.
#[derive(Debug)]
pub(crate) struct ResponseSize {
    /// The most bytes; 0: no limit.
    limit: u64,
    /// The bytes that were counted so far.
    bytes: u64,
}

impl ResponseSize {
    /// Begins to count.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, bytes: 0 }
    }

    /// Returns the most bytes, if they are limited.
    pub(crate) fn limit(&self) -> Option<u64> {
        (self.limit > 0).then_some(self.limit)
    }

    /// Judges the length that the head of a response to a request with this method states.
    ///
    /// # Errors
    ///
    /// Returns the refusal of a response that is too long.
    pub(crate) fn judge_head(&self, head: &UpstreamHead, method: &str) -> Result<(), Box<Refusal>> {
        match head.content_length() {
            Some(stated) if has_content(head.status(), method) => {
                self.judge(stated, || format!("{stated} bytes long"))
            }
            _ => Ok(()),
        }
    }

    /// Counts a part of the body.
    ///
    /// # Errors
    ///
    /// Returns the refusal, once, if the body is too long with this part.
    pub(crate) fn judge_chunk(&mut self, chunk: &[u8]) -> Result<(), Box<Refusal>> {
        let before = self.bytes;
        self.bytes += chunk.len() as u64;
        if before > self.limit {
            return Ok(());
        }
        self.judge(self.bytes, || UNSTATED.to_owned())
    }

    fn judge(&self, bytes: u64, found: impl FnOnce() -> String) -> Result<(), Box<Refusal>> {
        if self.limit == 0 || bytes <= self.limit {
            return Ok(());
        }
        Err(too_long(self.limit, &found()))
    }
}

/// The length of a body that is too long, if the head did not state it.
pub(crate) const UNSTATED: &str = "longer than that, which its head does not say";

/// Returns the refusal of a response that is longer than the limit: its length is `found`.
pub(crate) fn too_long(limit: u64, found: &str) -> Box<Refusal> {
    let details =
        format!("max_response_bytes of this crawler is {limit} bytes, and the response is {found}");
    let refusal = Refusal::new(Reason::ResponseTooLarge, details);
    Box::new(Refusal { is_policy: true, ..refusal })
}
