//! As much of the proxy's `http` as reading a page needs.

#[path = "../../../src/http/content_coding.rs"]
#[allow(dead_code, reason = "the proxy uses the rest")]
pub mod content_coding;
#[path = "../../../src/http/field_pairs.rs"]
#[allow(dead_code, reason = "the proxy uses the rest")]
pub mod field_pairs;
#[path = "../../../src/http/http1/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the proxy uses the rest")]
mod http1;
