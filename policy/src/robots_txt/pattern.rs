//! Patterns: what a rule matches, and how specific it is.

use std::iter;

use memchr::memrchr;

use super::budget::{Budget, find};
use super::groups::semantics::Semantics;
use crate::{Dialect, percent_encoding};

/// A rule's value, taken apart for one dialect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern<'a> {
    /// The literal parts, between stars, one after the other.
    pub(super) literals: &'a [u8],
    /// Where each part but the last ends.
    pub(super) stars: &'a [u32],
    /// Whether the last part must be at the end of the path.
    pub(super) anchored: bool,
}

impl<'a> Pattern<'a> {
    /// Whether it matches a path in the dialect's form.
    pub(super) fn matches(self, path: &[u8], budget: &mut Budget) -> bool {
        matches(self.parts(), self.anchored, path, budget)
    }

    /// The literal parts in order; at least one.
    pub(super) fn parts(self) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let end = |index: usize| {
            self.stars
                .get(index)
                .map_or(self.literals.len(), |&end| end as usize)
        };
        (0..=self.stars.len()).map(move |index| {
            let start = index.checked_sub(1).map_or(0, end);
            &self.literals[start..end(index)]
        })
    }

    /// What a path must start with.
    pub(super) fn prefix(self) -> &'a [u8] {
        let end = self.stars.first().map(|&end| end as usize);
        &self.literals[..end.unwrap_or(self.literals.len())]
    }

    /// Whether the pattern matches just what starts with its only part.
    pub(super) fn is_prefix(self) -> bool {
        self.stars.is_empty() && !self.anchored
    }
}

/// Patterns that were taken apart, their parts one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    literals: Vec<u8>,
    /// Where each part but the last of a pattern ends, counted from its start.
    stars: Vec<u32>,
}

/// Where a pattern is among others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) literals: (u32, u32),
    stars: (u32, u32),
    anchored: bool,
}

impl Patterns {
    /// Takes a value apart behind all that were.
    pub(super) fn push(&mut self, value: Value<'_>, semantics: &Semantics) -> Place {
        let (literals, stars) = (self.literals.len(), self.stars.len());
        let (form, Value { text, anchored }) = (semantics.form, value);
        if semantics.has_stars() {
            let star = |at| self.stars.push(small(at));
            form.push_pattern(&mut self.literals, text, !anchored, star);
        } else {
            form.push(&mut self.literals, text);
        }
        Place {
            literals: (small(literals), small(self.literals.len())),
            stars: (small(stars), small(self.stars.len())),
            anchored,
        }
    }

    pub(super) fn at(&self, place: Place) -> Pattern<'_> {
        let (first, last) = place.stars;
        Pattern {
            literals: self.literals(place.literals),
            stars: &self.stars[first as usize..last as usize],
            anchored: place.anchored,
        }
    }

    pub(super) fn literals(&self, (start, end): (u32, u32)) -> &[u8] {
        &self.literals[start as usize..end as usize]
    }

    /// Forgets all that were taken apart.
    pub(super) fn clear(&mut self) {
        self.literals.clear();
        self.stars.clear();
    }

    /// Takes one value apart, and forgets what was before.
    pub(super) fn take_apart(&mut self, value: Value<'_>, semantics: &Semantics) -> Pattern<'_> {
        self.clear();
        let place = self.push(value, semantics);
        self.at(place)
    }

    /// The same with its cut escapes as they are, for paths with theirs as they were received.
    pub(super) fn take_apart_with_cut_escapes(
        &mut self,
        value: Value<'_>,
        semantics: &Semantics,
    ) -> Pattern<'_> {
        self.clear();
        let mut parts = value.text.split(|&byte| byte == b'*').peekable();
        while let Some(part) = parts.next() {
            let (is_last, in_query) = (parts.peek().is_none(), !self.stars.is_empty());
            let is_open = !(is_last && value.anchored);
            let literals = &mut self.literals;
            semantics
                .form
                .push_part_with_cut_escapes(literals, part, in_query, is_open);
            if !is_last {
                self.stars.push(small(self.literals.len()));
            }
        }
        Pattern {
            literals: &self.literals,
            stars: &self.stars,
            anchored: value.anchored,
        }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.literals.shrink_to_fit();
        self.stars.shrink_to_fit();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.literals.len() + size_of_val(&*self.stars)
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("far less than the limit of a file")
}

/// A value without the `$` at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'a> {
    pub(super) text: &'a [u8],
    pub(super) anchored: bool,
}

impl<'a> Value<'a> {
    /// `$` at the end of a value means the end of the path, to all dialects that know `*`.
    pub(super) fn read(value: &'a [u8], semantics: &Semantics) -> Self {
        match value {
            [text @ .., b'$'] if semantics.has_stars() => Self {
                text,
                anchored: true,
            },
            text => Self {
                text,
                anchored: false,
            },
        }
    }

    /// How specific the pattern is: its bytes in the form in which a dialect weighs rules.
    pub(super) fn specificity(self, dialect: Dialect) -> usize {
        let form = match dialect {
            Dialect::Google => &percent_encoding::GOOGLE,
            _ => &percent_encoding::NORMALISED,
        };
        form.length(self.text, !self.anchored) + usize::from(self.anchored)
    }

    /// For Google's parser an allow rule for `…/index.htm…` means `…/` too: that pattern.
    fn directory(value: &'a [u8]) -> Option<Self> {
        directory(value).map(|text| Self {
            text,
            anchored: true,
        })
    }

    /// All that the value of a rule means to a dialect: two patterns, or one. The second is the less specific.
    pub(super) fn all(
        value: &'a [u8],
        allow: bool,
        semantics: &Semantics,
    ) -> impl Iterator<Item = Self> {
        let names_directory = allow && semantics.dialect == Dialect::Google;
        let directory = names_directory.then(|| Self::directory(value)).flatten();
        iter::once(Self::read(value, semantics)).chain(directory)
    }
}

/// Whether parts, with anything between them, match a path: the first at its start, the last at its end if anchored, and
/// each of the others at its first place behind the one before. That is always good enough, since more of the path is left
/// for what follows.
pub(super) fn matches<'a>(
    mut parts: impl DoubleEndedIterator<Item = &'a [u8]>,
    anchored: bool,
    path: &[u8],
    budget: &mut Budget,
) -> bool {
    budget.spend_on_comparing(0);
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    if anchored {
        match parts.next_back() {
            None => return rest.is_empty(),
            Some(last) => match rest.strip_suffix(last) {
                Some(before) => rest = before,
                None => return false,
            },
        }
    }
    parts.all(|part| match find(rest, part, budget) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// The directory that Google's parser takes an allow rule to mean too, if its value is `.../index.htm...`.
pub(super) fn directory(value: &[u8]) -> Option<&[u8]> {
    let slash = memrchr(b'/', value)?;
    let names_index = value[slash..].starts_with(b"/index.htm");
    names_index.then(|| &value[..=slash])
}
