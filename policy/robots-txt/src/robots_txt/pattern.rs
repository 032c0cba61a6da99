//! Patterns: the paths that a rule matches, and its specificity.
//!
//! `*` and a final `$` are read here: [`RuleValue::read`] takes off the `$`, [`PatternBuffer::push`] splits the rest at
//! each `*`, and [`parts_match`] looks for the parts in a path.

use std::iter;

use memchr::memrchr;

use super::budget::{MatchBudget, find_part};
use super::groups::semantics::DialectSemantics;
use crate::{Dialect, percent_encoding};

/// A rule's value, compiled for one dialect.
#[derive(Clone, Copy, Debug)]
pub(super) struct RulePattern<'a> {
    /// The literal parts between stars, concatenated.
    pub(super) literals: &'a [u8],
    /// The end of each part but the last.
    pub(super) stars: &'a [u32],
    /// Whether the last part must be at the end of the path.
    pub(super) anchored: bool,
}

impl<'a> RulePattern<'a> {
    /// Returns whether it matches a path in the dialect's form.
    pub(super) fn matches(self, path: &[u8], budget: &mut MatchBudget) -> bool {
        parts_match(self.parts(), self.anchored, path, budget)
    }

    /// Returns the literal parts in order; at least one.
    pub(super) fn parts(self) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let end =
            |index: usize| self.stars.get(index).map_or(self.literals.len(), |&end| end as usize);
        (0..=self.stars.len()).map(move |index| {
            let start = index.checked_sub(1).map_or(0, end);
            &self.literals[start..end(index)]
        })
    }

    /// Returns the text that a path must start with.
    pub(super) fn prefix(self) -> &'a [u8] {
        let end = self.stars.first().map_or(self.literals.len(), |&end| end as usize);
        &self.literals[..end]
    }

    /// Returns whether the pattern is a plain prefix, without stars or anchor.
    pub(super) fn is_prefix(self) -> bool {
        self.stars.is_empty() && !self.anchored
    }
}

/// A buffer of compiled patterns.
#[derive(Clone, Debug, Default)]
pub(super) struct PatternBuffer {
    literals: Vec<u8>,
    /// The end of each part but the last of a pattern, counted from the pattern's start.
    stars: Vec<u32>,
}

/// The position of a pattern in a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct PatternRange {
    pub(super) literals: (u32, u32),
    stars: (u32, u32),
    anchored: bool,
}

impl PatternBuffer {
    /// Compiles a value and appends it.
    pub(super) fn push(
        &mut self,
        value: RuleValue<'_>,
        semantics: &DialectSemantics,
    ) -> PatternRange {
        let literals = self.literals.len();
        let stars = self.stars.len();
        let (form, RuleValue { text, anchored }) = (semantics.form, value);
        // In the draft of 1996 a star is an ordinary byte, encoded like others.
        if semantics.has_wildcards() {
            let star = |at| self.stars.push(to_u32(at));
            form.push_pattern_literals(&mut self.literals, text, !anchored, star);
        } else {
            form.push(&mut self.literals, text);
        }
        PatternRange {
            literals: (to_u32(literals), to_u32(self.literals.len())),
            stars: (to_u32(stars), to_u32(self.stars.len())),
            anchored,
        }
    }

    /// Appends a value that every dialect reads as a plain prefix.
    pub(super) fn push_plain(&mut self, value: &[u8]) -> PatternRange {
        let start = to_u32(self.literals.len());
        let stars = to_u32(self.stars.len());
        self.literals.extend_from_slice(value);
        PatternRange {
            literals: (start, to_u32(self.literals.len())),
            stars: (stars, stars),
            anchored: false,
        }
    }

    pub(super) fn get(&self, range: PatternRange) -> RulePattern<'_> {
        let (first, last) = range.stars;
        RulePattern {
            literals: self.literals(range.literals),
            stars: &self.stars[first as usize..last as usize],
            anchored: range.anchored,
        }
    }

    pub(super) fn literals(&self, (start, end): (u32, u32)) -> &[u8] {
        &self.literals[start as usize..end as usize]
    }

    /// Removes all patterns and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.literals.clear();
        self.stars.clear();
    }

    /// Compiles one value after removing all others.
    pub(super) fn compile(
        &mut self,
        value: RuleValue<'_>,
        semantics: &DialectSemantics,
    ) -> RulePattern<'_> {
        self.clear();
        let range = self.push(value, semantics);
        self.get(range)
    }

    /// Compiles one value with its cut escapes as they are, to match paths that keep theirs as well.
    pub(super) fn compile_with_cut_escapes(
        &mut self,
        value: RuleValue<'_>,
        semantics: &DialectSemantics,
    ) -> RulePattern<'_> {
        self.clear();
        let mut parts = value.text.split(|&byte| byte == b'*').peekable();
        while let Some(part) = parts.next() {
            // A star's match may end the path, so all parts after one count as a query.
            let is_last = parts.peek().is_none();
            let in_query = !self.stars.is_empty();
            let is_open = !(is_last && value.anchored);
            let literals = &mut self.literals;
            semantics.form.push_part_with_cut_escapes(literals, part, in_query, is_open);
            if !is_last {
                self.stars.push(to_u32(self.literals.len()));
            }
        }
        RulePattern { literals: &self.literals, stars: &self.stars, anchored: value.anchored }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.literals.shrink_to_fit();
        self.stars.shrink_to_fit();
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.literals.len() + size_of_val(&*self.stars)
    }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("far less than the limit of a file")
}

/// A value without a final `$`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleValue<'a> {
    pub(super) text: &'a [u8],
    pub(super) anchored: bool,
}

impl<'a> RuleValue<'a> {
    /// Splits off a final `$`, an anchor in all dialects that know `*`. Any other `$` is an ordinary byte.
    pub(super) fn read(value: &'a [u8], semantics: &DialectSemantics) -> Self {
        match value {
            [text @ .., b'$'] if semantics.has_wildcards() => Self { text, anchored: true },
            text => Self { text, anchored: false },
        }
    }

    /// Returns the specificity of the pattern: its length in the form in which a dialect weighs rules.
    pub(super) fn specificity(self, dialect: Dialect) -> usize {
        let form = match dialect {
            Dialect::Google => &percent_encoding::GOOGLE,
            _ => &percent_encoding::NORMALISED,
        };
        form.encoded_len(self.text, !self.anchored) + usize::from(self.anchored)
    }

    /// Returns the patterns that a rule's value stands for in a dialect: one or two, the more specific first.
    pub(super) fn all_meanings(
        value: &'a [u8],
        allow: bool,
        semantics: &DialectSemantics,
    ) -> impl Iterator<Item = Self> {
        // Google's parser tries the directory only where the value itself does not match.
        let directory = if allow && semantics.dialect == Dialect::Google {
            index_directory(value).map(|text| Self { text, anchored: true })
        } else {
            None
        };
        iter::once(Self::read(value, semantics)).chain(directory)
    }
}

/// Returns whether parts, with anything between them, match a path: the first at its start, the last at its end if
/// anchored, and each of the others at its first position after the one before. The first position is always good
/// enough, since it leaves most of the path for the rest.
pub(super) fn parts_match<'a>(
    mut parts: impl DoubleEndedIterator<Item = &'a [u8]>,
    anchored: bool,
    path: &[u8],
    budget: &mut MatchBudget,
) -> bool {
    budget.spend_on_comparing(0);
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    if anchored {
        // The last part is taken off the end first, so that the others cannot match within it.
        match parts.next_back() {
            None => return rest.is_empty(),
            Some(last) => match rest.strip_suffix(last) {
                Some(before) => rest = before,
                None => return false,
            },
        }
    }
    parts.all(|part| match find_part(rest, part, budget) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// Returns the directory that Google's parser adds to an allow rule with the value `.../index.htm...`.
pub(super) fn index_directory(value: &[u8]) -> Option<&[u8]> {
    let slash = memrchr(b'/', value)?;
    let names_index = value[slash..].starts_with(b"/index.htm");
    names_index.then(|| &value[..=slash])
}
