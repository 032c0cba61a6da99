//! The percent-encodings (forms) in which paths and rules are compared, encoded byte by byte from tables.
//!
//! Encoding rules is most of the cost of some files, so every property of a byte comes from a table.

mod escape;
pub(crate) mod plain;
#[cfg(test)]
mod tests;
pub(crate) mod usual;

use memchr::{memchr, memchr_iter, memchr2};

use escape::{EncodedUnit, EncodedUnits};
pub(crate) use escape::{has_lone_percent, hex_pair};
use usual::{BLOCK, usual_prefix_len};

/// The class of a byte of a path in RFC 3986.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OctetClass {
    /// The byte means the same with and without percent-encoding (§2.3).
    Unreserved,
    /// The byte means something else when it is percent-encoded (§2.2).
    Reserved,
    /// The byte must be percent-encoded.
    Other,
}

pub(crate) const fn classify(byte: u8) -> OctetClass {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            OctetClass::Unreserved
        }
        b':' | b'/' | b'?' | b'#' | b'[' | b']' | b'@' => OctetClass::Reserved,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => {
            OctetClass::Reserved
        }
        _ => OctetClass::Other,
    }
}

/// A form: the encoding of each byte.
#[derive(Debug)]
pub(crate) struct EncodingForm {
    raw: [EncodedByte; 256],
    escaped: [EncodedByte; 256],
    /// Whether the beginning of an escape is kept where more text may follow.
    keeps_begun_escapes: bool,
    /// The form of the query, if it differs.
    query_form: Option<&'static Self>,
    /// The form that differs from this one only in that it keeps the escapes of `*` and `$`, if they are decoded here.
    escaped_wildcards: Option<&'static Self>,
}

/// The normalised form of RFC 9309 §2.2.2: unreserved bytes raw, escapes in upper case, and every byte that may not be
/// raw escaped, including a `%` that does not begin an escape.
pub(crate) static NORMALISED: EncodingForm = EncodingForm::new(FormKind::Normalised);

/// [`NORMALISED`] with the escapes of `*` and `$` decoded: the form in which literal bytes compare, so that `%2A` and
/// `%24` in a pattern mean the byte (RFC 9309 §2.2.3). Stars and anchors are taken out of patterns before.
pub(crate) static LITERAL: EncodingForm =
    EncodingForm { escaped_wildcards: Some(&NORMALISED), ..EncodingForm::new(FormKind::Literal) };

/// The form that servers decode a text to before they look up its resource: like [`LITERAL`], but with reserved bytes
/// raw too, except those that would then delimit: `/`, `?` and `#`, and in a query `&`, `=`, `+` and `;` as well (RFC
/// 3986 §2.2). A pattern may reach the query after any star.
pub(crate) static SERVED: EncodingForm = EncodingForm {
    query_form: Some(&SERVED_QUERY),
    escaped_wildcards: Some(&SERVED_BUT_WILDCARDS),
    ..EncodingForm::new(FormKind::Served)
};

static SERVED_QUERY: EncodingForm = EncodingForm::new(FormKind::ServedQuery);

/// [`SERVED`] with the escapes of `*` and `$` kept.
static SERVED_BUT_WILDCARDS: EncodingForm = EncodingForm {
    query_form: Some(&SERVED_QUERY_BUT_WILDCARDS),
    ..EncodingForm::new(FormKind::ServedButWildcards)
};

static SERVED_QUERY_BUT_WILDCARDS: EncodingForm =
    EncodingForm::new(FormKind::ServedQueryButWildcards);

/// The form of patterns in Google's parser: escapes in upper case, bytes outside ASCII escaped, nothing else.
pub(crate) static GOOGLE: EncodingForm = EncodingForm::new(FormKind::Google);

/// The form in which the draft of 1996 compares: every escape decoded except `%2F`.
pub(crate) static DECODED: EncodingForm = EncodingForm::new(FormKind::Decoded);

#[derive(Clone, Copy, PartialEq, Eq)]
enum FormKind {
    Normalised,
    Literal,
    Served,
    ServedQuery,
    ServedButWildcards,
    ServedQueryButWildcards,
    Google,
    Decoded,
}

/// The encoding of a byte: up to three bytes, then their number.
type EncodedByte = [u8; 4];

/// The most bytes that any form writes for one.
pub(crate) const MAX_ENCODED_BYTES: usize = 3;

impl EncodingForm {
    const fn new(kind: FormKind) -> Self {
        let mut raw = [[0; 4]; 256];
        let mut escaped = [[0; 4]; 256];
        let mut byte = 0;
        while byte < 256 {
            raw[byte] = encode_byte(kind, byte as u8, false);
            escaped[byte] = encode_byte(kind, byte as u8, true);
            byte += 1;
        }
        Self {
            raw,
            escaped,
            keeps_begun_escapes: !matches!(kind, FormKind::Google | FormKind::Decoded),
            query_form: None,
            escaped_wildcards: None,
        }
    }

    /// Returns the form in which a path keeps the escapes of `*` and `$`, if it has any and this form decodes them.
    pub(crate) fn for_escaped_wildcards(&self, path: &[u8]) -> Option<&'static Self> {
        self.escaped_wildcards.filter(|_| {
            memchr_iter(b'%', path)
                .any(|at| hex_pair(&path[at + 1..]).is_some_and(is_wildcard_byte))
        })
    }

    /// Appends `text` in this form. Returns whether it contains a `%` that does not begin an escape but might with more
    /// text after it.
    pub(crate) fn push(&self, form: &mut Vec<u8>, text: &[u8]) -> bool {
        self.write_all::<false>(form, text, false, |_| {}) && self.keeps_begun_escapes
    }

    /// Appends a path in this form, except that the `%` of each cut escape, one with only the first of its two digits,
    /// is kept as it is.
    pub(crate) fn push_with_cut_escapes(&self, form: &mut Vec<u8>, path: &[u8]) {
        let mut start = 0;
        let query = self.query_start::<false>(path);
        for end in escape::cut_escapes(path).chain([path.len()]) {
            let middle = query.clamp(start, end);
            self.push(form, &path[start..middle]);
            self.query_form.unwrap_or(self).push(form, &path[middle..end]);
            form.extend(path.get(end));
            start = end + 1;
        }
    }

    /// Appends a part of a pattern between stars, which may be in a query, in the same way. An open part may be
    /// followed by more text, so a `%` at its end is kept as well.
    pub(crate) fn push_part_with_cut_escapes(
        &self,
        form: &mut Vec<u8>,
        part: &[u8],
        in_query: bool,
        is_open: bool,
    ) {
        let form_of_part = self.query_form.filter(|_| in_query).unwrap_or(self);
        let before_percent = part.strip_suffix(b"%").filter(|_| is_open);
        form_of_part.push_with_cut_escapes(form, before_percent.unwrap_or(part));
        form.extend(before_percent.map(|_| b'%'));
    }

    /// Appends the literal bytes of a pattern and calls `star` for each star with the number of bytes written before
    /// it.
    ///
    /// Where more text may follow, before a star or at an open end, the beginning of an escape, such as `%` or `%2`, is
    /// kept, with its digit in upper case like all escapes: it matches the escapes that begin so.
    #[inline]
    pub(crate) fn push_pattern_literals(
        &self,
        form: &mut Vec<u8>,
        text: &[u8],
        is_open: bool,
        star: impl FnMut(usize),
    ) {
        self.write_all::<true>(form, text, is_open, star);
    }

    #[inline]
    fn write_all<const STARS: bool>(
        &self,
        form: &mut Vec<u8>,
        text: &[u8],
        is_open: bool,
        mut star: impl FnMut(usize),
    ) -> bool {
        let (path, query) = text.split_at(self.query_start::<STARS>(text));
        let Some(in_query) = self.query_form.filter(|_| !query.is_empty()) else {
            return self.write::<STARS>(form, text, is_open, star);
        };
        let start = form.len();
        // The query's form starts at the first star, so the part before it is followed by that star.
        let is_before_star = STARS && query.first() == Some(&b'*');
        let has_lone_percent = self.write::<STARS>(form, path, is_before_star, &mut star);
        let before = form.len() - start;
        let star = |at| star(before + at);
        in_query.write::<STARS>(form, query, is_open, star) | has_lone_percent
    }

    /// Returns where the query may begin if it has another form, else the end of the text.
    fn query_start<const STARS: bool>(&self, text: &[u8]) -> usize {
        let query = match self.query_form {
            None => None,
            // A star may match a `?`, so the part after it may be in the query.
            Some(_) if STARS => memchr2(b'?', b'*', text),
            Some(_) => memchr(b'?', text),
        };
        query.unwrap_or(text.len())
    }

    #[inline]
    fn write<const STARS: bool>(
        &self,
        form: &mut Vec<u8>,
        text: &[u8],
        is_open: bool,
        mut star: impl FnMut(usize),
    ) -> bool {
        let start = form.len();
        // Each byte writes four bytes unconditionally, and the next one overwrites the surplus: cheaper than a copy of
        // variable length.
        form.resize(start + MAX_ENCODED_BYTES * text.len() + 1, 0);
        let mut at = start;
        let mut rest = text;
        let mut has_lone_percent = false;
        while let Some((&byte, after)) = rest.split_first() {
            if byte != b'%' && rest.len() >= BLOCK {
                // Most of a long path needs no encoding, so it is copied in blocks.
                let (usual, others) = rest.split_at(usual_prefix_len(rest));
                form[at..at + usual.len()].copy_from_slice(usual);
                at += usual.len();
                rest = others;
                if !usual.is_empty() {
                    continue;
                }
            }
            rest = after;
            let mut written = self.raw[usize::from(byte)];
            // A constant, so that paths, in which a star is an ordinary byte, are encoded without this branch.
            if STARS && byte == b'*' {
                star(at - start);
                continue;
            }
            if byte == b'%' {
                if let Some(value) = hex_pair(after) {
                    written = self.escaped[usize::from(value)];
                    rest = &after[2..];
                } else {
                    has_lone_percent = true;
                    if STARS && self.keeps_begun_escapes && escape::begins_escape(after, is_open) {
                        (written, rest) = escape::encode_begun_escape(after);
                    }
                }
            }
            form[at..at + written.len()].copy_from_slice(&written);
            at += usize::from(written[MAX_ENCODED_BYTES]);
        }
        form.truncate(at);
        has_lone_percent
    }

    /// Returns the length of a pattern in this form, including its stars.
    pub(crate) fn encoded_len(&self, pattern: &[u8], is_open: bool) -> usize {
        // Counted without writing, for rules that need not be compiled.
        let mut units = EncodedUnits(pattern);
        let mut length = 0;
        while let Some(unit) = units.next() {
            length += match unit {
                EncodedUnit::LonePercent
                    if self.keeps_begun_escapes && escape::begins_escape(units.0, is_open) =>
                {
                    1
                }
                unit => usize::from(self.encoded(unit)[MAX_ENCODED_BYTES]),
            };
        }
        length
    }

    /// Returns whether a path in this form may start with the beginning of a pattern, up to its first star, if the
    /// dialect has stars, or to the first `%` that may begin an escape. Much cheaper than encoding the pattern.
    pub(crate) fn may_match_start(&self, path: &[u8], pattern: &[u8], has_stars: bool) -> bool {
        let mut rest = path;
        for unit in EncodedUnits(&pattern[..self.query_start::<true>(pattern)]) {
            match unit {
                EncodedUnit::Raw(b'*') if has_stars => return true,
                // It is kept or written as `%25`, depending on the next byte; both begin like this.
                EncodedUnit::LonePercent if self.keeps_begun_escapes => {
                    return rest.first() == Some(&b'%');
                }
                _ => {}
            }
            let [bytes @ .., length] = self.encoded(unit);
            let Some(after) = rest.strip_prefix(&bytes[..usize::from(*length)]) else {
                return false;
            };
            rest = after;
        }
        true
    }

    fn encoded(&self, unit: EncodedUnit) -> &EncodedByte {
        match unit {
            EncodedUnit::Raw(byte) => &self.raw[usize::from(byte)],
            EncodedUnit::Escaped(value) => &self.escaped[usize::from(value)],
            EncodedUnit::LonePercent => &self.raw[usize::from(b'%')],
        }
    }
}

/// Returns whether a rule's value, without a final `$`, is the same in every form in which all spellings are judged,
/// and as Google's parser compares it with unencoded paths. Most are.
pub(crate) fn is_same_in_all_forms(value: &[u8]) -> bool {
    let is_same = |text, served: &EncodingForm| {
        EncodedUnits(text).all(|unit| {
            let written = GOOGLE.encoded(unit);
            // The other forms compare a literal `*` or `$` as one byte, escaped or not, unlike Google's parser.
            let is_special = matches!(unit, EncodedUnit::Raw(value) | EncodedUnit::Escaped(value) if is_wildcard_byte(value));
            let others = [&LITERAL, served].map(|form| form.encoded(unit));
            unit == EncodedUnit::Raw(b'*') || !is_special && others == [written; 2]
        })
    };
    let (path, query) = value.split_at(SERVED.query_start::<true>(value));
    is_same(path, &SERVED) && is_same(query, &SERVED_QUERY)
}

/// Returns whether servers decode an escape of a path that its normal form keeps.
pub(crate) fn is_decoded_by_servers(path: &[u8]) -> bool {
    // Nearly no path has an escape, and this is called for all.
    if memchr(b'%', path).is_none() {
        return false;
    }
    let is_decoded = |text, served: &EncodingForm| {
        EncodedUnits(text).any(|unit| served.encoded(unit) != LITERAL.encoded(unit))
    };
    let (path, query) = path.split_at(SERVED.query_start::<false>(path));
    is_decoded(path, &SERVED) || is_decoded(query, &SERVED_QUERY)
}

const fn encode_byte(kind: FormKind, value: u8, escaped: bool) -> EncodedByte {
    let raw = match kind {
        FormKind::Google => !escaped && value < 0x80,
        FormKind::Decoded => !escaped || value != b'/',
        _ => match classify(value) {
            OctetClass::Unreserved => true,
            OctetClass::Reserved => !escaped || decodes_reserved(kind, value),
            OctetClass::Other => false,
        },
    };
    if raw {
        return [value, 0, 0, 1];
    }
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let high = (value >> 4) as usize;
    let low = (value & 15) as usize;
    [b'%', DIGITS[high], DIGITS[low], 3]
}

/// Returns whether a form decodes the escape of a reserved byte.
const fn decodes_reserved(kind: FormKind, value: u8) -> bool {
    use FormKind::{Literal, Served, ServedButWildcards, ServedQuery, ServedQueryButWildcards};
    if is_wildcard_byte(value) {
        return matches!(kind, Literal | Served | ServedQuery);
    }
    match kind {
        Served | ServedButWildcards => !matches!(value, b'/' | b'?' | b'#'),
        ServedQuery | ServedQueryButWildcards => {
            !matches!(value, b'/' | b'?' | b'#' | b'&' | b'=' | b'+' | b';')
        }
        _ => false,
    }
}

/// Returns whether a byte has a special meaning in a pattern.
pub(crate) const fn is_wildcard_byte(value: u8) -> bool {
    matches!(value, b'*' | b'$')
}
