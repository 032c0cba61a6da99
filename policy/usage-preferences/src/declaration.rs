//! Declarations of crawlers, and settings for reading statements.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use wayleave_robots_txt::{Dialect, ProductToken};

use super::{PreferenceSource, Purpose, PurposeSet, SourceSet};

/// The declaration of a crawler about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrawlerDeclaration {
    /// The purposes that it fetches for. Without any, no preference concerns it.
    pub purposes: PurposeSet,
    /// Product tokens that only name a purpose: where one has a group in robots.txt, that purpose obeys it as well.
    pub purpose_tokens: Vec<(Purpose, ProductToken)>,
    /// The extent to which it uses content; see [`CrawlerDeclaration::content_use`].
    pub content_use: Option<ContentUse>,
    /// Whether it refrains from uses about which nothing is stated.
    pub refuse_unstated: bool,
}

impl CrawlerDeclaration {
    /// Returns the extent to which it uses content: as declared, else excerpts if it only searches, else everything.
    #[must_use]
    pub fn content_use(&self) -> ContentUse {
        let is_search = self.purposes == PurposeSet::of(&[Purpose::Search]);
        let default = if is_search { ContentUse::Reference } else { ContentUse::Full };
        self.content_use.unwrap_or(default)
    }

    /// Returns whether statements of a family could refuse one of the purposes.
    #[must_use]
    pub fn could_be_refused_by(&self, source: PreferenceSource) -> bool {
        !self.purposes.intersection(source.refusable()).is_empty()
    }
}

/// The extent to which a page is used (`use=`, Content Signals).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContentUse {
    /// The page is looked at; nothing is kept.
    Immediate,
    /// The page is indexed, excerpted and linked to.
    Reference,
    /// The page is summarised and reproduced.
    Full,
}

impl ContentUse {
    const ALL: [Self; 3] = [Self::Immediate, Self::Reference, Self::Full];

    /// Returns the name used in configuration, which is that of Content Signals.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Immediate => "immediate",
            Self::Reference => "reference",
            Self::Full => "full",
        }
    }
}

impl FromStr for ContentUse {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = Self::ALL.into_iter().find(|member| member.as_str() == name);
        known.ok_or_else(|| UnknownName(name.to_owned(), "immediate, reference, full"))
    }
}

/// The error for a name that is not one of those expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(String, &'static str);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not one of {}", self.0, self.1)
    }
}

impl std::error::Error for UnknownName {}

/// The settings for reading statements, for all crawlers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreferenceSettings {
    /// The families that are read.
    pub sources: SourceSet,
    /// The class of user in the vocabulary of RSL: `commercial`, `education`, …; empty if it is unspecified.
    pub rsl_user: String,
    /// The country of use, as RSL names it: `DE`; empty if it is unspecified.
    pub rsl_geo: String,
}

/// The crawler for which statements are read, and the time.
#[derive(Clone, Copy, Debug)]
pub struct PreferenceQuery<'a> {
    /// The crawler's declaration.
    pub declaration: &'a CrawlerDeclaration,
    /// The settings for reading statements.
    pub settings: &'a PreferenceSettings,
    /// The crawler's names, in order of preference.
    pub tokens: &'a [ProductToken],
    /// The dialect in which it reads robots.txt.
    pub dialect: Dialect,
    /// Whether every equivalent spelling of a path is judged, as a proxy has to.
    pub all_spellings: bool,
    /// The time at which dates are compared.
    pub now: SystemTime,
}

impl PreferenceQuery<'_> {
    /// Returns whether a family is enabled and could refuse one of the crawler's purposes.
    #[must_use]
    pub fn could_be_refused_by(&self, source: PreferenceSource) -> bool {
        self.reads_source(source) && self.declaration.could_be_refused_by(source)
    }

    pub(super) fn reads_source(&self, source: PreferenceSource) -> bool {
        self.settings.sources.contains(source)
    }
}
