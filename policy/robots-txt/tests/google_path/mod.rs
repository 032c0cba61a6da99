//! The path that Google's parser finds in a URL, and in any other text: its tests and verdicts ask about odd ones too.

use std::borrow::Cow;

use wayleave_robots_txt::UrlPath;

pub(crate) fn google_path(url: &str) -> UrlPath<'_> {
    let rest = url.strip_prefix("//").unwrap_or(url);
    let starts_path = |c: char| "/?;".contains(c);
    let after_scheme = match (rest.find("://"), rest.find(starts_path)) {
        (Some(scheme), Some(path)) if scheme < path => &rest[scheme + 3..],
        _ => rest,
    };
    let before_fragment = after_scheme.split('#').next().unwrap();
    UrlPath::from_checked(
        match before_fragment.find(starts_path).map(|at| &before_fragment[at..]) {
            Some(path) if path.starts_with('/') => Cow::Borrowed(path),
            path => Cow::Owned(format!("/{}", path.unwrap_or_default())),
        },
    )
}
