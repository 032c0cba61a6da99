//! Reads a TOML file key by key, collects every mistake, and records each key with the value in use.
//!
//! It walks the spanned tree of the `toml` crate by hand, because a derived `Deserialize` stops at the first mistake and
//! does not know its line.

mod keys;
mod mistake;
mod reader;
mod show;
mod value;

pub(super) use self::keys::{Keys, fixed, secret};
pub use self::mistake::Mistake;
pub(super) use self::reader::{Reader, Section};
pub(super) use self::show::Show;
pub(super) use self::value::{
    MOST, Node, Parsed, address, at_least, boolean, checked, count, date, duration, filled_list,
    list, network, number, or_empty, path_in, positive_duration, size, size_or_zero, text, tried,
    user_agent, word,
};
