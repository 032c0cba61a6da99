//! A forward proxy that makes crawlers obey robots.txt.

pub mod clock;
pub mod egress;
mod fault;
mod intercept;
pub mod metrics;
mod proxy_status;
pub mod robots;
mod stream;
mod upstream;
