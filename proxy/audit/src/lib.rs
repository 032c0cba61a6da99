//! Decides again about the requests of the decision log.
//!
//! ```text
//!  replay       decides by another configuration, and counts the changes
//!  verify       derives a decision from the inputs that its line names, and compares it with the line
//!    ├─ decide_again  the loop over inputs that may be missing
//!    ├─ settings    the part of a configuration that decides
//!    │    └─ what_if     a change of it
//!    ├─ robots, documents   parsed documents
//!    └─ materials   where documents and configurations are kept
//!  missing      facts that nobody can know
//! ```
//!
//! Nothing here waits for origins or asks anybody: missing inputs are reported. This crate knows nothing of terminals,
//! arguments or HTTP. Begin reading at [`replay::Replayer`] and [`verify::DecisionDeriver`].

mod decide_again;
mod documents;
mod materials;
mod missing;
pub mod replay;
mod robots;
mod settings;
pub mod verify;
mod what_if;

pub use self::materials::{KnownVersion, PastMaterials, StoreMaterials};
pub use self::settings::PastSettings;
pub use self::what_if::WhatIf;
