//! Patterns: what a rule matches, and how specific it is.

use crate::Dialect;
use crate::spelling;

/// A path in the form in which a dialect compares it.
pub(crate) struct Path(Vec<u8>);

impl Path {
    pub(crate) fn new(path: &str, dialect: Dialect) -> Self {
        let mut form = Vec::with_capacity(path.len());
        match dialect {
            Dialect::Google => form.extend(path.as_bytes()),
            Dialect::Rfc9309 | Dialect::Strictest => {
                spelling::push_literal(&mut form, path.as_bytes());
            }
            // "The path portion of the URL", says the draft of 1996 (§3.2.2): no query.
            Dialect::Koster1996 => {
                let end = path.find('?').unwrap_or(path.len());
                spelling::push_decoded(&mut form, &path.as_bytes()[..end]);
            }
            Dialect::Selfhtml => spelling::push_decoded(&mut form, path.as_bytes()),
        }
        Self(form)
    }
}

/// A rule's value, taken apart for one dialect.
pub(crate) struct Pattern {
    segments: Vec<Vec<u8>>,
    anchored: bool,
    octets: usize,
}

impl Pattern {
    pub(crate) fn new(value: &[u8], dialect: Dialect) -> Self {
        if dialect == Dialect::Koster1996 {
            let mut literal = Vec::new();
            spelling::push_decoded(&mut literal, value);
            return Self {
                octets: literal.len(),
                segments: vec![literal],
                anchored: false,
            };
        }
        let (body, anchored) = match value.strip_suffix(b"$") {
            Some(body) => (body, true),
            None => (value, false),
        };
        let push = match dialect {
            Dialect::Google => spelling::push_google,
            Dialect::Selfhtml => spelling::push_decoded,
            _ => spelling::push_literal,
        };
        let segments: Vec<Vec<u8>> = body
            .split(|&byte| byte == b'*')
            .map(|segment| {
                let mut literal = Vec::new();
                push(&mut literal, segment);
                literal
            })
            .collect();
        let mut form = Vec::new();
        match dialect {
            Dialect::Google => spelling::push_google(&mut form, value),
            _ => spelling::push_normalised(&mut form, value),
        }
        Self {
            octets: form.len(),
            segments,
            anchored,
        }
    }

    /// How specific the pattern is: its octets in the dialect's form.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    pub(crate) fn matches(&self, path: &Path) -> bool {
        let Some((first, rest)) = self.segments.split_first() else {
            return false;
        };
        let Some(mut tail) = path.0.strip_prefix(first.as_slice()) else {
            return false;
        };
        let Some((last, middle)) = rest.split_last() else {
            return !self.anchored || tail.is_empty();
        };
        for segment in middle {
            match memchr::memmem::find(tail, segment) {
                Some(at) => tail = &tail[at + segment.len()..],
                None => return false,
            }
        }
        if self.anchored {
            tail.ends_with(last)
        } else {
            memchr::memmem::find(tail, last).is_some()
        }
    }
}
