//! The purposes that a client states for a request, by the field `Wayleave-Purpose`.

use std::borrow::Cow;

use wayleave_robots_txt::excerpt;
use wayleave_usage_preferences::{Purpose, PurposeSet};

/// The name of the field, which is for the proxy and goes no further.
pub const PURPOSE_FIELD: &str = "wayleave-purpose";

/// The most words that a field may have: more than there are purposes. `stated_words` keeps one more, so that a longer list is
/// recognised.
const MAX_WORDS: usize = 2 * Purpose::ALL.len();

/// Returns the words of the field's value: names of purposes, if it is right. An empty value is one empty word.
#[must_use]
pub fn stated_words(value: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(value);
    let words = text.split(',').take(MAX_WORDS + 1);
    words.map(|word| excerpt(word.trim_matches([' ', '\t'])).into_owned()).collect()
}

/// Returns the purposes that these words name; the empty set if there are no words.
///
/// # Errors
///
/// Returns what is wrong with a word that names no purpose, or that there are too many.
pub(crate) fn stated_purposes(words: &[String]) -> Result<PurposeSet, Cow<'static, str>> {
    if words.len() > MAX_WORDS {
        return Err("it lists too many purposes".into());
    }
    let purposes = words.iter().map(|word| word.parse::<Purpose>());
    let purposes: Result<_, _> = purposes.collect();
    purposes.map_err(|error| error.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stated(value: &str) -> Result<PurposeSet, String> {
        stated_purposes(&stated_words(value.as_bytes())).map_err(Cow::into_owned)
    }

    #[test]
    fn every_word_is_a_purpose_or_the_field_is_wrong() {
        let both = PurposeSet::of(&[Purpose::Search, Purpose::TrainAi]);
        for value in ["search,train-ai", " search ,\ttrain-ai", "ai-train,search,search"] {
            assert_eq!(stated(value), Ok(both), "{value}");
        }
        for value in ["", ",", "search,", "Search", "search train-ai", "everything", "search;q=1"] {
            let mistake = stated(value).unwrap_err();
            assert!(mistake.contains("is not a purpose"), "{value}: {mistake}");
        }
        let many = ["search"; MAX_WORDS + 1].join(",");
        assert_eq!(stated(&many), Err("it lists too many purposes".to_owned()));
        assert_eq!(stated_words(many.as_bytes()).len(), MAX_WORDS + 1);
        assert_eq!(stated_purposes(&[]), Ok(PurposeSet::NONE));
    }
}
