//! Client connections: from bytes to requests.
//!
//! ```text
//!  accept ── limits, listeners            who is served, and by which protocol
//!     │
//!  connect ── tunnel ── blind_tunnel      CONNECT, and what speaks inside
//! ```

mod accept;
mod blind_tunnel;
mod connect;
pub(crate) mod limits;
pub(crate) mod listeners;
mod tunnel;

pub(crate) use self::accept::Listener;
pub(crate) use self::limits::Limits;
