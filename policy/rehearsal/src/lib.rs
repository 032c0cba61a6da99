//! Rehearses a robots.txt on the requests of an access log: which crawlers it would shut out of what, what it changes
//! against an older one, what pages would lose, and which of its lines do nothing.
//!
//! ```text
//!  log_line ─ combined, json   one line of a log as a request
//!  roster                      the crawler that a User-Agent names
//!  judge                       the verdicts about a path, in every dialect, by both files
//!  rehearsal ─ tally           reads lines and counts, in bounded memory whatever strangers put into the log
//!  lost_files                  style sheets, scripts, images and fonts of pages that stay allowed
//!  claims                      lines that say something untrue about crawlers
//!  report                      the result
//! ```
//!
//! A [`Rehearsal`] counts the lines that it is given; several, on as many threads, are merged, and a [`RehearsalReport`]
//! sums them up. This crate knows nothing of
//! files and terminals. Begin reading at [`Rehearsal`].

mod claims;
mod judge;
mod log_line;
mod lost_files;
mod rehearsal;
mod report;
mod roster;
mod tally;

pub use judge::RobotsPair;
pub use log_line::LogFormat;
pub use rehearsal::{BadLine, LinePlace, Rehearsal};
pub use report::{
    CrawlerRow, DialectRow, GroupRow, LineRow, LostFileRow, RehearsalReport, RuleRow,
};
pub use tally::Traffic;
