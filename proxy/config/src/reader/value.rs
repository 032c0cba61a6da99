//! Parsers of single values: durations, sizes, addresses, networks and so on.

use std::borrow::Borrow;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use http::HeaderValue;
use ipnet::IpNet;
use toml::Spanned;
use toml::de::DeValue;
use toml::value::Datetime;
use wayleave_evidence::Sha256Digest;

use super::to_value::ToValue;

/// A value of the file together with its span.
pub(crate) type ValueNode<'t> = Spanned<DeValue<'t>>;

/// The longest word that may be a misspelling of another one.
const MAX_MISSPELT_BYTES: usize = 64;

/// A fault found in a value.
#[derive(Debug)]
pub(crate) struct ValueFault {
    /// The byte offset in the file.
    pub at: usize,
    /// The part of the value, such as `[2]`; empty for the whole.
    pub within: String,
    pub message: String,
}

pub(crate) type ParseResult<T> = Result<T, Vec<ValueFault>>;

/// The longest duration accepted: a longer one is a typing error, and adding it to an instant may overflow.
const MAX_DURATION: Duration = Duration::from_secs(366 * 86_400);

fn fault<T>(node: &ValueNode<'_>, message: impl Into<String>) -> ParseResult<T> {
    Err(vec![ValueFault { at: node.span().start, within: String::new(), message: message.into() }])
}

/// Returns the range of the credentials in a URL, including the "@" after them. If there are several URLs, it spans from the
/// first credentials to the last. The scheme may be missing.
pub(super) fn credentials_range(url: &str) -> Option<Range<usize>> {
    // The last one: a password may contain an "@" that should have been escaped.
    let end = url.rfind('@')? + 1;
    let start = match url[..end].find("://") {
        Some(at) => at + 3,
        None => url[..end].find(':').map(|_| 0)?,
    };
    Some(start..end)
}

/// Returns a string.
fn string<'t>(node: &'t ValueNode<'_>) -> ParseResult<&'t str> {
    match node.get_ref() {
        DeValue::String(text) => Ok(text),
        _ => fault(node, format!("expected a string, found {}", kind_name(node))),
    }
}

/// Parses a string that is not blank and has no control characters.
pub(crate) fn text(node: &ValueNode<'_>) -> ParseResult<String> {
    let text = string(node)?;
    if text.trim().is_empty() {
        return fault(node, "must not be empty");
    }
    if text.chars().any(char::is_control) {
        return fault(node, "must not contain control characters");
    }
    Ok(text.to_owned())
}

/// Parses a value that can be sent as `User-Agent`.
pub(crate) fn user_agent(node: &ValueNode<'_>) -> ParseResult<String> {
    let sendable = |text: &str| match HeaderValue::from_str(text) {
        // HTTP/2 has no field values with blanks around them (RFC 9113 section 8.2.1).
        _ if text.trim() != text => Err(format!("{text:?} starts or ends with whitespace")),
        Ok(value) if value.to_str().is_ok() => Ok(()),
        _ => Err(format!("{text:?} cannot be sent as User-Agent: only visible ASCII can")),
    };
    checked(text, sendable)(node)
}

/// Parses a string with `parse`, whose error becomes the message.
pub(crate) fn parse_with<T, E: Display>(
    node: &ValueNode<'_>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> ParseResult<T> {
    parse(string(node)?).or_else(|error| fault(node, error.to_string()))
}

/// Parses a string with `FromStr`; `expected` completes the message "... is not ...".
fn parse_str<T: FromStr>(node: &ValueNode<'_>, expected: &str) -> ParseResult<T> {
    let text = string(node)?;
    match text.parse() {
        Ok(value) => Ok(value),
        Err(_) => fault(node, format!("{text:?} is not {expected}")),
    }
}

pub(crate) fn boolean(node: &ValueNode<'_>) -> ParseResult<bool> {
    match node.get_ref() {
        DeValue::Boolean(value) => Ok(*value),
        _ => fault(node, format!("expected true or false, found {}", kind_name(node))),
    }
}

/// The largest count that a key accepts; a larger one is a typing error.
pub(crate) const MAX_COUNT: u32 = 1_000_000_000;

/// Parses an integer between two bounds, inclusive.
pub(crate) fn count(least: u32, most: u32) -> impl Fn(&ValueNode<'_>) -> ParseResult<usize> {
    move |node| {
        let DeValue::Integer(integer) = node.get_ref() else {
            return fault(node, format!("expected an integer, found {}", kind_name(node)));
        };
        match i64::from_str_radix(integer.as_str(), integer.radix()).map(u32::try_from) {
            Ok(Ok(value)) if (least..=most).contains(&value) => Ok(value as usize),
            _ => fault(node, format!("{integer} is not an integer from {least} to {most}")),
        }
    }
}

/// Parses a SHA-256 in hexadecimal.
pub(crate) fn parse_digest(node: &ValueNode<'_>) -> ParseResult<Sha256Digest> {
    parse_with(node, |text| {
        Sha256Digest::from_hex(text).ok_or("is not a SHA-256 of 64 hexadecimal digits")
    })
}

/// Parses an integer or a float.
pub(crate) fn number(node: &ValueNode<'_>) -> ParseResult<f64> {
    let digits = match node.get_ref() {
        DeValue::Float(float) => float.as_str(),
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
        _ => {
            return fault(node, format!("expected a number, found {}", kind_name(node)));
        }
    };
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => fault(node, format!("{digits} is not a number")),
    }
}

/// Parses a duration with its unit; `0s` is allowed.
pub(crate) fn duration(node: &ValueNode<'_>) -> ParseResult<Duration> {
    let expected = "a duration with a unit, such as \"10s\", \"5m\", \"24h\" or \"30d\"";
    let DeValue::String(text) = node.get_ref() else {
        return fault(node, format!("expected {expected}, found {}", kind_name(node)));
    };
    // `humantime` accepts a bare "0". A number without a unit is always a mistake here, so that none slips through.
    let is_bare = text.chars().all(|c| c.is_ascii_digit());
    match humantime::parse_duration(text) {
        Ok(value) if !is_bare && value <= MAX_DURATION => Ok(value),
        Ok(_) if !is_bare => fault(node, format!("{text:?} is longer than a year")),
        _ => fault(node, format!("{text:?} is not {expected}")),
    }
}

/// Parses a duration that is not zero.
pub(crate) fn positive_duration(node: &ValueNode<'_>) -> ParseResult<Duration> {
    match duration(node)? {
        Duration::ZERO => fault(node, "must be longer than 0s"),
        value => Ok(value),
    }
}

/// Parses a number of bytes with its unit.
pub(crate) fn size(node: &ValueNode<'_>) -> ParseResult<ByteSize> {
    let expected = "a size with a unit, such as \"500KiB\" or \"256MiB\"";
    let DeValue::String(text) = node.get_ref() else {
        return fault(node, format!("expected {expected}, found {}", kind_name(node)));
    };
    // `bytesize` takes a bare number for bytes, and a size that is too large for the largest.
    let is_bare = text.parse::<f64>().is_ok();
    match text.parse::<ByteSize>() {
        Ok(value) if !is_bare && value.as_u64() < u64::MAX => Ok(value),
        _ => fault(node, format!("{text:?} is not {expected}")),
    }
}

/// Parses a number of bytes with its unit, or 0.
pub(crate) fn size_or_zero(node: &ValueNode<'_>) -> ParseResult<ByteSize> {
    match node.get_ref() {
        DeValue::Integer(number) if number.as_str() == "0" => Ok(ByteSize(0)),
        DeValue::String(text) if text == "0" => Ok(ByteSize(0)),
        _ => size(node),
    }
}

/// Returns a check that a size is not less than `least`.
pub(crate) fn at_least(least: ByteSize) -> impl Fn(&ByteSize) -> Result<(), String> {
    move |size| {
        if *size >= least {
            return Ok(());
        }
        Err(format!("is less than {}", least.to_value().as_str().unwrap_or_default()))
    }
}

/// Parses an address with a port; port 0 lets the system choose.
pub(crate) fn address(node: &ValueNode<'_>) -> ParseResult<SocketAddr> {
    parse_str(node, "an IP address with a port, such as \"127.0.0.1:3128\" or \"[::1]:3128\"")
}

/// Parses a network in CIDR form, or a single address.
pub(crate) fn network(node: &ValueNode<'_>) -> ParseResult<IpNet> {
    if let Ok(address) = string(node)?.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let network: IpNet =
        parse_str(node, "a network in CIDR form, such as \"10.0.0.0/8\" or \"fd00::/8\"")?;
    // Nothing is corrected silently: the mistake may be in the prefix as well as in the address.
    if network == network.trunc() {
        Ok(network)
    } else {
        let meant = network.trunc();
        fault(node, format!("\"{network}\" has bits beyond its prefix; did you mean \"{meant}\"?"))
    }
}

/// Parses a path relative to `dir`; it need not exist.
pub(crate) fn path_in(dir: &Path) -> impl Fn(&ValueNode<'_>) -> ParseResult<PathBuf> {
    move |node| text(node).map(|path| dir.join(path))
}

/// Parses a value with `item`; an empty string means none.
pub(crate) fn none_if_empty<'t, T>(
    item: impl Fn(&'t ValueNode<'t>) -> ParseResult<T>,
) -> impl Fn(&'t ValueNode<'t>) -> ParseResult<Option<T>> {
    move |node| match string(node)? {
        "" => Ok(None),
        _ => item(node).map(Some),
    }
}

/// Parses a calendar date, as a string or as a TOML date.
pub(crate) fn date(node: &ValueNode<'_>) -> ParseResult<Datetime> {
    let is_date = |value: &Datetime| value.date.is_some() && value.time.is_none();
    match node.get_ref() {
        DeValue::Datetime(value) if is_date(value) => Ok(*value),
        DeValue::String(text) => match text.parse::<Datetime>() {
            Ok(value) if is_date(&value) => Ok(value),
            _ => fault(node, format!("{text:?} is not a date such as 2027-01-01")),
        },
        _ => fault(node, "expected a date such as \"2027-01-01\""),
    }
}

/// Parses one of a few words.
pub(super) fn word<'w>(words: &'w [&'w str]) -> impl Fn(&ValueNode<'_>) -> ParseResult<&'w str> {
    move |node| {
        let text = string(node)?;
        if let Some(word) = words.iter().find(|word| **word == text) {
            return Ok(word);
        }
        let hint = nearest(text, words.iter().copied())
            .map(|near| format!("; did you mean \"{near}\"?"))
            .unwrap_or_default();
        let allowed = words.join("\", \"");
        fault(node, format!("{text:?} is not one of \"{allowed}\"{hint}"))
    }
}

/// Returns a size as a number of bytes in memory.
pub(crate) fn to_usize(size: ByteSize) -> usize {
    usize::try_from(size.as_u64()).unwrap_or(usize::MAX)
}

/// Parses one of a few words, each of which stands for a value.
pub(super) fn one_of<T: Copy>(meanings: &[(&str, T)]) -> impl Fn(&ValueNode<'_>) -> ParseResult<T> {
    move |node| {
        let words: Vec<_> = meanings.iter().map(|(word, _)| *word).collect();
        let chosen = word(&words)(node)?;
        let (_, meaning) = meanings
            .iter()
            .find(|(word, _)| *word == chosen)
            .expect("`word` returns one of its words");
        Ok(*meaning)
    }
}

/// Parses an array whose items are parsed by `item`; every wrong item is reported.
pub(crate) fn list<'t, T>(
    item: impl Fn(&'t ValueNode<'t>) -> ParseResult<T>,
) -> impl Fn(&'t ValueNode<'t>) -> ParseResult<Vec<T>> {
    move |node| {
        let Some(items) = node.get_ref().as_array() else {
            return fault(node, format!("expected an array, found {}", kind_name(node)));
        };
        let mut values = Vec::with_capacity(items.len());
        let mut faults = Vec::new();
        // All of them, so that one run reports every mistake.
        for (index, node) in items.iter().enumerate() {
            match item(node) {
                Ok(value) => values.push(value),
                Err(of_item) => faults.extend(of_item.into_iter().map(|fault| ValueFault {
                    within: format!("[{index}]{}", fault.within),
                    ..fault
                })),
            }
        }
        if faults.is_empty() { Ok(values) } else { Err(faults) }
    }
}

/// Parses an array that is not empty.
pub(crate) fn non_empty_list<'t, T>(
    item: impl Fn(&'t ValueNode<'t>) -> ParseResult<T>,
) -> impl Fn(&'t ValueNode<'t>) -> ParseResult<Vec<T>> {
    let list = list(item);
    move |node| {
        let values = list(node)?;
        if values.is_empty() {
            return fault(node, "must not be empty");
        }
        Ok(values)
    }
}

/// Parses a value with `item`, then checks it with `check`.
pub(crate) fn checked<'t, T: Borrow<B>, B: ?Sized>(
    item: impl Fn(&'t ValueNode<'t>) -> ParseResult<T>,
    check: impl Fn(&B) -> Result<(), String>,
) -> impl Fn(&'t ValueNode<'t>) -> ParseResult<T> {
    move |node| {
        let value = item(node)?;
        match check(value.borrow()) {
            Ok(()) => Ok(value),
            Err(message) => fault(node, message),
        }
    }
}

/// Returns the type of a value, with its article.
pub(super) fn kind_name(node: &ValueNode<'_>) -> &'static str {
    match node.get_ref() {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Returns the candidate that `word` was most likely meant to be, unless none is similar.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // Comparing takes time for each letter of both, and the longest key has less than half of these.
    if word.len() > MAX_MISSPELT_BYTES {
        return None;
    }
    // All keys and words are in lower case.
    let lower = word.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, candidate), candidate))
        // One typing error in any word, and another one for every four letters.
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
