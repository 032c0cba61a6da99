//! Undoes one content coding (RFC 9110 section 8.4.1) part by part, up to a limit.

use std::io::{self, Write};

use brotli_decompressor::{BrotliDecoderParameter, DecompressorWriter};
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use zstd::stream::raw;
use zstd::stream::write::Decoder as ZstdDecoder;
use zstd::zstd_safe::DParameter;

/// The longest window, 8 MiB, that a zstd body of HTTP may have (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;
const BROTLI_BUFFER_BYTES: usize = 16 * 1024;

/// Where decoded bytes go: it takes no more than so many.
pub(crate) struct Decoded {
    bytes: Vec<u8>,
    left: usize,
}

impl Write for Decoded {
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

/// One coding; what it holds is bounded by its window.
pub(crate) enum Decoder {
    Gzip(MultiGzDecoder<Decoded>),
    /// Which of the two `deflate` is shows in its first byte.
    Deflate(Option<Decoded>),
    Zlib(ZlibDecoder<Decoded>),
    RawDeflate(DeflateDecoder<Decoded>),
    Brotli(Box<DecompressorWriter<Decoded>>),
    Zstd(ZstdDecoder<'static, Decoded>),
}

impl Decoder {
    /// Of the coding with this name, in lower case, that gives at most `limit` bytes; nothing if it is not known.
    pub(crate) fn named(name: &str, limit: usize) -> Option<Self> {
        let decoded = Decoded {
            bytes: Vec::new(),
            left: limit,
        };
        Some(match name {
            "gzip" | "x-gzip" => Self::Gzip(MultiGzDecoder::new(decoded)),
            "deflate" => Self::Deflate(Some(decoded)),
            "br" => {
                let mut decoder = DecompressorWriter::new(decoded, BROTLI_BUFFER_BYTES);
                // Windows of up to 1 GiB are not part of the coding (RFC 7932 section 9.1).
                let large = BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW;
                decoder.set_parameter(large, 0);
                Self::Brotli(Box::new(decoder))
            }
            "zstd" => {
                let mut decoder = raw::Decoder::new().ok()?;
                let window = DParameter::WindowLogMax(ZSTD_WINDOW_LOG);
                decoder.set_parameter(window).ok()?;
                Self::Zstd(ZstdDecoder::with_decoder(decoded, decoder))
            }
            _ => return None,
        })
    }

    /// What `bytes` decode to; an error behind it means that no more will.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> (Vec<u8>, io::Result<()>) {
        if let (Self::Deflate(decoded), Some(&first)) = (&mut *self, bytes.first())
            && let Some(decoded) = decoded.take()
        {
            *self = deflate(first, decoded);
        }
        let (written, decoded) = match self {
            Self::Gzip(decoder) => (write(decoder, bytes), decoder.get_mut()),
            Self::Zlib(decoder) => (write(decoder, bytes), decoder.get_mut()),
            Self::RawDeflate(decoder) => (write(decoder, bytes), decoder.get_mut()),
            Self::Brotli(decoder) => (write(&mut **decoder, bytes), decoder.get_mut()),
            Self::Zstd(decoder) => (write(decoder, bytes), decoder.get_mut()),
            Self::Deflate(_) => return (Vec::new(), Ok(())),
        };
        (std::mem::take(&mut decoded.bytes), written)
    }

    /// Says that no more comes.
    ///
    /// # Errors
    ///
    /// If gzip or brotli ended too early. Nobody asks it of the others: what came of a page counts, whole or not.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Brotli(decoder) => decoder.close(),
            Self::Deflate(_) | Self::Zlib(_) | Self::RawDeflate(_) | Self::Zstd(_) => Ok(()),
        }
    }
}

/// `deflate` is zlib's format, but some servers send it without zlib's head. That begins with 8, the method, in the lower half of
/// a byte and at most 7 in the upper one (RFC 1950 section 2.2).
fn deflate(first: u8, decoded: Decoded) -> Decoder {
    match first & 0x8f == 0x08 {
        true => Decoder::Zlib(ZlibDecoder::new(decoded)),
        false => Decoder::RawDeflate(DeflateDecoder::new(decoded)),
    }
}

fn write(decoder: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    decoder.write_all(bytes)?;
    decoder.flush()
}
