//! Patterns: what a rule matches, and how specific it is.

use memchr::memrchr;

use super::budget::{Budget, find};
use super::groups::semantics::Semantics;
use crate::{Dialect, forms};

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

    /// The length of what a path must start with.
    pub(super) fn prefix_length(self) -> usize {
        let end = self.stars.first().map(|&end| end as usize);
        end.unwrap_or(self.literals.len())
    }

    /// Whether the pattern matches just what starts with its only part.
    pub(super) fn is_prefix(self) -> bool {
        self.stars.is_empty() && !self.anchored
    }
}

/// Where patterns are taken apart; one after the other without asking for memory each time.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    pub(super) literals: Vec<u8>,
    pub(super) stars: Vec<u32>,
}

impl Patterns {
    /// Takes a value apart behind all that were.
    pub(super) fn push(&mut self, Value { text, anchored }: Value<'_>, semantics: Semantics) {
        if semantics.has_stars() {
            let literals = &mut self.literals;
            semantics
                .form()
                .push_pattern(literals, text, !anchored, |star| {
                    let star = u32::try_from(star).expect("shorter than a file");
                    self.stars.push(star);
                });
        } else {
            semantics.form().push(&mut self.literals, text);
        }
    }

    /// Takes one value apart, and forgets what was before.
    pub(super) fn take_apart(&mut self, value: Value<'_>, semantics: Semantics) -> Pattern<'_> {
        self.literals.clear();
        self.stars.clear();
        self.push(value, semantics);
        Pattern {
            literals: &self.literals,
            stars: &self.stars,
            anchored: value.anchored,
        }
    }
}

/// A value without the `$` at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'a> {
    pub(super) text: &'a [u8],
    pub(super) anchored: bool,
}

impl<'a> Value<'a> {
    /// `$` at the end of a value means the end of the path, to all dialects that know `*`.
    pub(super) fn read(value: &'a [u8], semantics: Semantics) -> Self {
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

    /// How specific the pattern is: its bytes in the form in which a dialect weighs rules. Nothing where order decides.
    pub(super) fn specificity(self, semantics: Semantics) -> usize {
        let form = match semantics.dialect {
            _ if semantics.takes_first => return 0,
            Dialect::Google => &forms::GOOGLE,
            _ => &forms::NORMALISED,
        };
        form.length(self.text, !self.anchored) + usize::from(self.anchored)
    }

    /// For Google's parser an allow rule for `…/index.htm…` means `…/` too: that pattern.
    pub(super) fn directory(value: &'a [u8]) -> Option<Self> {
        directory(value).map(|text| Self {
            text,
            anchored: true,
        })
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

/// With this from its last slash on, an allow rule means a directory, too.
pub(super) const DIRECTORY: &[u8] = b"/index.htm";

/// The directory that Google's parser takes an allow rule to mean too, if its value is `.../index.htm...`.
pub(super) fn directory(value: &[u8]) -> Option<&[u8]> {
    let slash = memrchr(b'/', value)?;
    value[slash..]
        .starts_with(DIRECTORY)
        .then(|| &value[..=slash])
}
