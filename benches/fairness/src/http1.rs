//! The least of HTTP/1 that a bench needs, for answers and requests of our own making and the proxy's.

use std::io;

use bytes::{Buf, BytesMut};
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The most bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// A response that has been read to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Whether the connection can take another request.
    pub(crate) is_kept: bool,
}

/// Reads a response, and throws its content away.
pub(crate) async fn read_response<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut BytesMut,
    is_head: bool,
) -> io::Result<Response> {
    let end = read_head(stream, buffer).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let head = buffer.split_to(end);
    let digits = head.get(9..12).and_then(|code| std::str::from_utf8(code).ok());
    let status = digits.and_then(|code| code.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let closes = field(&head, b"connection").is_some_and(|value| value == "close");
    let mut response = Response { status, is_kept: !closes };
    if is_head || status == 304 {
        return Ok(response);
    }
    let length = field(&head, b"content-length").and_then(|value| value.parse().ok());
    if let Some(length) = length {
        skip(stream, buffer, length).await?;
    } else if field(&head, b"transfer-encoding").is_some() {
        skip_chunks(stream, buffer).await?;
    } else {
        response.is_kept = false;
    }
    Ok(response)
}

/// Reads a head, and returns its length, or `None` if the connection ends instead.
pub(crate) async fn read_head<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut BytesMut,
) -> io::Result<Option<usize>> {
    let mut searched = 0;
    loop {
        if let Some(at) = memmem::find(&buffer[searched..], b"\r\n\r\n") {
            return Ok(Some(searched + at + 4));
        }
        searched = buffer.len().saturating_sub(3);
        buffer.reserve(READ_BYTES);
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Returns a field's value, by its name in lower case.
pub(crate) fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let lines = head.split(|byte| *byte == b'\n');
    let value =
        lines.filter_map(|line| line.split_at_checked(name.len())).find_map(|(start, rest)| {
            start.eq_ignore_ascii_case(name).then(|| rest.strip_prefix(b":")).flatten()
        })?;
    std::str::from_utf8(value.trim_ascii()).ok()
}

async fn skip<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut BytesMut,
    mut length: usize,
) -> io::Result<()> {
    loop {
        let here = length.min(buffer.len());
        buffer.advance(here);
        length -= here;
        if length == 0 {
            return Ok(());
        }
        buffer.reserve(READ_BYTES);
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Skips chunks without reading their sizes: nothing follows the last one, as requests are not pipelined.
async fn skip_chunks<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut BytesMut,
) -> io::Result<()> {
    const LAST: &[u8] = b"0\r\n\r\n";
    while !buffer.ends_with(LAST) {
        buffer.advance(buffer.len().saturating_sub(LAST.len()));
        buffer.reserve(READ_BYTES);
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    buffer.clear();
    Ok(())
}
