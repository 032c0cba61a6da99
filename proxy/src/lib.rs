//! A forward proxy that makes crawlers obey robots.txt.
//!
//! The crates below `policy/` decide what may be fetched, without I/O. This crate does everything else: it accepts
//! connections, asks for decisions, forwards or refuses, and keeps every origin's robots.txt.
//!
//! # The path of a request
//!
//! `downstream` reads requests from connections. `exchange` takes each from its head to its record, one file a step;
//! `exchange/mod.rs` has their order. `decider` *identifies* the crawler, *resolves* the target, applies the organisation's
//! *rules* and *consults* robots.txt.
//!
//! # The map
//!
//! ```text
//!  main ─ cli ─ server                 starts, reloads and stops the process
//!                │  └─ config          the file, checked as a whole
//!          ┌─────┴──────┐
//!        admin          │              operators: API, metrics, page
//!          ├─────── downstream         connections of clients
//!          ├──────── exchange          one request, step by step
//!          └──────── decider           the inputs of a decision
//!                ┌──────┤
//!          robots_cache │              every origin's robots.txt
//!                └──────┤
//!                    upstream          connections to origins
//!                       │
//!     identity  pacing                 the crawler behind a request, the pace at origins
//!     budget                           what a crawler may do on one day
//!     fleet                            what several nodes share
//!     traces                           decisions as OpenTelemetry spans
//!     robots_changes                   what a changed robots.txt opens and closes
//!     log_heads                        how long the decision logs of all nodes are, so that a lost one is noticed
//!     decision_log                     decisions: recent ones, the log, reports
//!     telemetry                        metrics, the program's log
//!     signing                          crawlers' signatures, and the keys
//!     environment                      what clients need to use the proxy
//!     mcp                              agents: what they may fetch, and pages through the proxy
//!     isolation                        a command in namespaces that lead nowhere but to the proxy
//!     http  tls  clock  registrable_domain  descriptors    what all of them use
//!     drafts                           the revisions of Internet-Drafts that are followed
//!                       │
//!     http-wire  evidence  fairness    crates: HTTP/1 on the wire, proofs of the decision log, shares and turns
//!     manual                           docs/ as pages, made while the proxy is built
//!                    policy/           crates without I/O: decision, robots.txt, preferences, lifecycle
//! ```
//!
//! Every arrow points down: no module imports one above it, and only `server` and `cli` know `config` (`.ci/circles`).

mod admin;
mod budget;
pub mod cli;
pub mod clock;
pub mod config;
mod decider;
pub mod decision_log;
mod descriptors;
mod downstream;
pub mod drafts;
mod environment;
mod exchange;
pub mod fleet;
mod http;
mod identity;
mod isolation;
mod log_heads;
mod mcp;
pub mod pacing;
mod registrable_domain;
pub mod robots_cache;
mod robots_changes;
pub mod server;
mod signing;
pub mod telemetry;
mod tls;
pub mod traces;
pub mod upstream;
