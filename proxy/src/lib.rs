//! A forward proxy that makes crawlers obey robots.txt.

mod admin;
pub mod cli;
pub mod clock;
pub mod config;
pub mod crawlers;
pub mod egress;
mod fault;
mod flow;
mod intercept;
mod logging;
pub mod metrics;
mod proxy_status;
pub mod robots;
pub mod server;
mod stream;
mod upstream;
