//! A forward proxy that makes crawlers obey robots.txt.
//!
//! What may be fetched is decided by the crate `wayleave-policy`, which does no I/O. This crate is the
//! world around it: it takes connections, asks policy, forwards or refuses, and keeps every origin's
//! robots.txt at hand.
//!
//! # The way of a request
//!
//! `flow` has one file a step: *accept* a connection, *identify* the crawler, *resolve* the
//! target, *consult* robots.txt, *forward* or *refuse*, *record*. `flow/exchange/mod.rs` holds their order.
//!
//! # The map
//!
//! ```text
//!  main ─ cli ─ run                    starts, wires, reads the configuration again, stops
//!                │  └─ config          the file, checked as a whole
//!          ┌─────┴──────┐
//!        admin         flow            the two faces: operators, crawlers
//!          └─────┬──────┤
//!              robots   │              robots.txt at hand
//!                └──────┤
//!                    origin            the way out: addresses, connections, HTTP to origins
//!                       │
//!     identity  rules  politeness      who asks, what the organisation says, how often
//!     observe                          decisions, metrics, traces, log
//!     fleet                            what several nodes share
//!     http  tls  clock                 what all of them use
//!                       │
//!                    policy            pure: robots.txt, lifecycle, decision
//! ```
//!
//! Every arrow points down: no room knows one above it, and none but `run` and `cli` knows `config` (`.ci/circles`).

mod admin;
pub mod cli;
pub mod clock;
pub mod config;
pub mod fleet;
mod flow;
mod http;
pub mod identity;
pub mod observe;
pub mod origin;
pub mod politeness;
pub mod robots;
pub mod rules;
pub mod run;
mod tls;
