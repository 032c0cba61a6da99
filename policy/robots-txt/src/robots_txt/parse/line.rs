//! Lines of robots.txt, as each kind of reader parses them.

use memchr::memchr;

use super::super::head::head;

/// Google's parser keeps this many bytes of a line (8 × 2,083, less one for its terminator).
pub(crate) const GOOGLE_LINE_BYTES: usize = 16_663;

/// The field of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineField {
    /// `User-agent`.
    UserAgent,
    /// `Allow`.
    Allow,
    /// `Disallow`.
    Disallow,
    /// Any other field.
    Other,
}

/// A parsed line: a field and its value, both without surrounding white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedLine<'a> {
    /// The field.
    pub field: LineField,
    /// The field's name as written.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

impl ParsedLine<'_> {
    /// Returns the statement that Google's parser reads in a line that the other dialects read like this, if it reads the
    /// whole line.
    pub(crate) fn as_read_by_google(self) -> Self {
        match self.field {
            LineField::Other => Self { field: google_field(self.name), ..self },
            _ => self,
        }
    }
}

/// Parses a line that all readers read alike, as they do nearly all rules and user-agent lines: the field's usual name
/// and a colon, and no comment. `None` for any other line, whatever the readers make of it.
#[inline]
pub(crate) fn usual_statement(line: &[u8]) -> Option<ParsedLine<'_>> {
    let (field, length) = usual_field(line)?;
    let (name, [b':', value @ ..]) = line.split_at_checked(length)? else {
        return None;
    };
    (line.len() <= GOOGLE_LINE_BYTES).then(|| ParsedLine { field, name, value: trim(value) })
}

/// Returns the field whose name a line starts with in any case, and the length of that name.
#[inline]
fn usual_field(line: &[u8]) -> Option<(LineField, usize)> {
    const DISALLOW: u64 = u64::from_le_bytes(*b"disallow");
    const USER_AGENT: u64 = u64::from_le_bytes(*b"user-age");
    const ALLOW: u64 = u64::from_le_bytes(*b"allow\0\0\0");
    // The bit that makes a letter lower-case.
    const LOWER: u64 = u64::from_le_bytes([b' '; 8]);
    // One comparison for eight letters: one by one took a twentieth of all instructions.
    match head(line) | LOWER {
        DISALLOW => Some((LineField::Disallow, 8)),
        USER_AGENT if line[4] == b'-' && line[8..].starts_with(b"nt") => {
            Some((LineField::UserAgent, 10))
        }
        start if start & 0xFF_FFFF_FFFF == ALLOW => Some((LineField::Allow, 5)),
        _ => None,
    }
}

/// Parses a line as RFC 9309 and the older texts do: the field is spelt exactly and followed by a colon.
pub(crate) fn exact_statement(line: &[u8]) -> Option<ParsedLine<'_>> {
    let (name, value) = split_at_colon(without_comment(line))?;
    (!name.is_empty()).then(|| ParsedLine { field: exact_field(name), name, value })
}

/// Parses a line as Google's parser does: it forgives typing errors and a missing colon, and the line ends at a NUL or
/// at byte 16,663.
pub(crate) fn google_statement(line: &[u8]) -> Option<ParsedLine<'_>> {
    let line = trim(without_comment(google_part(line)));
    let (name, value) = split_at_colon(line).or_else(|| split_at_gap(line))?;
    (!name.is_empty()).then(|| ParsedLine { field: google_field(name), name, value })
}

/// Returns whether Google's parser reads the whole line.
pub(crate) fn google_reads_all(line: &[u8]) -> bool {
    google_part(line).len() == line.len()
}

/// Returns the part of a line that Google's parser reads.
fn google_part(line: &[u8]) -> &[u8] {
    let line = &line[..line.len().min(GOOGLE_LINE_BYTES)];
    &line[..memchr(0, line).unwrap_or(line.len())]
}

fn split_at_colon(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr(b':', line)?;
    Some((trim(&line[..colon]), trim(&line[colon + 1..])))
}

/// The longest directive name that is stored; longer ones are prose, markup or scripts.
const NAME_BYTES: usize = 40;

/// Returns whether a field's name could be a directive's; scripts and markup are full of colons.
pub(crate) fn is_directive_name(name: &[u8]) -> bool {
    let in_name = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b' ' | b'\t' | 0x0B | 0x0C)
    };
    name.len() <= NAME_BYTES
        && name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(in_name)
}

/// Trims white space, including the vertical tab, like C's `isspace`.
pub(crate) fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_space(*first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_space(*last)
    {
        text = rest;
    }
    text
}

pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

fn without_comment(line: &[u8]) -> &[u8] {
    &line[..memchr(b'#', line).unwrap_or(line.len())]
}

fn split_at_gap(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_gap = |byte: &u8| matches!(byte, b' ' | b'\t');
    let (name, rest) = line.split_at(line.iter().position(is_gap)?);
    let value = &rest[rest.iter().position(|byte| !is_gap(byte))?..];
    // More than two words are prose.
    (!value.iter().any(is_gap)).then(|| (trim(name), trim(value)))
}

fn exact_field(name: &[u8]) -> LineField {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match name.len() {
        10 if is(b"user-agent") => LineField::UserAgent,
        8 if is(b"disallow") => LineField::Disallow,
        5 if is(b"allow") => LineField::Allow,
        _ => LineField::Other,
    }
}

/// Returns whether a text that starts with a letter may start with a field that Google's parser reads.
pub(crate) fn may_be_field(line: &[u8]) -> bool {
    google_field(trim(line)) != LineField::Other
}

/// Returns the field that Google's parser reads: any that starts with a known name or a known misspelling.
fn google_field(name: &[u8]) -> LineField {
    const USER_AGENT: [&[u8]; 3] = [b"user-agent", b"useragent", b"user agent"];
    const DISALLOW: [&[u8]; 6] =
        [b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw"];
    // Most lines have other fields, whose first letters rule out all of the names below.
    if let Some(b'b' | b'c' | b'e'..=b't' | b'v'..=b'z') = name.first().map(u8::to_ascii_lowercase)
    {
        return LineField::Other;
    }
    // Google's parser compares the start only, so `Disallow-all: /x` is a rule to it.
    let starts = |known: &&[u8]| {
        name.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known))
    };
    if USER_AGENT.iter().any(starts) {
        LineField::UserAgent
    } else if starts(&&b"allow"[..]) {
        LineField::Allow
    } else if DISALLOW.iter().any(starts) {
        LineField::Disallow
    } else {
        LineField::Other
    }
}
