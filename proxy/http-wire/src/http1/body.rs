//! Bodies on the wire: where one ends, and the chunked coding (RFC 9112 sections 6 and 7).

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::fields::{is_allowed_in_trailers, write_fields};
use super::framing::BodyFraming;
use super::oddities::{Oddities, Oddity};
use super::repair::{LineEndings, SectionStart, repair, section_end};

/// The number of bytes read at a time. With the 8 KiB read with a head, a body of 64 KiB takes two reads.
const READ_BYTES: usize = 60 * 1024;
/// The longest line with a chunk's size and extensions, in bytes.
const MAX_SIZE_LINE: usize = 1024;
/// The longest trailer section, in bytes.
const MAX_TRAILERS: usize = 16 * 1024;
const MAX_TRAILER_FIELDS: usize = 64;

/// The fields after a chunked body, with names spelt as received.
pub type Trailers = Vec<(Bytes, Bytes)>;

/// A reason why a body cannot be read.
#[derive(Debug)]
pub enum BodyError {
    /// The body is not framed as announced.
    Malformed(&'static str),
    /// The connection ended before the body.
    Incomplete,
    /// No more of the body arrived within the timeout.
    Timeout,
    /// The connection broke.
    Io(io::Error),
}

impl From<io::Error> for BodyError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A reader of one body. Bytes taken from the stream are kept in the caller's buffer, so a read that is cancelled
/// loses nothing.
#[derive(Debug)]
pub struct BodyReader {
    state: ReadState,
    sender: BodySender,
    trailers: Trailers,
    oddities: Oddities,
}

/// The sender of a body: a client's body is read strictly, an origin's is repaired where RFC 9112 lets a proxy do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodySender {
    Downstream,
    Upstream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkTerminator,
    TrailerSection,
    UntilClose,
    Done,
}

impl BodyReader {
    /// Reads a client's body, and refuses malformed ones.
    pub fn strict(framing: BodyFraming) -> Self {
        Self::with_sender(BodySender::Downstream, framing)
    }

    /// Reads an origin's body, and makes the repairs that are allowed.
    pub fn repairing(framing: BodyFraming) -> Self {
        Self::with_sender(BodySender::Upstream, framing)
    }

    fn with_sender(sender: BodySender, framing: BodyFraming) -> Self {
        let state = match framing {
            BodyFraming::Length(0) => ReadState::Done,
            BodyFraming::Length(length) => ReadState::Length(length),
            BodyFraming::Chunked => ReadState::ChunkSize,
            BodyFraming::UntilClose => ReadState::UntilClose,
        };
        Self { state, sender, trailers: Vec::new(), oddities: Oddities::default() }
    }

    /// Returns the repairs so far.
    pub fn oddities(&self) -> Oddities {
        self.oddities
    }

    pub fn is_done(&self) -> bool {
        self.state == ReadState::Done
    }

    /// Returns whether fields followed the body; valid once it is done.
    pub fn has_trailers(&self) -> bool {
        !self.trailers.is_empty()
    }

    /// Takes the fields that followed the body; valid once it is done.
    pub fn take_trailers(&mut self) -> Trailers {
        std::mem::take(&mut self.trailers)
    }

    /// Returns the next chunk of the body; `None` at its end. `buffered` holds bytes that were read before.
    pub async fn next_chunk<R: AsyncRead + Unpin>(
        &mut self,
        stream: &mut R,
        buffered: &mut BytesMut,
    ) -> Result<Option<Bytes>, BodyError> {
        loop {
            if let Some(chunk) = self.take_buffered(buffered)? {
                return Ok(Some(chunk));
            }
            if self.is_done() {
                return Ok(None);
            }
            buffered.reserve(READ_BYTES);
            let read = stream.read_buf(buffered).await;
            if read.or_else(|error| self.accept_truncated_close(error))? == 0 {
                if self.state != ReadState::UntilClose {
                    return Err(BodyError::Incomplete);
                }
                self.state = ReadState::Done;
            }
        }
    }

    /// Accepts a TLS connection that closed without close_notify as the end of an origin's body with no other end, as
    /// browsers do.
    fn accept_truncated_close(&mut self, error: io::Error) -> io::Result<usize> {
        let is_cut = error.kind() == io::ErrorKind::UnexpectedEof;
        if is_cut && self.sender == BodySender::Upstream && self.state == ReadState::UntilClose {
            self.oddities.insert(Oddity::IncompleteClose);
            return Ok(0);
        }
        Err(error)
    }

    /// Takes the next chunk of content out of `buffered`; `None` if more bytes are needed, or the body is done.
    fn take_buffered(&mut self, buffered: &mut BytesMut) -> Result<Option<Bytes>, BodyError> {
        loop {
            match self.state {
                ReadState::Done => return Ok(None),
                ReadState::UntilClose => return Ok(non_empty(buffered.split().freeze())),
                ReadState::Length(left) => {
                    let (chunk, left) = split_at_most(buffered, left);
                    self.state = if left == 0 { ReadState::Done } else { ReadState::Length(left) };
                    return Ok(non_empty(chunk));
                }
                ReadState::ChunkSize => match self.take_chunk_size(buffered)? {
                    None => return Ok(None),
                    Some(0) => self.state = ReadState::TrailerSection,
                    Some(size) => self.state = ReadState::ChunkData(size),
                },
                ReadState::ChunkData(left) => {
                    let (chunk, left) = split_at_most(buffered, left);
                    self.state = if left == 0 {
                        ReadState::ChunkTerminator
                    } else {
                        ReadState::ChunkData(left)
                    };
                    return Ok(non_empty(chunk));
                }
                ReadState::ChunkTerminator => {
                    if buffered.len() < 2 {
                        return Ok(None);
                    }
                    if !buffered.starts_with(b"\r\n") {
                        // Bytes between chunks would be taken for a size line by a reader that skips them.
                        return Err(BodyError::Malformed("a chunk is longer than its size"));
                    }
                    buffered.advance(2);
                    self.state = ReadState::ChunkSize;
                }
                ReadState::TrailerSection => {
                    let Some(section) = self.take_trailer_section(buffered)? else {
                        return Ok(None);
                    };
                    self.trailers = parse_trailers(&section)?;
                    self.state = ReadState::Done;
                }
            }
        }
    }

    fn take_chunk_size(&mut self, buffered: &mut BytesMut) -> Result<Option<u64>, BodyError> {
        let Some(line) = take_size_line(buffered)? else {
            return Ok(None);
        };
        if line.padding > 0 {
            if self.sender == BodySender::Downstream {
                return Err(BAD_SIZE);
            }
            self.oddities.insert(Oddity::PaddedChunkSize);
        }
        Ok(Some(line.size))
    }

    /// Takes the trailer section with the empty line that ends it.
    fn take_trailer_section(
        &mut self,
        buffered: &mut BytesMut,
    ) -> Result<Option<Bytes>, BodyError> {
        let lines = match self.sender {
            BodySender::Downstream => LineEndings::CrlfOnly,
            BodySender::Upstream => LineEndings::CrlfOrLf,
        };
        let end = section_end(buffered, 0, lines).map_err(|_| BAD_TRAILERS)?;
        if end.unwrap_or(buffered.len()) > MAX_TRAILERS {
            return Err(BAD_TRAILERS);
        }
        let Some(end) = end else {
            return Ok(None);
        };
        let section = buffered.split_to(end).freeze();
        let (section, oddities) =
            repair(section, SectionStart::FirstField).map_err(|_| BAD_TRAILERS)?;
        // RFC 9112 lets a proxy repair responses only: requests are rejected.
        if self.sender == BodySender::Downstream && !oddities.is_empty() {
            return Err(BAD_TRAILERS);
        }
        self.oddities = self.oddities.union(oddities);
        Ok(Some(section))
    }
}

const BAD_SIZE: BodyError = BodyError::Malformed("a chunk's size is not a hexadecimal number");
const BAD_TRAILERS: BodyError = BodyError::Malformed("malformed trailers");

fn non_empty(chunk: Bytes) -> Option<Bytes> {
    (!chunk.is_empty()).then_some(chunk)
}

/// Takes at most `left` bytes out of `buffered`, and returns them with the number that is left to take.
fn split_at_most(buffered: &mut BytesMut, left: u64) -> (Bytes, u64) {
    let taken = usize::try_from(left).map_or(buffered.len(), |left| left.min(buffered.len()));
    (buffered.split_to(taken).freeze(), left - taken as u64)
}

/// A chunk's size, and the number of whitespace bytes after it.
struct ChunkSizeLine {
    size: u64,
    padding: usize,
}

/// Takes the line with a chunk's size: hexadecimal digits, and perhaps extensions, which are not forwarded (RFC 9112
/// section 7.1.1).
fn take_size_line(buffered: &mut BytesMut) -> Result<Option<ChunkSizeLine>, BodyError> {
    // A bare LF is refused: a reader that accepts it sees other chunks.
    let Some(end) = memmem::find(buffered, b"\r\n") else {
        if buffered.len() > MAX_SIZE_LINE || buffered.contains(&b'\n') {
            return Err(BodyError::Malformed("a chunk's size line does not end"));
        }
        return Ok(None);
    };
    let line = &buffered[..end];
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (size, extensions) = line.split_at(digits);
    let first = extensions.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
    // A control character in an extension may end the line for another reader.
    let is_clean = extensions.iter().all(|&byte| byte == b'\t' || (b' '..0x7f).contains(&byte));
    let is_extension = first.is_none_or(|&byte| byte == b';');
    // 16 digits are 64 bits; some readers let longer sizes overflow.
    if digits == 0 || digits > 16 || end > MAX_SIZE_LINE || !is_clean || !is_extension {
        return Err(BAD_SIZE);
    }
    // Whitespace before an extension is allowed (RFC 9112 section 7.1.1).
    let padding = if first.is_none() { extensions.len() } else { 0 };
    let size = str::from_utf8(size).ok().and_then(|size| u64::from_str_radix(size, 16).ok());
    buffered.advance(end + 2);
    Ok(size.map(|size| ChunkSizeLine { size, padding }))
}

/// Returns the fields of a trailer section that are allowed in one.
fn parse_trailers(section: &Bytes) -> Result<Trailers, BodyError> {
    let mut slots = [httparse::EMPTY_HEADER; MAX_TRAILER_FIELDS];
    match httparse::parse_headers(section, &mut slots) {
        Ok(httparse::Status::Complete((length, fields))) if length == section.len() => {
            let kept = fields.iter().filter(|field| is_allowed_in_trailers(field.name));
            let shared = |part: &[u8]| section.slice_ref(part);
            Ok(kept.map(|field| (shared(field.name.as_bytes()), shared(field.value))).collect())
        }
        _ => Err(BAD_TRAILERS),
    }
}

/// A writer of one body.
#[derive(Clone, Copy, Debug)]
pub struct BodyWriter {
    framing: BodyFraming,
}

impl BodyWriter {
    pub fn new(framing: BodyFraming) -> Self {
        Self { framing }
    }

    /// Writes a chunk, which is not empty. Bytes beyond an announced length are an error, since they would be read as
    /// the next message.
    pub async fn write<W: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut W,
        chunk: &[u8],
    ) -> io::Result<()> {
        match &mut self.framing {
            BodyFraming::UntilClose => stream.write_all(chunk).await,
            BodyFraming::Length(left) => {
                *left = left
                    .checked_sub(chunk.len() as u64)
                    .ok_or_else(|| io::Error::other("the body is longer than its length"))?;
                stream.write_all(chunk).await
            }
            BodyFraming::Chunked => {
                // In one write, so that a chunk takes one TLS record and one system call.
                let mut framed = BytesMut::with_capacity(chunk.len() + 20);
                framed.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
                framed.extend_from_slice(chunk);
                framed.extend_from_slice(b"\r\n");
                stream.write_all(&framed).await
            }
        }
    }

    /// Ends the body and flushes the stream.
    pub async fn finish<W: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut W,
        trailers: &Trailers,
    ) -> io::Result<()> {
        match self.framing {
            // The peer would take the next message for the rest: the connection has to break.
            BodyFraming::Length(left) if left > 0 => {
                return Err(io::Error::other("the body is shorter than its length"));
            }
            BodyFraming::Length(_) | BodyFraming::UntilClose => {}
            BodyFraming::Chunked => {
                let mut end = BytesMut::from(&b"0\r\n"[..]);
                write_fields(&mut end, trailers.iter().map(|(name, value)| (&**name, &**value)));
                end.extend_from_slice(b"\r\n");
                stream.write_all(&end).await?;
            }
        }
        stream.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a body that arrives in pieces of `step` bytes. Returns it with the number of trailers and the bytes left
    /// after it.
    async fn read(
        framing: BodyFraming,
        wire: &[u8],
        step: usize,
    ) -> Result<(Vec<u8>, usize, Vec<u8>), String> {
        let (mut near, mut far) = tokio::io::duplex(step);
        let wire = wire.to_vec();
        let sending = tokio::spawn(async move {
            far.write_all(&wire).await.unwrap();
        });
        let mut reader = BodyReader::strict(framing);
        let mut body = Vec::new();
        let mut buffered = BytesMut::new();
        while let Some(part) = reader
            .next_chunk(&mut near, &mut buffered)
            .await
            .map_err(|error| format!("{error:?}"))?
        {
            assert!(!part.is_empty());
            body.extend_from_slice(&part);
        }
        sending.abort();
        Ok((body, reader.take_trailers().len(), buffered.to_vec()))
    }

    #[tokio::test]
    async fn body_ends_as_framed_in_pieces_of_any_size() {
        let chunked = b"5\r\nhello\r\n6;a=\"b\"\r\n world\r\n0\r\nX-Sum: 1\r\nHost: no\r\n\r\n";
        for step in [1, 2, 3, 7, 4096] {
            let (body, trailers, _) = read(BodyFraming::Chunked, chunked, step).await.unwrap();
            assert_eq!((&body[..], trailers), (&b"hello world"[..], 1), "{step}");
            let (body, ..) = read(BodyFraming::Length(5), b"helloGET", step).await.unwrap();
            assert_eq!(body, b"hello", "{step}");
            let (body, ..) = read(BodyFraming::UntilClose, b"all of it", step).await.unwrap();
            assert_eq!(body, b"all of it", "{step}");
        }
    }

    #[tokio::test]
    async fn bytes_after_a_body_remain_buffered() {
        let (_, _, left) = read(BodyFraming::Length(2), b"abGET /", 4096).await.unwrap();
        assert_eq!(left, b"GET /");
        let (_, _, left) = read(BodyFraming::Chunked, b"0\r\n\r\nGET /", 4096).await.unwrap();
        assert_eq!(left, b"GET /");
    }

    #[tokio::test]
    async fn ambiguous_chunks_are_malformed() {
        let wires: &[&[u8]] = &[
            b"5\nhello\r\n0\r\n\r\n",
            b"5;a\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"+5\r\nhello\r\n0\r\n\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"-5\r\nhello\r\n0\r\n\r\n",
            b"\r\nhello\r\n0\r\n\r\n",
            b"11111111111111111\r\nhello",
            b"5\r\nhelloX0\r\n\r\n",
            b"3\r\nhello\r\n0\r\n\r\n",
            b"5;a=\x00b\r\nhello\r\n0\r\n\r\n",
            b"0\r\nX-T 1\r\n\r\n",
            b"0\r\nX: 1\n\r\n\r\n",
            b"0\r\n folded: 1\r\n\r\n",
        ];
        for wire in wires {
            let error = read(BodyFraming::Chunked, wire, 4096).await.unwrap_err();
            assert!(error.starts_with("Malformed"), "{:?}: {error}", String::from_utf8_lossy(wire));
        }
    }

    /// Returns how many trailers were read of `wire`, which arrives in pieces of `step` bytes and never ends.
    async fn trailers_of(sender: BodySender, wire: &str, step: usize) -> Result<usize, BodyError> {
        let (mut near, mut far) = tokio::io::duplex(step);
        let mut reader = BodyReader::with_sender(sender, BodyFraming::Chunked);
        let mut buffered = BytesMut::new();
        let sending = async {
            far.write_all(wire.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            read = reader.next_chunk(&mut near, &mut buffered) => read?,
            () = sending => None,
        };
        Ok(reader.take_trailers().len())
    }

    #[tokio::test]
    async fn trailers_are_bounded_from_both_sides() {
        for (sender, step) in [
            (BodySender::Downstream, 500),
            (BodySender::Downstream, 1 << 20),
            (BodySender::Upstream, 500),
            (BodySender::Upstream, 1 << 20),
        ] {
            let longest = MAX_TRAILERS - "X-Sum: \r\n\r\n".len();
            let wire = |length| format!("0\r\nX-Sum: {}\r\n\r\n", "1".repeat(length));
            let read = trailers_of(sender, &wire(longest), step).await;
            assert_eq!(read.unwrap(), 1, "{sender:?} {step}");
            let endless = wire(longest + 100);
            for wire in [&wire(longest + 1)[..], endless.trim_end()] {
                let read = trailers_of(sender, wire, step).await;
                let is_malformed = matches!(read, Err(BodyError::Malformed(_)));
                assert!(is_malformed, "{sender:?} {step} {read:?}");
            }
        }
    }

    #[tokio::test]
    async fn truncated_body_is_incomplete() {
        for (framing, wire) in [
            (BodyFraming::Length(5), &b"hell"[..]),
            (BodyFraming::Chunked, b"5\r\nhell"),
            (BodyFraming::Chunked, b"0\r\n"),
        ] {
            assert_eq!(read(framing, wire, 4096).await.unwrap_err(), "Incomplete");
        }
    }

    async fn written(
        framing: BodyFraming,
        parts: &[&[u8]],
        trailers: &Trailers,
    ) -> io::Result<Vec<u8>> {
        let mut wire = Vec::new();
        let mut writer = BodyWriter::new(framing);
        for part in parts {
            writer.write(&mut wire, part).await?;
        }
        writer.finish(&mut wire, trailers).await?;
        Ok(wire)
    }

    #[tokio::test]
    async fn body_is_written_as_announced() {
        let trailers = vec![(Bytes::from_static(b"X-Sum"), Bytes::from_static(b"1"))];
        let chunked =
            written(BodyFraming::Chunked, &[b"hello", b" world"], &trailers).await.unwrap();
        assert_eq!(chunked, b"5\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n");
        assert_eq!(
            written(BodyFraming::Length(5), &[b"hello"], &trailers).await.unwrap(),
            b"hello"
        );
        assert!(written(BodyFraming::Length(5), &[b"hell"], &trailers).await.is_err());
        assert!(written(BodyFraming::Length(5), &[b"hello!"], &trailers).await.is_err());
    }
}
