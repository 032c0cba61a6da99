//! The scopes in which a document is counted, and the cost of its rows.

use wayleave_fairness::registrable_domain;

/// The scope of all origins.
pub(super) const ALL: &str = "";
/// The size above which redb stores a body in pages of its own, a power of two of them.
const INLINE_BYTES: usize = 1024;
const PAGE_BYTES: usize = 4096;
/// An upper bound of a version's length.
const VERSION_BYTES: usize = 80;

/// Returns the scopes of a document.
pub(super) fn scopes(key: &str) -> [&str; 2] {
    [ALL, domain(key)]
}

/// Returns the registered domain of a document's host, by the public suffix list; the whole host if it has none.
pub(super) fn domain(key: &str) -> &str {
    let authority = key.split_once("://").map_or(key, |(_, rest)| rest);
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority.split([':', '/', '#']).next().unwrap_or(authority),
    };
    registrable_domain(host)
}

/// Returns the cost of a row: B-tree pages are half to two thirds full.
fn row_cost(bytes: usize) -> u64 {
    2 * (bytes as u64 + 32)
}

/// Returns the cost of an entry with its two rows in the order.
pub(super) fn entry_cost(key: &str, sealed: usize) -> u64 {
    row_cost(key.len() + sealed) + 2 * row_cost(2 * key.len() + 32)
}

/// Returns the cost of a version with its two rows in the order and its two references.
pub(super) fn version_cost(key: &str) -> u64 {
    row_cost(key.len() + VERSION_BYTES)
        + 2 * row_cost(2 * key.len() + 32)
        + 2 * row_cost(key.len() + 64)
}

pub(super) fn body_cost(packed: usize) -> u64 {
    match packed {
        0..=INLINE_BYTES => row_cost(packed + 32),
        _ => (packed + 128).next_power_of_two().max(PAGE_BYTES) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subdomains_count_for_their_registered_domain() {
        for (key, expected) in [
            ("https://a.b.example.com", "example.com"),
            ("http://example.com:8080", "example.com"),
            ("https://a.example.co.uk", "example.co.uk"),
            ("https://someone.github.io", "someone.github.io"),
            ("https://localhost", "localhost"),
            ("https://192.0.2.7:8443", "192.0.2.7"),
            ("https://[2001:db8::1]:8443", "2001:db8::1"),
            ("https://com", "com"),
            ("https://a.example.com/.well-known/tdmrep.json", "example.com"),
            ("http://[2001:db8::1]/license.xml", "2001:db8::1"),
            ("https://a.example.com#as=news", "example.com"),
            ("https://a.example.com/license.xml#as=~0123456789abcdef", "example.com"),
        ] {
            assert_eq!(domain(key), expected, "{key}");
        }
    }
}
