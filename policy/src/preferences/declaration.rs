//! What a crawler declares about itself, and how statements are to be read for it.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use super::{Purpose, Purposes, Source, Sources};
use crate::{Dialect, ProductToken};

/// What a crawler says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    /// What it fetches for. Without any purpose no preference concerns it.
    pub purposes: Purposes,
    /// Product tokens that only name a purpose: where one has a group in robots.txt, that purpose obeys it besides.
    pub purpose_tokens: Vec<(Purpose, ProductToken)>,
    /// How much of what it fetches it uses; see [`Declaration::content_use`].
    pub content_use: Option<ContentUse>,
    /// Whether it goes without what nothing is said about.
    pub refuse_unstated: bool,
}

impl Declaration {
    /// How much of what it fetches it uses: as declared, else excerpts if it only searches, else everything.
    #[must_use]
    pub fn content_use(&self) -> ContentUse {
        let is_search = self.purposes == Purposes::of(&[Purpose::Search]);
        let default = if is_search {
            ContentUse::Reference
        } else {
            ContentUse::Full
        };
        self.content_use.unwrap_or(default)
    }
}

/// How much of a page is used (`use=`, Content Signals).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContentUse {
    /// Looked at; nothing is kept.
    Immediate,
    /// Indexed, excerpted, linked to.
    Reference,
    /// Summarised and reproduced.
    Full,
}

impl ContentUse {
    const ALL: [Self; 3] = [Self::Immediate, Self::Reference, Self::Full];

    /// The spelling used in configuration, which is that of Content Signals.
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
        let known = Self::ALL.into_iter().find(|it| it.as_str() == name);
        known.ok_or_else(|| UnknownName(name.to_owned(), "immediate, reference, full"))
    }
}

/// Whose reading of `noarchive` and `nocache` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetaDialect {
    /// Google's: both only concern stored copies.
    #[default]
    Google,
    /// Bing's since 2023: `noarchive` keeps a page out of chat answers and training, `nocache` only out of training;
    /// both together count as `nocache`.
    Bing,
}

impl FromStr for MetaDialect {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "google" => Ok(Self::Google),
            "bing" => Ok(Self::Bing),
            _ => Err(UnknownName(name.to_owned(), "google, bing")),
        }
    }
}

/// A name that is not one of those expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(String, &'static str);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not one of {}", self.0, self.1)
    }
}

impl std::error::Error for UnknownName {}

/// How statements are read, whoever asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The families that are read.
    pub sources: Sources,
    /// Whether retired labels of Content-Usage (`ai`, `genai`, `tdm`, …) still restrict. They never permit.
    pub legacy_labels: bool,
    /// Whose robots meta rules these are.
    pub robots_meta: MetaDialect,
    /// Who we are in the words of RSL: `commercial`, `education`, …; empty if that is not said.
    pub rsl_user: String,
    /// The country of use, as RSL names it: `DE`; empty if that is not said.
    pub rsl_geo: String,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            sources: Sources::default(),
            legacy_labels: true,
            robots_meta: MetaDialect::default(),
            rsl_user: String::new(),
            rsl_geo: String::new(),
        }
    }
}

/// Who asks, and when.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// What the crawler declares.
    pub declaration: &'a Declaration,
    /// How statements are read for it.
    pub reading: &'a Reading,
    /// The crawler's names, in order of preference.
    pub tokens: &'a [ProductToken],
    /// How it reads robots.txt.
    pub dialect: Dialect,
    /// Whether every equivalent spelling of a path is judged, as a proxy must.
    pub strict: bool,
    /// The time at which dates are compared.
    pub now: SystemTime,
}

impl Asker<'_> {
    /// Whether a family is read that could refuse one of the crawler's purposes.
    #[must_use]
    pub fn heeds(&self, source: Source) -> bool {
        let refusable = source.refusable();
        let purposes = self.declaration.purposes;
        self.reads(source) && !purposes.intersection(refusable).is_empty()
    }

    pub(super) fn reads(&self, source: Source) -> bool {
        self.reading.sources.contains(source)
    }
}
