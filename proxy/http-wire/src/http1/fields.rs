//! The fields of a head, as received.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::request_override;

/// Fields in their order, with names spelt as received.
#[derive(Clone, Debug, Default)]
pub struct HeaderFields {
    bytes: Bytes,
    ranges: Vec<(Range<usize>, Range<usize>)>,
}

impl HeaderFields {
    /// Refers to the fields that httparse found in `bytes`, without copying them.
    pub(super) fn new(bytes: Bytes, found: &[httparse::Header<'_>]) -> Self {
        let range = |part: &[u8]| range_within(&bytes, part);
        let ranges =
            found.iter().map(|field| (range(field.name.as_bytes()), range(field.value))).collect();
        Self { bytes, ranges }
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the name and value of each field.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.ranges.iter().map(|(name, value)| (self.part(name), self.part(value)))
    }

    /// Returns the values of all fields with this name, in any case.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + Clone {
        // By length first: a request's fields are searched for two dozen names.
        self.ranges
            .iter()
            .filter(move |(found, _)| {
                found.len() == name.len() && self.part(found).eq_ignore_ascii_case(name.as_bytes())
            })
            .map(|(_, value)| self.part(value))
    }

    fn part(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.clone()]
    }
}

/// Returns the range of `part`, a subslice of `whole`.
pub(super) fn range_within(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// Returns whether a field is always end-to-end, so that `Connection` cannot list it (RFC 9110 section 7.6.1): every
/// recipient needs it, or the decision is based on it.
pub fn is_end_to_end(name: &[u8]) -> bool {
    const EVERY: &[&str] = &[
        "host",
        "content-length",
        "transfer-encoding",
        "user-agent",
        "via",
        "cookie",
        "authorization",
        "expect",
        "max-forwards",
        "sec-websocket-key",
        "sec-websocket-version",
    ];
    EVERY.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Returns whether some servers read this name as an end-to-end field that was not checked as one: CGI and its
/// successors map `-` to `_` (RFC 3875 section 4.1.18), so `User_Agent` is `User-Agent` to them.
pub fn is_underscore_alias(name: &[u8]) -> bool {
    if !name.contains(&b'_') {
        return false;
    }
    let dashed: Vec<u8> = name.iter().map(|&byte| if byte == b'_' { b'-' } else { byte }).collect();
    is_end_to_end(&dashed)
}

/// Returns whether a field may follow a body: its definition allows it, or only the two endpoints know it. Any other
/// field would arrive too late, since the head has decided everything that it could change (RFC 9110 section 6.5.1).
pub fn is_allowed_in_trailers(name: &str) -> bool {
    const ALLOWED: &[&str] = &["content-digest", "repr-digest", "digest", "etag", "server-timing"];
    // No intermediary acts on names like these.
    const PREFIXES: &[&str] = &["x-", "grpc-"];
    let has_prefix = |prefix: &&str| {
        name.get(..prefix.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(prefix))
    };
    // It would change a request that was already judged.
    let is_override = request_override::from_field_name(name.as_bytes()).is_some();
    let is_allowed = ALLOWED.iter().any(|allowed| name.eq_ignore_ascii_case(allowed))
        || PREFIXES.iter().any(has_prefix);
    is_allowed && !is_override
}

/// Appends fields as they appear in a head.
pub fn write_fields<'a>(
    head: &mut BytesMut,
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) {
    for (name, value) in fields {
        head.extend_from_slice(name);
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
}
