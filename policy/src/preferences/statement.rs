//! One statement about use, and where it stands.

use std::fmt;

use super::{Purposes, Source, Stage};

/// What a site says about some purposes, and all that is needed to point at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The family that it belongs to.
    pub source: Source,
    /// Where it stands.
    pub carrier: Carrier,
    /// The statement as written.
    pub text: String,
    /// The clause by which it means what it is taken to mean.
    pub clause: &'static str,
    /// The policy or licence that it names.
    pub policy: Option<String>,
    /// When it is known.
    pub stage: Stage,
    /// The purposes it refuses.
    pub refuses: Purposes,
    /// The purposes it allows.
    pub allows: Purposes,
}

/// Where a statement stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A line of robots.txt.
    RobotsTxt {
        /// The line's number, from 1; 0 if no single line decides.
        line: u32,
    },
    /// A field of the answer.
    Field,
    /// An element of the page.
    Meta,
    /// A file of its own.
    File {
        /// Its URL or, on the origin asked, its path.
        url: String,
    },
    /// One's own configuration.
    Configuration,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RobotsTxt { line: 0 } => f.write_str("robots.txt"),
            Self::RobotsTxt { line } => write!(f, "robots.txt:{line}"),
            Self::Field => f.write_str("field"),
            Self::Meta => f.write_str("meta"),
            Self::File { url } => f.write_str(url),
            Self::Configuration => f.write_str("configuration"),
        }
    }
}
