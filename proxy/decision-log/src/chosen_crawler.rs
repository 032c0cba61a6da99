//! The crawler whose decisions are asked for.

use std::convert::Infallible;
use std::ops::Deref;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wayleave_decision::ASSERTED;
use wayleave_record::UNNAMED;

/// The name of a crawler, as the log has it, that a person or a program gives to choose decisions: in an argument of a command, a
/// parameter of the API, or a rule. For requests that match no `[[crawler]]`, it may be given as [`UNNAMED`] or [`ASSERTED`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct ChosenCrawler(String);

impl ChosenCrawler {
    /// Returns whether requests that match no `[[crawler]]` are meant.
    pub fn is_unnamed(&self) -> bool {
        self.0 == ASSERTED
    }
}

impl From<String> for ChosenCrawler {
    fn from(name: String) -> Self {
        // No `[[crawler]]` may have either of these names, in no case: filters ignore it.
        let is_unnamed = [UNNAMED, ASSERTED].iter().any(|word| name.eq_ignore_ascii_case(word));
        Self(if is_unnamed { ASSERTED.to_owned() } else { name })
    }
}

impl FromStr for ChosenCrawler {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(name.to_owned().into())
    }
}

impl From<ChosenCrawler> for String {
    fn from(chosen: ChosenCrawler) -> Self {
        chosen.0
    }
}

impl Deref for ChosenCrawler {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_words_choose_unnamed_requests() {
        for (given, in_log) in [
            ("unnamed", "asserted"),
            ("Unnamed", "asserted"),
            ("asserted", "asserted"),
            ("ASSERTED", "asserted"),
            ("News", "News"),
            ("unnamed-2", "unnamed-2"),
        ] {
            let chosen: ChosenCrawler = given.parse().expect("any name can be chosen");
            assert_eq!(&*chosen, in_log, "{given}");
            assert_eq!(chosen.is_unnamed(), in_log == "asserted", "{given}");
        }
    }
}
