//! A forward proxy that makes crawlers obey robots.txt.

pub mod clock;
pub mod cli;
pub mod config;
pub mod egress;
mod fault;
mod intercept;
pub mod metrics;
mod proxy_status;
pub mod robots;
pub mod server;
mod stream;
mod upstream;
