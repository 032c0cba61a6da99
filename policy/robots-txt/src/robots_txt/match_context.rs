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

/// The other spellings of a path, shared by clones.
#[derive(Clone, Debug)]
pub(crate) struct OtherSpellings(Arc<PathSpellings>);

impl AsRef<[String]> for OtherSpellings {
    fn as_ref(&self) -> &[String] {
        self.0.others.as_deref().unwrap_or_default()
    }
}

impl MatchContext {
    /// Returns whether the budget is spent: further matching counts as too costly.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.budget.is_spent()
    }

    /// Returns the other spellings of a path.
    pub(crate) fn other_spellings(
        &mut self,
        path: &str,
    ) -> Result<OtherSpellings, TooManySpellings> {
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
            Ok(_) => Ok(OtherSpellings(spellings)),
            Err(TooManySpellings) => Err(TooManySpellings),
        }
    }
}
