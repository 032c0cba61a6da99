//! Fields as names and values, whichever HTTP version brought them.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::http1::{Trailers, is_for_every_hop, may_be_a_trailer};

/// A field's name and value.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8]);

/// The values of all fields of this name, in order.
pub(crate) fn values<'a>(fields: &[Pair<'a>], name: &str) -> impl Iterator<Item = &'a [u8]> {
    let named = fields.iter().filter(move |(field, _)| is(field, name));
    named.map(|(_, value)| *value)
}

/// The value of the first field of this name.
pub(crate) fn first<'a>(fields: &[Pair<'a>], name: &str) -> Option<&'a [u8]> {
    values(fields, name).next()
}

/// The value of the one field of this name; `None` if there are more.
pub(crate) fn only<'a>(fields: &[Pair<'a>], name: &str) -> Option<&'a [u8]> {
    let mut values = values(fields, name);
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

/// Whether this is the field's name.
pub(crate) fn is(field: &[u8], name: &str) -> bool {
    field.eq_ignore_ascii_case(name.as_bytes())
}

/// The proxies that a message says it went through, in order; `None`: none.
pub(crate) fn proxies(fields: &[Pair<'_>]) -> Option<Vec<u8>> {
    let all: Vec<_> = values(fields, "via").collect();
    (!all.is_empty()).then(|| all.join(&b", "[..]))
}

/// Whether a message went through a proxy of this name before.
pub(crate) fn passed_by(fields: &[Pair<'_>], name: &str) -> bool {
    values(fields, "via")
        .flat_map(|value| value.split(|&byte| byte == b','))
        .filter_map(|entry| str::from_utf8(entry).ok()?.split_whitespace().nth(1))
        .any(|received_by| received_by.eq_ignore_ascii_case(name))
}

/// Whether `Connection` lists a field that it may list: requests that list another are malformed, in responses it counts for nothing.
pub(crate) fn listed_in_connection(fields: &[Pair<'_>], name: &[u8]) -> bool {
    !is_for_every_hop(name)
        && values(fields, "connection")
            .flat_map(|value| value.split(|&byte| byte == b','))
            .any(|listed| listed.trim_ascii().eq_ignore_ascii_case(name))
}

/// Name and value of every field.
pub(crate) fn pairs(fields: &HeaderMap) -> Vec<(&[u8], &[u8])> {
    fields
        .iter()
        .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
        .collect()
}

/// The fields behind an HTTP/2 body, but for those that have no place there, as HTTP/1 bodies are read.
pub(crate) fn trailers_of(fields: &HeaderMap) -> Trailers {
    let kept = fields
        .iter()
        .filter(|(name, _)| may_be_a_trailer(name.as_str()));
    let owned = |(name, value): (&HeaderName, &HeaderValue)| {
        let name = Bytes::copy_from_slice(name.as_str().as_bytes());
        (name, Bytes::copy_from_slice(value.as_bytes()))
    };
    kept.map(owned).collect()
}

/// The fields as HTTP/2 wants them; invalid ones are left out.
pub(crate) fn header_map(fields: &Trailers) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            map.append(name, value);
        }
    }
    map
}
