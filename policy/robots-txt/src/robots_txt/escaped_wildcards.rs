//! Paths that contain `*` or `$` percent-encoded.
//!
//! A rule's `%24` matches both `$` and `%24` of a path (RFC 9309 §2.2.3), so that all of them compare as `$`. Only an
//! escape, however, has digits that a rule can match the beginning or the end of: `/*%2` and `/*4` match `/a%24`, as in
//! Google's parser, and not `/a$`. So a path with such an escape, of which there are few, is matched once more, with
//! the escapes as they are.

use memchr::memchr2_iter;

use super::budget::MatchBudget;
use super::groups::semantics::DialectSemantics;
use super::pattern::{PatternBuffer, RulePattern, RuleValue};
use crate::percent_encoding::{has_lone_percent, is_wildcard_byte};

/// A path in a form that keeps its escaped wildcards apart from raw ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EscapedWildcards {
    pub(super) path: Vec<u8>,
    /// The same with its cut escapes as they were received, if it has any.
    pub(super) with_cut_escapes: Option<Vec<u8>>,
}

impl EscapedWildcards {
    /// Returns whether a value matches the path.
    pub(super) fn is_matched_by(
        &self,
        value: RuleValue<'_>,
        semantics: &DialectSemantics,
        patterns: &mut PatternBuffer,
        budget: &mut MatchBudget,
    ) -> bool {
        budget.spend_on_encoding(value.text.len());
        let pattern = patterns.compile(value, semantics);
        if pattern_matches(pattern, &self.path, budget) {
            return true;
        }
        let Some(cut) = self.with_cut_escapes.as_deref().filter(|_| has_lone_percent(value.text))
        else {
            return false;
        };
        budget.spend_on_encoding(value.text.len());
        pattern_matches(pattern, cut, budget)
            || pattern_matches(patterns.compile_with_cut_escapes(value, semantics), cut, budget)
    }
}

/// Returns whether a pattern matches a path with escaped wildcards, like [`RulePattern::matches`].
fn pattern_matches(pattern: RulePattern<'_>, path: &[u8], budget: &mut MatchBudget) -> bool {
    let Some(mut rest) = strip_part(path, pattern.prefix()) else {
        return false;
    };
    let last = pattern.stars.len();
    for (index, part) in pattern.parts().enumerate().skip(1) {
        // The first position is best for every part but the last, which has to reach the end if it is anchored.
        let is_at_end = pattern.anchored && index == last;
        match find_part(rest, part, is_at_end, budget) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    !pattern.anchored || last > 0 || rest.is_empty()
}

/// Returns the text after the first position of a part, or after the one at the end of the text.
fn find_part<'a>(
    text: &'a [u8],
    part: &[u8],
    is_at_end: bool,
    budget: &mut MatchBudget,
) -> Option<&'a [u8]> {
    let Some(&first) = part.first() else {
        return Some(if is_at_end { &[] } else { text });
    };
    budget.spend_on_comparing(text.len());
    let escape = if is_wildcard_byte(first) { b'%' } else { first };
    for at in memchr2_iter(first, escape, text) {
        if !budget.spend_on_comparing(part.len()) {
            return None;
        }
        let after = strip_part(&text[at..], part).filter(|rest| !is_at_end || rest.is_empty());
        if after.is_some() {
            return after;
        }
    }
    None
}

/// Returns the text after a part of a pattern that it begins with. A wildcard of the part is a literal one.
fn strip_part<'a>(text: &'a [u8], part: &[u8]) -> Option<&'a [u8]> {
    part.iter().try_fold(text, |rest, &byte| match rest.split_first() {
        Some((first, after)) if *first == byte => Some(after),
        Some(_) if is_wildcard_byte(byte) => {
            rest.strip_prefix(if byte == b'$' { b"%24" } else { b"%2A" })
        }
        _ => None,
    })
}
