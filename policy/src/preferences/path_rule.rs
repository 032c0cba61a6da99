//! Statements about some paths only, written as the paths of `Allow` and `Disallow` are.

use crate::robots_txt::specificity;
use crate::spelling;

/// The path of a request, in every spelling that is judged; the one received comes first.
#[derive(Clone, Debug)]
pub(super) struct Paths(Vec<String>);

impl Paths {
    pub(super) fn new(path: &str, strict: bool) -> Self {
        let others = if strict {
            spelling::others(path)
        } else {
            Vec::new()
        };
        Self([path.to_owned()].into_iter().chain(others).collect())
    }

    /// What decides for each spelling, by whatever finds it. Spellings other than the one received may only restrict.
    pub(super) fn each<T>(&self, decides: impl Fn(&str) -> Vec<T>) -> Vec<(T, bool)> {
        let spellings = self.0.iter().enumerate();
        let decided = spellings.flat_map(|(index, path)| {
            let all = decides(path).into_iter();
            all.map(move |it| (it, index == 0))
        });
        decided.collect()
    }
}

/// The most specific of the rules whose patterns match a path, all that are equally specific among them.
pub(super) fn most_specific<T>(
    rules: impl IntoIterator<Item = T>,
    pattern: impl Fn(&T) -> String,
    path: &str,
) -> Vec<T> {
    let (mut most, mut found) = (0, Vec::new());
    for rule in rules {
        match specificity(&pattern(&rule), path) {
            Some(specificity) if found.is_empty() || specificity > most => {
                most = specificity;
                found = vec![rule];
            }
            Some(specificity) if specificity == most => found.push(rule),
            _ => {}
        }
    }
    found
}
