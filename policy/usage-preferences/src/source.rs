//! Sources of preferences, and the stages of an exchange at which they become known.

use std::fmt;
use std::str::FromStr;

use super::{Purpose, PurposeSet};

/// A family of statements about use. Each family combines its own statements by its own rules; between families any
/// refusal refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PreferenceSource {
    /// A rule of the operator's own organisation.
    Rule,
    /// `Disallow` in robots.txt, or a robots.txt that cannot be fetched.
    Disallow,
    /// `Content-Usage` in robots.txt and as a field (IETF AIPREF).
    ContentUsage,
    /// `Content-Signal` in robots.txt and as a field (Cloudflare's Content Signals Policy).
    ContentSignal,
    /// `DisallowAITraining` and `AllowAITraining` in robots.txt (draft-canel-robots-ai-control).
    AiTrainingRule,
    /// A group in robots.txt for a product token that only names a purpose, such as `Google-Extended`.
    PolicyToken,
    /// The TDM Reservation Protocol: `/.well-known/tdmrep.json`, `tdm-reservation`.
    Tdmrep,
    /// Really Simple Licensing: licences named in robots.txt, `Link` and HTML.
    Rsl,
    /// `X-Robots-Tag` and `<meta name="robots">`.
    RobotsMeta,
    /// The origin answered that it wants payment or a licence.
    Payment,
}

impl PreferenceSource {
    /// The families that can be switched on and off; all are on by default.
    pub const OPTIONAL: [Self; 7] = [
        Self::ContentUsage,
        Self::ContentSignal,
        Self::AiTrainingRule,
        Self::PolicyToken,
        Self::Tdmrep,
        Self::Rsl,
        Self::RobotsMeta,
    ];

    /// Returns the purposes that it can refuse.
    #[must_use]
    pub const fn refusable(self) -> PurposeSet {
        match self {
            // A reservation is not read as barring search or archives.
            Self::Tdmrep => PurposeSet::of(&[Purpose::Tdm, Purpose::TrainAi, Purpose::AiInput]),
            Self::AiTrainingRule => PurposeSet::of(&[Purpose::TrainAi]),
            _ => PurposeSet::ALL,
        }
    }

    /// Returns the name used in configuration, answers and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Disallow => "disallow",
            Self::ContentUsage => "content-usage",
            Self::ContentSignal => "content-signal",
            Self::AiTrainingRule => "ai-training-rule",
            Self::PolicyToken => "policy-token",
            Self::Tdmrep => "tdmrep",
            Self::Rsl => "rsl",
            Self::RobotsMeta => "robots-meta",
            Self::Payment => "payment",
        }
    }
}

impl fmt::Display for PreferenceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PreferenceSource {
    type Err = UnknownSource;

    fn from_str(name: &str) -> Result<Self, UnknownSource> {
        let known = Self::OPTIONAL.into_iter().find(|source| source.as_str() == name);
        known.ok_or_else(|| UnknownSource(name.to_owned()))
    }
}

/// The error for a name that no optional family has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSource(String);

impl fmt::Display for UnknownSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = PreferenceSource::OPTIONAL.map(PreferenceSource::as_str).join(", ");
        write!(f, "{:?} is not a source of preferences: expected one of {names}", self.0)
    }
}

impl std::error::Error for UnknownSource {}

/// The families that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceSet(u16);

impl SourceSet {
    /// Returns whether a family is read.
    #[must_use]
    pub const fn contains(self, source: PreferenceSource) -> bool {
        self.0 & 1 << source as u16 != 0
    }
}

impl Default for SourceSet {
    /// Returns all families.
    fn default() -> Self {
        PreferenceSource::OPTIONAL.into_iter().collect()
    }
}

impl FromIterator<PreferenceSource> for SourceSet {
    fn from_iter<I: IntoIterator<Item = PreferenceSource>>(sources: I) -> Self {
        Self(sources.into_iter().fold(0, |set, source| set | 1 << source as u16))
    }
}

/// The stage of an exchange at which a statement becomes known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PreferenceStage {
    /// Before the request is sent.
    Before,
    /// With the head of the response.
    Head,
    /// With the beginning of the response body.
    Body,
}

impl PreferenceStage {
    /// Returns `before`, `head` or `body`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Head => "head",
            Self::Body => "body",
        }
    }
}

impl fmt::Display for PreferenceStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
