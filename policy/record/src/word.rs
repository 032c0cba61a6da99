//! Words of closed sets.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::{Object, ObjectBuilder, Type};

/// A closed set of words.
pub trait ClosedSet: Copy + PartialEq + 'static {
    /// Every member that has a word of its own.
    const ALL: &'static [Self];

    /// Returns the word that the log writes.
    fn word(self) -> &'static str;

    /// Returns the member with this word, as [`Self::word`] gives it.
    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|member| member.word() == word)
    }
}

/// A word of a closed set, or one that another version wrote. It can be read as its text.
#[derive(Clone)]
pub enum Word<T: ClosedSet> {
    Known(T),
    Other(Box<str>),
}

impl<T: ClosedSet> Word<T> {
    /// Returns the member of the set, unless another version wrote the word.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(member) => Some(*member),
            Self::Other(_) => None,
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(member) => member.word(),
            Self::Other(text) => text,
        }
    }

    /// Returns the text; a known word is not copied.
    pub fn to_text(&self) -> Cow<'static, str> {
        match self {
            Self::Known(member) => Cow::Borrowed(member.word()),
            Self::Other(text) => Cow::Owned(text.to_string()),
        }
    }
}

impl<T: ClosedSet> Deref for Word<T> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl<T: ClosedSet> AsRef<str> for Word<T> {
    fn as_ref(&self) -> &str {
        self
    }
}

impl<T: ClosedSet> From<T> for Word<T> {
    fn from(member: T) -> Self {
        Self::Known(member)
    }
}

impl<T: ClosedSet> From<&str> for Word<T> {
    fn from(text: &str) -> Self {
        T::named(text).map_or_else(|| Self::Other(text.into()), Self::Known)
    }
}

impl<T: ClosedSet> PartialEq for Word<T> {
    fn eq(&self, other: &Self) -> bool {
        // By the text: two members may have the same word.
        self.as_str() == other.as_str()
    }
}

impl<T: ClosedSet> Eq for Word<T> {}

impl<T: ClosedSet> PartialOrd for Word<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: ClosedSet> Ord for Word<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other)
    }
}

impl<T: ClosedSet> Hash for Word<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl<T: ClosedSet> PartialEq<T> for Word<T> {
    fn eq(&self, other: &T) -> bool {
        self.known() == Some(*other)
    }
}

impl<T: ClosedSet> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl<T: ClosedSet> fmt::Debug for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<T: ClosedSet> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de, T: ClosedSet> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(WordVisitor(std::marker::PhantomData))
    }
}

/// Reads a word without a copy, if it is known.
struct WordVisitor<T>(std::marker::PhantomData<T>);

impl<T: ClosedSet> Visitor<'_> for WordVisitor<T> {
    type Value = Word<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Word<T>, E> {
        Ok(text.into())
    }
}

/// Returns the schema of a word from a closed set.
pub fn word_schema(description: &str, words: impl IntoIterator<Item = &'static str>) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(description))
        .enum_values(Some(words))
        .build()
}

#[cfg(test)]
mod tests {
    use wayleave_decision::{RequestOutcome, RuleAction};

    use super::*;

    #[test]
    fn a_word_of_another_version_is_kept() {
        for text in ["\"refused\"", "\"postponed\"", "\"\""] {
            let word: Word<RequestOutcome> = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&word).unwrap(), text);
        }
        let known: Word<RequestOutcome> = serde_json::from_str("\"refused\"").unwrap();
        assert_eq!(known.known(), Some(RequestOutcome::Refused));
        assert_eq!(Word::<RequestOutcome>::from("Refused").known(), None, "words have one case");
        serde_json::from_str::<Word<RequestOutcome>>("null").unwrap_err();
        serde_json::from_str::<Word<RequestOutcome>>("1").unwrap_err();
    }

    #[test]
    fn words_that_are_written_alike_are_the_same() {
        let legal = Word::Known(RuleAction::RefuseLegally);
        assert_eq!(legal, Word::from("refuse"));
        assert_ne!(legal, Word::from("allow"));
        assert_eq!(Word::<RuleAction>::from("pay"), Word::from("pay"));
    }

    #[test]
    fn a_word_is_shown_like_its_text() {
        let word = Word::Known(RequestOutcome::Failed);
        assert_eq!(format!("{word:<9}|{word:?}"), "failed   |\"failed\"");
        assert_eq!(word.to_text(), "failed");
        assert!(matches!(word.to_text(), Cow::Borrowed(_)));
    }
}
