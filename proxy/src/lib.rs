//! A forward proxy that makes crawlers obey robots.txt.
//!
//! What may be fetched is decided by the crate `wayleave-robots-txt`, which does no I/O. This crate is the
//! world around it: it takes connections, asks policy, forwards or refuses, and keeps every origin's
//! robots.txt at hand.
//!
//! # The way of a request
//!
//! `connection` makes requests of bytes. `exchange` takes each from its head to the record of what became of it, one file a
//! step; `exchange/mod.rs` holds their order. What may be done about it, `decide` says: it *identifies* the crawler, *resolves*
//! the target, asks the organisation's *rules* and *consults* robots.txt.
//!
//! # The map
//!
//! ```text
//!  main ─ cli ─ run                    starts, wires, reads the configuration again, stops
//!                │  └─ config          the file, checked as a whole
//!          ┌─────┴──────┐
//!        admin     connection         the two faces: operators, crawlers
//!          ├──────── exchange          one request, step by step
//!          └──────── decide            what may be done about it
//!                ┌──────┤
//!              robots   │              robots.txt at hand
//!                └──────┤
//!                    origin            the way out: addresses, connections, HTTP to origins
//!                       │
//!     identity  rules  politeness      who asks, what the organisation says, how often
//!     observe                          decisions, metrics, traces, log
//!     signing                          crawlers' signatures, and the keys
//!     fleet                            what several nodes share
//!     environment                       what clients need to use the proxy
//!     http  tls  clock  parsing        what all of them use
//!                       │
//!                    policy            pure: robots.txt, lifecycle, decision
//! ```
//!
//! Every arrow points down: no room knows one above it, and none but `run` and `cli` knows `config` (`.ci/circles`).

mod admin;
pub mod cli;
pub mod clock;
pub mod config;
mod decide;
pub mod decision_log;
mod downstream;
mod environment;
mod exchange;
pub mod fleet;
mod http;
pub mod identity;
pub mod pacing;
mod parser_pool;
pub mod robots_cache;
pub mod rules;
pub mod server;
mod signing;
pub mod telemetry;
mod tls;
pub mod upstream;
