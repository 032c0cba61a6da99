//! Undoes the content codings of a response chunk by chunk, up to a limit.

use crate::content_coding::{ContentCodings, ContentDecoder};

/// A decoder for the start of a response.
#[derive(Debug)]
pub(super) struct PageDecoder {
    /// `None` if there are more codings than a message has.
    decoders: Option<ContentDecoder>,
    bytes: Vec<u8>,
    limit: usize,
    /// Whether a label is no known coding, so that the content may be something else than it is read as.
    has_unknown: bool,
    /// Whether the rest cannot be decoded.
    is_broken: bool,
}

impl PageDecoder {
    /// Creates a decoder for these values of `Content-Encoding`, up to `limit` bytes. Returns `None` if they name no coding.
    pub(super) fn new<'v>(values: impl Iterator<Item = &'v str>, limit: usize) -> Option<Self> {
        let codings = ContentCodings::parse(values);
        if codings.as_ref().is_ok_and(|codings| *codings == ContentCodings::default()) {
            return None;
        }
        let has_unknown = codings.as_ref().is_ok_and(|codings| codings.has_unknown);
        let decoders =
            codings.ok().map(|codings| ContentDecoder::new(&codings.known, limit, limit));
        Some(Self {
            is_broken: decoders.is_none(),
            decoders,
            bytes: Vec::new(),
            limit,
            has_unknown,
        })
    }

    /// Returns whether clients may read other bytes than those that were decoded.
    pub(super) fn is_doubtful(&self) -> bool {
        self.has_unknown || self.is_undecodable()
    }

    /// Returns whether the content cannot be decoded. The limit is no such fault.
    pub(super) fn is_undecodable(&self) -> bool {
        self.is_broken && self.has_room()
    }

    /// Returns whether fewer bytes were decoded than the limit.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.len() < self.limit
    }

    /// Decodes the next chunk.
    pub(super) fn decode(&mut self, chunk: &[u8]) {
        let is_over = self.is_broken || !self.has_room();
        let Some(decoders) = self.decoders.as_mut().filter(|_| !is_over) else {
            return;
        };
        let (decoded, written) = decoders.decode(chunk);
        self.is_broken |= written.is_err();
        // No stage gives more than the limit; with unknown labels only, there is no stage.
        let room = self.limit - self.bytes.len();
        self.bytes.extend_from_slice(&decoded[..decoded.len().min(room)]);
    }

    /// Returns the bytes decoded so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
