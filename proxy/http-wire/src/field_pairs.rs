//! Fields as pairs of a name and a value, from either version of HTTP.

use std::collections::HashSet;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::http1::{Trailers, is_allowed_in_trailers, is_end_to_end};

/// A field's name and value.
pub type FieldPair<'a> = (&'a [u8], &'a [u8]);

/// Returns the values of all fields with this name, in order.
pub fn values<'a>(fields: &[FieldPair<'a>], name: &str) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |(field, _)| is_named(field, name)).map(|(_, value)| *value)
}

/// Returns the value of the first field with this name.
pub fn first<'a>(fields: &[FieldPair<'a>], name: &str) -> Option<&'a [u8]> {
    values(fields, name).next()
}

/// Returns the value of the field with this name; `None` if there are several, or none.
pub fn single<'a>(fields: &[FieldPair<'a>], name: &str) -> Option<&'a [u8]> {
    let mut values = values(fields, name);
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

/// Returns whether this is the field's name, in any case.
pub fn is_named(field: &[u8], name: &str) -> bool {
    field.eq_ignore_ascii_case(name.as_bytes())
}

/// Returns whether a field of this name describes the content of its message.
pub fn describes_content(field: &[u8]) -> bool {
    const DESCRIBING: &[&str] = &[
        "content-encoding",
        "content-language",
        "content-length",
        "content-range",
        "content-type",
    ];
    DESCRIBING.iter().any(|name| is_named(field, name))
}

/// Returns all values of `Via` as one list: the proxies that the message went through, in order.
pub fn combined_via(fields: &[FieldPair<'_>]) -> Option<Vec<u8>> {
    let all: Vec<_> = values(fields, "via").collect();
    (!all.is_empty()).then(|| all.join(&b", "[..]))
}

/// Returns whether `Via` names a proxy of this name.
pub fn passed_through(fields: &[FieldPair<'_>], name: &str) -> bool {
    values(fields, "via")
        .flat_map(|value| value.split(|&byte| byte == b','))
        // The protocol comes first, then the name or address (RFC 9110 section 7.6.3).
        .filter_map(|entry| str::from_utf8(entry).ok()?.split_whitespace().nth(1))
        .any(|received_by| received_by.eq_ignore_ascii_case(name))
}

/// Returns whether `Connection` lists this field. End-to-end fields do not count: requests that list one are
/// malformed, and in responses such an option is ignored.
pub fn is_listed_in_connection(fields: &[FieldPair<'_>], name: &[u8]) -> bool {
    !is_end_to_end(name)
        && values(fields, "connection")
            .flat_map(|value| value.split(|&byte| byte == b','))
            .any(|listed| listed.trim_ascii().eq_ignore_ascii_case(name))
}

/// Returns the names, in lower case, of the fields that `Connection` lists, as [`is_listed_in_connection`] finds one. RFC
/// 9110 section 7.6.1 lets a response list any number of options, and an intermediary must not miss one, so there is no
/// bound but the size of a head: each option is looked up once.
pub fn listed_in_connection(fields: &[FieldPair<'_>]) -> HashSet<Vec<u8>> {
    let mut rest: HashSet<_> = fields
        .iter()
        .filter(|(name, _)| !is_end_to_end(name))
        .map(|(name, _)| name.to_ascii_lowercase())
        .collect();
    let mut listed = HashSet::new();
    let options = values(fields, "connection").flat_map(|value| value.split(|&byte| byte == b','));
    let mut name = Vec::new();
    for option in options {
        name.clear();
        name.extend_from_slice(option.trim_ascii());
        name.make_ascii_lowercase();
        listed.extend(rest.take(&name));
    }
    listed
}

/// Returns the name and value of every field.
pub fn to_pairs(fields: &HeaderMap) -> Vec<(&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())).collect()
}

/// Returns the trailers of an HTTP/2 body without the fields that are not allowed there, as for HTTP/1.
pub fn to_trailers(fields: &HeaderMap) -> Trailers {
    fields
        .iter()
        .filter(|(name, _)| is_allowed_in_trailers(name.as_str()))
        .map(|(name, value)| {
            let name = Bytes::copy_from_slice(name.as_str().as_bytes());
            (name, Bytes::copy_from_slice(value.as_bytes()))
        })
        .collect()
}

/// Converts fields for HTTP/2, without those that are invalid there.
pub fn to_header_map(fields: &Trailers) -> HeaderMap {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_many_options_is_found() {
        let options = format!("{}X-Last", "a,close,".repeat(8_000));
        let names: Vec<_> = (0..90).map(|number| format!("x-{number}")).collect();
        let others = names.iter().map(|name| (name.as_bytes(), b"".as_slice()));
        let listing = [(b"Connection".as_slice(), options.as_bytes()), (b"x-last".as_slice(), b"")];
        let fields: Vec<FieldPair<'_>> = others.chain(listing).collect();
        assert_eq!(listed_in_connection(&fields), HashSet::from([b"x-last".to_vec()]));
    }
}
