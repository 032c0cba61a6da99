//! Purposes for which crawlers fetch, and sets of them.

use std::fmt;
use std::str::FromStr;

/// The purpose of a crawler, which it declares itself; nothing is guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Selecting pages and leading users to them, with excerpts at most (aipref-vocab-08 §4.3).
    Search,
    /// Input to a generative model at the time of its use, such as retrieval or grounding.
    AiInput,
    /// Training or fine-tuning of a generative model.
    TrainAi,
    /// Keeping copies for others to read.
    Archive,
    /// Text and data mining other than the purposes above (Directive 2019/790 art. 2(2)).
    Tdm,
    /// Anything else.
    Other,
}

impl Purpose {
    /// Every purpose.
    pub const ALL: [Self; 6] =
        [Self::Search, Self::AiInput, Self::TrainAi, Self::Archive, Self::Tdm, Self::Other];

    /// Returns the name used in configuration and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::AiInput => "ai-input",
            Self::TrainAi => "train-ai",
            Self::Archive => "archive",
            Self::Tdm => "tdm",
            Self::Other => "other",
        }
    }
}

/// The class by which networks judge a crawler. A crawler of several classes is treated as one of the strictest: since 15
/// September 2026 the largest network blocks a crawler for search and training wherever it blocks training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PurposeClass {
    /// Pages become results of a search.
    Search,
    /// Pages are read while a person, or an agent of theirs, waits.
    Agent,
    /// Pages become part of a model.
    Training,
}

impl PurposeClass {
    /// Every class.
    pub const ALL: [Self; 3] = [Self::Search, Self::Agent, Self::Training];

    /// Returns the name that the networks use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Search => "Search",
            Self::Agent => "Agent",
            Self::Training => "Training",
        }
    }
}

impl Purpose {
    /// Returns the class of crawlers with this purpose, if networks have one: the only table of it.
    #[must_use]
    pub const fn class(self) -> Option<PurposeClass> {
        match self {
            Self::Search => Some(PurposeClass::Search),
            Self::AiInput => Some(PurposeClass::Agent),
            Self::TrainAi => Some(PurposeClass::Training),
            Self::Archive | Self::Tdm | Self::Other => None,
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Purpose {
    type Err = UnknownPurpose;

    /// Parses a purpose; `ai-train` (Content Signals) and `ai-use` (AIPREF) mean `train-ai` and `ai-input`.
    fn from_str(name: &str) -> Result<Self, UnknownPurpose> {
        match name {
            "ai-train" => Some(Self::TrainAi),
            "ai-use" => Some(Self::AiInput),
            _ => Self::ALL.into_iter().find(|purpose| purpose.as_str() == name),
        }
        .ok_or_else(|| UnknownPurpose(name.to_owned()))
    }
}

/// The error for a name that no purpose has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPurpose(String);

impl fmt::Display for UnknownPurpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Purpose::ALL.map(Purpose::as_str).join(", ");
        write!(f, "{:?} is not a purpose: expected one of {names}", self.0)
    }
}

impl std::error::Error for UnknownPurpose {}

/// A set of purposes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PurposeSet(u8);

impl PurposeSet {
    /// No purpose.
    pub const NONE: Self = Self(0);
    /// Every purpose.
    pub const ALL: Self = Self::of(&Purpose::ALL);

    /// Creates a set of the purposes listed.
    #[must_use]
    pub const fn of(purposes: &[Purpose]) -> Self {
        // A `for` loop is not possible in a constant function.
        let mut set = 0;
        let mut index = 0;
        while index < purposes.len() {
            set |= 1 << purposes[index] as u8;
            index += 1;
        }
        Self(set)
    }

    /// Returns whether a purpose is in the set.
    #[must_use]
    pub const fn contains(self, purpose: Purpose) -> bool {
        self.0 & 1 << purpose as u8 != 0
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the purposes in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the purposes in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the purposes in this set that are not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the classes of the purposes, in the order of [`PurposeClass::ALL`].
    #[must_use]
    pub fn classes(self) -> Vec<PurposeClass> {
        let is_here = |class: &PurposeClass| self.iter().any(|it| it.class() == Some(*class));
        PurposeClass::ALL.into_iter().filter(is_here).collect()
    }

    /// Returns the purposes in the set, in the order of [`Purpose::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Purpose> {
        Purpose::ALL.into_iter().filter(move |purpose| self.contains(*purpose))
    }
}

impl FromIterator<Purpose> for PurposeSet {
    fn from_iter<I: IntoIterator<Item = Purpose>>(purposes: I) -> Self {
        purposes.into_iter().fold(Self::NONE, |set, purpose| set.union(Self::of(&[purpose])))
    }
}
