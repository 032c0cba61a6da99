//! The spellings one path can have.
//!
//! RFC 3986 §6.2.2 names two rewritings that leave a URI the same: percent-encoding in one form, and dot segments removed.
//! Servers go further: to many of them `//a`, `/%2Fa`, `/\a` or `/;x/a` is `/a`. Dialects compare the path that they are
//! given; the proxy, which cannot know the server, judges every spelling.

use std::iter;

use crate::percent_encoding;
use crate::percent_encoding::plain::all_plain;

/// Turns a path into another spelling of it; `None` if it is spelt so already.
type Rewriting = fn(&str) -> Option<String>;

/// What servers do to a path before they look for what it names, in their order. None of them does all of it: which do
/// what is in `docs/spellings.md`. Where empty segments count when dot segments are removed, the file system takes what is left
/// of them for nothing.
const REWRITINGS: [Rewriting; 7] = [
    normalised,
    with_plain_slashes,
    without_backslashes,
    without_parameters,
    without_empty_segments,
    without_dot_segments,
    without_empty_segments,
];

/// The spellings of a path take at most so many bytes, as 64 of 8 KiB do, each as it was received and in normal encoding:
/// beyond it they are not judged.
const MOST_BYTES: usize = 2 * 64 * 8 * 1024;

/// A path has more, or longer, spellings than are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManySpellings;

/// Every other spelling of a path that a server may take for the same: each choice of [`REWRITINGS`], made in order.
/// Most paths have none.
#[inline]
pub(crate) fn others(path: &str) -> Result<Vec<String>, TooManySpellings> {
    if may_have_others(path.as_bytes()) {
        rewritten(path)
    } else {
        Ok(Vec::new())
    }
}

#[cold]
fn rewritten(path: &str) -> Result<Vec<String>, TooManySpellings> {
    let mut others: Vec<String> = Vec::new();
    let mut bytes = 0;
    // Servers that look for a file take off a slash that only a rewriting put at the end; one that was sent tells them something.
    let has_slash = split_query(path).0.ends_with('/');
    let last = (!has_slash).then_some(without_last_slash as Rewriting);
    for rewrite in REWRITINGS.into_iter().chain(last) {
        let spellings = iter::once(path).chain(others.iter().map(String::as_str));
        let new: Vec<_> = spellings.filter_map(rewrite).collect();
        for spelling in new {
            if spelling != path && !others.contains(&spelling) {
                bytes += spelling.len();
                if bytes > MOST_BYTES {
                    return Err(TooManySpellings);
                }
                others.push(spelling);
            }
        }
    }
    Ok(others)
}

/// Whether a path holds anything that is rewritten: every decision of the proxy asks.
#[inline]
fn may_have_others(path: &[u8]) -> bool {
    let is_begun = |(&slash, &next): (&u8, &u8)| {
        u8::from((slash == b'/') & ((next == b'/') | (next == b'.'))) | u8::from(next == b';')
    };
    let pairs = path.iter().zip(path.get(1..).unwrap_or_default());
    pairs.fold(0, |found, pair| found | is_begun(pair)) != 0 || !all_plain(path)
}

/// In the one percent-encoding of RFC 9309.
pub(crate) fn normalised(path: &str) -> Option<String> {
    if all_plain(path.as_bytes()) {
        return None;
    }
    let mut form = Vec::new();
    percent_encoding::NORMALISED.push(&mut form, path.as_bytes());
    let form = String::from_utf8(form).expect("the normal form is ASCII");
    (form != path).then_some(form)
}

/// With `/` for `%2F`.
fn with_plain_slashes(path: &str) -> Option<String> {
    separated_at(path, &["%2F", "%2f"])
}

/// With `/` for `\` and `%5C`, as Windows has it.
fn without_backslashes(path: &str) -> Option<String> {
    separated_at(path, &["\\", "%5C", "%5c"])
}

fn separated_at(path: &str, separators: &[&str]) -> Option<String> {
    let (segments, query) = split_query(path);
    if !segments.contains(['\\', '%']) {
        return None;
    }
    let replace = |form: String, separator: &&str| form.replace(separator, "/");
    let form = separators.iter().fold(segments.to_owned(), replace);
    (form != segments).then(|| form + query)
}

/// With segments cut at `;`, as servers written in Java do (RFC 3986 §3.3).
fn without_parameters(path: &str) -> Option<String> {
    let (segments, query) = split_query(path);
    if !segments.contains(';') {
        return None;
    }
    let segments = segments.split('/');
    let kept = segments.map(|segment| segment.split(';').next().unwrap_or_default());
    Some(kept.collect::<Vec<_>>().join("/") + query)
}

/// With one `/` for several.
fn without_empty_segments(path: &str) -> Option<String> {
    let (segments, query) = split_query(path);
    if !segments.contains("//") {
        return None;
    }
    let mut form = String::with_capacity(path.len());
    for c in segments.chars() {
        if c != '/' || !form.ends_with('/') {
            form.push(c);
        }
    }
    Some(form + query)
}

/// Without dot segments (RFC 3986 §5.2.4), whose dots may be percent-encoded.
pub(crate) fn without_dot_segments(path: &str) -> Option<String> {
    let (segments, query) = split_query(path);
    if !segments.split('/').any(|segment| dots(segment) > 0) {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut last = "";
    for segment in segments.split('/').skip(1) {
        match dots(segment) {
            0 => kept.push(segment),
            1 => {}
            _ => {
                kept.pop();
            }
        }
        last = segment;
    }
    let mut form = String::with_capacity(path.len());
    for segment in &kept {
        form.push('/');
        form.push_str(segment);
    }
    if dots(last) > 0 || kept.is_empty() {
        form.push('/');
    }
    Some(form + query)
}

/// Without the slash at the end, but for the root's.
fn without_last_slash(path: &str) -> Option<String> {
    let (segments, query) = split_query(path);
    let form = segments.strip_suffix('/').filter(|it| !it.is_empty())?;
    Some(form.to_owned() + query)
}

/// 1 for a segment that means the one it is in, 2 for the one above, 0 for others.
fn dots(segment: &str) -> usize {
    let mut rest = segment;
    for count in 0..=2 {
        if rest.is_empty() {
            return count;
        }
        let mut dots = [".", "%2e", "%2E"].iter();
        let Some(after) = dots.find_map(|dot| rest.strip_prefix(dot)) else {
            return 0;
        };
        rest = after;
    }
    0
}

/// The path, and the query with its `?`, which no server rewrites.
fn split_query(path: &str) -> (&str, &str) {
    path.split_at(path.find('?').unwrap_or(path.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dot_segments_go_as_in_rfc_3986() {
        for (path, expected) in [
            ("/a/b/c/./../../g", "/a/g"),
            ("/a/..", "/"),
            ("/..", "/"),
            ("/.", "/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/../../a", "/a"),
            ("//a//../b", "//a/b"),
            ("/a/../?x=/../y", "/?x=/../y"),
            ("/a/b?c/../d", "/a/b?c/../d"),
            ("/...", "/..."),
            ("/.a/..b/c..", "/.a/..b/c.."),
            ("/a/%2e%2E/b/.%2e/c/%2e", "/c/"),
            ("/a/%2e%2e%2e", "/a/%2e%2e%2e"),
        ] {
            let without = without_dot_segments(path);
            assert_eq!(without.as_deref().unwrap_or(path), expected, "{path}");
        }
    }

    #[test]
    fn each_rewriting_leaves_the_query_alone() {
        let query = "?u=http://a//b/../c;d%2f\\";
        for (rewrite, path, expected) in [
            (with_plain_slashes as Rewriting, "/a%2fb%2F", "/a/b/"),
            (without_backslashes, "/a%5c%5C\\c", "/a///c"),
            (without_parameters, "/;x/a;y=1/b;", "//a/b"),
            (without_empty_segments, "//a///b//", "/a/b/"),
            (without_dot_segments, "/a/../b/.", "/b/"),
        ] {
            let whole = rewrite(&format!("{path}{query}"));
            assert_eq!(whole, Some(format!("{expected}{query}")), "{path}");
            assert_eq!(rewrite(&format!("{expected}{query}")), None, "{expected}");
        }
    }

    #[test]
    fn an_ordinary_path_has_one_spelling() {
        for path in [
            "/",
            "/a/b.html",
            "/a-b_c~d/e,f/(g)/h!i",
            "/%E3%83%84/a%20b",
            "/.well-known/x",
            "/a?b=c&d=%2F",
            "/a?u=http://b/../c;d",
            "/@a/b:c=d+e$*",
        ] {
            assert_eq!(others(path).unwrap(), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_slash_that_nobody_sent_may_go_but_not_the_root() {
        assert_eq!(others("/.").unwrap(), ["/"]);
        assert_eq!(others("/a/.?b/").unwrap(), ["/a/?b/", "/a?b/"]);
        assert_eq!(others("/a/./").unwrap(), ["/a/"]);
    }

    #[test]
    fn every_choice_of_rewritings_is_a_spelling() {
        let found = others("/x;y//..%2f%61").unwrap();
        for expected in [
            "/x;y//..%2Fa",
            "/x;y//../%61",
            "/x//..%2f%61",
            "/x;y/..%2f%61",
            "/x//..%2Fa",
            "/x;y/%61",
            "/x;y/a",
            "/x/%61",
            "/%61",
            "/a",
        ] {
            let is_found = found.iter().any(|it| it == expected);
            assert!(is_found, "{expected} in {found:?}");
        }
        assert!(found.len() < 1 << REWRITINGS.len(), "{}", found.len());
    }

    proptest! {
        #[test]
        fn removing_dot_segments_twice_changes_nothing(path in "(/[.a]{0,3}){1,6}[?]?[./]{0,3}") {
            let once = without_dot_segments(&path).unwrap_or(path);
            prop_assert_eq!(without_dot_segments(&once).unwrap_or(once.clone()), once);
        }

        #[test]
        fn what_is_passed_over_has_no_other_spelling(path in "/([a-c;%.?/ 25fF\u{e9}]|\\\\){0,12}") {
            prop_assert!(may_have_others(path.as_bytes()) || rewritten(&path).unwrap().is_empty());
        }
    }
}
