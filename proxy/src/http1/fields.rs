//! The fields of a head, as they came.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

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
