//! What is matched for one request, together.

use std::sync::Arc;

use super::budget::Budget;
use crate::spelling::{self, TooManySpellings};

/// What matching for one request has come to: the spellings of its path, found once, and what may still be spent. Rules and
/// preferences share it, whatever stage of the request they are judged at.
#[derive(Clone, Debug, Default)]
pub struct Work {
    pub(crate) budget: Budget,
    /// The path asked about last, and its other spellings.
    spellings: Option<Arc<Spellings>>,
}

#[derive(Debug)]
struct Spellings {
    path: String,
    others: Result<Vec<String>, TooManySpellings>,
}

/// The other spellings of a path, which clones share.
#[derive(Clone, Debug)]
pub(crate) struct Others(Arc<Spellings>);

impl AsRef<[String]> for Others {
    fn as_ref(&self) -> &[String] {
        self.0.others.as_deref().unwrap_or_default()
    }
}

impl Work {
    /// Whether nothing may be spent any more: what would be matched now counts as too costly.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.budget.is_spent()
    }

    /// The other spellings of a path.
    pub(crate) fn others(&mut self, path: &str) -> Result<Others, TooManySpellings> {
        let known = self.spellings.take().filter(|it| it.path == path);
        let spellings = known.unwrap_or_else(|| {
            let others = spelling::others(path);
            Arc::new(Spellings {
                path: path.to_owned(),
                others,
            })
        });
        self.spellings = Some(Arc::clone(&spellings));
        match spellings.others {
            Ok(_) => Ok(Others(spellings)),
            Err(TooManySpellings) => Err(TooManySpellings),
        }
    }
}
