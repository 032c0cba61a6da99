//! Statements about some paths only, written as the paths of `Allow` and `Disallow` are.

use crate::robots_txt::specificity;
use crate::spelling;

/// The path of a request, in every spelling that is judged; the one received comes first. Or every path at once, as for who
/// will not see which are asked for.
#[derive(Clone, Debug)]
pub(super) struct Paths(Vec<Option<String>>);

impl Paths {
    pub(super) fn new(path: &str, strict: bool) -> Self {
        let others = if strict {
            spelling::others(path)
        } else {
            Vec::new()
        };
        let all = [path.to_owned()].into_iter().chain(others);
        Self(all.map(Some).collect())
    }

    pub(super) fn every() -> Self {
        Self(vec![None])
    }

    /// What decides for each spelling, by whatever finds it; `None` stands for every path. All but the path as received may
    /// only restrict, which the flag says.
    pub(super) fn each<T>(&self, decides: impl Fn(Option<&str>) -> Vec<T>) -> Vec<(T, bool)> {
        let spellings = self.0.iter().enumerate();
        let decided = spellings.flat_map(|(index, path)| {
            let only_restricts = index > 0 || path.is_none();
            let all = decides(path.as_deref()).into_iter();
            all.map(move |it| (it, only_restricts))
        });
        decided.collect()
    }
}

/// The most specific of the rules whose patterns match a path, all that are equally specific among them; without a path, all
/// rules.
pub(super) fn most_specific<T>(
    rules: impl IntoIterator<Item = T>,
    pattern: impl Fn(&T) -> String,
    path: Option<&str>,
) -> Vec<T> {
    let Some(path) = path else {
        return rules.into_iter().collect();
    };
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
