//! Request fields that make a server use another path or method than the request line states.

/// The part of the request line that a field overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Override {
    Path,
    Method,
}

/// Honoured by IIS with URL Rewrite or ISAPI_Rewrite, and by Symfony, Zend and Laminas everywhere.
const PATHS: [&[u8]; 2] = [b"x-original-url", b"x-rewrite-url"];
/// Honoured by Rack, Symfony, Laravel, Express and similar frameworks, ASP.NET and OData services.
const METHODS: [&[u8]; 3] = [
    b"x-http-method-override",
    b"x-method-override",
    b"x-http-method",
];

/// Returns what a field of this name overrides, if anything. CGI and its successors read `_` as `-` (RFC 3875 section
/// 4.1.18).
pub(crate) fn of(name: &[u8]) -> Option<Override> {
    let is_named = |known: &&[u8]| {
        let mut both = name.iter().zip(*known);
        let is_same = |(found, known): (&u8, &u8)| {
            found.eq_ignore_ascii_case(known) || (*found == b'_' && *known == b'-')
        };
        name.len() == known.len() && both.all(is_same)
    };
    if PATHS.iter().any(is_named) {
        Some(Override::Path)
    } else if METHODS.iter().any(is_named) {
        Some(Override::Method)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn override_names_match_in_every_spelling() {
        assert_eq!(of(b"X-Original-URL"), Some(Override::Path));
        assert_eq!(of(b"x_rewrite-url"), Some(Override::Path));
        assert_eq!(of(b"X_HTTP_METHOD_OVERRIDE"), Some(Override::Method));
        assert_eq!(of(b"X-Http-Method"), Some(Override::Method));
        for other in ["X-Original-URI", "X-Original-URL-", "Original-URL", "X"] {
            assert_eq!(of(other.as_bytes()), None, "{other}");
        }
    }
}
