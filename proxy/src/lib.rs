//! A forward proxy that makes crawlers obey robots.txt.
//!
//! The crates below `policy/` decide whether a URL may be fetched, without I/O. Those below `proxy/` act: each has one
//! task, and its head names the things that it must not know. This crate puts them together: it starts, reloads and shows.
//!
//! # The path of a request
//!
//! In the crate `forwarding`, `downstream` reads requests from connections, and `exchange` takes each from its head to its record,
//! one file a step; `exchange/mod.rs` has their order. The crate `admission` *identifies* the crawler, *resolves* the target, applies
//! the organisation's *rules* and *consults* robots.txt.
//!
//! # The map
//!
//! ```text
//!  main ─ cli ─ server                 starts, reloads and stops the process
//!        admin                         operators: API, metrics, page
//!     robots_changes                   the URLs that a changed robots.txt opens and closes
//!     publication                      the files that tell sites about the crawlers; statements for one site: cli/publish/sites
//!     environment                      the settings of clients that use the proxy
//!     mcp                              agents: whether they may fetch, and pages through the proxy
//!     drafts                           the revisions of Internet-Drafts that are followed
//!                       │
//!     crates            │
//!                   forwarding         connections of clients, and each request, step by step
//!                      gate            the same decisions inside another program
//!                    assembly          builds the parts from the configuration
//!                     audit            decides again about the log's requests
//!                      plan            the hours and the verdicts of a crawl that has not begun
//!                     config           the file, checked as a whole
//!                    gateway           other proxies that ask about requests and send them themselves
//!                   admission          who asks, and whether it is allowed
//!               robots-cache           every origin's robots.txt
//!          ┌────────────┼───────┐
//!     decision-log   upstream   │      decisions: recent ones, the log, reports; connections to origins
//!          │                    │
//!       signing ── pacing ── fleet     crawlers' signatures; the pace at origins, days' budgets; the state that nodes share
//!                       │
//!     isolation                        a command in namespaces that lead nowhere but to the proxy
//!     otlp                             decisions and spans for a collector
//!     transport  telemetry  clock      streams and TLS; metrics, the program's log; time
//!     http-wire  evidence  fairness    HTTP/1 on the wire, proofs of the decision log, shares and turns
//!     manual                           docs/ as pages, made while the proxy is built
//!                       │
//!                    policy/           crates without I/O: record, decision, robots.txt, preferences, lifecycle, notation
//! ```
//!
//! Every arrow points down: no module imports one above it (`.ci/circles`).

mod admin;
pub mod cli;
pub mod drafts;
mod environment;
mod mcp;
mod publication;
mod robots_changes;
pub mod server;
