//! The fields of a head, as received.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::overrides;

/// Fields in their order, names as spelt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    bytes: Bytes,
    places: Vec<(Range<usize>, Range<usize>)>,
}

impl Fields {
    /// The fields that httparse found in `bytes`.
    pub(super) fn new(bytes: Bytes, found: &[httparse::Header<'_>]) -> Self {
        let place = |part: &[u8]| place(&bytes, part);
        let places = found
            .iter()
            .map(|field| (place(field.name.as_bytes()), place(field.value)))
            .collect();
        Self { bytes, places }
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Name and value of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let part = |range: &Range<usize>| &self.bytes[range.clone()];
        self.places
            .iter()
            .map(move |(name, value)| (part(name), part(value)))
    }

    /// The values of all fields of this name, in any case.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + Clone {
        let named = move |(found, value): (&'a [u8], &'a [u8])| {
            found.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
        };
        self.iter().filter_map(named)
    }
}

/// Where `part`, which lies in `whole`, lies in it.
pub(super) fn place(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// Whether a field is never for one hop only, so that `Connection` cannot list it (RFC 9110 section 7.6.1): every recipient needs
/// it, or what is decided here rests on it.
pub(crate) fn is_for_every_hop(name: &[u8]) -> bool {
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
    let is = |every: &&str| name.eq_ignore_ascii_case(every.as_bytes());
    EVERY.iter().any(is)
}

/// Whether some servers take a field for one that every recipient needs and that we did not see in it: CGI and what follows it
/// write `-` as `_` (RFC 3875 section 4.1.18), so that `User_Agent` is `User-Agent` to them.
pub(crate) fn is_taken_for_another(name: &[u8]) -> bool {
    if !name.contains(&b'_') {
        return false;
    }
    let mut dashed = name.to_vec();
    for byte in &mut dashed {
        if *byte == b'_' {
            *byte = b'-';
        }
    }
    is_for_every_hop(&dashed)
}

/// Whether a field may come behind a body: its definition says so, or nothing but its two ends knows it. Everything else would
/// come too late: whatever it could change was decided by the head (RFC 9110 section 6.5.1).
pub(crate) fn may_be_a_trailer(name: &str) -> bool {
    const MAY: &[&str] = &[
        "content-digest",
        "repr-digest",
        "digest",
        "etag",
        "server-timing",
    ];
    const ENDS_ALONE: &[&str] = &["x-", "grpc-"];
    let starts = |start: &&str| {
        let beginning = name.get(..start.len());
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(start))
    };
    let is_override = overrides::of(name.as_bytes()).is_some();
    let may = MAY.iter().any(|may| name.eq_ignore_ascii_case(may)) || ENDS_ALONE.iter().any(starts);
    may && !is_override
}

/// Appends fields as they stand in a head.
pub(crate) fn write_fields<'a>(
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
