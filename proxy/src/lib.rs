//! A forward proxy that makes crawlers obey robots.txt.

pub mod config;
pub mod egress;
