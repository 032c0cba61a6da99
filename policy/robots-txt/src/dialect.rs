//! The dialects in which a robots.txt can be read.

use std::fmt;
use std::str::FromStr;

/// A set of rules for reading robots.txt. One parsed file can be read in any of them.
///
/// [`guide::disagreements`](crate::guide::disagreements) lists their differences and the reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Dialect {
    /// RFC 9309, the standard.
    #[default]
    Rfc9309,
    /// Google's published parser and documentation.
    Google,
    /// Martijn Koster's internet draft `draft-koster-robots-00` of 4 December 1996.
    Koster1996,
    /// The German reference SELFHTML: 1996, with prefixes of names, `*` and `$`.
    Selfhtml,
    /// Disallows what any of the other four disallows.
    Strictest,
}

impl Dialect {
    /// Every dialect, `strictest` last.
    pub const ALL: &'static [Self] =
        &[Self::Rfc9309, Self::Google, Self::Koster1996, Self::Selfhtml, Self::Strictest];

    /// The four dialects that `strictest` combines.
    pub(crate) const SINGLE: [Self; 4] =
        [Self::Rfc9309, Self::Google, Self::Koster1996, Self::Selfhtml];

    /// Returns the dialects that have to allow a path: the dialect itself, or all four for `strictest`.
    #[must_use]
    pub const fn each(self) -> &'static [Self] {
        match self {
            Self::Rfc9309 => &[Self::Rfc9309],
            Self::Google => &[Self::Google],
            Self::Koster1996 => &[Self::Koster1996],
            Self::Selfhtml => &[Self::Selfhtml],
            Self::Strictest => &Self::SINGLE,
        }
    }

    /// Returns the name in lower case, such as `rfc9309`; [`FromStr`] reads it back.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rfc9309 => "rfc9309",
            Self::Google => "google",
            Self::Koster1996 => "koster1996",
            Self::Selfhtml => "selfhtml",
            Self::Strictest => "strictest",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        let mut all = Self::ALL.iter().copied();
        all.find(|dialect| dialect.as_str() == name).ok_or_else(|| UnknownDialect(name.to_owned()))
    }
}

/// The error for a name that no dialect has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDialect(String);

impl fmt::Display for UnknownDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown dialect {:?}: one of rfc9309, google, koster1996, selfhtml, strictest",
            self.0
        )
    }
}

impl std::error::Error for UnknownDialect {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_reads_back() {
        for dialect in Dialect::ALL {
            assert_eq!(dialect.to_string().parse(), Ok(*dialect));
        }
        assert!("RFC9309".parse::<Dialect>().is_err());
    }

    #[test]
    fn only_strictest_combines_dialects() {
        for dialect in Dialect::SINGLE {
            assert_eq!(dialect.each(), [dialect]);
        }
        assert_eq!(Dialect::Strictest.each(), Dialect::SINGLE);
    }
}
