//! A decision as it is logged: one record, whose members are listed in one place.
//!
//! Evidence of today must verify in years, and by another version. So the line of a decision has a crate of its own: all
//! code that writes a line, reads one, or decides again about its request uses the same members and the same words.
//!
//! ```text
//!  decision_record  the members, and the facts that follow from them alone
//!    ├─ recorded_request  the request behind a decision
//!    ├─ finding           of robots.txt, the organisation's rules and demands for payment
//!    ├─ use_preference    the site's statements about the crawler's purposes
//!    ├─ logged_client     the client's address: whole, its network, or a keyed digest
//!    └─ decision_id
//!  member           the macro that makes structure, reader, writer and schema of one list of members
//!  word             a word of a closed set, or one that another version wrote
//!    └─ closed_sets   the sets
//! ```
//!
//! This crate knows nothing of files, of the chain that links lines, or of the proxy: time and ids come in from outside. The
//! values of the members are set in `proxy/admission/src/record.rs`. Begin reading at [`DecisionRecord`].

#[macro_use]
mod member;

mod closed_sets;
mod decision_id;
mod decision_record;
mod finding;
mod logged_client;
mod recorded_request;
mod use_preference;
mod word;

pub use self::closed_sets::{
    AnswerSource, AskedVia, PaymentScheme, RecordedIdentity, RequestSignature, RobotsAccess,
};
pub use self::decision_id::DecisionId;
pub use self::decision_record::{
    DecisionRecord, LogWord, MAX_USER_AGENT_BYTES, UNNAMED, crawler_in_words, host,
};
pub use self::finding::{FindingRecord, PaymentRecord, RuleRecord, SubresourceRecord};
pub use self::logged_client::{CLIENT_DIGEST_BYTES, LoggedClient};
pub use self::recorded_request::WAYLEAVE;
pub use self::use_preference::{DocumentRecord, UsePreference};
pub use self::word::{ClosedSet, Word, word_schema};
