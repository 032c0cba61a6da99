//! What sites say about the use of their content, beside who may fetch it.
//!
//! A crawler declares its purposes; [`Preferences`] gathers what a site says about them, in the order in which it becomes
//! known, and [`Preferences::judge`] combines it:
//!
//! | stage | heard | families |
//! | --- | --- | --- |
//! | before | robots.txt, `tdmrep.json`, licences named in robots.txt | `Content-Usage`, `Content-Signal`, AI training rules, policy tokens, TDMRep, RSL |
//! | head | the answer's fields | the same as fields, `X-Robots-Tag`, `Link` to licences |
//! | body | the beginning of an HTML page | `meta`, `link` and `script` elements |
//!
//! Inside a family its own text decides; between families any refusal refuses, else any permission allows, else nothing is
//! stated. What cannot be read says nothing, and so never permits; a licence that cannot be had or read refuses.
//!
//! So a statement more never opens what was refused, but where a family's own text says that one statement takes the place of
//! another: a longer path, a group of one's own, the last of duplicate keys (AIPREF), a licence in the group or for a narrower
//! path and a second offer that asks for less (RSL), the first entry and the later carrier (TDMRep), `nocache` beside `noarchive` (Bing).

mod answer;
mod content_signal;
mod content_usage;
mod date;
mod declaration;
mod foreign_content;
mod gather;
mod html;
mod judgement;
mod licences;
mod link;
mod purpose;
mod robots_meta;
mod robots_txt;
mod rsl;
mod source;
mod statement;
mod tdmrep;
mod xml_bounds;

pub(crate) use content_signal::read as read_signals;
pub(crate) use content_usage::{Label, labels as read_labels, read as read_usage};
pub use declaration::{Asker, ContentUse, Declaration, MetaDialect, Reading, UnknownName};
pub use gather::{Duty, Preferences};
pub use judgement::{Judgement, Preference, Say};
pub use purpose::{Purpose, Purposes, UnknownPurpose};
pub(crate) use robots_txt::split_path;
pub use rsl::Rsl;
pub use source::{Source, Sources, Stage, UnknownSource};
pub(crate) use statement::Meaning;
pub use statement::{Carrier, Statement};
pub use tdmrep::Tdmrep;
