//! The way of a request, one file a step.
//!
//! ```text
//!  accept ── connect ── tunnel, unseen    a connection: HTTP/1, or CONNECT and what speaks inside
//!       │
//!      way ── preview      the steps in their order; the same for a request that nobody made
//!       │
//!  judged ── identify  judge ─ resolve, rule, consult  turn      judged again after waiting
//!       │
//!  forward ── relay  hear  revoke  refuse  record
//!       │
//!  redirect     the same for where a robots.txt leads
//!       │
//!  request  client  exchange  fields  settings     what they hand each other, and go by
//! ```

mod accept;
mod client;
mod connect;
mod consult;
mod exchange;
mod fields;
mod forward;
mod hear;
pub(crate) mod https_mode;
mod identify;
mod judge;
mod judged;
mod last_hop;
pub(crate) mod listeners;
mod pairs;
mod passage;
mod preview;
mod record;
mod redirect;
mod refuse;
mod relay;
mod request;
mod resolve;
mod revoke;
mod rule;
mod settings;
mod slots;
mod tunnel;
mod turn;
mod unseen;
mod way;
mod websocket;

pub(crate) use self::accept::Listener;
pub(crate) use self::preview::{Previewed, Question, Reading};
pub(crate) use self::settings::{Options, Settings};
pub(crate) use self::slots::Slots;
pub(crate) use self::way::Flow;
