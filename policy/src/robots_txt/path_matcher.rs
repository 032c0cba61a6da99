//! Matches patterns other than rules with the path of a request: in every spelling and form that rules are matched in,
//! within the budget that they share.

use std::sync::{Arc, OnceLock};

use super::budget::Budget;
use super::groups::semantics::Semantics;
use super::path_form::PathForm;
use super::pattern::{Patterns, Place, Value};
use super::work::Work;
use crate::Dialect;
use crate::percent_encoding::{has_lone_percent, plain};

/// The path of a request, or every path at once for a caller that cannot see the paths.
#[derive(Clone, Debug)]
pub(crate) struct PathMatcher {
    /// The path; `None` stands for every path.
    asked: Option<Asked>,
    /// The encoded path, made on first use, since hardly any site states a preference. Clones share it.
    forms: Arc<OnceLock<Result<Vec<Forms>, TooCostly>>>,
    pub(crate) work: Work,
}

#[derive(Clone, Debug)]
struct Asked {
    path: String,
    dialect: Dialect,
    /// Whether every spelling is judged.
    strict: bool,
}

/// The error for matching that the budget does not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooCostly;

/// The distinct spellings of a path in one of the forms in which patterns are compared.
#[derive(Debug)]
struct Forms {
    semantics: &'static Semantics,
    paths: Vec<Compared>,
}

/// A path in a form, owned.
#[derive(Debug)]
struct Compared {
    bytes: Vec<u8>,
    /// The path with its cut escapes as they were received, if it has any.
    with_cut_escapes: Option<Vec<u8>>,
}

/// A matching pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matched {
    /// The index of the pattern.
    pub(crate) at: usize,
    pub(crate) specificity: usize,
}

/// The patterns that count for one reading of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) matched: Vec<Matched>,
    /// Whether the patterns may only restrict: true for every reading but the path as received in the standard's form.
    pub(crate) only_restricts: bool,
}

/// The selection among the patterns that match a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    All,
    First,
    /// The most specific, including all of equal specificity.
    Narrowest,
}

impl PathMatcher {
    pub(crate) fn new(path: &str, dialect: Dialect, strict: bool) -> Self {
        Self::about(Some(Asked {
            path: path.to_owned(),
            dialect,
            strict,
        }))
    }

    pub(crate) fn every_path() -> Self {
        Self::about(None)
    }

    fn about(asked: Option<Asked>) -> Self {
        Self {
            asked,
            forms: Arc::default(),
            work: Work::default(),
        }
    }

    /// Returns the path as received; `None` stands for every path.
    pub(crate) fn path(&self) -> Option<&str> {
        self.asked.as_ref().map(|it| &*it.path)
    }

    /// Returns the indices of the patterns that count, each once, and whether each may only restrict; those that count
    /// for the path as received come first.
    pub(crate) fn select<'a>(
        &mut self,
        patterns: impl IntoIterator<Item = &'a [u8]>,
        counts: Counts,
    ) -> Result<Vec<(usize, bool)>, TooCostly> {
        let readings = self.read(patterns, counts)?;
        let all = readings
            .iter()
            .flat_map(|it| it.matched.iter().map(|one| (one.at, it.only_restricts)));
        let mut selected: Vec<(usize, bool)> = Vec::new();
        let mut is_selected = Vec::new();
        for (at, only_restricts) in all {
            if is_selected.len() <= at {
                is_selected.resize(at + 1, false);
            }
            if !std::mem::replace(&mut is_selected[at], true) {
                selected.push((at, only_restricts));
            }
        }
        Ok(selected)
    }

    /// Returns the patterns that count for each reading of the path, starting with the path as received. Readings
    /// without any, and repetitions, are left out.
    pub(crate) fn read<'a>(
        &mut self,
        patterns: impl IntoIterator<Item = &'a [u8]>,
        counts: Counts,
    ) -> Result<Vec<Reading>, TooCostly> {
        let Self { asked, forms, work } = self;
        let mut patterns = patterns.into_iter().peekable();
        if patterns.peek().is_none() {
            return Ok(Vec::new());
        }
        if work.is_spent() {
            return Err(TooCostly);
        }
        let Some(asked) = asked else {
            return every_pattern(patterns, &mut work.budget);
        };
        let forms = forms.get_or_init(|| asked.forms(work)).as_ref();
        let forms = forms.map_err(|it| *it)?;
        let budget = &mut work.budget;
        let mut matching = Matching::new(forms, counts, budget);
        for (at, pattern) in patterns.enumerate() {
            matching.add(at, pattern)?;
        }
        matching.readings()
    }
}

/// Returns all patterns, which may only restrict, for a request without a path.
fn every_pattern<'a>(
    patterns: impl Iterator<Item = &'a [u8]>,
    budget: &mut Budget,
) -> Result<Vec<Reading>, TooCostly> {
    let matched: Vec<_> = patterns
        .enumerate()
        .map(|(at, _)| Matched { at, specificity: 0 })
        .collect();
    if !budget.spend(matched.len()) {
        return Err(TooCostly);
    }
    Ok(vec![Reading {
        matched,
        only_restricts: true,
    }])
}

impl Asked {
    /// Returns the encoded spellings: in the forms that are used to judge all spellings in the standard's dialect and,
    /// for what they do not cover, in the dialect's own. The standard's own form comes first.
    fn forms(&self, work: &mut Work) -> Result<Vec<Forms>, TooCostly> {
        let standard = Semantics::new(Dialect::Rfc9309);
        if !self.strict {
            let forms = Forms::of(std::iter::once(&*self.path), standard, &mut work.budget)?;
            return Ok(vec![forms]);
        }
        let others = work.others(&self.path).map_err(|_| TooCostly)?;
        let own = Dialect::EACH.into_iter().filter(|it| {
            *it != Dialect::Rfc9309 && (*it == self.dialect || self.dialect == Dialect::Strictest)
        });
        let all = std::iter::once(standard)
            .chain(Semantics::strictly(Dialect::Rfc9309))
            .chain(own.map(Semantics::new));
        all.map(|semantics| {
            let spellings = others.as_ref().iter().map(String::as_str);
            Forms::of(
                std::iter::once(&*self.path).chain(spellings),
                semantics,
                &mut work.budget,
            )
        })
        .collect()
    }
}

impl Forms {
    fn of<'a>(
        spellings: impl Iterator<Item = &'a str>,
        semantics: &'static Semantics,
        budget: &mut Budget,
    ) -> Result<Self, TooCostly> {
        let mut paths: Vec<Compared> = Vec::new();
        for spelling in spellings {
            if !budget.spend_on_form(spelling.len()) {
                return Err(TooCostly);
            }
            let form = PathForm::new(spelling, semantics);
            let cut = form
                .has_lone_percent()
                .then(|| form.with_cut_escapes(semantics.form));
            let path = Compared {
                bytes: form.bytes().to_vec(),
                with_cut_escapes: cut.map(|it| it.bytes().to_vec()),
            };
            if !paths
                .iter()
                .any(|it| it.bytes == path.bytes && it.with_cut_escapes == path.with_cut_escapes)
            {
                paths.push(path);
            }
        }
        Ok(Self { semantics, paths })
    }
}

/// The patterns that count so far, for each spelling in each form.
struct Matching<'a> {
    forms: &'a [Forms],
    counts: Counts,
    budget: &'a mut Budget,
    found: Vec<Vec<Matched>>,
    patterns: Patterns,
}

impl<'a> Matching<'a> {
    fn new(forms: &'a [Forms], counts: Counts, budget: &'a mut Budget) -> Self {
        let count: usize = forms.iter().map(|it| it.paths.len()).sum();
        Self {
            forms,
            counts,
            budget,
            found: vec![Vec::new(); count],
            patterns: Patterns::default(),
        }
    }

    /// Matches a pattern with all spellings.
    fn add(&mut self, at: usize, text: &[u8]) -> Result<(), TooCostly> {
        let mut specificity = None;
        let mut place = 0;
        for forms in self.forms {
            let mut pattern = Pattern::new(text, forms.semantics);
            for path in &forms.paths {
                let found = &mut self.found[place];
                place += 1;
                let is_passed_over = self.counts == Counts::First && !found.is_empty();
                if is_passed_over || !pattern.matches(path, &mut self.patterns, self.budget) {
                    continue;
                }
                let specificity = *specificity.get_or_insert_with(|| specificity_of(text));
                if self.counts == Counts::Narrowest
                    && let Some(most) = found.first().map(|it| it.specificity)
                    && most != specificity
                {
                    if most > specificity {
                        continue;
                    }
                    found.clear();
                }
                // Stored matches cost memory, and a file may have thousands of matching patterns.
                self.budget.spend(1);
                found.push(Matched { at, specificity });
            }
        }
        // Spent on patterns that do not match as well, so that a long list of them ends.
        if !self.budget.spend_on_writing(text.len() / 8) {
            return Err(TooCostly);
        }
        Ok(())
    }

    fn readings(self) -> Result<Vec<Reading>, TooCostly> {
        let mut readings: Vec<Reading> = Vec::new();
        for (place, matched) in self.found.into_iter().enumerate() {
            let is_known = |it: &Reading| it.matched == matched;
            if !matched.is_empty() && !readings.iter().any(is_known) {
                readings.push(Reading {
                    matched,
                    only_restricts: place > 0,
                });
            }
        }
        Ok(readings)
    }
}

/// Returns the specificity of a pattern: the length of its encoded form (RFC 9309 §2.2.2).
fn specificity_of(pattern: &[u8]) -> usize {
    let dialect = Dialect::Rfc9309;
    Value::read(pattern, Semantics::new(dialect)).specificity(dialect)
}

/// A pattern in a dialect.
struct Pattern<'a> {
    value: Value<'a>,
    semantics: &'static Semantics,
    /// The beginning that is the same in every form.
    plain: &'a [u8],
    has_lone_percent: bool,
    /// The range in the buffer, once it is compiled.
    place: Option<Place>,
}

impl<'a> Pattern<'a> {
    fn new(text: &'a [u8], semantics: &'static Semantics) -> Self {
        let value = Value::read(text, semantics);
        let plain = &value.text[..plain::plain_start(value.text)];
        Self {
            value,
            semantics,
            plain,
            has_lone_percent: has_lone_percent(&value.text[plain.len()..]),
            place: None,
        }
    }

    /// Returns whether it matches a path. The answer is unreliable once the budget is spent.
    fn matches(&mut self, path: &Compared, patterns: &mut Patterns, budget: &mut Budget) -> bool {
        let Self {
            value,
            semantics,
            plain,
            has_lone_percent,
            place,
        } = *self;
        if !budget.spend_on_comparing(plain.len()) || !path.bytes.starts_with(plain) {
            return false;
        }
        // A plain pattern needs no compilation.
        if plain.len() == value.text.len() {
            return !value.anchored || plain.len() == path.bytes.len();
        }
        let place = place.unwrap_or_else(|| {
            budget.spend_on_writing(value.text.len());
            patterns.clear();
            patterns.push(value, semantics)
        });
        self.place = Some(place);
        let pattern = patterns.at(place);
        if pattern.matches(&path.bytes, budget) {
            return true;
        }
        let cut = path.with_cut_escapes.as_ref();
        let Some(cut) = cut.filter(|_| has_lone_percent) else {
            return false;
        };
        budget.spend_on_writing(value.text.len());
        // The pattern may keep its own cut escape, and then matches the same text in the path.
        let mut alike = Patterns::default();
        pattern.matches(cut, budget)
            || alike
                .take_apart_with_cut_escapes(value, semantics)
                .matches(cut, budget)
    }
}
