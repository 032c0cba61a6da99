//! The longest response that a crawler wants: `max_response_bytes`.

use wayleave_decision::{Reason, Refusal};
use wayleave_http_wire::http1::has_content;
use wayleave_upstream::UpstreamHead;

/// Counts the bytes of one response's body, as the origin encodes it, against the crawler's limit.
#[derive(Debug)]
pub(crate) struct ResponseSize {
    limit: u64,
    bytes: u64,
}

impl ResponseSize {
    /// Begins to count; 0: no limit.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, bytes: 0 }
    }

    /// Returns the refusal of a response to a request with this method whose head states that it is too long.
    pub(crate) fn judge_head(&self, head: &UpstreamHead, method: &str) -> Result<(), Box<Refusal>> {
        match head.content_length() {
            Some(stated) if has_content(head.status(), method) => {
                self.judge(stated, || format!("{stated} bytes long"))
            }
            _ => Ok(()),
        }
    }

    /// Counts a part of the body. Returns the refusal if it is too long with it.
    pub(crate) fn judge_chunk(&mut self, chunk: &[u8]) -> Result<(), Box<Refusal>> {
        self.bytes += chunk.len() as u64;
        self.judge(self.bytes, || "longer than that, which its head does not say".to_owned())
    }

    fn judge(&self, bytes: u64, found: impl FnOnce() -> String) -> Result<(), Box<Refusal>> {
        if self.limit == 0 || bytes <= self.limit {
            return Ok(());
        }
        let details = format!(
            "max_response_bytes of this crawler is {} bytes, and the response is {}",
            self.limit,
            found()
        );
        let refusal = Refusal::new(Reason::ResponseTooLarge, details);
        Err(Box::new(Refusal { is_policy: true, ..refusal }))
    }
}
