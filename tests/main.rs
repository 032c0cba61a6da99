//! The target `integration`, owned by proxy/Cargo.toml: tests of the running program, by topic.

#![allow(
    unreachable_pub,
    reason = "nothing can be reached from outside a test binary; pub marks what topics may use"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the world outside has the machine's clocks"
)]

mod harness;

mod access;
mod admin;
mod answers;
mod api;
mod audit;
mod blocks;
mod bodies;
mod causes;
mod check;
mod cli;
mod client_certificates;
mod clients;
mod config;
mod connect;
mod crawl;
mod crowds;
mod dashboards;
mod decisions;
mod documents;
mod evidence;
mod faults;
mod fleet;
mod foreign_text;
mod forward;
mod hops;
mod hosts;
mod http2;
mod http2_tunnels;
mod identify;
mod kept;
mod large_heads;
mod malformed;
mod metrics;
mod oddities;
mod over_time;
mod overload;
mod page;
mod politeness;
mod preference_cases;
mod preferences;
mod proxied_http2;
mod proxy_protocol;
mod purposes;
mod readme;
mod redirects;
mod refuse;
mod reload;
mod report;
mod restart;
mod revoked;
mod robots;
mod rules;
mod scarce;
mod secrets;
mod security;
mod selftest;
mod shutdown;
mod signing;
mod soak;
mod spellings;
mod systemd;
mod terminal;
mod tls_listener;
mod traces;
mod tunnel;
mod turns;
mod upgrade;
mod ways;
