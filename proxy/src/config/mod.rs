//! The configuration: a TOML file as written becomes a [`Config`] as used, or every mistake in it.
//!
//! ```text
//! mod ─ file ─┬─ crawlers, rules         the tables [[crawler]] and [[rule]]
//!             ├─ reader ─┬─ mistake      file: which keys there are and how they fit together
//!             │          └─ value        reader: tables; value: single values; both collect mistakes
//!             ├─ show                    a Config as TOML, for `wayleave config check`
//!             └─ sections                the types, and the defaults
//! ```
//!
//! Reading is done by hand on the spanned tree of the `toml` crate, because a derived `Deserialize` stops at the first
//! mistake and knows no line. Nothing after start-up meets an unchecked value.
//!
//! A key for a feature that is not built yet is known and checked, but refused with "not supported yet" unless it asks for what is
//! done anyway: a proxy must not silently ignore what it was told.

mod crawlers;
mod file;
mod mistake;
mod reader;
mod rules;
mod sections;
mod show;
#[cfg(test)]
mod tests;
mod value;

pub use mistake::Mistake;
pub use sections::{Admin, Config, Dns, Https, Log, PemFile, Proxy, Robots, State, Upstream};

/// The shipped `config.toml`: every key with its default and its unit. Reading it gives `Config::default()`.
pub const DEFAULT_FILE: &str = include_str!("../../../config.toml");
