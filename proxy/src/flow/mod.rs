//! The way of a request, one file a step.
//!
//! ```text
//!  accept ── tunnel        a connection: HTTP/1, or CONNECT and what speaks inside
//!       │
//!      way ── preview      the steps in their order; the same for a request that nobody made
//!       │
//!  identify  judge ─ resolve, consult  forward ── relay  refuse  record
//!       │
//!  head  request  exchange  fields  settings     what they hand each other, and go by
//! ```

mod accept;
mod consult;
mod exchange;
mod fields;
mod forward;
mod head;
mod identify;
mod judge;
mod preview;
mod record;
mod refuse;
mod relay;
mod request;
mod resolve;
mod settings;
mod tunnel;
mod way;

pub(crate) use self::accept::Listener;
pub(crate) use self::preview::Question;
pub(crate) use self::settings::{Options, Settings};
pub(crate) use self::way::Flow;
