//! The way of a request, one file a step.
//!
//! ```text
//!  accept ── tunnel        a connection: HTTP/1, or CONNECT and what speaks inside
//!       │
//!      way                 the steps in their order
//!       │
//!  identify  resolve  consult  forward ── relay  refuse  record
//!       │
//!  request  client  exchange  fields       what they hand each other
//! ```

mod accept;
mod client;
mod consult;
mod exchange;
mod fields;
mod forward;
mod identify;
mod record;
mod refuse;
mod relay;
mod request;
mod resolve;
mod tunnel;
mod way;

pub(crate) use self::accept::Listener;
pub(crate) use self::way::{Flow, Options};
