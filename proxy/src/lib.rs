//! A forward proxy that makes crawlers obey robots.txt.
//!
//! What may be fetched is decided by the crate `wayleave-policy`, which does no I/O. This crate is the
//! world around it: it takes connections, asks policy, forwards or refuses, and keeps every origin's
//! robots.txt at hand.
//!
//! # The way of a request
//!
//! `flow` has one file a step: *accept* a connection, *identify* the crawler, *resolve* the
//! target, *consult* robots.txt, *forward* or *refuse*, *record*. `flow/way.rs` holds their order.
//!
//! # The map
//!
//! ```text
//!  main ─ cli ─ server ─ reload ─ assemble ─ config   starts, wires, reads the file again
//!                 │
//!       ┌─────────┴──────────┐
//!     admin                flow            the two faces: operators, crawlers
//!       └─────────┬──────────┤
//!               robots     upstream  fault  intercept    robots.txt at hand · origins, and how they fail · TLS in their place
//!                 ├──────────┘
//!     egress  crawlers  rules  https  politeness  traces  decisions  traffic  metrics      what they go by, and leave behind
//!                 │
//!     logging  batch  harmless  environment  listeners  stream  idle  http1  tls           what all of them use
//!     request_target  proxy_status  oddities  digest  clock  per_client
//!                 │
//!               policy                            pure: robots.txt, lifecycle, decision
//! ```
//!
//! Every arrow points down: no part knows one above it, and none below `assemble` knows `config`.

mod admin;
mod assemble;
mod batch;
pub mod cli;
pub mod clock;
pub mod config;
pub mod crawlers;
mod decisions;
mod digest;
pub mod egress;
mod environment;
mod fault;
mod flow;
mod harmless;
mod http1;
pub mod https;
mod idle;
mod intercept;
mod listeners;
mod logging;
pub mod metrics;
mod oddities;
mod per_client;
pub mod politeness;
mod proxy_status;
mod reload;
mod request_target;
pub mod robots;
pub mod rules;
pub mod server;
mod stream;
mod tls;
pub mod traces;
mod traffic;
mod upstream;
