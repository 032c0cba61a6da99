//! The result of an FTP request as an HTTP response, so that all later code treats it like any other response.

use std::io;
use std::time::{Duration, SystemTime};

use suppaftp::tokio::{AsyncFtpStream, AsyncNoTlsStream, TransferStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time;
use wayleave_fairness::{Holder, KeyedPermit};
use wayleave_transport::http::transport::BoxedStream;

use super::range::ByteSpan;

/// The most bytes of a file that are read before they are taken.
const BUFFERED_BYTES: usize = 64 * 1024;
const CHUNK_BYTES: usize = 16 * 1024;

/// The result for one path.
pub(super) enum FtpResponse {
    /// A text made here.
    Text {
        status: &'static str,
        /// Lines of the head.
        fields: String,
        body: String,
        /// The permit to hold a long one in memory.
        permit: Option<KeyedPermit<Holder>>,
    },
    /// A file, or a range of it; without content for HEAD.
    File { facts: FileFacts, content: Option<FileTransfer> },
}

/// The known properties of a file.
pub(super) struct FileFacts {
    pub(super) size: Option<u64>,
    pub(super) modified_at: Option<SystemTime>,
    pub(super) span: Option<ByteSpan>,
}

/// A transfer, and the control connection that it belongs to.
pub(super) struct FileTransfer {
    pub(super) data: TransferStream<AsyncNoTlsStream>,
    pub(super) control: AsyncFtpStream,
}

impl FtpResponse {
    /// Makes a short text response that repeats its status.
    pub(super) fn short(status: &'static str, fields: &str) -> Self {
        let body = match status.split_once(' ') {
            Some((_, words)) => format!("{words}\n"),
            None => String::new(),
        };
        let fields = format!("Content-Type: text/plain\r\n{fields}");
        Self::Text { status, fields, body, permit: None }
    }

    /// Returns the response as a stream that ends after it. It is cut off if the server sends nothing for `timeout`.
    pub(super) fn into_stream(self, timeout: Duration) -> BoxedStream {
        let (near, far) = tokio::io::duplex(BUFFERED_BYTES);
        tokio::spawn(async move {
            // The reader may be gone. If not, it notices a cut by the length or the missing last chunk.
            let _ = self.write(far, timeout).await;
        });
        Box::new(near)
    }

    async fn write(self, mut to: DuplexStream, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Text { status, fields, body, permit } => {
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                to.write_all(head.as_bytes()).await?;
                let written = to.write_all(body.as_bytes()).await;
                drop((body, permit));
                written
            }
            Self::File { facts, content } => {
                to.write_all(facts.head().as_bytes()).await?;
                match (content, facts.length()) {
                    (None, _) => Ok(()),
                    (Some(content), Some(length)) => {
                        content.copy_exactly(&mut to, length, timeout).await
                    }
                    (Some(content), None) => content.copy_chunked(&mut to, timeout).await,
                }
            }
        }
    }
}

impl FileFacts {
    fn length(&self) -> Option<u64> {
        self.span.map(|span| span.length).or(self.size)
    }

    fn head(&self) -> String {
        let mut head = match self.span {
            Some(_) => "HTTP/1.1 206 Partial Content\r\n".to_owned(),
            None => "HTTP/1.1 200 OK\r\n".to_owned(),
        };
        match (self.span, self.size) {
            (Some(ByteSpan { first, length }), Some(size)) => {
                let last = first + length - 1;
                head += &format!("Content-Range: bytes {first}-{last}/{size}\r\n");
            }
            (_, Some(_)) => head += "Accept-Ranges: bytes\r\n",
            (_, None) => {}
        }
        if let Some(at) = self.modified_at {
            head += &format!("Last-Modified: {}\r\n", httpdate::fmt_http_date(at));
        }
        match self.length() {
            Some(length) => head += &format!("Content-Length: {length}\r\n"),
            None => head += "Transfer-Encoding: chunked\r\n",
        }
        // The stream has no other end that could take a further request.
        head + "Connection: close\r\n\r\n"
    }
}

impl FileTransfer {
    /// Copies as many bytes as were announced, and ignores any more.
    async fn copy_exactly(
        mut self,
        to: &mut DuplexStream,
        mut left: u64,
        timeout: Duration,
    ) -> io::Result<()> {
        let mut chunk = [0; CHUNK_BYTES];
        while left > 0 {
            let most = usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            let count = time::timeout(timeout, self.data.read(&mut chunk[..most])).await??;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            to.write_all(&chunk[..count]).await?;
            left -= count as u64;
        }
        Ok(())
    }

    /// Copies all bytes. The last chunk is written only after the server confirmed that the transfer is complete.
    async fn copy_chunked(mut self, to: &mut DuplexStream, timeout: Duration) -> io::Result<()> {
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            let count = time::timeout(timeout, self.data.read(&mut chunk)).await??;
            if count == 0 {
                break;
            }
            to.write_all(format!("{count:x}\r\n").as_bytes()).await?;
            to.write_all(&chunk[..count]).await?;
            to.write_all(b"\r\n").await?;
        }
        let finished = time::timeout(timeout, self.data.finish()).await?;
        // Not before: the server confirms the transfer on the control connection.
        drop(self.control);
        finished.map_err(io::Error::other)?;
        to.write_all(b"0\r\n\r\n").await
    }
}
