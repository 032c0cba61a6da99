//! The context of matching for one request. `RuleSearch` is the state of one of its decisions.

use std::sync::Arc;

use super::budget::MatchBudget;
use crate::spelling::{self, TooManySpellings};

/// The state shared by all matching for one request: the other spellings of its path, computed once, and the budget.
/// Rules and preferences share it, at whatever stage of the request they are judged.
#[derive(Clone, Debug, Default)]
pub struct MatchContext {
    /// The work that the request may still cause.
    pub budget: MatchBudget,
    /// The path used last, and its other spellings.
    spellings: Option<Arc<PathSpellings>>,
}

#[derive(Debug)]
struct PathSpellings {
    path: String,
    others: Result<Vec<String>, TooManySpellings>,
}

/// The other spellings of a path, shared by clones; `None` if it has none.
#[derive(Clone, Debug)]
pub(crate) struct OtherSpellings(Option<Arc<PathSpellings>>);

impl AsRef<[String]> for OtherSpellings {
    #[inline]
    fn as_ref(&self) -> &[String] {
        self.0.as_ref().and_then(|spellings| spellings.others.as_deref().ok()).unwrap_or_default()
    }
}

impl MatchContext {
    /// Creates a context with a brief budget.
    #[must_use]
    pub fn brief() -> Self {
        Self { budget: MatchBudget::brief(), spellings: None }
    }

    /// Returns whether the budget is spent: further matching counts as too costly.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.budget.is_spent()
    }

    /// Returns the other spellings of a path. Most have none, and cost nothing.
    #[inline]
    pub(crate) fn other_spellings(
        &mut self,
        path: &str,
    ) -> Result<OtherSpellings, TooManySpellings> {
        if spelling::may_have_other_spellings(path.as_bytes()) {
            self.rewritings_of(path)
        } else {
            Ok(OtherSpellings(None))
        }
    }

    #[cold]
    fn rewritings_of(&mut self, path: &str) -> Result<OtherSpellings, TooManySpellings> {
        // One path is enough: the rules and preferences of a request are about the same one.
        let spellings = match self.spellings.take() {
            Some(last) if last.path == path => last,
            _ => {
                let others = spelling::other_spellings(path);
                Arc::new(PathSpellings { path: path.to_owned(), others })
            }
        };
        self.spellings = Some(Arc::clone(&spellings));
        match spellings.others {
            Ok(_) => Ok(OtherSpellings(Some(spellings))),
            Err(TooManySpellings) => Err(TooManySpellings),
        }
    }
}
