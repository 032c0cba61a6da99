//! A forward proxy that makes crawlers obey robots.txt.

mod intercept;
pub mod metrics;
mod stream;
