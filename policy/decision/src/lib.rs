//! Decides whether a crawler's request may be forwarded.
//!
//! This is the only place that decides. It does no I/O, reads no clock and starts no task: a [`Decision`] names the inputs
//! that it still needs, and its caller supplies them, from a cache, by fetching, from files or from an archive.
//!
//! ```text
//!  identity ─ crawlers        the crawler behind a request, and objections to the name it gives
//!       └ stated_purposes     the purposes that a client states for a request
//!  contact                    whom to ask about a crawler
//!  https                      the treatment of HTTPS: interception, blind tunnels, refusal
//!  rules ─ applied_rule       the organisation's own rules
//!  robots ─ robots_answer     robots.txt in every equivalent spelling, and as the answer to a request for it
//!  preference_finding ─ documents   statements about use, and the documents that hold them
//!  subresource                the files that a page loads to be shown
//!  decision                   all of these, in their order
//!  verdict, refusal, reason   the result
//! ```

mod applied_rule;
mod certificate_name;
mod claimed_names;
mod contact;
mod crawler;
mod crawlers;
mod decision;
mod documents;
mod https;
mod identity;
mod preference_finding;
mod reason;
mod refusal;
mod robots;
mod robots_answer;
mod rules;
mod stated_preference;
mod stated_purposes;
mod subresource;
mod target;
mod verdict;
mod well_known;

pub use certificate_name::CertificateName;
pub use claimed_names::ClaimedNames;
pub use contact::contacts;
pub use crawler::{
    ClientFacts, CrawlTrigger, Crawler, CrawlerProof, DailyBudget, EnforcementMode, ProxyAccount,
};
pub use crawlers::{Crawlers, CrawlersConfig};
pub use decision::{
    Decision, DecisionRequest, DecisionSettings, Input, Step, SuspendedDecision, decide_own_request,
};
pub use documents::{
    DocumentBatch, DocumentPending, DocumentResult, DocumentToFetch, documents_to_fetch, may_fetch,
};
pub use https::{HttpsHandling, HttpsMode, InterceptionSettings};
pub use identity::{ASSERTED, Identified, Identity};
pub use preference_finding::PreferenceFinding;
pub use reason::{DefaultAnswer, Reason, ReasonMeaning, RequestOutcome};
pub use refusal::{DecidingRule, Refusal, RefusalBasis};
pub use robots::{
    AccessFinding, CheckedSnapshot, RobotsCopy, crawl_delay, decide_in_dialect, group_names,
    stated_delay,
};
pub use robots_answer::RobotsAnswer;
pub use rules::{PolicyRule, PolicyRules, RuleAction, RuleMatch, RuleQuery, blocked_by};
pub use stated_preference::{DocumentSeen, StatedPreference};
pub use stated_purposes::{PURPOSE_FIELD, stated_words};
pub use subresource::{
    ContentStart, RefusedSubresources, Subresource, SubresourceKind, SubresourcePolicy,
    content_start, is_page_type,
};
pub use target::{ResolvedTarget, TargetScope};
pub use verdict::{DecisionFacts, Permit, Verdict};
pub use well_known::{WellKnownCrawler, well_known_owner};
