//! Reads and decodes the body of a robots.txt, up to the size limit.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, header};
use wayleave_robots_txt::lifecycle::{Body, FetchError, FetchErrorKind};

use super::room::{FREE_BYTES, Place, Room};
use crate::http::content_coding::{Coding, Decoders};
use crate::http::http1::oddities::Oddity;
use crate::observe::digest::Digest;
use crate::origin::OriginReader;

/// A coded body may be so many times longer than what is read of it decoded: some decode to nothing, without end.
const CODED: usize = 8;

/// Decoded at a time: no more than 66 KB come of so many bytes in gzip, for which no room was taken yet.
const STEP: usize = 64;

/// Returns how a body with these fields is coded. Only gzip was asked for, but some servers keep one coding for all.
///
/// # Errors
///
/// If that cannot be undone.
pub(super) fn codings(headers: &HeaderMap) -> Result<Vec<Coding>, FetchError> {
    let values = headers.get_all(header::CONTENT_ENCODING).iter();
    Coding::listed(values.map(|value| value.to_str().unwrap_or("?"))).map_err(failure)
}

/// Reads at most `limit` bytes of the decoded body, and marks it as cut if there were more. Holds no more than that
/// and the decoder's window, whatever comes; if that is much, it waits for `room`.
///
/// Many servers end a body with its TLS connection and leave out the alert that closes that, so that it looks cut off (RFC 9112
/// section 9.8). Such a body is taken if it ends with a line, and told to be odd.
///
/// # Errors
///
/// If the body breaks off or cannot be decoded before the limit is reached, or if more follows than the coding holds.
pub(super) async fn read(
    reader: &mut OriginReader,
    codings: &[Coding],
    limit: usize,
    room: &Room,
) -> Result<(Body, Option<Place>), FetchError> {
    let coded_limit = limit.saturating_mul(CODED);
    let decoders = (!codings.is_empty())
        .then(|| Decoders::new(codings, limit.saturating_add(1), coded_limit))
        .transpose();
    let mut incoming = Incoming {
        decoders: decoders.map_err(|error| failure(error.to_string()))?,
        part: Bytes::new(),
        left: coded_limit,
        bytes: Vec::new(),
        limit,
        reader,
    };
    let place = read_all(&mut incoming, codings, room).await;
    let place = place.map_err(|error| failure(error.to_string()))?;
    let Incoming { mut bytes, .. } = incoming;
    let is_cut = bytes.len() > limit;
    bytes.truncate(limit);
    let body = Body {
        digest: Some(Arc::new(Digest::of(&bytes).0)),
        bytes: bytes.into(),
        is_cut,
    };
    let mut oddities = reader.oddities().iter();
    if oddities.any(|oddity| oddity == Oddity::IncompleteClose) {
        check_ending(&body, codings)?;
    }
    Ok((body, place))
}

/// Reads up to one byte more than the limit, if need be with a place in the room.
async fn read_all(
    incoming: &mut Incoming<'_>,
    codings: &[Coding],
    room: &Room,
) -> io::Result<Option<Place>> {
    let (limit, one_more) = (incoming.limit, incoming.limit.saturating_add(1));
    // What a long file holds, with what is parsed of it.
    let mut needed = limit.saturating_mul(2);
    let windows: usize = codings.iter().map(|it| it.window_bytes()).sum();
    if codings.len() > 1 || windows > FREE_BYTES {
        // From the first byte on.
        needed = needed.saturating_add(windows);
        if codings.len() > 1 {
            // What one coding leaves to another, at most.
            needed = needed.saturating_add(incoming.left);
        }
    } else if incoming.read(FREE_BYTES.min(one_more)).await? {
        return Ok(None);
    }
    let place = room.take(needed).await?;
    room.lend(incoming.read(one_more)).await?;
    Ok(Some(place))
}

/// What comes of a body.
struct Incoming<'r> {
    reader: &'r mut OriginReader,
    /// Nothing if it comes as it is.
    decoders: Option<Decoders>,
    /// Came, and is not decoded yet.
    part: Bytes,
    /// How much more may come.
    left: usize,
    bytes: Vec<u8>,
    limit: usize,
}

impl Incoming<'_> {
    /// Reads until it has so many bytes; tells whether the body ended before.
    async fn read(&mut self, enough: usize) -> io::Result<bool> {
        while self.bytes.len() < enough {
            if self.part.is_empty() && !self.next_part().await? {
                self.decoders.as_mut().map_or(Ok(()), Decoders::finish)?;
                return Ok(true);
            }
            let step = self.part.split_to(self.part.len().min(STEP));
            self.decode(&step)?;
        }
        Ok(false)
    }

    async fn next_part(&mut self) -> io::Result<bool> {
        let part = self.reader.part().await;
        let Some(part) = part.map_err(|error| io::Error::other(error.details))? else {
            return Ok(false);
        };
        if self.left == 0 {
            let detail = "the body is longer than any robots.txt is read";
            return Err(io::Error::other(detail));
        }
        self.left = self.left.saturating_sub(part.len());
        self.part = part;
        Ok(true)
    }

    fn decode(&mut self, coded: &[u8]) -> io::Result<()> {
        let Some(decoders) = &mut self.decoders else {
            self.bytes.extend_from_slice(coded);
            return Ok(());
        };
        let (bytes, written) = decoders.decode(coded);
        self.bytes.extend_from_slice(&bytes);
        // Otherwise the error may only say that there is more.
        if self.bytes.len() <= self.limit {
            written?;
        }
        Ok(())
    }
}

/// Whether a body that its connection may have cut off can be gone by.
fn check_ending(body: &Body, codings: &[Coding]) -> Result<(), FetchError> {
    // What is coded says by itself whether it is whole.
    if codings.is_empty() && !body.bytes.ends_with(b"\n") && !body.bytes.ends_with(b"\r") {
        let detail = "the connection ended in the middle of a line".to_owned();
        return Err(failure(detail));
    }
    Ok(())
}

fn failure(detail: String) -> FetchError {
    FetchError {
        kind: FetchErrorKind::Body,
        detail,
    }
}
