//! Documents besides robots.txt in which a site states preferences about the use of its content.

use std::sync::Arc;

use super::{RslLicence, TdmrepFile};

/// The path of a site's reservations (TDM Reservation Protocol).
pub const TDMREP_PATH: &str = "/.well-known/tdmrep.json";

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    /// An origin's robots.txt.
    RobotsTxt,
    /// Reservations of text and data mining.
    Tdmrep,
    /// An RSL licence: any other document that a site names.
    Rsl,
}

impl DocumentKind {
    /// Returns the format of the document at a path other than `/robots.txt`.
    #[must_use]
    pub fn for_path(path: &str) -> Self {
        match path {
            TDMREP_PATH => Self::Tdmrep,
            _ => Self::Rsl,
        }
    }

    /// Parses a document, or the beginning of one that `is_cut`; `None` for a robots.txt. Never fails: a document that
    /// cannot be read reports that when it is queried.
    #[must_use]
    pub fn parse(self, bytes: &[u8], is_cut: bool) -> Option<PreferenceDocument> {
        Some(match self {
            Self::RobotsTxt => return None,
            Self::Tdmrep if is_cut => {
                PreferenceDocument::Tdmrep(TdmrepFile::parse_beginning(bytes))
            }
            Self::Tdmrep => PreferenceDocument::Tdmrep(TdmrepFile::parse(bytes)),
            // XML without its end is not well-formed, so parsing it would be wasted.
            Self::Rsl if is_cut => PreferenceDocument::Rsl(RslLicence::unreadable().into()),
            Self::Rsl => PreferenceDocument::Rsl(RslLicence::parse(bytes).into()),
        })
    }

    /// Returns `robots.txt`, or the name of the preference source that the document is.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RobotsTxt => "robots.txt",
            Self::Tdmrep => "tdmrep",
            Self::Rsl => "rsl",
        }
    }
}

/// A parsed document other than robots.txt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PreferenceDocument {
    /// `/.well-known/tdmrep.json`.
    Tdmrep(TdmrepFile),
    /// A licence.
    Rsl(Arc<RslLicence>),
}

impl PreferenceDocument {
    /// Returns roughly how many bytes it holds on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Tdmrep(file) => file.heap_bytes(),
            Self::Rsl(licence) => licence.heap_bytes(),
        }
    }
}
