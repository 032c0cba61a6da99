//! The words for repairs: the ways in which responses are malformed that a proxy may repair.

/// A way in which a response was malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// Whitespace between a field's name and its colon (RFC 9112 section 5.1).
    SpaceBeforeColon,
    /// A field that continues in the next line (RFC 9112 section 5.2).
    FoldedField,
    /// One length, stated more than once (RFC 9112 section 6.3).
    RepeatedContentLength,
    /// A status code of 600 to 999 (RFC 9110 section 15).
    StatusOutOfRange,
    /// A line of the head that ends in LF alone (RFC 9112 section 2.2).
    BareLf,
    /// Whitespace after a chunk's size (RFC 9112 section 7.1.1).
    PaddedChunkSize,
    /// `Transfer-Encoding: chunked` in HTTP/1.0 (RFC 9112 section 6.1).
    ChunkedInHttp10,
    /// `Content-Length` beside `Transfer-Encoding: chunked` (RFC 9112 section 6.3).
    LengthBesideChunked,
    /// `chunked` named more than once (RFC 9112 section 6.1).
    RepeatedChunked,
    /// A line of a head that is no field (RFC 9112 section 5).
    SkippedLine,
    /// A control character in a field's value (RFC 9110 section 5.5).
    ControlCharacter,
    /// Whitespace around a field's value in HTTP/2 (RFC 9113 section 8.2.1).
    PaddedValue,
    /// An interim response that announces content (RFC 9110 section 8.6, RFC 9112 section 6.1).
    FramedInterim,
    /// A body ended by a TLS connection that closed without a close_notify alert (RFC 9112 section 9.8).
    IncompleteClose,
}

impl Oddity {
    pub const ALL: [Self; 14] = [
        Self::SpaceBeforeColon,
        Self::FoldedField,
        Self::RepeatedContentLength,
        Self::StatusOutOfRange,
        Self::BareLf,
        Self::PaddedChunkSize,
        Self::ChunkedInHttp10,
        Self::LengthBesideChunked,
        Self::RepeatedChunked,
        Self::SkippedLine,
        Self::ControlCharacter,
        Self::PaddedValue,
        Self::FramedInterim,
        Self::IncompleteClose,
    ];

    /// Returns the metric's label, which is also the word in the decision log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SpaceBeforeColon => "space-before-colon",
            Self::FoldedField => "folded-field",
            Self::RepeatedContentLength => "repeated-content-length",
            Self::StatusOutOfRange => "status-out-of-range",
            Self::BareLf => "bare-lf",
            Self::PaddedChunkSize => "padded-chunk-size",
            Self::ChunkedInHttp10 => "chunked-in-http-1.0",
            Self::LengthBesideChunked => "length-beside-chunked",
            Self::RepeatedChunked => "repeated-chunked",
            Self::SkippedLine => "skipped-line",
            Self::ControlCharacter => "control-character",
            Self::PaddedValue => "padded-value",
            Self::FramedInterim => "framed-interim",
            Self::IncompleteClose => "incomplete-close",
        }
    }
}
