//! The target `integration`, owned by proxy/Cargo.toml: tests of the running program, by topic.

#![allow(
    unreachable_pub,
    reason = "nothing can be reached from outside a test binary; pub marks what topics may use"
)]
#![allow(clippy::disallowed_methods, reason = "the world outside has the machine's clocks")]

mod harness;

mod admin;
mod clients;
mod evidence;
mod fleet;
mod gateway;
mod operations;
mod organisation;
mod pacing;
mod preferences;
mod requests;
mod robots;
mod security;
