//! A path in the form in which a dialect compares it.

use std::borrow::Cow;
use std::cell::OnceCell;

use memchr::memchr;

use super::byte_pairs::BytePairs;
use super::groups::semantics::Semantics;
use super::head::head;
use crate::Dialect;
use crate::percent_encoding::{self, Form, plain};

/// Paths of so many bytes hold nearly all pairs there are.
const LONG: usize = 512;

#[derive(Debug)]
pub(crate) struct PathForm<'a> {
    bytes: Cow<'a, [u8]>,
    /// The first eight bytes, zeros where there are fewer.
    head: u64,
    /// The path as received.
    received: &'a [u8],
    has_lone_percent: bool,
    held: OnceCell<BytePairs>,
}

impl<'a> PathForm<'a> {
    #[inline]
    pub(crate) fn new(path: &'a str, semantics: &Semantics) -> Self {
        let received = path.as_bytes();
        let (bytes, has_lone_percent) = match semantics.dialect {
            // Google's parser leaves paths as they are.
            Dialect::Google if semantics.is_own_form() => (Cow::Borrowed(received), false),
            // "The path portion of the URL", says the draft of 1996 (§3.2.2): no query.
            Dialect::Koster1996 => {
                decoded(&received[..memchr(b'?', received).unwrap_or(received.len())])
            }
            Dialect::Selfhtml => decoded(received),
            _ if plain::all_plain(received) => (Cow::Borrowed(received), false),
            _ => written(received, semantics.form),
        };
        Self {
            head: head(&bytes),
            bytes,
            received,
            has_lone_percent,
            held: OnceCell::new(),
        }
    }

    /// The same with its cut escapes as they were received: a rule that ends in one means them, and the escapes that begin
    /// so.
    #[cold]
    pub(super) fn with_cut_escapes(&self, form: &Form) -> Self {
        let mut bytes = Vec::new();
        form.push_with_cut_escapes(&mut bytes, self.received);
        Self {
            head: head(&bytes),
            bytes: Cow::Owned(bytes),
            received: self.received,
            has_lone_percent: true,
            held: OnceCell::new(),
        }
    }

    /// Whether a `%` in it escapes nothing.
    pub(super) fn has_lone_percent(&self) -> bool {
        self.has_lone_percent
    }

    /// Whether two paths in one dialect's form are the same. One with a `%` that escapes nothing is like itself alone: rules that end
    /// in a cut escape tell it from its other spellings.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_cut = self.has_lone_percent || other.has_lone_percent;
        self.bytes == other.bytes && (!is_cut || self.received == other.received)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Which bytes and pairs it holds, found out when first asked.
    pub(super) fn held(&self) -> BytePairs {
        *self.held.get_or_init(|| match self.bytes.len() {
            ..LONG => BytePairs::of(&self.bytes),
            _ => BytePairs::ALL,
        })
    }
}

fn written<'a>(path: &[u8], form: &Form) -> (Cow<'a, [u8]>, bool) {
    let mut bytes = Vec::new();
    let has_lone_percent = form.push(&mut bytes, path);
    (Cow::Owned(bytes), has_lone_percent)
}

fn decoded(path: &[u8]) -> (Cow<'_, [u8]>, bool) {
    match memchr(b'%', path) {
        None => (Cow::Borrowed(path), false),
        Some(_) => (written(path, &percent_encoding::DECODED).0, false),
    }
}
