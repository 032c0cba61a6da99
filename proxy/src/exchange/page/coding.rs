//! Undoes the content codings of an answer part by part, up to a limit.

use std::borrow::Cow;

use crate::http::content_coding::Decoder;

/// Codings of one answer; nobody uses more than one.
const MAX_CODINGS: usize = 2;

/// Decodes the beginning of an answer.
pub(super) struct Decoding {
    /// The coding that was applied last comes first.
    decoders: Vec<Decoder>,
    bytes: Vec<u8>,
    limit: usize,
    /// What follows cannot be decoded.
    is_broken: bool,
}

impl Decoding {
    /// Of an answer with these values of `Content-Encoding`, up to `limit` bytes; nothing if they name no coding. One that names a
    /// coding that is not known decodes to nothing.
    pub(super) fn new<'v>(values: impl Iterator<Item = &'v str>, limit: usize) -> Option<Self> {
        let names = values.flat_map(|value| value.split(','));
        let names = names.map(|name| name.trim().to_ascii_lowercase());
        let names: Vec<_> = names
            .filter(|name| !matches!(&**name, "" | "identity"))
            .collect();
        if names.is_empty() {
            return None;
        }
        let decoder = |name: &String| Decoder::named(name, limit);
        let decoders: Option<Vec<_>> = names.iter().rev().map(decoder).collect();
        let decoders = decoders.filter(|decoders| decoders.len() <= MAX_CODINGS);
        Some(Self {
            is_broken: decoders.is_none(),
            decoders: decoders.unwrap_or_default(),
            bytes: Vec::new(),
            limit,
        })
    }

    /// Whether more is to come of the next part.
    pub(super) fn takes_more(&self) -> bool {
        !self.is_broken && self.bytes.len() < self.limit
    }

    /// Decodes the next part.
    pub(super) fn decode(&mut self, part: &[u8]) {
        if !self.takes_more() {
            return;
        }
        let mut decoded = Cow::Borrowed(part);
        for decoder in &mut self.decoders {
            let (bytes, written) = decoder.decode(&decoded);
            self.is_broken |= written.is_err();
            decoded = Cow::Owned(bytes);
        }
        // No decoder gives more than the limit.
        self.bytes.extend_from_slice(&decoded);
    }

    /// What was decoded so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
