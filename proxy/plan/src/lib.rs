//! Plans a crawl before it begins: which of its URLs would be refused, how long the others take at the pace that this proxy
//! keeps, which prices are known, and which hosts turned requests away before.
//!
//! ```text
//!  crawl_plan              the whole, and its sums
//!   ├─ origin_plan         the URLs of one origin: verdicts, and the pace
//!   ├─ crawl_time          the hours: pace units side by side, one unit in sequence, budgets day by day
//!   ├─ history             the decision log about these hosts
//!   ├─ known_before        the rest of the day's budget, and settings that matter
//!   └─ in_words            a plan in sentences
//! ```
//!
//! The delays are those of `wayleave-admission` and `wayleave-pacing`, by which requests wait. This crate knows nothing of files
//! with URLs, of fetches, or of the forms in which a plan is shown. Begin reading at [`CrawlPlan`].

mod crawl_plan;
mod crawl_time;
#[cfg(test)]
mod crawl_time_tests;
mod history;
pub mod in_words;
pub mod known_before;
mod origin_plan;

pub use self::crawl_plan::{CrawlPlan, PlannedPrice, PriceSource};
pub use self::crawl_time::{BudgetLeft, CrawlLimit, CrawlTime, UnitTime};
pub use self::history::{CrawlHistory, HostHistory};
pub use self::origin_plan::{OriginPlan, PlannedVerdict, RefusedUrls};
