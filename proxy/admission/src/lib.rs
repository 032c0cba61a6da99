//! The gate: admits a request, and follows its response to its record.
//!
//! ```text
//!  gated_request                      a request, and all that is learned about it
//!   ├─ admit                          identifies, decides, waits and charges the budget:
//!   │    ├─ decide                      who asks, for which purpose, and whether it is allowed
//!   │    │    ├─ identify ── identity     certificates and passwords of clients
//!   │    │    ├─ request, target          the request, its target
//!   │    │    └─ decider                  supplies the inputs of a decision: documents, pace_group
//!   │    ├─ robots_txt_requests         requests for robots.txt itself, answered from the copy (validators)
//!   │    ├─ pace ── pace_unit           when: it waits for its slot, and is decided again
//!   │    └─ budget                      or not today
//!   ├─ admission                      follows the response:
//!   │    ├─ response_pace               the pace that it asks for
//!   │    ├─ response_size               how long it may be
//!   │    ├─ response_notes ── payment   whether it turns the request away, and its price
//!   │    ├─ subresource                 files that a page loads: their cause, and their kinds (allowed_pages)
//!   │    ├─ response_policy             its usage preferences
//!   │    └─ body_start                  the start of its body, as far as that says more than its head
//!   ├─ waiting_client                 whether its client is still there
//!   ├─ asked ── given_slot            requests that somebody else sends, their pace, and their responses
//!   ├─ revoke                         upgraded connections after a reload
//!   └─ record, outcome                the line in the log
//!       └─ answer                       a refusal as a response: for programs, and a page for people
//!  own_request                        requests that wayleave makes by itself, such as where a robots.txt redirects to
//!  offline, preview                   decisions about requests that nobody makes, from files and from memory
//!  settings, refusal, gate            the settings in effect, refusals that need no decision, the services of all
//! ```
//!
//! A capability is a file here with at most four hooks: `admit`, `on_head`, `on_chunk`, `finish`. Only `response_policy` has its
//! own: the relay gives it the head and the beginning of a page, and it may withhold them (`noindex`, say). This crate knows nothing of
//! connections to origins, of bodies but their parts, or of the configuration file. Its callers are `proxy/forwarding/src/exchange`, for
//! requests that are forwarded, and `proxy/gateway`, for those that another proxy asks about. Begin reading at [`GatedRequest`].

mod admission;
mod admit;
mod allowed_pages;
pub mod answer;
pub mod asked;
mod body_start;
pub mod budget;
mod decide;
mod decider;
pub mod documents;
mod gate;
mod gated_request;
mod given_slot;
pub mod identify;
pub mod identity;
pub mod offline;
pub mod outcome;
pub mod own_request;
mod pace;
mod pace_group;
pub mod pace_unit;
mod payment;
pub mod preview;
pub mod record;
pub mod refusal;
pub mod request;
mod response_notes;
mod response_pace;
pub mod response_policy;
mod response_size;
pub mod revoke;
mod robots_txt_requests;
pub mod settings;
mod subresource;
pub mod target;
mod validators;
mod waiting_client;

pub use self::admission::{Admission, AdmittedHead, ContentTreatment, ResponseFindings};
pub use self::allowed_pages::AllowedPages;
pub use self::body_start::{BodyStart, SeenBody, StartError, buffer_start};
pub use self::decider::{DecidedRequest, Decider};
pub use self::gate::{ExchangeShutdown, Gate};
pub use self::gated_request::GatedRequest;
pub use self::given_slot::GivenSlot;
pub use self::pace::delay_of;
pub use self::waiting_client::WaitingClient;
