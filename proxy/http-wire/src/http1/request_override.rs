//! Request fields that make a server use another path or method than the request line states.

/// The part of the request line that a field overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOverride {
    Path,
    Method,
}

/// Honoured by IIS with URL Rewrite or ISAPI_Rewrite, and by Symfony, Zend and Laminas everywhere.
const PATH_OVERRIDES: [&[u8]; 2] = [b"x-original-url", b"x-rewrite-url"];
/// Honoured by Rack, Symfony, Laravel, Express and similar frameworks, ASP.NET and OData services.
const METHOD_OVERRIDES: [&[u8]; 3] =
    [b"x-http-method-override", b"x-method-override", b"x-http-method"];

/// Returns what a field of this name overrides, if anything. CGI and its successors read `_` as `-` (RFC 3875 section
/// 4.1.18).
pub fn from_field_name(name: &[u8]) -> Option<RequestOverride> {
    let is_named = |known: &&[u8]| {
        let is_same = |(found, known): (&u8, &u8)| {
            found.eq_ignore_ascii_case(known) || (*found == b'_' && *known == b'-')
        };
        name.len() == known.len() && name.iter().zip(*known).all(is_same)
    };
    if PATH_OVERRIDES.iter().any(is_named) {
        Some(RequestOverride::Path)
    } else if METHOD_OVERRIDES.iter().any(is_named) {
        Some(RequestOverride::Method)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn override_names_match_in_every_spelling() {
        assert_eq!(from_field_name(b"X-Original-URL"), Some(RequestOverride::Path));
        assert_eq!(from_field_name(b"x_rewrite-url"), Some(RequestOverride::Path));
        assert_eq!(from_field_name(b"X_HTTP_METHOD_OVERRIDE"), Some(RequestOverride::Method));
        assert_eq!(from_field_name(b"X-Http-Method"), Some(RequestOverride::Method));
        for other in ["X-Original-URI", "X-Original-URL-", "Original-URL", "X"] {
            assert_eq!(from_field_name(other.as_bytes()), None, "{other}");
        }
    }
}
