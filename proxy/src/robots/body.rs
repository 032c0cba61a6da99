//! Reads and decodes the body of a robots.txt, up to the size limit.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{Stream, try_unfold};
use http::{HeaderMap, header};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;
use wayleave_policy::lifecycle::{Body, FetchError, FetchErrorKind};

use async_compression::tokio::bufread::{BrotliDecoder, GzipDecoder};

use super::room::{FREE_BYTES, Place, Room};
use crate::http::http1::oddities::Oddity;
use crate::observe::digest::Digest;
use crate::origin::OriginReader;

/// The window of a brotli decoder, for those who send it.
const BROTLI_WINDOW: usize = 16 << 20;

/// A coded body may be so many times longer than what is read of it decoded: some decode to nothing, without end.
const CODED: usize = 8;

/// How a body is coded (RFC 9110, 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
    /// Never asked for, but some servers keep one coding for all.
    Brotli,
}

impl Coding {
    /// The one coding that the fields name.
    ///
    /// # Errors
    ///
    /// If it is one that cannot be undone here, or if there are several.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, FetchError> {
        let mut coding = Self::Identity;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let text = value.to_str().unwrap_or("?");
            for name in text.split(',').map(str::trim) {
                let next = match name.to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Self::Gzip,
                    "br" => Self::Brotli,
                    other => return Err(failure(format!("content coding {other}"))),
                };
                if coding != Self::Identity {
                    return Err(failure("several content codings".to_owned()));
                }
                coding = next;
            }
        }
        Ok(coding)
    }
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
    coding: Coding,
    limit: usize,
    room: &Room,
) -> Result<(Body, Option<Place>), FetchError> {
    let received = StreamReader::new(Box::pin(parts(reader, limit.saturating_mul(CODED))));
    let read = match coding {
        Coding::Identity => read_some(received, limit, Some(room)).await,
        Coding::Gzip => {
            let mut decoder = GzipDecoder::new(received);
            // A gzip file may be several in a row (RFC 1952, 2.2).
            decoder.multiple_members(true);
            read_coded(decoder, GzipDecoder::into_inner, limit, Some(room)).await
        }
        Coding::Brotli => read_brotli(received, limit, room).await,
    };
    let (body, place) = read.map_err(|error| failure(error.to_string()))?;
    let mut oddities = reader.oddities().iter();
    if oddities.any(|oddity| oddity == Oddity::IncompleteClose) {
        check_ending(&body, coding)?;
    }
    Ok((body, place))
}

/// What comes of a body, up to an error behind `limit` bytes.
fn parts(reader: &mut OriginReader, limit: usize) -> impl Stream<Item = io::Result<Bytes>> {
    try_unfold((reader, limit), async |(reader, left)| {
        let part = reader.part().await;
        let Some(part) = part.map_err(|fault| io::Error::other(fault.details))? else {
            return Ok(None);
        };
        if left == 0 {
            let detail = "the body is longer than any robots.txt is read";
            return Err(io::Error::other(detail));
        }
        let left = left.saturating_sub(part.len());
        Ok(Some((part, (reader, left))))
    })
}

/// Whether a body that its connection may have cut off can be gone by.
fn check_ending(body: &Body, coding: Coding) -> Result<(), FetchError> {
    // What is coded says by itself whether it is whole.
    if coding == Coding::Identity && !body.bytes.ends_with(b"\n") && !body.bytes.ends_with(b"\r") {
        let detail = "the connection ended in the middle of a line".to_owned();
        return Err(failure(detail));
    }
    Ok(())
}

/// Brotli takes much more than its body, from the first byte on.
async fn read_brotli(
    received: impl AsyncBufRead + Unpin,
    limit: usize,
    room: &Room,
) -> io::Result<(Body, Option<Place>)> {
    let place = room.take(BROTLI_WINDOW.saturating_add(long(limit))).await?;
    let decoder = BrotliDecoder::new(received);
    let read = read_coded(decoder, BrotliDecoder::into_inner, limit, None);
    let (body, _) = room.lend(read).await?;
    Ok((body, Some(place)))
}

/// Reads what a decoder gives, and sees to it that it has taken in everything that came.
async fn read_coded<D: AsyncRead + Unpin, R: AsyncBufRead + Unpin>(
    mut decoder: D,
    into_inner: impl FnOnce(D) -> R,
    limit: usize,
    room: Option<&Room>,
) -> io::Result<(Body, Option<Place>)> {
    let (body, place) = read_some(&mut decoder, limit, room).await?;
    if !body.is_cut && !into_inner(decoder).fill_buf().await?.is_empty() {
        return Err(io::Error::other(
            "more follows than the content coding holds",
        ));
    }
    Ok((body, place))
}

/// Waits for `room` if the body is long; without, it is there already.
async fn read_some(
    body: impl AsyncRead + Unpin,
    limit: usize,
    room: Option<&Room>,
) -> io::Result<(Body, Option<Place>)> {
    let mut bytes = Vec::new();
    let one_more = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut body = body.take(one_more);
    let mut beginning = (&mut body).take(FREE_BYTES as u64);
    let is_long = beginning.read_to_end(&mut bytes).await? == FREE_BYTES;
    let mut place = None;
    if let (Some(room), true) = (room, is_long) {
        place = Some(room.take(long(limit)).await?);
        room.lend(body.read_to_end(&mut bytes)).await?;
    } else {
        body.read_to_end(&mut bytes).await?;
    }
    let is_cut = bytes.len() > limit;
    bytes.truncate(limit);
    let body = Body {
        digest: Some(Arc::new(Digest::of(&bytes).0)),
        bytes: bytes.into(),
        is_cut,
    };
    Ok((body, place))
}

/// What a long file of at most `limit` bytes holds, with what is parsed of it.
fn long(limit: usize) -> usize {
    limit.saturating_mul(2)
}

fn failure(detail: String) -> FetchError {
    FetchError {
        kind: FetchErrorKind::Body,
        detail,
    }
}
