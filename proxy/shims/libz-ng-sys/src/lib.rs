//! The C interface of zlib, from zlib itself.
//!
//! pingora-core asks flate2 for its `zlib-ng` backend, whose -sys crate runs cmake. A machine with
//! nothing but a Rust toolchain and its C compiler has no cmake, and `cargo run` must work there.
//! flate2 needs only zlib's classic functions, which libz-sys builds with the C compiler alone.

pub use libz_sys::*;
