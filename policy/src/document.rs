//! `Document`: what stands beside robots.txt and speaks of the use of content, parsed once for all who ask.

#[cfg(feature = "preferences")]
use std::sync::Arc;

use crate::RobotsTxt;
#[cfg(feature = "preferences")]
use crate::preferences::{Rsl, Tdmrep};

/// Where a site keeps its reservations (TDM Reservation Protocol).
pub const TDMREP_PATH: &str = "/.well-known/tdmrep.json";
/// Where Spawning's ai.txt is.
pub const AI_TXT_PATH: &str = "/ai.txt";

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// As an origin's robots.txt.
    RobotsTxt,
    /// As reservations of text and data mining.
    Tdmrep,
    /// As Spawning's ai.txt.
    AiTxt,
    /// As a licence: whatever else a site names.
    Rsl,
}

impl Kind {
    /// How a document beside robots.txt is read, by where it stands.
    pub(crate) fn at(path: &str) -> Self {
        match path {
            TDMREP_PATH => Self::Tdmrep,
            AI_TXT_PATH => Self::AiTxt,
            _ => Self::Rsl,
        }
    }

    /// Reads the beginning of such a document, all of it unless it `is_cut`; nothing for a robots.txt. Never fails: what cannot
    /// be read says so when it is asked.
    #[must_use]
    pub fn read(self, bytes: &[u8], is_cut: bool) -> Option<Document> {
        match self {
            Self::AiTxt if is_cut => Some(Document::AiTxt(RobotsTxt::parse_beginning(bytes))),
            Self::AiTxt => Some(Document::AiTxt(RobotsTxt::parse_with_limit(
                bytes,
                bytes.len(),
            ))),
            #[cfg(feature = "preferences")]
            Self::Tdmrep if is_cut => Some(Document::Tdmrep(Tdmrep::parse_beginning(bytes))),
            #[cfg(feature = "preferences")]
            Self::Tdmrep => Some(Document::Tdmrep(Tdmrep::parse(bytes))),
            #[cfg(feature = "preferences")]
            Self::Rsl if is_cut => Some(Document::Rsl(Rsl::unreadable().into())),
            #[cfg(feature = "preferences")]
            Self::Rsl => Some(Document::Rsl(Rsl::parse(bytes).into())),
            _ => None,
        }
    }

    /// `robots.txt`, or the source of preferences that it is.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RobotsTxt => "robots.txt",
            Self::Tdmrep => "tdmrep",
            Self::AiTxt => "ai.txt",
            Self::Rsl => "rsl",
        }
    }
}

/// A document beside robots.txt, parsed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Document {
    /// `/.well-known/tdmrep.json`.
    #[cfg(feature = "preferences")]
    Tdmrep(Tdmrep),
    /// A licence.
    #[cfg(feature = "preferences")]
    Rsl(Arc<Rsl>),
    /// `/ai.txt`.
    AiTxt(RobotsTxt),
}

impl Document {
    /// Roughly what it holds in memory beside itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            #[cfg(feature = "preferences")]
            Self::Tdmrep(file) => file.heap_bytes(),
            #[cfg(feature = "preferences")]
            Self::Rsl(licence) => licence.heap_bytes(),
            Self::AiTxt(file) => file.heap_bytes(),
        }
    }
}
