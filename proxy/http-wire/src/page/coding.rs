//! Undoes the content codings of a response chunk by chunk, up to a limit.

use crate::content_coding::{ContentCoding, ContentDecoder};

/// A decoder for the start of a response.
#[derive(Debug)]
pub(super) struct PageDecoder {
    /// `None` if a coding is not supported.
    decoders: Option<ContentDecoder>,
    bytes: Vec<u8>,
    limit: usize,
    /// Whether the rest cannot be decoded.
    is_broken: bool,
}

impl PageDecoder {
    /// Creates a decoder for these values of `Content-Encoding`, up to `limit` bytes. Returns `None` if they name no coding; an
    /// unsupported coding decodes to nothing.
    pub(super) fn new<'v>(values: impl Iterator<Item = &'v str>, limit: usize) -> Option<Self> {
        let codings = ContentCoding::parse_list(values);
        if codings.as_ref().is_ok_and(Vec::is_empty) {
            return None;
        }
        let decoders =
            codings.ok().and_then(|codings| ContentDecoder::new(&codings, limit, limit).ok());
        Some(Self { is_broken: decoders.is_none(), decoders, bytes: Vec::new(), limit })
    }

    /// Returns whether a coding is not supported.
    pub(super) fn is_unsupported(&self) -> bool {
        self.decoders.is_none()
    }

    /// Returns whether the next chunk may decode to more text.
    pub(super) fn may_decode_more(&self) -> bool {
        !self.is_broken && self.bytes.len() < self.limit
    }

    /// Decodes the next chunk.
    pub(super) fn decode(&mut self, chunk: &[u8]) {
        let may_decode_more = self.may_decode_more();
        let Some(decoders) = self.decoders.as_mut().filter(|_| may_decode_more) else {
            return;
        };
        let (decoded, written) = decoders.decode(chunk);
        self.is_broken |= written.is_err();
        // No decoder gives more than the limit.
        self.bytes.extend_from_slice(&decoded);
    }

    /// Returns the bytes decoded so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
