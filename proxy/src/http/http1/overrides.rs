//! Fields by which servers serve another path, or go by another method, than the request line says.

/// What such a field has a server go by instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Override {
    Path,
    Method,
}

/// IIS serves these paths with URL Rewrite, or ISAPI_Rewrite before it; Symfony, Zend and Laminas do wherever they run.
const PATHS: [&[u8]; 2] = [b"x-original-url", b"x-rewrite-url"];
/// Rack, Symfony, Laravel, Express and its kin, ASP.NET and OData services go by these.
const METHODS: [&[u8]; 3] = [
    b"x-http-method-override",
    b"x-method-override",
    b"x-http-method",
];

/// What a field of this name has servers go by, if it is one of those. To CGI, and what follows it, `_` is `-` (RFC 3875
/// section 4.1.18).
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
    fn names_are_known_however_they_are_spelt() {
        assert_eq!(of(b"X-Original-URL"), Some(Override::Path));
        assert_eq!(of(b"x_rewrite-url"), Some(Override::Path));
        assert_eq!(of(b"X_HTTP_METHOD_OVERRIDE"), Some(Override::Method));
        assert_eq!(of(b"X-Http-Method"), Some(Override::Method));
        for other in ["X-Original-URI", "X-Original-URL-", "Original-URL", "X"] {
            assert_eq!(of(other.as_bytes()), None, "{other}");
        }
    }
}
