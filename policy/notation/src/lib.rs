//! The notation of values wherever somebody reads them: in the log, its exports, the API, answers and at a terminal.
//!
//! ```text
//!  harmless       text from strangers, made safe to show
//!    ├─ json_object JSON objects that are written once
//!    └─ csv         fields of tables
//!  rfc3339        instants
//!  digest         SHA-256
//!  edge_word      the words for the ways in which an origin turns a request away
//!  oddity_word    the words for repairs to a response
//! ```
//!
//! One crate, because the log, its proofs and the metrics must write the same value alike, and none of them should depend on
//! another for it. It knows nothing of requests, decisions or files. Begin reading at [`harmless`].

pub mod csv;
mod digest;
mod edge_word;
pub mod harmless;
pub mod json_object;
mod oddity_word;
pub mod rfc3339;

pub use self::digest::{Sha256Digest, Sha256Hasher};
pub use self::edge_word::EdgeRefusal;
pub use self::oddity_word::Oddity;
