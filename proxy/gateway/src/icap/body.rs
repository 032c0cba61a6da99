//! The body of the message inside: chunks, and before them perhaps a preview (RFC 3507 section 4.5).

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncWrite};
use wayleave_admission::SeenBody;
use wayleave_http_wire::page::PageBuffer;

use super::error::{IcapError, IcapStatus};
use super::head::IcapHead;
use super::peer::IcapPeer;

/// The longest line of a chunk's size: 16 digits are 64 bits.
const MAX_SIZE_LINE: usize = 16;
/// The most bytes of a body that nobody wants any more that are read, so that the next message can follow.
const MAX_DRAINED_BYTES: usize = 1024 * 1024;
/// The most bytes of a body that are read before its client gets any. squid sends 65,535, and then nothing until it has the
/// beginning of the answer.
const MAX_START_BYTES: usize = 60 * 1024;
/// The longest wait for the beginning of a body, before which its client gets none of it.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The body of one message.
pub(super) struct IcapBody<'a, S> {
    peer: &'a mut IcapPeer<S>,
    stage: BodyStage,
    /// The bytes of the present chunk that are to come; `None` between chunks.
    chunk_left: Option<u64>,
    /// Whether the peer sent no preview, or more.
    is_beyond_preview: bool,
    /// The bytes that were read.
    read_bytes: usize,
}

/// The part of a body that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyStage {
    /// The preview, of which so many bytes may come.
    Preview(usize),
    /// The preview has ended, and the peer waits for the answer or for leave to go on.
    Paused,
    Rest,
    Ended,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin + Send> IcapBody<'a, S> {
    /// Begins to read the body of a message whose heads were read.
    pub(super) fn new(peer: &'a mut IcapPeer<S>, head: &IcapHead) -> Self {
        let has_body = head.encapsulated.is_some_and(|parts| parts.has_body);
        let stage = match head.preview {
            _ if !has_body => BodyStage::Ended,
            Some(most) => BodyStage::Preview(most),
            None => BodyStage::Rest,
        };
        Self {
            peer,
            stage,
            chunk_left: None,
            is_beyond_preview: head.preview.is_none(),
            read_bytes: 0,
        }
    }

    /// Returns the peer's connection.
    pub(super) fn peer(&mut self) -> &mut IcapPeer<S> {
        self.peer
    }

    /// Returns whether the peer sent a preview, and no more.
    pub(super) fn is_within_preview(&self) -> bool {
        !self.is_beyond_preview
    }

    /// Reads the rest of the preview, which nobody wants.
    pub(super) async fn skip_preview(&mut self) -> Result<(), IcapError> {
        while matches!(self.stage, BodyStage::Preview(_)) {
            self.take_part().await?;
        }
        Ok(())
    }

    /// Checks that the peer waits for the answer, if it has only sent a preview.
    ///
    /// # Errors
    ///
    /// Returns an error if bytes follow: they would be the rest of the body to one reader, and the next message to another.
    pub(super) fn check_pause(&mut self) -> Result<(), IcapError> {
        if self.stage == BodyStage::Paused && !self.peer.buffered().is_empty() {
            return Err(IcapError::malformed("bytes follow a preview before its answer"));
        }
        Ok(())
    }

    /// Lets the peer send what follows its preview, of which the rest is returned.
    pub(super) async fn go_on(&mut self) -> Result<Vec<Bytes>, IcapError> {
        let mut preview = Vec::new();
        while matches!(self.stage, BodyStage::Preview(_)) {
            preview.extend(self.take_part().await?);
        }
        self.check_pause()?;
        if self.stage == BodyStage::Paused {
            self.peer.send(b"ICAP/1.0 100 Continue\r\n\r\n").await?;
            self.stage = BodyStage::Rest;
            self.is_beyond_preview = true;
        }
        Ok(preview)
    }

    /// Reads to the end of what the peer sends without being asked, if that is short. Returns whether another message can follow.
    pub(super) async fn drain(mut self) -> Result<bool, IcapError> {
        let mut left = MAX_DRAINED_BYTES;
        while !matches!(self.stage, BodyStage::Paused | BodyStage::Ended) {
            let part = self.take_part().await?.unwrap_or_default();
            match left.checked_sub(part.len()) {
                Some(less) => left = less,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Reads the next part of the present stage; `None` when the stage has changed.
    async fn take_part(&mut self) -> Result<Option<Bytes>, IcapError> {
        loop {
            match self.chunk_left {
                None => {
                    let Some((size, is_last)) = take_size(self.peer.buffered())? else {
                        self.peer.fill_body().await?;
                        continue;
                    };
                    if size == 0 {
                        self.end(is_last).await?;
                        return Ok(None);
                    }
                    if is_last {
                        return Err(IcapError::malformed(
                            "a chunk with bytes says that it is the last",
                        ));
                    }
                    if let BodyStage::Preview(most) = &mut self.stage {
                        let left =
                            usize::try_from(size).ok().and_then(|size| most.checked_sub(size));
                        *most =
                            left.ok_or_else(|| IcapError::malformed("the preview is too long"))?;
                    }
                    self.chunk_left = Some(size);
                }
                Some(0) => {
                    self.line_end().await?;
                    self.chunk_left = None;
                }
                Some(left) => {
                    let buffered = self.peer.buffered();
                    if buffered.is_empty() {
                        self.peer.fill_body().await?;
                        continue;
                    }
                    let here = usize::try_from(left)
                        .map_or(buffered.len(), |left| left.min(buffered.len()));
                    self.chunk_left = Some(left - here as u64);
                    self.read_bytes = self.read_bytes.saturating_add(here);
                    return Ok(Some(buffered.split_to(here).freeze()));
                }
            }
        }
    }

    /// Reads the end of a stage, behind the size of its last chunk. `is_last`: that says that the body is whole.
    async fn end(&mut self, is_last: bool) -> Result<(), IcapError> {
        // There are no trailers here: fields behind a body would come too late.
        self.line_end().await?;
        self.stage = match (self.stage, is_last) {
            (BodyStage::Preview(_), true) | (BodyStage::Rest, false) => BodyStage::Ended,
            (BodyStage::Preview(_), false) => BodyStage::Paused,
            _ => return Err(IcapError::malformed("ieof is of a preview only")),
        };
        Ok(())
    }

    async fn line_end(&mut self) -> Result<(), IcapError> {
        loop {
            let buffered = self.peer.buffered();
            if buffered.starts_with(b"\r\n") {
                buffered.advance(2);
                return Ok(());
            }
            if !b"\r\n".starts_with(buffered) {
                return Err(IcapError::malformed(
                    "a chunk is longer than its size, or has trailers",
                ));
            }
            self.peer.fill_body().await?;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> SeenBody for IcapBody<'_, S> {
    type Error = IcapError;

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, IcapError> {
        loop {
            match self.stage {
                BodyStage::Ended => return Ok(None),
                BodyStage::Paused => {
                    self.go_on().await?;
                }
                BodyStage::Preview(_) | BodyStage::Rest => {
                    if let Some(part) = self.take_part().await? {
                        return Ok(Some(part));
                    }
                }
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.stage == BodyStage::Ended
    }

    async fn buffer(&mut self, page: &mut PageBuffer) -> Result<bool, IcapError> {
        let reading = async {
            while page.wants_more() && self.read_bytes < MAX_START_BYTES {
                match self.next_chunk().await? {
                    Some(chunk) => page.take(&chunk),
                    None => return Ok(true),
                }
            }
            Ok(self.has_ended())
        };
        // One that arrives byte by byte would keep its client waiting for all of it.
        let buffered = tokio::time::timeout(START_TIMEOUT, reading).await;
        let too_slow = "the beginning of the body did not arrive in time";
        buffered.unwrap_or_else(|_| Err(IcapError::new(IcapStatus::Timeout, too_slow)))
    }
}

/// Takes the line with a chunk's size out of `buffered`; `None` if it is not all here. Returns the size, and whether the line says
/// `ieof`: the preview is the whole body.
fn take_size(buffered: &mut BytesMut) -> Result<Option<(u64, bool)>, IcapError> {
    const IEOF: &[u8] = b"; ieof";
    let malformed = || IcapError::malformed("the size of a chunk is not a hexadecimal number");
    let longest = MAX_SIZE_LINE + IEOF.len();
    let start = &buffered[..buffered.len().min(longest + 2)];
    let Some(end) = memmem::find(start, b"\r\n") else {
        // A bare LF is refused: a reader that accepts it sees other chunks.
        return if start.len() > longest || start.contains(&b'\n') {
            Err(malformed())
        } else {
            Ok(None)
        };
    };
    let line = &start[..end];
    let (digits, is_last) = match line.strip_suffix(IEOF) {
        Some(digits) => (digits, true),
        None => (line, false),
    };
    let is_size =
        (1..=MAX_SIZE_LINE).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let size = str::from_utf8(digits).ok().filter(|_| is_size);
    let size =
        size.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(malformed)?;
    buffered.advance(end + 2);
    Ok(Some((size, is_last)))
}
