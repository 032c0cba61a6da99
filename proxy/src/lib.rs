//! A forward proxy that makes crawlers obey robots.txt.

pub mod egress;
mod intercept;
pub mod metrics;
mod stream;
