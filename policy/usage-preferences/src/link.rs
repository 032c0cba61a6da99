//! Links to licences in the `Link` field (RFC 8288), and the resolution of references.

use wayleave_robots_txt::internal::without_dot_segments;

use super::rsl::MEDIA_TYPE;

/// Returns the targets of the links to RSL licences in a field value.
pub(super) fn licences(field: &str) -> Vec<String> {
    split_unquoted(field, ',')
        .into_iter()
        .filter_map(|link| {
            let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
            let parameters = split_unquoted(parameters, ';');
            let value = |name: &str| {
                let mut pairs = parameters.iter().filter_map(|parameter| parameter.split_once('='));
                let (_, value) = pairs.find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
                Some(value.trim().trim_matches('"'))
            };
            is_licence(value("rel")?, value("type")?).then(|| target.trim().to_owned())
        })
        .collect()
}

/// Returns whether a relation and a media type are those of an RSL licence; pages also link to licences of other kinds.
pub(super) fn is_licence(relations: &str, media_type: &str) -> bool {
    relations.split_ascii_whitespace().any(|relation| relation.eq_ignore_ascii_case("license"))
        && is_licence_type(media_type)
}

/// Returns whether a media type, without its parameters, is that of an RSL licence.
pub(super) fn is_licence_type(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(MEDIA_TYPE)
}

/// Resolves a reference to an absolute URL (RFC 3986 §5.2), without its fragment.
pub(super) fn resolve_reference(reference: &str, base: &str) -> String {
    let target = reference.split('#').next().unwrap_or_default().trim();
    if has_scheme(target) {
        return target.to_owned();
    }
    // Without a base the reference remains relative, so fetching it fails, which refuses.
    let Some((scheme, rest)) = base.split_once("://") else {
        return target.to_owned();
    };
    // RFC 3986 §4.2: only the scheme is taken from the base.
    if let Some(network_path) = target.strip_prefix("//") {
        return format!("{scheme}://{network_path}");
    }
    let (authority, path_and_query) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let base_path = path_and_query.split('?').next().unwrap_or_default();
    let directory = if target.starts_with('/') {
        ""
    } else {
        // RFC 3986 §5.2.3: a base without a path counts as `/`.
        base_path.rfind('/').map_or("/", |end| &base_path[..=end])
    };
    let merged = format!("{directory}{target}");
    let path = without_dot_segments(&merged).unwrap_or(merged);
    format!("{scheme}://{authority}{path}")
}

/// Returns whether a reference begins with a scheme (RFC 3986 section 3.1).
fn has_scheme(reference: &str) -> bool {
    reference.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

/// Splits a text at separators outside quotes and angle brackets.
pub(super) fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let mut quoted = false;
    let mut bracketed = false;
    let mut escaped = false;
    let is_separator = move |c: char| {
        if escaped {
            escaped = false;
            return false;
        }
        match c {
            // RFC 9110 §5.6.4: a backslash escapes in quoted strings only.
            '\\' if quoted => escaped = true,
            // A URI reference in angle brackets may contain separators, and is not quoted (RFC 8288 §3).
            '"' if !bracketed => quoted = !quoted,
            '<' if !quoted => bracketed = true,
            '>' if !quoted => bracketed = false,
            _ => return c == separator && !quoted && !bracketed,
        }
        false
    };
    text.split(is_separator).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_of_the_type_of_rsl_name_a_licence() {
        let field = r#"</a,b.xml>; rel="license"; type="application/rsl+xml", <x>; rel=license, <https://h/l>; type=application/RSL+xml; rel="next license""#;
        assert_eq!(licences(field), ["/a,b.xml", "https://h/l"]);
        assert!(licences(r#"<a>; title="<b>; rel=license; type=application/rsl+xml""#).is_empty());
        assert!(licences("").is_empty());
    }

    #[test]
    fn references_are_resolved_against_their_base() {
        let base = "https://h:1/a/b?c/d";
        for (reference, url) in [
            ("https://x/y", "https://x/y"),
            ("//x/y#z", "https://x/y"),
            ("/y", "https://h:1/y"),
            ("y", "https://h:1/a/y"),
            ("../y/./z", "https://h:1/y/z"),
            ("/../y?../z", "https://h:1/y?../z"),
            ("y?z=http://x", "https://h:1/a/y?z=http://x"),
        ] {
            assert_eq!(resolve_reference(reference, base), url);
        }
        assert_eq!(resolve_reference("y", "https://h"), "https://h/y");
    }
}
