//! Paths in the form in which a dialect compares them.

use std::borrow::Cow;
use std::cell::OnceCell;

use memchr::memchr;

use super::byte_pairs::BytePairs;
use super::escaped_wildcards::EscapedWildcards;
use super::groups::semantics::DialectSemantics;
use super::head::head;
use crate::Dialect;
use crate::percent_encoding::{self, EncodingForm, plain};

/// From this length on, nearly every bit of [`BytePairs`] is set, so it excludes no rule.
const LONG_PATH_BYTES: usize = 512;

/// A path in a dialect's form.
#[derive(Debug)]
pub(crate) struct PathForm<'a> {
    bytes: Cow<'a, [u8]>,
    /// The first eight bytes, padded with zeros.
    head: u64,
    /// The path as received.
    received: &'a [u8],
    has_lone_percent: bool,
    has_escaped_wildcards: bool,
    byte_pairs: OnceCell<BytePairs>,
}

impl<'a> PathForm<'a> {
    #[inline]
    pub(crate) fn new(path: &'a str, semantics: &DialectSemantics) -> Self {
        let received = path.as_bytes();
        let (bytes, has_lone_percent) = match semantics.dialect {
            // Google's parser leaves paths as they are.
            Dialect::Google if semantics.is_own_form() => (Cow::Borrowed(received), false),
            // "The path portion of the URL", says the draft of 1996 (§3.2.2): no query.
            Dialect::Koster1996 => {
                decoded(&received[..memchr(b'?', received).unwrap_or(received.len())])
            }
            Dialect::Selfhtml => decoded(received),
            // The same in every form, so no copy is needed.
            _ if plain::all_plain(received) => (Cow::Borrowed(received), false),
            _ => encoded(received, semantics.form),
        };
        // Only an encoded path is not borrowed, and only then it may contain an escape.
        let has_escaped_wildcards = matches!(bytes, Cow::Owned(_))
            && semantics.form.for_escaped_wildcards(received).is_some();
        Self {
            head: head(&bytes),
            bytes,
            received,
            has_lone_percent,
            has_escaped_wildcards,
            byte_pairs: OnceCell::new(),
        }
    }

    /// Returns the path with its escaped `*` and `$` as they are, if it has any that compare as raw ones.
    #[inline]
    pub(super) fn escaped_wildcards(&self, form: &EncodingForm) -> Option<EscapedWildcards> {
        if self.has_escaped_wildcards { self.with_escaped_wildcards(form) } else { None }
    }

    #[cold]
    fn with_escaped_wildcards(&self, form: &EncodingForm) -> Option<EscapedWildcards> {
        let form = form.for_escaped_wildcards(self.received)?;
        let with_cut_escapes = || {
            let mut bytes = Vec::new();
            form.push_with_cut_escapes(&mut bytes, self.received);
            bytes
        };
        Some(EscapedWildcards {
            path: encoded(self.received, form).0.into_owned(),
            with_cut_escapes: self.has_lone_percent.then(with_cut_escapes),
        })
    }

    /// Returns the path with its cut escapes (`%A`) as received. A rule that ends in `%A` matches these, and the escapes
    /// that begin with `%A`.
    #[cold]
    pub(super) fn with_cut_escapes(&self, form: &EncodingForm) -> Self {
        let mut bytes = Vec::new();
        form.push_with_cut_escapes(&mut bytes, self.received);
        Self {
            head: head(&bytes),
            bytes: Cow::Owned(bytes),
            received: self.received,
            has_lone_percent: true,
            has_escaped_wildcards: self.has_escaped_wildcards,
            byte_pairs: OnceCell::new(),
        }
    }

    /// Returns whether it contains a `%` that does not begin an escape.
    pub(super) fn has_lone_percent(&self) -> bool {
        self.has_lone_percent
    }

    /// Returns whether two paths in one form are the same. A path with a `%` that does not begin an escape, or with an
    /// escaped wildcard, equals only itself: rules with a part of an escape distinguish it from its other spellings.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let is_unique = |path: &Self| path.has_lone_percent || path.has_escaped_wildcards;
        self.bytes == other.bytes
            && (self.received == other.received || !is_unique(self) && !is_unique(other))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Returns the byte pairs in the path, computed on first use.
    pub(super) fn byte_pairs(&self) -> BytePairs {
        *self.byte_pairs.get_or_init(|| match self.bytes.len() {
            ..LONG_PATH_BYTES => BytePairs::of(&self.bytes),
            _ => BytePairs::ALL,
        })
    }
}

fn encoded<'a>(path: &[u8], form: &EncodingForm) -> (Cow<'a, [u8]>, bool) {
    let mut bytes = Vec::new();
    let has_lone_percent = form.push(&mut bytes, path);
    (Cow::Owned(bytes), has_lone_percent)
}

fn decoded(path: &[u8]) -> (Cow<'_, [u8]>, bool) {
    match memchr(b'%', path) {
        None => (Cow::Borrowed(path), false),
        Some(_) => (encoded(path, &percent_encoding::DECODED).0, false),
    }
}
