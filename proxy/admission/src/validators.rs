//! Conditional requests that the proxy answers itself (RFC 9110 section 13).

use std::time::SystemTime;

use wayleave_http_wire::field_pairs::{FieldPair, single, values};

/// Returns whether a GET or HEAD with these fields is answered with 304: the client has the representation that has these
/// validators, as the origin stated them.
pub(crate) fn is_not_modified(
    fields: &[FieldPair<'_>],
    etag: Option<&str>,
    last_modified: Option<&str>,
) -> bool {
    let mut tags = values(fields, "if-none-match").peekable();
    if tags.peek().is_some() {
        // If-Modified-Since does not count then, whatever it says (section 13.2.2).
        return tags.any(|list| lists(list, etag));
    }
    // Without exactly one valid date on both sides there is no condition (section 13.1.3).
    let since = single(fields, "if-modified-since").and_then(date);
    let modified = last_modified.and_then(|value| date(value.as_bytes()));
    modified.zip(since).is_some_and(|(modified, since)| modified <= since)
}

/// Returns whether a list of entity tags has `etag` by the weak comparison (section 8.8.3.2), or is `*`.
fn lists(list: &[u8], etag: Option<&str>) -> bool {
    if list.trim_ascii() == b"*" {
        return true;
    }
    let Some(etag) = etag else {
        return false;
    };
    // A comma may be part of a tag.
    let mut is_quoted = false;
    let mut tags = list.split(|byte| {
        is_quoted ^= *byte == b'"';
        *byte == b',' && !is_quoted
    });
    tags.any(|tag| without_weakness(tag.trim_ascii()) == without_weakness(etag.as_bytes()))
}

fn without_weakness(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

fn date(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(str::from_utf8(value).ok()?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "Sat, 21 Nov 2026 07:59:59 GMT";
    const MODIFIED: &str = "Sat, 21 Nov 2026 08:00:00 GMT";
    const AFTER: &str = "Sat, 21 Nov 2026 08:00:01 GMT";

    fn found(fields: &[(&str, &str)], etag: Option<&str>, last_modified: Option<&str>) -> bool {
        let fields: Vec<FieldPair<'_>> =
            fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        is_not_modified(&fields, etag, last_modified)
    }

    #[test]
    fn tags_are_compared_weakly_in_lists() {
        for (list, etag, expected) in [
            (r#""a""#, Some(r#""a""#), true),
            (r#"W/"a""#, Some(r#""a""#), true),
            (r#""a""#, Some(r#"W/"a""#), true),
            (r#"W/"a""#, Some(r#"W/"a""#), true),
            (r#""b", W/"a" ,"c""#, Some(r#""a""#), true),
            (r#""a,b""#, Some(r#""a,b""#), true),
            (r#""x", "a,b""#, Some(r#""a,b""#), true),
            (r#""a,b""#, Some(r#""a""#), false),
            (r#""a,b", "c""#, Some(r#"b""#), false),
            (r#""b", "c""#, Some(r#""a""#), false),
            (r#""A""#, Some(r#""a""#), false),
            (r#"w/"a""#, Some(r#""a""#), false),
            (r#""""#, Some(r#""""#), true),
            ("a", Some(r#""a""#), false),
            ("*", Some(r#""a""#), true),
            (" * ", None, true),
            (r#""*""#, Some(r#""a""#), false),
            (r#""a""#, None, false),
            ("", Some(r#""a""#), false),
            // Origins that leave out the quotes get their own tag back.
            ("a", Some("a"), true),
        ] {
            let fields = [("If-None-Match", list)];
            assert_eq!(found(&fields, etag, None), expected, "{list} {etag:?}");
        }
        let lines = [("if-none-match", r#""b""#), ("IF-NONE-MATCH", r#""a""#)];
        assert!(found(&lines, Some(r#""a""#), None));
    }

    #[test]
    fn dates_are_compared_by_their_order() {
        for (since, last_modified, expected) in [
            (BEFORE, Some(MODIFIED), false),
            (MODIFIED, Some(MODIFIED), true),
            (AFTER, Some(MODIFIED), true),
            ("Saturday, 21-Nov-26 08:00:01 GMT", Some(MODIFIED), true),
            ("Sat Nov 21 08:00:01 2026", Some(MODIFIED), true),
            ("tomorrow", Some(MODIFIED), false),
            ("", Some(MODIFIED), false),
            (AFTER, Some("tomorrow"), false),
            (AFTER, None, false),
        ] {
            let fields = [("If-Modified-Since", since)];
            assert_eq!(found(&fields, None, last_modified), expected, "{since} {last_modified:?}");
        }
        let twice = [("If-Modified-Since", AFTER), ("If-Modified-Since", AFTER)];
        assert!(!found(&twice, None, Some(MODIFIED)));
    }

    #[test]
    fn a_tag_takes_precedence_over_a_date() {
        let etag = Some(r#""a""#);
        let modified = Some(MODIFIED);
        for (tag, since, expected) in
            [(r#""b""#, AFTER, false), (r#""a""#, BEFORE, true), ("", AFTER, false)]
        {
            let fields = [("If-Modified-Since", since), ("If-None-Match", tag)];
            assert_eq!(found(&fields, etag, modified), expected, "{tag} {since}");
        }
        assert!(!found(&[], etag, modified));
        // Only for changes, and for parts, neither of which is answered here.
        assert!(!found(&[("If-Match", r#""b""#), ("If-Unmodified-Since", BEFORE)], etag, modified));
    }
}
