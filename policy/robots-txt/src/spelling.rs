//! The equivalent spellings of a path.
//!
//! RFC 3986 §6.2.2 names two rewritings that leave a URI equivalent: normalised percent-encoding and removed dot
//! segments. Servers go further: many treat `//a`, `/%2Fa`, `/\a` or `/;x/a` as `/a`. Dialects compare the path that
//! they are given; a proxy, which cannot know the server, has to judge every spelling.

use std::collections::HashSet;
use std::iter;

use crate::percent_encoding;
use crate::percent_encoding::plain::all_plain;

/// A function that rewrites a path; `None` if that changes nothing.
type SpellingRewrite = fn(&str) -> Option<String>;

/// The rewritings that servers apply to a path before they look up its resource, in their order. No server applies all
/// of them; `docs/spellings.md` lists which do what. Empty segments are removed twice, because servers that count them
/// when they remove dot segments leave new ones, which the file system ignores.
const REWRITINGS: [SpellingRewrite; 7] = [
    normalised,
    with_plain_slashes,
    without_backslashes,
    without_parameters,
    without_empty_segments,
    without_dot_segments,
    without_empty_segments,
];

/// The most bytes that all other spellings of a path may take: 256 spellings, the most that a path can have, of 256
/// bytes. Each is written and judged, and the client chooses how many there are.
const MAX_BYTES: usize = 64 * 1024;

/// The error for a path with more, or longer, spellings than are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManySpellings;

/// Returns every other spelling of a path that a server may treat as the same: each subset of [`REWRITINGS`], applied
/// in order. Most paths have none.
#[inline]
pub(crate) fn other_spellings(path: &str) -> Result<Vec<String>, TooManySpellings> {
    if may_have_other_spellings(path.as_bytes()) { all_rewritings(path) } else { Ok(Vec::new()) }
}

#[cold]
fn all_rewritings(path: &str) -> Result<Vec<String>, TooManySpellings> {
    let mut others: Vec<String> = Vec::new();
    // Comparing each spelling with all others would take quadratic time.
    let mut known = HashSet::from([path.to_owned()]);
    let mut bytes = 0;
    // Servers that look for a file drop a trailing slash that only a rewriting produced; a trailing slash that was sent
    // has a meaning.
    let has_slash = split_query(path).0.ends_with('/');
    let last = (!has_slash).then_some(without_last_slash as SpellingRewrite);
    for rewrite in REWRITINGS.into_iter().chain(last) {
        // Applied to the path and to every spelling so far, which yields each subset of the rewritings once.
        let spellings = iter::once(path).chain(others.iter().map(String::as_str));
        let new: Vec<_> = spellings.filter_map(rewrite).collect();
        for spelling in new {
            if known.insert(spelling.clone()) {
                bytes += spelling.len();
                if bytes > MAX_BYTES {
                    return Err(TooManySpellings);
                }
                others.push(spelling);
            }
        }
    }
    Ok(others)
}

/// Returns whether a path contains anything that is rewritten. Every decision of the proxy calls this.
#[inline]
pub(crate) fn may_have_other_spellings(path: &[u8]) -> bool {
    // Without branches, so that the compiler vectorises the loop over all pairs of bytes.
    let is_rewritten = |(&first, &next): (&u8, &u8)| {
        u8::from((first == b'/') & ((next == b'/') | (next == b'.'))) | u8::from(next == b';')
    };
    let pairs = path.iter().zip(path.get(1..).unwrap_or_default());
    // Escapes and backslashes are not plain.
    pairs.fold(0, |found, pair| found | is_rewritten(pair)) != 0 || !all_plain(path)
}

/// Rewrites a path in the normalised percent-encoding of RFC 9309.
pub(crate) fn normalised(path: &str) -> Option<String> {
    if all_plain(path.as_bytes()) {
        return None;
    }
    let mut form = Vec::new();
    percent_encoding::NORMALISED.push(&mut form, path.as_bytes());
    let form = String::from_utf8(form).expect("the normal form is ASCII");
    (form != path).then_some(form)
}

/// Rewrites `%2F` to `/`.
fn with_plain_slashes(path: &str) -> Option<String> {
    with_slash_for(path, &["%2F", "%2f"])
}

/// Rewrites `\` and `%5C` to `/`, as Windows does.
fn without_backslashes(path: &str) -> Option<String> {
    with_slash_for(path, &["\\", "%5C", "%5c"])
}

fn with_slash_for(path: &str, separators: &[&str]) -> Option<String> {
    let (segments, query) = split_query(path);
    // Most paths contain neither and need no copy.
    if !segments.contains(['\\', '%']) {
        return None;
    }
    let replace = |form: String, separator: &&str| form.replace(separator, "/");
    let form = separators.iter().fold(segments.to_owned(), replace);
    (form != segments).then(|| form + query)
}

/// Cuts segments at `;`, as servers written in Java do (RFC 3986 §3.3).
fn without_parameters(path: &str) -> Option<String> {
    let (segments, query) = split_query(path);
    if !segments.contains(';') {
        return None;
    }
    let kept: Vec<_> =
        segments.split('/').map(|segment| segment.split(';').next().unwrap_or_default()).collect();
    Some(kept.join("/") + query)
}

/// Merges consecutive slashes.
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

/// Removes dot segments (RFC 3986 §5.2.4), whose dots may be percent-encoded.
#[must_use]
pub fn without_dot_segments(path: &str) -> Option<String> {
    let (segments, query) = split_query(path);
    if !segments.split('/').any(|segment| dot_count(segment) > 0) {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut last = "";
    // The text before the first slash is empty.
    for segment in segments.split('/').skip(1) {
        match dot_count(segment) {
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
    // A dot segment at the end stands for a directory, so a slash remains.
    if dot_count(last) > 0 || kept.is_empty() {
        form.push('/');
    }
    Some(form + query)
}

/// Removes a trailing slash, except that of the root.
fn without_last_slash(path: &str) -> Option<String> {
    let (segments, query) = split_query(path);
    let form = segments.strip_suffix('/').filter(|form| !form.is_empty())?;
    Some(form.to_owned() + query)
}

/// Returns 1 for a segment that means the current directory, 2 for the parent, and 0 for all others.
fn dot_count(segment: &str) -> usize {
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

/// Splits off the query with its `?`, which no server rewrites.
fn split_query(path: &str) -> (&str, &str) {
    path.split_at(path.find('?').unwrap_or(path.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dot_segments_are_removed_as_in_rfc_3986() {
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
            (with_plain_slashes as SpellingRewrite, "/a%2fb%2F", "/a/b/"),
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
            assert_eq!(other_spellings(path).unwrap(), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_final_slash_left_by_rewriting_is_dropped_except_the_root() {
        assert_eq!(other_spellings("/.").unwrap(), ["/"]);
        assert_eq!(other_spellings("/a/.?b/").unwrap(), ["/a/?b/", "/a?b/"]);
        assert_eq!(other_spellings("/a/./").unwrap(), ["/a/"]);
    }

    #[test]
    fn every_subset_of_rewritings_is_a_spelling() {
        let found = other_spellings("/x;y//..%2f%61").unwrap();
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
            let is_found = found.iter().any(|spelling| spelling == expected);
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
        fn skipped_paths_have_no_other_spelling(path in "/([a-c;%.?/ 25fF\u{e9}]|\\\\){0,12}") {
            prop_assert!(may_have_other_spellings(path.as_bytes()) || all_rewritings(&path).unwrap().is_empty());
        }
    }
}
