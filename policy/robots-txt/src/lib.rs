//! Decides whether a crawler may fetch a URL, by the site's robots.txt: in four dialects, as pure functions.
//!
//! Nothing here reads a clock, opens a socket or starts a task. Bytes and names go in, and an [`AccessDecision`] with its
//! reason comes out:
//!
//! ```
//! use wayleave_robots_txt::{AccessVerdict, Dialect, ProductToken, RobotsTxt, UrlPath};
//!
//! let robots = RobotsTxt::parse(b"User-agent: ExampleBot\nDisallow: /private\n");
//! let crawler = ProductToken::new("ExampleBot")?;
//! let path = UrlPath::parse("/private/diary?page=1")?;
//! assert!(!robots.is_allowed(&crawler, &path));
//!
//! let decision = robots.decide(Dialect::Google, std::slice::from_ref(&crawler), &path);
//! assert_eq!(decision.verdict(), AccessVerdict::Disallow);
//! assert_eq!(decision.line(), Some(2));
//! assert_eq!(decision.rule().as_deref(), Some("Disallow: /private"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

mod dialect;
mod excerpt;
mod host;
mod host_pattern;
pub mod lint;
#[doc(hidden)]
pub mod matching;
mod name_tag;
mod origin;
mod path;
mod percent_encoding;
mod product_token;
mod robots_txt;
mod spelling;
mod target;
mod user_agent;

pub use dialect::{Dialect, UnknownDialect};
#[doc(hidden)]
pub use excerpt::excerpt;
#[doc(hidden)]
pub use host_pattern::{HostPattern, InvalidHostPattern};
pub use lint::lint;
pub use origin::{InvalidUrl, Origin, UrlScheme};
pub use path::{InvalidPath, UrlPath};
pub use product_token::{InvalidProductToken, ProductToken};
pub use robots_txt::{
    AccessDecision, AccessReason, AccessResult, AccessVerdict, CleanParam, DailyHours,
    DecisionDetails, Directive, RequestRate, RobotsTxt, TimeOfDay, decide, decide_all_spellings,
    decide_whole_site, decide_write_all_spellings, numbered_lines,
};
#[doc(hidden)]
pub use robots_txt::{MatchContext, decide_all_spellings_within, decide_whole_site_within};
pub use target::Target;
