//! Matches the patterns of usage preferences with the path of a request: in every spelling and form that rules are
//! matched in, within the budget that they share.

use std::sync::{Arc, OnceLock};
use std::{iter, mem};

use super::budget::MatchBudget;
use super::escaped_wildcards::EscapedWildcards;
use super::groups::semantics::DialectSemantics;
use super::match_context::MatchContext;
use super::path_form::PathForm;
use super::pattern::{PatternBuffer, PatternRange, RuleValue};
use crate::Dialect;
use crate::percent_encoding::{has_lone_percent, plain};

/// The path of a request, or every path at once for a caller that cannot see the paths, to match with the patterns of
/// preferences.
#[derive(Clone, Debug)]
pub struct PreferenceMatcher {
    /// The path; `None` stands for every path.
    query: Option<PathQuery>,
    /// The encoded path, made on first use, since hardly any site states a preference. Clones share it.
    forms: Arc<OnceLock<Result<Vec<FormSpellings>, TooCostly>>>,
    /// The context of the request.
    pub context: MatchContext,
}

#[derive(Clone, Debug)]
struct PathQuery {
    path: String,
    dialect: Dialect,
    /// Whether every spelling is judged.
    all_spellings: bool,
}

/// The error for matching that the budget does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooCostly;

/// The distinct spellings of a path in one of the forms in which patterns are compared.
#[derive(Debug)]
struct FormSpellings {
    semantics: &'static DialectSemantics,
    paths: Vec<OwnedPathForm>,
}

/// A path in a form, owned.
#[derive(Debug, PartialEq, Eq)]
struct OwnedPathForm {
    bytes: Vec<u8>,
    /// The path with its cut escapes as they were received, if it has any.
    with_cut_escapes: Option<Vec<u8>>,
    /// The path with its escaped `*` and `$` as they were received, if it has any.
    escaped_wildcards: Option<EscapedWildcards>,
}

/// A preference whose pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedPreference {
    /// Its index among those that were passed.
    pub index: usize,
    /// The specificity of its pattern.
    pub specificity: usize,
}

/// The preferences that count for one reading of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathReading {
    /// The preferences, in their order.
    pub matched: Vec<MatchedPreference>,
    /// Whether they may only restrict: true for every reading but the path as received in the standard's form.
    pub only_restricts: bool,
}

/// The selection among the preferences whose patterns match a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferenceSelection {
    /// All of them.
    All,
    /// The first one.
    First,
    /// The most specific, including all of equal specificity.
    Narrowest,
}

impl PreferenceMatcher {
    /// Creates a matcher for a path, and for its other spellings if all are judged.
    #[must_use]
    pub fn new(path: &str, dialect: Dialect, all_spellings: bool) -> Self {
        Self::with_query(Some(PathQuery { path: path.to_owned(), dialect, all_spellings }))
    }

    /// Creates a matcher for every path at once.
    #[must_use]
    pub fn every_path() -> Self {
        Self::with_query(None)
    }

    fn with_query(query: Option<PathQuery>) -> Self {
        Self { query, forms: Arc::default(), context: MatchContext::default() }
    }

    /// Returns the path as received; `None` stands for every path.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        self.query.as_ref().map(|query| &*query.path)
    }

    /// Returns the indices of the preferences that count, each once, and whether each may only restrict; those that
    /// count for the path as received come first.
    ///
    /// # Errors
    ///
    /// If the budget does not cover it.
    pub fn select<'a>(
        &mut self,
        patterns: impl IntoIterator<Item = &'a [u8]>,
        selection: PreferenceSelection,
    ) -> Result<Vec<(usize, bool)>, TooCostly> {
        let mut selected = Vec::new();
        // By index: comparing with all that is selected would take quadratic time in a file of thousands.
        let mut is_selected = Vec::new();
        for reading in self.readings(patterns, selection)? {
            for MatchedPreference { index, .. } in reading.matched {
                if is_selected.len() <= index {
                    is_selected.resize(index + 1, false);
                }
                if !mem::replace(&mut is_selected[index], true) {
                    selected.push((index, reading.only_restricts));
                }
            }
        }
        Ok(selected)
    }

    /// Returns the preferences that count for each reading of the path, starting with the path as received. Readings
    /// without any, and repetitions, are left out.
    ///
    /// # Errors
    ///
    /// If the budget does not cover it.
    pub fn readings<'a>(
        &mut self,
        patterns: impl IntoIterator<Item = &'a [u8]>,
        selection: PreferenceSelection,
    ) -> Result<Vec<PathReading>, TooCostly> {
        let Self { query, forms, context } = self;
        let mut remaining = patterns.into_iter().peekable();
        // A path without patterns costs nothing, whatever was spent before.
        if remaining.peek().is_none() {
            return Ok(Vec::new());
        }
        if context.is_spent() {
            return Err(TooCostly);
        }
        let Some(query) = query else {
            return all_preferences(remaining, &mut context.budget);
        };
        let spellings =
            forms.get_or_init(|| query.forms(context)).as_ref().map_err(|error| *error)?;
        let mut builder = ReadingsBuilder::new(spellings, selection, &mut context.budget);
        for (index, pattern) in remaining.enumerate() {
            builder.add(index, pattern)?;
        }
        Ok(builder.build())
    }
}

/// Returns all preferences, which may only restrict, for a request without a path.
fn all_preferences<'a>(
    patterns: impl Iterator<Item = &'a [u8]>,
    budget: &mut MatchBudget,
) -> Result<Vec<PathReading>, TooCostly> {
    let matched: Vec<_> = patterns
        .enumerate()
        .map(|(index, _)| MatchedPreference { index, specificity: 0 })
        .collect();
    if !budget.spend(matched.len()) {
        return Err(TooCostly);
    }
    Ok(vec![PathReading { matched, only_restricts: true }])
}

impl PathQuery {
    /// Returns the encoded spellings: in the forms that are used to judge all spellings in the standard's dialect and,
    /// for paths that they do not cover, in the dialect's own. The standard's own form comes first.
    fn forms(&self, context: &mut MatchContext) -> Result<Vec<FormSpellings>, TooCostly> {
        let path = iter::once(&*self.path);
        let standard = DialectSemantics::for_dialect(Dialect::Rfc9309);
        if !self.all_spellings {
            return Ok(vec![FormSpellings::encode(path, standard, &mut context.budget)?]);
        }
        let others = context.other_spellings(&self.path).map_err(|_| TooCostly)?;
        let spellings = path.chain(others.as_ref().iter().map(String::as_str));
        // The standard is there already.
        let own = self.dialect.each().iter().filter(|dialect| **dialect != Dialect::Rfc9309);
        iter::once(standard)
            .chain(DialectSemantics::other_forms(Dialect::Rfc9309))
            .chain(own.map(|dialect| DialectSemantics::for_dialect(*dialect)))
            .map(|semantics| {
                FormSpellings::encode(spellings.clone(), semantics, &mut context.budget)
            })
            .collect()
    }
}

impl FormSpellings {
    fn encode<'a>(
        spellings: impl Iterator<Item = &'a str>,
        semantics: &'static DialectSemantics,
        budget: &mut MatchBudget,
    ) -> Result<Self, TooCostly> {
        let mut paths: Vec<OwnedPathForm> = Vec::new();
        for spelling in spellings {
            if !budget.spend_on_form(spelling.len()) {
                return Err(TooCostly);
            }
            let form = PathForm::new(spelling, semantics);
            let cut = form.has_lone_percent().then(|| form.with_cut_escapes(semantics.form));
            let path = OwnedPathForm {
                bytes: form.bytes().to_vec(),
                with_cut_escapes: cut.map(|path| path.bytes().to_vec()),
                escaped_wildcards: form.escaped_wildcards(semantics.form),
            };
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Ok(Self { semantics, paths })
    }
}

/// The preferences that count so far, for each spelling in each form.
struct ReadingsBuilder<'a> {
    forms: &'a [FormSpellings],
    selection: PreferenceSelection,
    budget: &'a mut MatchBudget,
    /// The preferences found for each spelling, in the order of the forms and of their paths.
    found: Vec<Vec<MatchedPreference>>,
    patterns: PatternBuffer,
}

impl<'a> ReadingsBuilder<'a> {
    fn new(
        forms: &'a [FormSpellings],
        selection: PreferenceSelection,
        budget: &'a mut MatchBudget,
    ) -> Self {
        let count: usize = forms.iter().map(|form| form.paths.len()).sum();
        let found = vec![Vec::new(); count];
        Self { forms, selection, budget, found, patterns: PatternBuffer::default() }
    }

    /// Matches a pattern with all spellings.
    fn add(&mut self, index: usize, text: &[u8]) -> Result<(), TooCostly> {
        let mut specificity = None;
        let mut all_found = self.found.iter_mut();
        for forms in self.forms {
            let mut pattern = DialectPattern::new(text, forms.semantics);
            for (path, found) in forms.paths.iter().zip(&mut all_found) {
                let is_decided = self.selection == PreferenceSelection::First && !found.is_empty();
                if is_decided || !pattern.matches(path, &mut self.patterns, self.budget) {
                    continue;
                }
                // Measured for patterns that match only, which are few.
                let specificity = *specificity.get_or_insert_with(|| pattern_specificity(text));
                if self.selection == PreferenceSelection::Narrowest
                    && let Some(most) = found.first().map(|pattern| pattern.specificity)
                    && most != specificity
                {
                    if most > specificity {
                        continue;
                    }
                    found.clear();
                }
                // Stored matches cost memory, and a file may have thousands of matching patterns.
                self.budget.spend(1);
                found.push(MatchedPreference { index, specificity });
            }
        }
        // Spent on patterns that do not match as well, so that a long list of them ends.
        if !self.budget.spend_on_encoding(text.len() / 8) {
            return Err(TooCostly);
        }
        Ok(())
    }

    fn build(self) -> Vec<PathReading> {
        let mut readings: Vec<PathReading> = Vec::new();
        for (number, matched) in self.found.into_iter().enumerate() {
            if !matched.is_empty() && !readings.iter().any(|reading| reading.matched == matched) {
                // The first is the path as received. A pattern that only another spelling matches must not widen anything.
                readings.push(PathReading { matched, only_restricts: number > 0 });
            }
        }
        readings
    }
}

/// Returns the specificity of a pattern: the length of its encoded form (RFC 9309 §2.2.2).
fn pattern_specificity(pattern: &[u8]) -> usize {
    let dialect = Dialect::Rfc9309;
    RuleValue::read(pattern, DialectSemantics::for_dialect(dialect)).specificity(dialect)
}

/// A pattern in a dialect.
struct DialectPattern<'a> {
    value: RuleValue<'a>,
    semantics: &'static DialectSemantics,
    /// The beginning that is the same in every form.
    plain: &'a [u8],
    has_lone_percent: bool,
    /// The range in the buffer, once it is compiled.
    range: Option<PatternRange>,
}

impl<'a> DialectPattern<'a> {
    fn new(text: &'a [u8], semantics: &'static DialectSemantics) -> Self {
        let value = RuleValue::read(text, semantics);
        let plain = &value.text[..plain::plain_prefix_len(value.text)];
        Self {
            value,
            semantics,
            plain,
            has_lone_percent: has_lone_percent(&value.text[plain.len()..]),
            range: None,
        }
    }

    /// Returns whether it matches a path. The result is unreliable once the budget is spent.
    fn matches(
        &mut self,
        path: &OwnedPathForm,
        patterns: &mut PatternBuffer,
        budget: &mut MatchBudget,
    ) -> bool {
        let Self { value, semantics, plain, has_lone_percent, .. } = *self;
        if !budget.spend_on_comparing(plain.len()) || !path.bytes.starts_with(plain) {
            return false;
        }
        // A plain pattern needs no compilation.
        if plain.len() == value.text.len() {
            return !value.anchored || plain.len() == path.bytes.len();
        }
        let range = *self.range.get_or_insert_with(|| {
            budget.spend_on_encoding(value.text.len());
            patterns.clear();
            patterns.push(value, semantics)
        });
        let pattern = patterns.get(range);
        if pattern.matches(&path.bytes, budget) {
            return true;
        }
        let mut other_patterns = PatternBuffer::default();
        if let Some(path) = &path.escaped_wildcards
            && path.is_matched_by(value, semantics, &mut other_patterns, budget)
        {
            return true;
        }
        let Some(cut) = path.with_cut_escapes.as_ref().filter(|_| has_lone_percent) else {
            return false;
        };
        budget.spend_on_encoding(value.text.len());
        // The pattern may keep its own cut escape, and then matches the same text in the path.
        pattern.matches(cut, budget)
            || other_patterns.compile_with_cut_escapes(value, semantics).matches(cut, budget)
    }
}
