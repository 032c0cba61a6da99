//! Links to licences: the `Link` field (RFC 8288), and references made absolute.

use super::rsl::MEDIA_TYPE;
use crate::spelling;

/// The targets of the links in a field's value that name an RSL licence.
pub(super) fn licences(field: &str) -> Vec<String> {
    split_unquoted(field, ',')
        .into_iter()
        .filter_map(|link| {
            let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
            let parameters = split_unquoted(parameters, ';');
            let value = |name: &str| {
                let pairs = parameters.iter().filter_map(|it| it.split_once('='));
                let mut values = pairs.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name));
                values
                    .next()
                    .map(|(_, value)| value.trim().trim_matches('"'))
            };
            is_licence(value("rel")?, value("type")?).then(|| target.trim().to_owned())
        })
        .collect()
}

/// Whether a relation and a media type are those of an RSL licence; pages link to licences of other kinds too.
pub(super) fn is_licence(relations: &str, media_type: &str) -> bool {
    let mut relations = relations.split_ascii_whitespace();
    relations.any(|it| it.eq_ignore_ascii_case("license")) && is_licence_type(media_type)
}

/// Whether a media type, parameters aside, is that of an RSL licence.
pub(super) fn is_licence_type(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(MEDIA_TYPE)
}

/// A reference as an absolute URL (RFC 3986 §5.2), without a fragment: what is fetched is all of it.
pub(super) fn absolute(reference: &str, base: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default().trim();
    if has_scheme(reference) {
        return reference.to_owned();
    }
    let Some((scheme, rest)) = base.split_once("://") else {
        return reference.to_owned();
    };
    if let Some(network_path) = reference.strip_prefix("//") {
        return format!("{scheme}://{network_path}");
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = path.split('?').next().unwrap_or_default();
    let directory = match reference.starts_with('/') {
        true => "",
        false => path.rfind('/').map_or("/", |end| &path[..=end]),
    };
    let path = format!("{directory}{reference}");
    let path = spelling::without_dot_segments(&path).unwrap_or(path);
    format!("{scheme}://{authority}{path}")
}

/// Whether a reference begins with a scheme (RFC 3986 section 3.1).
fn has_scheme(reference: &str) -> bool {
    let scheme = reference.split_once(':').map(|(scheme, _)| scheme);
    let is_name = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    scheme.is_some_and(|it| {
        it.starts_with(|c: char| c.is_ascii_alphabetic()) && it.chars().all(is_name)
    })
}

/// The parts of a text between separators that stand neither in quotes nor in angle brackets.
pub(super) fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let (mut quoted, mut bracketed, mut escaped) = (false, false, false);
    let is_separator = move |c: char| {
        if escaped {
            escaped = false;
            return false;
        }
        match c {
            '\\' if quoted => escaped = true,
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
    fn references_are_read_from_where_they_stand() {
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
            assert_eq!(absolute(reference, base), url);
        }
        assert_eq!(absolute("y", "https://h"), "https://h/y");
    }
}
