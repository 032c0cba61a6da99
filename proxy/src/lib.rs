//! A forward proxy that makes crawlers obey robots.txt.

pub mod metrics;
mod stream;
