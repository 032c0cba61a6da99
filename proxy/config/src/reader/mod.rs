//! Reads a TOML file key by key, collects every mistake, and records each key with the value in use.
//!
//! It walks the spanned tree of the `toml` crate by hand, because a derived `Deserialize` stops at the first mistake and
//! does not know its line.

mod keys;
mod line_index;
mod mistake;
mod places;
mod schema;
mod section;
mod to_value;
mod value;

pub(super) use self::keys::{EffectiveKeys, fixed, secret};
pub use self::mistake::ConfigMistake;
pub use self::places::ConfigPlaces;
pub use self::section::IncludedFile;
pub(super) use self::section::{ConfigReader, Section};
pub(super) use self::to_value::ToValue;
pub(super) use self::value::{
    MAX_COUNT, ParseResult, ValueNode, address, at_least, boolean, checked, count, date, duration,
    list, network, non_empty_list, none_if_empty, number, parse_digest, parse_with, path_in,
    positive_duration, size, size_or_zero, text, to_usize, user_agent,
};
