//! Decides what a crawler may fetch: robots.txt in four dialects, as pure functions.
//!
//! Nothing here reads a clock, opens a socket or starts a task. Bytes and names go in, a
//! [`Decision`] with its reason comes out:
//!
//! ```
//! use wayleave_robots_txt::{Dialect, Path, ProductToken, RobotsTxt, Verdict};
//!
//! let robots = RobotsTxt::parse(b"User-agent: ExampleBot\nDisallow: /private\n");
//! let crawler = ProductToken::new("ExampleBot")?;
//! let path = Path::parse("/private/diary?page=1")?;
//! assert!(!robots.is_allowed(&crawler, &path));
//!
//! let decision = robots.decide(Dialect::Google, std::slice::from_ref(&crawler), &path);
//! assert_eq!(decision.verdict(), Verdict::Disallow);
//! assert_eq!(decision.line(), Some(2));
//! assert_eq!(decision.rule().as_deref(), Some("Disallow: /private"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//!
//! - [`Origin`], [`Target`], [`Path`]: for what? A URI taken apart, its host in one spelling.
//! - [`HostPattern`]: which hosts? One of them, all below one, or a glob.
//! - [`ProductToken`]: who? The name a crawler has in robots.txt.
//! - [`RobotsTxt`]: the file, parsed once for every [`Dialect`].
//! - [`AccessResult`]: what came of fetching it; [`decide`] judges one path by that as a dialect
//!   says; [`decide_strictly`] judges every equivalent spelling of it, as a proxy must, and
//!   [`decide_any_path_strictly`] makes no exception of `/robots.txt`; [`decide_every_path`] judges
//!   all of an origin's paths at once.
//! - [`preferences`]: what a site says about the use of its content, for a crawler that declares its purposes.
//! - [`excerpt`] cuts what others wrote to what is shown of it.
//! - [`lint`] says what is wrong with a file, or read differently by different dialects.

#![warn(missing_docs)]

mod dialect;
mod document;
mod excerpt;
mod host;
mod host_pattern;
pub mod lifecycle;
mod lint;
mod name_tag;
mod origin;
mod path;
mod percent_encoding;
#[cfg(feature = "preferences")]
pub mod preferences;
mod product_token;
mod robots_txt;
mod spelling;
mod target;
mod user_agent;

pub use dialect::{Dialect, UnknownDialect};
pub use document::{AI_TXT_PATH, DocumentKind, PreferenceDocument, TDMREP_PATH};
pub use excerpt::excerpt;
pub use host_pattern::{HostPattern, InvalidHostPattern};
pub use lint::{Finding, Severity, lint};
pub use origin::{InvalidUri, Origin, Scheme};
pub use path::{InvalidPath, UrlPath};
pub use product_token::{InvalidProductToken, ProductToken};
pub use robots_txt::{
    AccessDecision, AccessReason, AccessResult, AccessVerdict, CleanParam, DailyHours,
    DecisionDetails, Directive, MatchContext, RequestRate, RobotsTxt, TimeOfDay, decide,
    decide_all_spellings, decide_all_spellings_within, decide_whole_site, decide_whole_site_within,
    decide_write_all_spellings, numbered_lines,
};
pub use target::Target;
