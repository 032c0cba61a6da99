//! Undoes the content codings of an answer part by part, up to a limit.

use crate::http::content_coding::{ContentCoding, ContentDecoder};

/// Decodes the beginning of an answer.
pub(super) struct PageDecoder {
    /// Nothing if a coding is not known.
    decoders: Option<ContentDecoder>,
    bytes: Vec<u8>,
    limit: usize,
    /// What follows cannot be decoded.
    is_broken: bool,
}

impl PageDecoder {
    /// Of an answer with these values of `Content-Encoding`, up to `limit` bytes; nothing if they name no coding. One that names a
    /// coding that is not known decodes to nothing.
    pub(super) fn new<'v>(values: impl Iterator<Item = &'v str>, limit: usize) -> Option<Self> {
        let codings = ContentCoding::parse_list(values);
        if codings.as_ref().is_ok_and(Vec::is_empty) {
            return None;
        }
        let decoders = codings
            .ok()
            .and_then(|codings| ContentDecoder::new(&codings, limit, limit).ok());
        Some(Self {
            is_broken: decoders.is_none(),
            decoders,
            bytes: Vec::new(),
            limit,
        })
    }

    /// Whether more is to come of the next part.
    pub(super) fn wants_more(&self) -> bool {
        !self.is_broken && self.bytes.len() < self.limit
    }

    /// Decodes the next part.
    pub(super) fn decode(&mut self, part: &[u8]) {
        let takes_more = self.wants_more();
        let Some(decoders) = self.decoders.as_mut().filter(|_| takes_more) else {
            return;
        };
        let (decoded, written) = decoders.decode(part);
        self.is_broken |= written.is_err();
        // No decoder gives more than the limit.
        self.bytes.extend_from_slice(&decoded);
    }

    /// What was decoded so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
