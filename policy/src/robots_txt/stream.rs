//! The compiled form of a file: its statements, one after the other, in one stretch of memory.
//!
//! ```text
//! event = tag  lines since the event before  length of payload  [length, 4 octets, if LONG]  payload
//! ```
//!
//! Rules are read in a row, a few nanoseconds each, so nothing is kept that a reader of rules
//! does not need: line numbers are distances, and values stand as they were written. What a
//! dialect makes of a value is worked out when it matters, or once in an [`Index`] for large
//! groups.
//!
//! [`Index`]: super::index::Index

use fearless_simd::Simd;
use memchr::memrchr;

use super::line::Field;
use super::pattern::{HEAD_OCTETS, head_mask, means_directory};
use crate::blocks::BLOCK;
use crate::spelling;

/// Begins a stretch of user-agent lines and rules; its flags say for whom a new group begins.
pub(crate) const RUN: u8 = 0;
/// A user-agent line; the payload is its line number, then its value.
pub(crate) const AGENT: u8 = 1;
/// An allow rule; if its form is not `PLAIN` the payload starts with the length of the part that
/// every dialect reads alike.
pub(crate) const ALLOW: u8 = 2;
/// A disallow rule, likewise.
pub(crate) const DISALLOW: u8 = 3;
/// Any other statement: `name:value`.
pub(crate) const OTHER: u8 = 4;
/// Only counts lines, where one octet does not hold the distance; the payload is the number.
pub(crate) const SKIP: u8 = 5;
const KIND: u8 = 7;

/// Seen by those who read fields as spelt: all dialects but `google`.
pub(crate) const EXACT: u8 = 8;
/// Seen by Google's parser.
pub(crate) const GOOGLE: u8 = 16;
/// The payload is too long for one octet of length.
const LONG: u8 = 32;
/// Of a `RUN`: a new record for those who end records at blank lines. Of an `OTHER`: the record
/// is still open for them.
pub(crate) const RECORD: u8 = 64;

const FORM_SHIFT: u32 = 6;
/// The value reads the same in every dialect, and matches what starts with it.
pub(crate) const PLAIN: u8 = 0;
/// The value holds `*`, or ends in `$`, but is plain otherwise.
pub(crate) const WILD: u8 = 1;
/// The dialects read the value differently.
pub(crate) const SPECIAL: u8 = 2;

/// The value of a usual rule and the end of its line are within so many octets.
pub(crate) const USUAL_OCTETS: usize = BLOCK;

/// The stream ends in so many zeros, so that eight octets can be loaded anywhere.
pub(crate) const PADDING: usize = 8;

/// One event of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub(crate) tag: u8,
    pub(crate) distance: u32,
    pub(crate) payload: &'a [u8],
    pub(crate) offset: usize,
    /// Where the payload is.
    start: usize,
}

impl<'a> Event<'a> {
    pub(crate) fn kind(&self) -> u8 {
        self.tag & KIND
    }

    pub(crate) fn is_rule(&self) -> bool {
        matches!(self.kind(), ALLOW | DISALLOW)
    }

    pub(crate) fn form(&self) -> u8 {
        self.tag >> FORM_SHIFT
    }

    /// A rule's value as written, and how much of its start is plain.
    pub(crate) fn rule(&self) -> (&'a [u8], usize) {
        match self.payload {
            [plain, value @ ..] if self.form() != PLAIN => (value, usize::from(*plain)),
            value => (value, value.len()),
        }
    }

    /// A user-agent line's number and value.
    pub(crate) fn agent(&self) -> (u32, &'a [u8]) {
        let (line, value) = self
            .payload
            .split_first_chunk()
            .expect("written by push_agent");
        (u32::from_le_bytes(*line), value)
    }

    /// Another statement's name and value.
    pub(crate) fn other(&self) -> (&'a [u8], &'a [u8]) {
        let colon = memchr::memchr(b':', self.payload).expect("written by push_other");
        (&self.payload[..colon], &self.payload[colon + 1..])
    }

    /// How many lines this event is after the one before.
    pub(crate) fn lines(&self) -> u32 {
        match (self.kind(), self.payload) {
            (SKIP, &[a, b, c, d, ..]) => u32::from_le_bytes([a, b, c, d]),
            _ => self.distance,
        }
    }
}

/// The events from an offset on.
pub(crate) fn events(stream: &[u8], offset: usize) -> Events<'_> {
    Events { stream, offset }
}

/// An iterator over events; cheap to copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Events<'a> {
    stream: &'a [u8],
    offset: usize,
}

impl Events<'_> {
    /// Steps over the events ahead that decide nothing about a path: rules that start otherwise, and all that is no
    /// rule but for the runs with a flag. Most of what a decision reads is passed here. Says whether the next event is
    /// surely worth a look.
    #[inline]
    pub(crate) fn skip_unlike(&mut self, path_head: u64, ends: u8) -> bool {
        const READ: usize = 4 + HEAD_OCTETS;
        let Some(last) = self.stream.len().checked_sub(READ) else {
            return false;
        };
        while self.offset <= last
            && let Some(event) = self.stream[self.offset..][..READ].first_chunk::<READ>()
        {
            let &[tag, _, length, value @ ..] = event;
            let stop = if tag & KIND & ALLOW != 0 {
                let &[plain, after @ ..] = &value;
                let [at_once @ .., _] = value;
                let (head, octets) = match tag >> FORM_SHIFT {
                    PLAIN => (at_once, length),
                    _ => (after, plain),
                };
                let unlike = u64::from_le_bytes(head) ^ path_head;
                unlike & head_mask(usize::from(octets)) == 0
            } else {
                tag & KIND == RUN && tag & ends != 0
            };
            if tag & LONG != 0 {
                return false;
            }
            if stop {
                return true;
            }
            // In this order the sum is at hand soonest, and the next event waits for nothing else.
            self.offset = (self.offset + 3) + usize::from(length);
        }
        false
    }

    /// Whether a path with this head could match the rule that an event is: the plain start of its value agrees.
    #[inline]
    pub(crate) fn may_match(&self, event: &Event<'_>, path_head: u64) -> bool {
        let short = event.payload.first().copied().map_or(0, usize::from);
        let (start, plain) = match event.form() {
            PLAIN => (event.start, event.payload.len()),
            _ => (event.start + 1, short),
        };
        // The padding makes eight octets, and the mask takes off what is not the value's.
        let head = self.stream[start..]
            .first_chunk()
            .map_or(0, |head| u64::from_le_bytes(*head));
        (head ^ path_head) & head_mask(plain) == 0
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Event<'a>;

    #[inline]
    fn next(&mut self) -> Option<Event<'a>> {
        let offset = self.offset;
        if offset + PADDING >= self.stream.len() {
            return None;
        }
        let &[tag, distance, short] = self.stream[offset..].first_chunk()?;
        let (start, length) = if tag & LONG == 0 {
            (offset + 3, usize::from(short))
        } else {
            let length = self.stream[offset + 3..].first_chunk()?;
            (offset + 7, u32::from_le_bytes(*length) as usize)
        };
        self.offset = start + length;
        Some(Event {
            tag,
            distance: u32::from(distance),
            payload: &self.stream[start..self.offset],
            offset,
            start,
        })
    }
}

/// Appends events.
#[derive(Debug)]
pub(crate) struct Writer {
    stream: Vec<u8>,
    line: u32,
}

impl Writer {
    pub(crate) fn with_capacity(octets: usize) -> Self {
        Self {
            stream: Vec::with_capacity(octets),
            line: 0,
        }
    }

    pub(crate) fn offset(&self) -> usize {
        self.stream.len()
    }

    pub(crate) fn push_run(&mut self, flags: u8) -> usize {
        let offset = self.offset();
        self.stream.extend([RUN | flags, 0, 0]);
        offset
    }

    /// Adds flags to an event already written.
    pub(crate) fn flag(&mut self, offset: usize, flags: u8) {
        self.stream[offset] |= flags;
    }

    pub(crate) fn push_agent(&mut self, seen_by: u8, line: u32, value: &[u8]) -> usize {
        self.push(AGENT | seen_by, line, &line.to_le_bytes(), value)
    }

    pub(crate) fn push_other(&mut self, tag: u8, line: u32, name: &[u8], value: &[u8]) {
        self.push_header(OTHER | tag, line, name.len() + 1 + value.len());
        self.stream.extend_from_slice(name);
        self.stream.push(b':');
        self.stream.extend_from_slice(value);
    }

    #[inline]
    pub(crate) fn push_rule(&mut self, rule: &RuleToWrite<'_>, line: u32) {
        let kind = if rule.allow { ALLOW } else { DISALLOW };
        let tag = kind | rule.seen_by | rule.form << FORM_SHIFT;
        let is_plain = rule.form == PLAIN;
        self.push_header(tag, line, rule.value.len() + usize::from(!is_plain));
        if !is_plain {
            self.stream
                .push(u8::try_from(rule.plain).unwrap_or(u8::MAX));
        }
        self.stream.extend_from_slice(rule.value);
    }

    /// Appends a rule of a form that all readers see alike: so many lines behind the event before, its value so much of
    /// what some octets begin with, of which so much is plain.
    #[inline(always)]
    pub(crate) fn push_usual(
        &mut self,
        allow: bool,
        form: u8,
        distance: u8,
        octets: &[u8; USUAL_OCTETS],
        length: usize,
        plain: usize,
    ) {
        let kind = if allow { ALLOW } else { DISALLOW };
        let tag = kind | EXACT | GOOGLE | form << FORM_SHIFT;
        let is_wild = usize::from(form != PLAIN);
        self.line += u32::from(distance);
        // To write more than there is, and to cut it, takes no call and no choice that could be guessed wrongly.
        let start = self.offset() + 3 + is_wild;
        self.stream
            .extend_from_slice(&[tag, distance, (length + is_wild) as u8, plain as u8]);
        self.stream.truncate(start);
        self.stream.extend_from_slice(octets);
        self.stream.truncate(start + length);
    }

    /// The line of the last event.
    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        if !self.stream.is_empty() {
            self.stream.extend([0; PADDING]);
        }
        self.stream
    }

    #[inline]
    fn push(&mut self, tag: u8, line: u32, head: &[u8], value: &[u8]) -> usize {
        let offset = self.push_header(tag, line, head.len() + value.len());
        self.stream.extend_from_slice(head);
        self.stream.extend_from_slice(value);
        offset
    }

    #[inline]
    fn push_header(&mut self, tag: u8, line: u32, length: usize) -> usize {
        let lines = line - self.line;
        self.line = line;
        if let (Ok(distance), Ok(short)) = (u8::try_from(lines), u8::try_from(length)) {
            let offset = self.offset();
            self.stream.extend_from_slice(&[tag, distance, short]);
            return offset;
        }
        self.push_wide_header(tag, lines, length)
    }

    #[cold]
    fn push_wide_header(&mut self, tag: u8, lines: u32, length: usize) -> usize {
        let distance = u8::try_from(lines).unwrap_or_else(|_| {
            self.stream.extend([SKIP, 0, 4]);
            self.stream.extend(lines.to_le_bytes());
            0
        });
        let offset = self.offset();
        match u8::try_from(length) {
            Ok(short) => self.stream.extend_from_slice(&[tag, distance, short]),
            Err(_) => {
                let length = u32::try_from(length).expect("the limit is below 4 GiB");
                self.stream.extend_from_slice(&[tag | LONG, distance, 0]);
                self.stream.extend_from_slice(&length.to_le_bytes());
            }
        }
        offset
    }
}

/// A rule on its way into a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleToWrite<'a> {
    pub(crate) allow: bool,
    pub(crate) seen_by: u8,
    pub(crate) form: u8,
    pub(crate) plain: usize,
    pub(crate) value: &'a [u8],
}

impl<'a> RuleToWrite<'a> {
    /// Classifies a value by what it holds.
    #[inline(always)]
    pub(crate) fn new<S: Simd>(simd: S, field: Field, seen_by: u8, value: &'a [u8]) -> Self {
        let plain = spelling::plain_start(simd, value);
        let allow = field == Field::Allow;
        let directory = allow && means_directory(value);
        let form = if directory {
            SPECIAL
        } else if plain == value.len() {
            PLAIN
        } else if spelling::is_wild(simd, &value[plain..]) {
            WILD
        } else {
            SPECIAL
        };
        // `…/index.html` also means `…/`: only what stands before the name is sure.
        let sure = if directory {
            memrchr(b'/', value).map_or(0, |at| at + 1)
        } else {
            plain
        };
        Self {
            allow,
            seen_by,
            form,
            plain: plain.min(sure),
            value,
        }
    }
}
