//! Carries requests: reads them from connections of clients, and takes each from its head to its record.
//!
//! ```text
//!  downstream                connections, from accepted sockets to requests
//!      │
//!   exchange                 one request: admitted, forwarded and recorded, or answered here
//! ```
//!
//! What may be sent is decided by `wayleave-admission`. This crate knows nothing of operators, or of the configuration file but the
//! form of its addresses. Begin reading at [`exchange`], where the order of the steps is.

pub mod downstream;
pub mod exchange;
