//! Preferences that sites state about the use of their content.
//!
//! Each family has a file that reads it (`noindex`: `robots_meta`). Nothing here withholds a response: the proxy does.
//!
//! A crawler declares its purposes; [`PreferenceState`] collects a site's statements about them, in the order in which
//! they become known, and [`PreferenceState::judge`] combines it:
//!
//! | stage | input | families |
//! | --- | --- | --- |
//! | before | robots.txt, `tdmrep.json`, licences named in robots.txt | `Content-Usage`, `Content-Signal`, AI training rules, policy tokens, TDMRep, RSL |
//! | head | the response's fields | the same as fields, `Robots-Tag`, `X-Robots-Tag`, `Link` to licences |
//! | body | the beginning of an HTML page | `meta`, `link` and `script` elements |
//!
//! Within a family its own specification decides; between families any refusal refuses, else any permission allows,
//! else nothing is stated. A statement that cannot be read is ignored, and so never permits; a licence that cannot be
//! fetched or read refuses.
//!
//! So an additional statement never allows a refused use, except where a family's own specification lets one
//! statement replace another: a longer path, a crawler's own group, the last of duplicate keys (AIPREF), a licence in
//! the group or for a narrower path and a second offer that asks for less (RSL), the first entry and the later carrier
//! (TDMRep), `nocache` besides `noarchive` (Bing).

#![warn(missing_docs)]

mod content_signal;
mod content_usage;
mod date;
mod declaration;
mod document;
mod foreign_elements;
mod head_lint;
mod html;
mod judgement;
mod licences;
mod link;
mod lint;
mod price;
mod purpose;
mod robots_meta;
mod robots_tag;
mod rsl;
mod source;
mod state;
mod statement;
mod tdmrep;
mod usage_lines;
mod xml_bounds;

pub use declaration::{
    ContentUse, CrawlerDeclaration, PreferenceQuery, PreferenceSettings, UnknownName,
};
pub use document::{DocumentKind, PreferenceDocument, TDMREP_PATH};
pub use head_lint::lint_head;
pub use judgement::{Preference, PreferenceJudgement, PurposePreference};
pub use lint::lint;
pub use price::LicencePrice;
pub use purpose::{Purpose, PurposeClass, PurposeSet, UnknownPurpose};
pub use rsl::RslLicence;
pub use source::{PreferenceSource, PreferenceStage, SourceSet, UnknownSource};
pub use state::{PreferenceState, UsageDuty};
pub use statement::{PreferenceStatement, StatementCarrier};
pub use tdmrep::TdmrepFile;
