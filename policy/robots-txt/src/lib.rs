//! Decides whether a crawler may fetch a URL, by the site's robots.txt (RFC 9309).
//!
//! ```
//! use wayleave_robots_txt::RobotsTxt;
//!
//! let robots = RobotsTxt::parse(b"User-agent: ExampleBot\nDisallow: /private\n");
//! let crawler = robots.for_crawler(["ExampleBot-News", "ExampleBot"])?;
//! assert!(crawler.allows("https://example.com/page")?);
//! assert!(!crawler.allows("https://example.com/private/diary")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`RobotsTxt`] is a parsed file, for any crawler and in any dialect: rules, sitemaps, other directives.
//! - [`CrawlerRules`] answers for one crawler: [`allows`](CrawlerRules::allows), with its reason
//!   [`decide`](CrawlerRules::decide), and the [`crawl_delay`](CrawlerRules::crawl_delay).
//! - [`AccessResult`] is the outcome of fetching the file, which decides where there is none.
//! - [`Dialect`] chooses how the file is read: like RFC 9309, like Google, like the draft of 1996.
//! - [`lint`](mod@lint) reports the mistakes in a file to its author.
//! - [`Origin::robots_txt_uri`] says where the file of an origin is, [`Target::parse`] which origin a URL has.
//! - [`guide`] has the long tables: where readers of robots.txt disagree, and which spellings of a path are one page.
//!
//! Nothing here reads a clock, opens a socket or a file, or starts a task. Any bytes parse. Time and memory are bounded: a
//! file made to be slow ends in a disallow with the reason [`AccessReason::TooCostly`].
//!
//! # Features
//!
//! - `serde` (off by default): `Serialize` and `Deserialize` for what callers store or show, such as [`Dialect`],
//!   [`ProductToken`], [`Origin`], [`DecisionDetails`] and [`lint::Finding`]. Of a file, store the bytes.

#![warn(missing_docs, missing_debug_implementations)]

mod crawler_names;
mod dialect;
mod excerpt;
mod host;
mod host_pattern;
#[doc(hidden)]
pub mod internal;
pub mod lint;
mod name_tag;
mod origin;
mod path;
mod percent_encoding;
mod product_token;
mod robots_txt;
mod spelling;
mod target;
#[cfg(feature = "serde")]
mod text_serde;
mod user_agent;

pub use crawler_names::CrawlerNames;
pub use dialect::{Dialect, UnknownDialect};
pub use lint::lint;
pub use origin::{InvalidUrl, Origin, UrlScheme};
pub use path::{InvalidPath, UrlPath};
pub use product_token::{InvalidProductToken, ProductToken};
pub use robots_txt::{
    AccessDecision, AccessReason, AccessResult, AccessVerdict, CleanParam, CrawlerRules,
    DailyHours, DecisionDetails, Directive, RequestRate, RobotsTxt, TimeOfDay,
};
pub use target::Target;

// For wayleave's other crates, like `internal`: not covered by semantic versioning.
#[doc(hidden)]
pub use excerpt::excerpt;
#[doc(hidden)]
pub use host_pattern::{HostPattern, InvalidHostPattern};
#[doc(hidden)]
pub use robots_txt::{
    MatchContext, decide, decide_all_spellings, decide_all_spellings_within,
    decide_as_received_within, decide_whole_site, decide_whole_site_within,
    decide_write_all_spellings, decide_write_all_spellings_within, numbered_lines,
};

/// Long tables, for those who need to know exactly.
#[cfg(doc)]
pub mod guide {
    #[doc = include_str!("../docs/disagreements.md")]
    pub mod disagreements {}

    #[doc = include_str!("../docs/spellings.md")]
    pub mod spellings {}
}

/// The README's code, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
