//! The requested range of a file (RFC 9110 section 14).

/// The single byte range that `Range` requests. Several ranges, or other units, are ignored, and the whole file is
/// sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteRange {
    /// From the first offset to the second, both included, or to the end.
    From(u64, Option<u64>),
    /// The last bytes of the file.
    Last(u64),
}

/// The offset of the first byte to send, and the number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteSpan {
    pub(super) first: u64,
    pub(super) length: u64,
}

impl ByteRange {
    pub fn parse(value: &[u8]) -> Option<Self> {
        let value = str::from_utf8(value).ok()?.trim();
        let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
        let number = |digits: &str| -> Option<u64> {
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_number)
        };
        match (first, last) {
            ("", last) => number(last).map(Self::Last),
            (first, "") => Some(Self::From(number(first)?, None)),
            (first, last) => {
                let first = number(first)?;
                let last = number(last)?;
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// Returns the bytes that the range selects of a file of `size` bytes; `None` if it selects none.
    pub(super) fn resolve(self, size: u64) -> Option<ByteSpan> {
        let (first, end) = match self {
            Self::From(first, last) => {
                let end = last.map_or(size, |last| size.min(last.saturating_add(1)));
                (first, end)
            }
            Self::Last(count) => (size.saturating_sub(count), size),
        };
        (first < end).then(|| ByteSpan { first, length: end - first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_ranges_are_parsed() {
        let of = |value: &str, size| ByteRange::parse(value.as_bytes())?.resolve(size);
        let part = |first, length| Some(ByteSpan { first, length });
        assert_eq!(of("bytes=2-", 10), part(2, 8));
        assert_eq!(of("bytes=2-3", 10), part(2, 2));
        assert_eq!(of("bytes=2-99", 10), part(2, 8));
        assert_eq!(of("bytes=-3", 10), part(7, 3));
        assert_eq!(of("bytes=-30", 10), part(0, 10));
        assert_eq!(of("bytes=10-", 10), None);
        for other in ["bytes=3-2", "bytes=-", "bytes=1-2,4-5", "lines=1-2", "bytes=+1-2"] {
            assert_eq!(ByteRange::parse(other.as_bytes()), None, "{other}");
        }
    }
}
