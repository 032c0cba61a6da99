//! Statements about some paths only, written as the paths of `Allow` and `Disallow` are.

use std::iter;
use std::sync::OnceLock;

use crate::robots_txt::specificity;
use crate::spelling;

/// The path of a request, in every spelling that is judged; the one received comes first. Or every path at once, as for who
/// will not see which are asked for.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    /// `None` stands for every path.
    received: Option<String>,
    /// Found when first asked for: hardly any site says anything.
    others: OnceLock<Vec<String>>,
    strict: bool,
}

impl Paths {
    pub(super) fn new(path: &str, strict: bool) -> Self {
        Self {
            received: Some(path.to_owned()),
            others: OnceLock::new(),
            strict,
        }
    }

    pub(super) fn every() -> Self {
        Self {
            received: None,
            others: OnceLock::new(),
            strict: false,
        }
    }

    fn others(&self) -> &[String] {
        self.others.get_or_init(|| match &self.received {
            Some(path) if self.strict => spelling::others(path),
            _ => Vec::new(),
        })
    }

    /// What decides for each spelling, by whatever finds it; `None` stands for every path. All but the path as received may
    /// only restrict, which the flag says.
    pub(super) fn each<T>(&self, decides: impl Fn(Option<&str>) -> Vec<T>) -> Vec<(T, bool)> {
        let received = (self.received.as_deref(), self.received.is_none());
        let others = self.others().iter().map(|path| (Some(&**path), true));
        let decided = iter::once(received)
            .chain(others)
            .flat_map(|(path, only_restricts)| {
                let all = decides(path).into_iter();
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
