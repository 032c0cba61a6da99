//! Events: the statements of a file, one after the other, in one stretch of memory.
//!
//! ```text
//! event = tag  lines since the event before  length of payload  [length, 4 bytes, if LONG]  payload
//! ```
//!
//! Rules are read in a row, a few nanoseconds each, so nothing is kept that a reader of rules
//! does not need: line numbers are distances, and values stand as they were written. What a
//! dialect makes of a value is worked out when it matters, or once in an [`Index`] for large
//! groups.
//!
//! [`Index`]: super::index::Index

use super::super::head::{HEAD_BYTES, head_mask};

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
/// Only counts lines, where one byte does not hold the distance; the payload is the number.
pub(crate) const SKIP: u8 = 5;
const KIND: u8 = 7;

/// Seen by those who read fields as spelt: all dialects but `google`.
pub(crate) const EXACT: u8 = 8;
/// Seen by Google's parser.
pub(crate) const GOOGLE: u8 = 16;
/// The payload is too long for one byte of length.
pub(crate) const LONG: u8 = 32;
/// Of a `RUN`: a new record for those who end records at blank lines. Of an `OTHER`: the record
/// is still open for them.
pub(crate) const RECORD: u8 = 64;

pub(crate) const FORM_SHIFT: u32 = 6;
/// The value reads the same in every dialect, and matches what starts with it.
pub(crate) const PLAIN: u8 = 0;
/// The value holds `*`, or ends in `$`, but is plain otherwise.
pub(crate) const WILD: u8 = 1;
/// The dialects read the value differently.
pub(crate) const SPECIAL: u8 = 2;

/// The stream ends in so many zeros, so that eight bytes can be loaded anywhere.
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
        const READ: usize = 4 + HEAD_BYTES;
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
                let (head, length) = match tag >> FORM_SHIFT {
                    PLAIN => (at_once, length),
                    _ => (after, plain),
                };
                let unlike = u64::from_le_bytes(head) ^ path_head;
                unlike & head_mask(usize::from(length)) == 0
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
        // The padding makes eight bytes, and the mask takes off what is not the value's.
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
