//! A limit on HTTP/2 frames that lead nowhere: a client can send PING, SETTINGS, WINDOW_UPDATE, PRIORITY and empty DATA for
//! ever, each answered or at least read (CVE-2019-9512, -9515, -9518), while it requests nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::pulse::MovedBytes;

const PREFACE_BYTES: u32 = 24;
const FRAME_HEAD_BYTES: usize = 9;
/// The types of frames that lead to something (RFC 9113, section 6).
const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const CONTINUATION: u8 = 0x9;

/// The most credit, and the credit of a new connection: the number of frames without progress that it may send in a row.
const MAX_CREDIT: u64 = 10_000;
/// The credit for a request: its stream is reset, prioritised or given a window by some frames.
const CREDIT_OF_REQUEST: u64 = 16;
/// The bytes sent to the client for which it may send a frame: two WINDOW_UPDATEs for each DATA frame of a few bytes, and less than
/// one PING for each answer to a PING.
const BYTES_OF_FRAME: u64 = 24;
/// The credit for each second, which suffices for any interval of pings.
const CREDIT_OF_SECOND: f64 = 20.0;

/// A client's HTTP/2 connection, which breaks when the client has sent too many frames without progress.
#[derive(Debug)]
pub(super) struct FrameLimit<S> {
    inner: S,
    frames: FrameReader,
    credit: u64,
    refilled_at: Instant,
    moved: Arc<MovedBytes>,
}

/// Finds the heads of frames in a stream of bytes.
#[derive(Debug)]
struct FrameReader {
    head: [u8; FRAME_HEAD_BYTES],
    head_bytes: usize,
    /// The bytes to skip until the next frame begins.
    to_skip: u32,
}

impl<S> FrameLimit<S> {
    /// Wraps a connection, whose bytes are counted in `moved`, too.
    pub(super) fn new(inner: S, moved: Arc<MovedBytes>) -> Self {
        let frames = FrameReader { head: [0; 9], head_bytes: 0, to_skip: PREFACE_BYTES };
        Self { inner, frames, credit: MAX_CREDIT, refilled_at: Instant::now(), moved }
    }

    /// Counts the frames that begin in `bytes`.
    fn count(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some((kind, length)) = self.frames.next(&mut bytes) {
            let earned = match kind {
                HEADERS => CREDIT_OF_REQUEST,
                DATA | CONTINUATION if length > 0 => 1,
                _ => {
                    self.spend()?;
                    0
                }
            };
            self.earn(earned);
        }
        Ok(())
    }

    fn spend(&mut self) -> io::Result<()> {
        if self.credit == 0 {
            let seconds = self.refilled_at.elapsed().as_secs_f64();
            self.refilled_at = Instant::now();
            self.earn((seconds * CREDIT_OF_SECOND) as u64);
        }
        self.credit = self.credit.checked_sub(1).ok_or_else(|| {
            tracing::debug!("an HTTP/2 client sent too many frames without progress");
            io::Error::new(io::ErrorKind::InvalidData, "too many frames without progress")
        })?;
        Ok(())
    }

    fn earn(&mut self, credit: u64) {
        self.credit = self.credit.saturating_add(credit).min(MAX_CREDIT);
    }
}

impl FrameReader {
    /// Returns the type and the length of the next frame that begins, or whose head ends, in `bytes`, and removes the bytes
    /// that were read.
    fn next(&mut self, bytes: &mut &[u8]) -> Option<(u8, u32)> {
        let skipped = (self.to_skip as usize).min(bytes.len());
        *bytes = &bytes[skipped..];
        self.to_skip -= skipped as u32;
        let taken = (FRAME_HEAD_BYTES - self.head_bytes).min(bytes.len());
        self.head[self.head_bytes..self.head_bytes + taken].copy_from_slice(&bytes[..taken]);
        self.head_bytes += taken;
        *bytes = &bytes[taken..];
        if self.head_bytes < FRAME_HEAD_BYTES {
            return None;
        }
        self.head_bytes = 0;
        let [one, two, three, kind, ..] = self.head;
        self.to_skip = u32::from_be_bytes([0, one, two, three]);
        Some((kind, self.to_skip))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FrameLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let read = &buf.filled()[before..];
        self.moved.add_read(read.len());
        Poll::Ready(self.count(read))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FrameLimit<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        self.moved.add_written(written);
        self.earn(written as u64 / BYTES_OF_FRAME);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, slices))?;
        self.moved.add_written(written);
        self.earn(written as u64 / BYTES_OF_FRAME);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 0x6;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0, 0, payload as u8, kind, 0, 0, 0, 0, 1];
        frame.resize(FRAME_HEAD_BYTES + payload, 0);
        frame
    }

    fn connection() -> FrameLimit<()> {
        let mut limit = FrameLimit::new((), Arc::default());
        limit.count(&[b'P'; PREFACE_BYTES as usize]).unwrap();
        limit
    }

    /// Returns how many of these frames are read, in pieces of `size` bytes.
    fn frames_read(limit: &mut FrameLimit<()>, frame: &[u8], size: usize) -> u64 {
        (0..2 * MAX_CREDIT)
            .take_while(|_| frame.chunks(size).all(|piece| limit.count(piece).is_ok()))
            .count() as u64
    }

    #[test]
    fn frames_without_progress_are_limited_however_they_arrive() {
        for (kind, payload) in [(PING, 8), (0x4, 0), (0x8, 4), (0x2, 5), (DATA, 0), (0xfa, 3)] {
            let frame = frame(kind, payload);
            for size in [1, 4, frame.len()] {
                let read = frames_read(&mut connection(), &frame, size);
                // On a slow machine some are earned by time.
                assert!((MAX_CREDIT..MAX_CREDIT + 2000).contains(&read), "{kind} {size}: {read}");
            }
        }
    }

    #[test]
    fn requests_and_content_are_progress() {
        for (kind, payload) in [(HEADERS, 30), (DATA, 1), (CONTINUATION, 2)] {
            let mut both = frame(kind, payload);
            both.extend(frame(PING, 8));
            assert_eq!(frames_read(&mut connection(), &both, 7), 2 * MAX_CREDIT, "{kind}");
        }
    }
}
