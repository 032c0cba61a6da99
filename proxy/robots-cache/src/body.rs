//! Reads and decodes the body of a robots.txt, up to the size limit.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, header};
use wayleave_evidence::Sha256Digest;
use wayleave_http_wire::content_coding::{
    ContentCoding, ContentCodings, ContentDecoder, is_plain_text,
};
use wayleave_http_wire::http1::oddities::Oddity;
use wayleave_lifecycle::{FetchError, FetchErrorKind, FetchedBody};
use wayleave_upstream::UpstreamReader;

use super::fetch_memory::{FetchMemory, MemoryReservation, UNRESERVED_BYTES};

/// The maximum ratio of a body's coded length to its decoded limit: some codings decode to nothing, without end.
const MAX_CODED_FACTOR: usize = 8;

/// The number of bytes decoded at a time. In gzip they expand to 66 KB at most, which is all that is held unreserved.
const DECODE_STEP: usize = 64;

/// Returns the content codings of a body with these fields. Only gzip was asked for, but some servers always use one
/// coding, and some label plain text as coded.
///
/// # Errors
///
/// If there are too many codings.
pub(super) fn codings(headers: &HeaderMap) -> Result<ContentCodings, FetchError> {
    let values = headers.get_all(header::CONTENT_ENCODING).iter();
    ContentCodings::parse(values.map(|value| value.to_str().unwrap_or("?"))).map_err(failure)
}

/// Reads at most `limit` bytes of the decoded body, and marks it as cut if there were more. Never holds more than that
/// and the decoder's window; if that is much, it waits for a reservation of `memory`.
///
/// Many servers end a body by closing the TLS connection without a close_notify alert, so that it looks truncated (RFC
/// 9112 section 9.8). Such a body is accepted if it ends with a complete line, and counted as an oddity.
///
/// # Errors
///
/// If the body breaks off or cannot be decoded before the limit is reached, if data follows the end of the coding, or if it is
/// labelled as something that it is not, and is no text either: then its rules are unknown.
pub(super) async fn read(
    reader: &mut UpstreamReader,
    codings: &ContentCodings,
    limit: usize,
    memory: &FetchMemory,
) -> Result<(FetchedBody, Option<MemoryReservation>), FetchError> {
    let coded_limit = limit.saturating_mul(MAX_CODED_FACTOR);
    // One byte beyond the limit tells a longer body from one that just fits.
    let is_labelled = codings.has_unknown || !codings.known.is_empty();
    // Some servers send a compressed file without saying so. Text never begins as gzip does, and garbage has no rules.
    let applied = if is_labelled { &codings.known[..] } else { &[ContentCoding::Gzip] };
    let decoders = (!applied.is_empty())
        .then(|| ContentDecoder::new(applied, limit.saturating_add(1), coded_limit));
    let mut incoming = IncomingBody {
        decoders,
        chunk: Bytes::new(),
        remaining: coded_limit,
        bytes: Vec::new(),
        limit,
        reader,
        is_labelled,
    };
    let reservation = read_all(&mut incoming, codings, memory)
        .await
        .map_err(|error| failure(error.to_string()))?;
    let IncomingBody { mut bytes, decoders, .. } = incoming;
    let is_identity = decoders
        .as_ref()
        .is_none_or(|decoders| decoders.found_identity() || decoders.is_undecided());
    let is_mislabelled = codings.has_unknown || is_identity && is_labelled;
    if is_mislabelled && !is_plain_text(&bytes) {
        return Err(failure(
            "its Content-Encoding is not known or not true, and it is no text".to_owned(),
        ));
    }
    let is_cut = bytes.len() > limit;
    bytes.truncate(limit);
    let body = FetchedBody {
        digest: Some(Arc::new(Sha256Digest::of(&bytes).0)),
        bytes: bytes.into(),
        is_cut,
    };
    let is_incomplete = reader.oddities().iter().any(|oddity| oddity == Oddity::IncompleteClose);
    let has_partial_line = !body.bytes.ends_with(b"\n") && !body.bytes.ends_with(b"\r");
    // A content coding marks its own end, so a truncated body has failed to decode already.
    if is_incomplete && has_partial_line && is_identity {
        return Err(failure("the connection ended in the middle of a line".to_owned()));
    }
    Ok((body, reservation))
}

/// Reads up to one byte more than the limit, with a reservation if the body is long.
async fn read_all(
    incoming: &mut IncomingBody<'_>,
    codings: &ContentCodings,
    memory: &FetchMemory,
) -> io::Result<Option<MemoryReservation>> {
    let limit = incoming.limit;
    let one_more = incoming.limit.saturating_add(1);
    // A long file's bytes, and about as much again for its parsed form.
    let mut needed = limit.saturating_mul(2);
    let windows: usize = codings.known.iter().map(|coding| coding.window_bytes()).sum();
    if codings.known.len() > 1 || windows > UNRESERVED_BYTES {
        // Windows this large are allocated with the first byte, so the reservation comes before it.
        needed = needed.saturating_add(windows);
        if codings.known.len() > 1 {
            // With chained codings, the output of one is buffered as the input of the next.
            needed = needed.saturating_add(incoming.remaining);
        }
    } else if incoming.read(UNRESERVED_BYTES.min(one_more)).await? {
        return Ok(None);
    }
    let reservation = memory.reserve(needed).await?;
    memory.read_reserved(incoming.read(one_more)).await?;
    Ok(Some(reservation))
}

/// A body as it arrives.
struct IncomingBody<'r> {
    reader: &'r mut UpstreamReader,
    /// The decoders; `None` for a body without content coding.
    decoders: Option<ContentDecoder>,
    /// Received bytes that are not decoded yet.
    chunk: Bytes,
    /// The number of coded bytes that may still arrive.
    remaining: usize,
    bytes: Vec<u8>,
    limit: usize,
    /// Whether the fields name a coding. A body without any may be shorter than gzip's beginning.
    is_labelled: bool,
}

impl IncomingBody<'_> {
    /// Reads until `enough` decoded bytes are there. Returns whether the body ended before that.
    async fn read(&mut self, enough: usize) -> io::Result<bool> {
        while self.bytes.len() < enough {
            if self.chunk.is_empty() && !self.next_chunk().await? {
                self.finish()?;
                return Ok(true);
            }
            // A small step bounds the output of one call, while nothing is reserved.
            let step = self.chunk.split_to(self.chunk.len().min(DECODE_STEP));
            self.decode(&step)?;
        }
        Ok(false)
    }

    fn finish(&mut self) -> io::Result<()> {
        match &mut self.decoders {
            Some(decoders) if self.is_labelled || !decoders.is_undecided() => decoders.finish(),
            _ => Ok(()),
        }
    }

    async fn next_chunk(&mut self) -> io::Result<bool> {
        let chunk = self.reader.next_chunk().await;
        let Some(chunk) = chunk.map_err(|error| io::Error::other(error.details))? else {
            return Ok(false);
        };
        // One byte beyond the limit is enough: only one chunk too many is ever received.
        if self.remaining == 0 {
            return Err(io::Error::other(
                "the body is longer than the part of a robots.txt that is read",
            ));
        }
        self.remaining = self.remaining.saturating_sub(chunk.len());
        self.chunk = chunk;
        Ok(true)
    }

    fn decode(&mut self, coded: &[u8]) -> io::Result<()> {
        let Some(decoders) = &mut self.decoders else {
            self.bytes.extend_from_slice(coded);
            return Ok(());
        };
        let (bytes, written) = decoders.decode(coded);
        self.bytes.extend_from_slice(&bytes);
        // Beyond the limit, the error may only say that the output does not fit.
        if self.bytes.len() <= self.limit {
            written?;
        }
        Ok(())
    }
}

fn failure(detail: String) -> FetchError {
    FetchError { kind: FetchErrorKind::Body, detail }
}
