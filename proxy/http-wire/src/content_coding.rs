//! Decoding of content codings (RFC 9110 section 8.4.1), chunk by chunk and up to a limit.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use brotli_decompressor::{BrotliDecoderParameter, DecompressorWriter};
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::{raw, zio};
use zstd::zstd_safe::DParameter;

/// The longest window, 8 MiB, that a zstd body of HTTP may have (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;
const BROTLI_BUFFER_BYTES: usize = 16 * 1024;
/// The largest piece that deflate produces at a time, in bytes.
const DEFLATE_BUFFER_BYTES: usize = 4 * 1024;

/// The most codings that one message may have. None in practice has more than one.
const MAX_CODINGS: usize = 2;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentCoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The content codings that the fields of a message name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentCodings {
    /// The known ones, in the order in which they were applied.
    pub known: Vec<ContentCoding>,
    /// Whether the list also has labels that are no known coding, such as `utf-8` or `none`. Clients ignore them.
    pub has_unknown: bool,
}

impl ContentCodings {
    /// Parses the values of `Content-Encoding`. A label that is no known coding is read as `identity`.
    ///
    /// # Errors
    ///
    /// If more than two codings are listed.
    pub fn parse<'v>(values: impl Iterator<Item = &'v str>) -> Result<Self, String> {
        let mut codings = Self::default();
        for name in values.flat_map(|value| value.split(',')).map(str::trim) {
            // RFC 9110 section 5.6.1 allows empty list elements; `identity` changes nothing (section 12.5.3).
            if name.is_empty() || name.eq_ignore_ascii_case("identity") {
                continue;
            }
            match ContentCoding::from_name(name) {
                Some(_) if codings.known.len() == MAX_CODINGS => {
                    return Err(format!("more than {MAX_CODINGS} content codings"));
                }
                Some(coding) => codings.known.push(coding),
                None => codings.has_unknown = true,
            }
        }
        Ok(codings)
    }
}

/// Returns whether content can be text: it has no control characters but white space. Coded content has others, and so has
/// UTF-16.
pub fn is_plain_text(content: &[u8]) -> bool {
    content.iter().all(|byte| !byte.is_ascii_control() || matches!(byte, b'\t'..=b'\r'))
}

impl ContentCoding {
    /// Returns the coding with this name, if it is known.
    fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            // RFC 9110 section 8.4.1.3: the old name is equivalent.
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" => Self::Deflate,
            "br" => Self::Brotli,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }

    /// Returns whether content that begins with these bytes can be of this coding; `None` if that takes more bytes. Only gzip
    /// and zstd begin with a fixed number.
    fn is_begun_by(self, bytes: &[u8]) -> Option<bool> {
        const SKIPPABLE: &[u8] = b"\x2a\x4d\x18";
        let (rest, number) = match (self, bytes) {
            (_, []) => return None,
            (Self::Deflate | Self::Brotli, _) => return Some(true),
            (Self::Gzip, _) => (bytes, &b"\x1f\x8b"[..]),
            // RFC 8878 section 3.1.2: the first byte of a skippable frame is one of sixteen.
            (Self::Zstd, [0x50..=0x5f, rest @ ..]) => (rest, SKIPPABLE),
            (Self::Zstd, _) => (bytes, &b"\x28\xb5\x2f\xfd"[..]),
        };
        if rest.starts_with(number) {
            return Some(true);
        }
        (!number.starts_with(rest)).then_some(false)
    }

    /// Returns the longest window that a decoder of this coding may hold, in bytes.
    pub fn window_bytes(self) -> usize {
        match self {
            Self::Gzip | Self::Deflate => 32 << 10,
            Self::Brotli => 16 << 20,
            Self::Zstd => 1 << ZSTD_WINDOW_LOG,
        }
    }
}

/// A decoder of all codings of one message.
pub struct ContentDecoder {
    /// The coding that was applied last comes first.
    stages: Vec<CodingDecoder>,
}

impl ContentDecoder {
    /// Creates a decoder for `codings`, listed in the order in which they were applied. The decoded message has at most
    /// `limit` bytes, and the input of every inner coding at most `coded_limit`.
    pub fn new(codings: &[ContentCoding], limit: usize, coded_limit: usize) -> Self {
        // The coding applied first is undone last, so its output is the message.
        let limits = [limit].into_iter().chain(std::iter::repeat(coded_limit));
        let stages = codings.iter().zip(limits);
        let mut stages: Vec<_> =
            stages.map(|(coding, limit)| CodingDecoder::new(*coding, limit)).collect();
        stages.reverse();
        Self { stages }
    }

    /// Returns whether content was read as it is because it does not begin as its coding does. Browsers read it so.
    pub fn found_identity(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, CodingDecoder::Identity(_)))
    }

    /// Returns whether no byte came yet, or too few to show whether content begins as its coding does.
    pub fn is_undecided(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, CodingDecoder::Undecided { .. }))
    }

    /// Returns the decoded form of `bytes`. With an error nothing more can be decoded.
    pub fn decode(&mut self, bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
        let mut decoded = Cow::Borrowed(bytes);
        let mut result = Ok(());
        for decoder in &mut self.stages {
            let (bytes, written) = decoder.decode(&decoded);
            // Bytes decoded before an error are still passed on to the next stage.
            result = result.and(written);
            decoded = Cow::Owned(bytes);
        }
        (decoded.into_owned(), result)
    }

    /// Declares the end of the message.
    ///
    /// # Errors
    ///
    /// If a coding is incomplete.
    pub fn finish(&mut self) -> io::Result<()> {
        self.stages.iter_mut().try_for_each(CodingDecoder::finish)
    }
}

impl fmt::Debug for ContentDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentDecoder").finish_non_exhaustive()
    }
}

/// A buffer for decoded bytes that accepts a limited number of them.
struct BoundedBuffer {
    bytes: Vec<u8>,
    left: usize,
}

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.left);
        if taken == 0 && !bytes.is_empty() {
            // Not `Ok(0)`: brotli's decoder would try again for ever.
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.bytes.extend_from_slice(&bytes[..taken]);
        self.left -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A decoder of one coding. Its memory is bounded by its window.
enum CodingDecoder {
    /// One that has not seen yet how the content begins.
    Undecided {
        coding: ContentCoding,
        begin: Vec<u8>,
        decoded: BoundedBuffer,
    },
    /// The content does not begin as its coding does.
    Identity(BoundedBuffer),
    Gzip(MultiGzDecoder<BoundedBuffer>),
    Deflate(DeflateDecoder),
    Brotli(Box<DecompressorWriter<BoundedBuffer>>),
    Zstd(zio::Writer<BoundedBuffer, raw::Decoder<'static>>),
}

impl CodingDecoder {
    /// Creates a decoder that returns at most `limit` bytes.
    fn new(coding: ContentCoding, limit: usize) -> Self {
        let decoded = BoundedBuffer { bytes: Vec::new(), left: limit };
        Self::Undecided { coding, begin: Vec::new(), decoded }
    }

    /// Creates the decoder of content that begins with the byte `first`, as the coding may.
    ///
    /// # Errors
    ///
    /// If there is no memory for it.
    fn begun(coding: ContentCoding, first: u8, decoded: BoundedBuffer) -> io::Result<Self> {
        Ok(match coding {
            ContentCoding::Gzip => Self::Gzip(MultiGzDecoder::new(decoded)),
            ContentCoding::Deflate => Self::Deflate(DeflateDecoder::new(first, decoded)),
            ContentCoding::Brotli => {
                let mut decoder = DecompressorWriter::new(decoded, BROTLI_BUFFER_BYTES);
                // Windows of up to 1 GiB are not part of the coding (RFC 7932 section 9.1).
                let large = BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW;
                decoder.set_parameter(large, 0);
                Self::Brotli(Box::new(decoder))
            }
            ContentCoding::Zstd => {
                let mut decoder = raw::Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
                Self::Zstd(zio::Writer::new(decoded, decoder))
            }
        })
    }

    fn decode(&mut self, bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
        let Self::Undecided { coding, begin, decoded } = self else {
            return self.decode_begun(bytes);
        };
        begin.extend_from_slice(bytes);
        let Some(is_begun) = coding.is_begun_by(begin) else {
            return (Vec::new(), Ok(()));
        };
        let bytes = std::mem::take(begin);
        let decoded = BoundedBuffer { bytes: Vec::new(), left: decoded.left };
        let begun = match bytes.first() {
            Some(&first) if is_begun => Self::begun(*coding, first, decoded),
            _ => Ok(Self::Identity(decoded)),
        };
        match begun {
            Ok(begun) => *self = begun,
            Err(error) => return (Vec::new(), Err(error)),
        }
        self.decode_begun(&bytes)
    }

    fn decode_begun(&mut self, bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
        let (written, decoded) = match self {
            Self::Undecided { .. } => return (Vec::new(), Ok(())),
            Self::Identity(decoded) => (decoded.write_all(bytes), decoded),
            Self::Gzip(decoder) => (write_flushed(decoder, bytes), decoder.get_mut()),
            Self::Deflate(decoder) => (decoder.inflate(bytes), &mut decoder.decoded),
            Self::Brotli(decoder) => (write_flushed(&mut **decoder, bytes), decoder.get_mut()),
            Self::Zstd(decoder) => (write_flushed(decoder, bytes), decoder.writer_mut()),
        };
        (std::mem::take(&mut decoded.bytes), written)
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Undecided { .. } => Err(io::ErrorKind::UnexpectedEof.into()),
            Self::Identity(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Deflate(decoder) => decoder.finish(),
            Self::Brotli(decoder) => decoder.close(),
            Self::Zstd(decoder) => decoder.finish(),
        }
    }
}

/// A deflate decoder. Those of flate2 do not report whether the stream reached its end.
struct DeflateDecoder {
    decompress: Decompress,
    decoded: BoundedBuffer,
    has_ended: bool,
}

impl DeflateDecoder {
    /// Creates a decoder for a stream that begins with `first`. `deflate` is zlib's format, but some servers omit
    /// zlib's header. The header begins with the method, 8, in the lower half of a byte and at most 7 in the upper
    /// half (RFC 1950 section 2.2).
    fn new(first: u8, decoded: BoundedBuffer) -> Self {
        Self { decompress: Decompress::new(first & 0x8f == 0x08), decoded, has_ended: false }
    }

    fn inflate(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let mut buffer = [0; DEFLATE_BUFFER_BYTES];
        while !self.has_ended {
            let read = self.decompress.total_in();
            let written = self.decompress.total_out();
            let status = self.decompress.decompress(bytes, &mut buffer, FlushDecompress::None)?;
            let read = usize::try_from(self.decompress.total_in() - read);
            let written = usize::try_from(self.decompress.total_out() - written);
            let read = read.unwrap_or(0);
            let written = written.unwrap_or(0);
            bytes = &bytes[read..];
            self.decoded.write_all(&buffer[..written])?;
            self.has_ended = status == Status::StreamEnd;
            // With space left in the buffer, deflate has produced all that it can.
            let may_produce_more = written == buffer.len() || !bytes.is_empty() && read > 0;
            if !may_produce_more {
                break;
            }
        }
        if bytes.is_empty() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "extra bytes follow the encoded content"))
    }

    fn finish(&self) -> io::Result<()> {
        if self.has_ended {
            return Ok(());
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn write_flushed(decoder: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    decoder.write_all(bytes)?;
    decoder.flush()
}
