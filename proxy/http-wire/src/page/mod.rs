//! The start of a page, buffered until its usage preferences are known. The client gets the bytes as received; only a decoded
//! copy of bounded length is parsed.

mod charset;
mod coding;

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

use self::coding::PageDecoder;
use crate::field_pairs::{FieldPair, values};

/// The buffered start of a page.
#[derive(Debug)]
pub struct PageBuffer {
    /// Copied, because small chunks may each keep a large buffer alive.
    buffered: BytesMut,
    /// `None` if the page has no content coding.
    decoding: Option<PageDecoder>,
    content_type: String,
    /// The limit of the decoded bytes and of the buffered ones: some codings decode much input to nothing.
    limit: usize,
}

impl PageBuffer {
    /// Creates the buffer for a response with these fields; at most `limit` decoded bytes are read.
    pub fn new(fields: &[FieldPair<'_>], limit: usize) -> Self {
        // A value that is not text names no coding that is known.
        let text = |name| values(fields, name).map(|value| str::from_utf8(value).unwrap_or("?"));
        Self {
            buffered: BytesMut::new(),
            decoding: PageDecoder::new(text("content-encoding"), limit),
            content_type: text("content-type").collect::<Vec<_>>().join(";"),
            limit,
        }
    }

    /// Returns whether the next chunk is to be buffered as well.
    pub fn wants_more(&self) -> bool {
        self.buffered.len() < self.limit && self.decoding.as_ref().is_none_or(PageDecoder::has_room)
    }

    /// Returns whether clients may read something else than [`Self::texts`]: a coding is not known, or the content cannot be
    /// decoded.
    pub fn is_doubtful(&self) -> bool {
        self.decoding.as_ref().is_some_and(PageDecoder::is_doubtful)
    }

    /// Buffers a chunk.
    pub fn take(&mut self, chunk: &[u8]) {
        if let Some(decoding) = &mut self.decoding {
            decoding.decode(chunk);
        }
        self.buffered.extend_from_slice(chunk);
    }

    /// Returns the text read so far: as decoded, and also as received if it cannot be decoded, because some clients then read
    /// it so.
    pub fn texts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        // The last chunk may have exceeded the limit.
        let received = &self.buffered[..self.buffered.len().min(self.limit)];
        let decoded = self.decoding.as_ref().map(PageDecoder::bytes);
        let is_read_as_received = self.decoding.as_ref().is_none_or(PageDecoder::is_undecodable);
        let readings = decoded.into_iter().chain(is_read_as_received.then_some(received));
        readings.map(|bytes| charset::text(bytes, &self.content_type))
    }

    /// Returns the buffered bytes as received.
    pub fn into_buffered(self) -> Bytes {
        self.buffered.freeze()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use async_compression::tokio::write::BrotliEncoder;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    const TEXT: &str = "<!doctype html><meta name=robots content=noindex>";
    const LIMIT: usize = 64 * 1024;

    fn read(fields: &[FieldPair<'_>], parts: &[&[u8]]) -> (String, Bytes) {
        let mut page = PageBuffer::new(fields, LIMIT);
        for part in parts {
            page.take(part);
        }
        let text = page.texts().collect();
        (text, page.into_buffered())
    }

    async fn coded(text: &[u8]) -> [(&'static str, Vec<u8>); 6] {
        let level = Compression::default();
        let mut gzip = GzEncoder::new(Vec::new(), level);
        let mut zlib = ZlibEncoder::new(Vec::new(), level);
        let mut deflate = DeflateEncoder::new(Vec::new(), level);
        let mut brotli = BrotliEncoder::new(Vec::new());
        brotli.write_all(text).await.unwrap();
        brotli.shutdown().await.unwrap();
        gzip.write_all(text).unwrap();
        zlib.write_all(text).unwrap();
        deflate.write_all(text).unwrap();
        [
            ("", text.to_vec()),
            ("gzip", gzip.finish().unwrap()),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", deflate.finish().unwrap()),
            ("br", brotli.into_inner()),
            ("zstd", zstd::bulk::compress(text, 3).unwrap()),
        ]
    }

    #[tokio::test]
    async fn a_page_may_be_cut_anywhere() {
        for (coding, bytes) in coded(TEXT.as_bytes()).await {
            let fields: [FieldPair<'_>; 1] = [(b"Content-Encoding", coding.as_bytes())];
            for at in 0..=bytes.len() {
                let (text, buffered) = read(&fields, &[&bytes[..at], &bytes[at..]]);
                assert_eq!(text, TEXT, "{coding} at {at}");
                assert_eq!(buffered, bytes);
            }
        }
    }

    /// A decoder that has been given up must not go on trying.
    #[tokio::test]
    async fn decoding_ends_at_the_limit() {
        for (coding, bytes) in coded(&[b' '; 4 * LIMIT]).await {
            let fields: [FieldPair<'_>; 1] = [(b"Content-Encoding", coding.as_bytes())];
            let (text, buffered) = read(&fields, &[&bytes]);
            assert_eq!(text.len(), LIMIT, "{coding}");
            assert_eq!(buffered, bytes);
        }
    }

    #[test]
    fn no_more_is_read_than_the_limit() {
        let long = [TEXT.as_bytes(), &[b'x'; 2 * LIMIT]].concat();
        let mut page = PageBuffer::new(&[], LIMIT);
        page.take(&long[..LIMIT - 1]);
        assert!(page.wants_more());
        page.take(&long[LIMIT - 1..]);
        assert!(!page.wants_more());
        assert_eq!(page.texts().map(|text| text.len()).sum::<usize>(), LIMIT);
        assert_eq!(page.into_buffered(), long);
    }

    #[tokio::test]
    async fn labels_that_are_no_coding_are_read_as_identity() {
        for label in ["utf-8", "none", "text/html", "8bit", "aws-chunked", "compress", "\u{e9}"] {
            let fields: [FieldPair<'_>; 1] = [(b"Content-Encoding", label.as_bytes())];
            assert_eq!(read(&fields, &[TEXT.as_bytes()]).0, TEXT, "{label}");
            let mut page = PageBuffer::new(&fields, LIMIT);
            assert!(page.wants_more() && page.is_doubtful(), "{label}");
            page.take(&[b'x'; 2 * LIMIT]);
            assert_eq!(page.texts().map(|text| text.len()).sum::<usize>(), LIMIT, "{label}");
        }
        let [_, (_, gzip), ..] = coded(TEXT.as_bytes()).await;
        for labels in ["gzip, utf-8", "aws-chunked,gzip"] {
            let fields: [FieldPair<'_>; 1] = [(b"Content-Encoding", labels.as_bytes())];
            assert_eq!(read(&fields, &[&gzip]).0, TEXT, "{labels}");
        }
    }

    #[tokio::test]
    async fn text_that_is_labelled_as_coded_is_read_as_it_is() {
        let [_, (_, gzip), ..] = coded(TEXT.as_bytes()).await;
        for (labels, bytes, is_doubtful) in [
            ("gzip", TEXT.as_bytes(), false),
            ("zstd", TEXT.as_bytes(), false),
            ("br", TEXT.as_bytes(), true),
            ("deflate", TEXT.as_bytes(), true),
            ("gzip, br", TEXT.as_bytes(), true),
            ("gzip, gzip", TEXT.as_bytes(), false),
            ("gzip, gzip", &gzip, false),
            ("zstd, gzip", &gzip, false),
            ("gzip, gzip, gzip", TEXT.as_bytes(), true),
        ] {
            let fields: [FieldPair<'_>; 1] = [(b"Content-Encoding", labels.as_bytes())];
            for at in 0..=bytes.len() {
                let (text, buffered) = read(&fields, &[&bytes[..at], &bytes[at..]]);
                assert!(text.ends_with(TEXT), "{labels} at {at}: {text:?}");
                assert_eq!(buffered, bytes);
            }
            let mut page = PageBuffer::new(&fields, LIMIT);
            page.take(bytes);
            assert_eq!(page.is_doubtful(), is_doubtful, "{labels}");
        }
    }

    /// A window larger than the coding allows would be a gigabyte of memory.
    #[test]
    fn a_window_that_the_coding_does_not_know_is_not_made() {
        // Large Window Brotli of 2^30 bytes, a format that HTTP does not have.
        let large = [0x11, 0x1e, 0x03];
        let fields: [FieldPair<'_>; 1] = [(b"Content-Encoding", b"br")];
        let mut page = PageBuffer::new(&fields, LIMIT);
        page.take(&large);
        assert!(page.is_doubtful());
        // A zstd frame of a window of 2^27 bytes (RFC 8878 section 3.1.1.1.2).
        let large = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3, 0x01, 0, 0];
        let fields: [FieldPair<'_>; 1] = [(b"Content-Encoding", b"zstd")];
        let mut page = PageBuffer::new(&fields, LIMIT);
        page.take(&large);
        assert!(page.is_doubtful());
    }
}
