//! The writer: appends statements as events.

use fearless_simd::Simd;

use super::super::parse::line::Field;
use super::super::pattern::directory;
use super::event::{
    AGENT, ALLOW, DISALLOW, FORM_SHIFT, LONG, OTHER, PADDING, PLAIN, RUN, SKIP, SPECIAL, WILD,
};
use crate::blocks::BLOCK;
use crate::{forms, plain};

/// Appends events.
#[derive(Debug)]
pub(crate) struct Writer {
    stream: Vec<u8>,
    line: u32,
    has_respelt_rules: bool,
}

impl Writer {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self {
            stream: Vec::with_capacity(bytes),
            line: 0,
            has_respelt_rules: false,
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
        self.note_form(rule);
        let is_plain = rule.form == PLAIN;
        self.push_header(rule.tag(), line, rule.value.len() + usize::from(!is_plain));
        if !is_plain {
            self.stream
                .push(u8::try_from(rule.plain).unwrap_or(u8::MAX));
        }
        self.stream.extend_from_slice(rule.value);
    }

    /// The same for a rule whose value a block begins with, so many lines behind the event before.
    #[inline(always)]
    pub(crate) fn push_common_rule(
        &mut self,
        rule: &RuleToWrite<'_>,
        block: &[u8; BLOCK],
        distance: u8,
    ) {
        self.note_form(rule);
        let length = rule.value.len();
        let is_wild = usize::from(rule.form != PLAIN);
        self.line += u32::from(distance);
        // To write more than there is, and to cut it, takes no call and no branch that could be predicted wrongly.
        let start = self.offset() + 3 + is_wild;
        let header = [
            rule.tag(),
            distance,
            (length + is_wild) as u8,
            rule.plain as u8,
        ];
        self.stream.extend_from_slice(&header);
        self.stream.truncate(start);
        self.stream.extend_from_slice(block);
        self.stream.truncate(start + length);
    }

    #[inline(always)]
    fn note_form(&mut self, rule: &RuleToWrite<'_>) {
        if rule.form == SPECIAL {
            self.note_special(rule.value);
        }
    }

    #[cold]
    fn note_special(&mut self, value: &[u8]) {
        let text = value.strip_suffix(b"$").unwrap_or(value);
        self.has_respelt_rules |= !forms::is_written_alike(text);
    }

    /// Whether a rule differs between the forms in which a path is judged strictly.
    pub(crate) fn has_respelt_rules(&self) -> bool {
        self.has_respelt_rules
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
        let plain = plain::plain_start(simd, value);
        let allow = field == Field::Allow;
        // `.../index.html` also means `.../`: only what stands before the name is sure.
        let directory = directory(value).filter(|_| allow);
        let form = if directory.is_some() {
            SPECIAL
        } else if plain == value.len() {
            PLAIN
        } else if plain::is_wild(simd, &value[plain..]) {
            WILD
        } else {
            SPECIAL
        };
        let sure = directory.map_or(plain, <[u8]>::len);
        Self {
            allow,
            seen_by,
            form,
            plain: plain.min(sure),
            value,
        }
    }

    #[inline(always)]
    fn tag(&self) -> u8 {
        let kind = if self.allow { ALLOW } else { DISALLOW };
        kind | self.seen_by | self.form << FORM_SHIFT
    }
}
