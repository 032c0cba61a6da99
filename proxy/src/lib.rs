//! A forward proxy that makes crawlers obey robots.txt.

pub mod egress;
mod fault;
mod intercept;
pub mod metrics;
mod proxy_status;
mod stream;
mod upstream;
