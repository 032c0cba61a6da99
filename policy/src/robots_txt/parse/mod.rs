//! Bytes → events, line by line; never fails.

mod common_rules;
pub(super) mod line;
mod push;
mod skip;

use fearless_simd::{Level, Simd, dispatch};

use super::groups::agent::Agent;
use super::statements::event::{EXACT, GOOGLE};
use super::statements::stored::Stored;
use super::statements::writer::Writer;
use super::topic::Topics;
use crate::blocks::{self, first_of};
use common_rules::CommonRules;
use line::{Field, GOOGLE_LINE_BYTES, is_directive, trim};
use skip::{Skipped, skip};

pub(crate) fn parse(body: &[u8]) -> Stored {
    dispatch!(Level::new(), simd => parse_by(simd, body))
}

#[inline(always)]
fn parse_by<S: Simd>(simd: S, body: &[u8]) -> Stored {
    const BOM: &[u8] = b"\xEF\xBB\xBF";
    let mut parser = Parser::new(simd, body);
    let bom = BOM
        .iter()
        .zip(body)
        .take_while(|(bom, byte)| bom == byte)
        .count();
    if bom == BOM.len() {
        parser.at = bom;
    } else if bom > 0 {
        // Google's parser skips a part of a byte order mark too; for the others it is text.
        parser.first_line_after_partial_bom(bom);
    }
    while parser.at < body.len() {
        if let b'A' | b'D' | b'a' | b'd' = body[parser.at] {
            parser.read_common_rules();
        }
        parser.read_line();
    }
    parser.finish()
}

struct Parser<'a, S: Simd> {
    simd: S,
    body: &'a [u8],
    at: usize,
    line: u32,
    writer: Writer,
    /// The user-agent lines with their tags.
    agents: Vec<(Agent, u8)>,
    topics: Topics,
    /// Offset of the run being written.
    run: Option<usize>,
    run_has_rules: bool,
    /// Whether the group being written has rules, for readers of either kind.
    exact_rules: bool,
    google_rules: bool,
    /// The same for those to whom a blank line ends a record, and whether one is open.
    record_rules: bool,
    record_open: bool,
    blank: bool,
    /// Of the group being written: its first user-agent line, its rules, those with `*`.
    group_agents: usize,
    group_rules: u32,
    group_wild_rules: u32,
}

impl<'a, S: Simd> Parser<'a, S> {
    fn new(simd: S, body: &'a [u8]) -> Self {
        Self {
            simd,
            body,
            at: 0,
            line: 0,
            writer: Writer::with_capacity((body.len() / 2).min(32 * 1024) + 32),
            agents: Vec::with_capacity(8),
            topics: Topics::default(),
            run: None,
            run_has_rules: false,
            exact_rules: false,
            google_rules: false,
            record_rules: false,
            record_open: false,
            blank: false,
            group_agents: 0,
            group_rules: 0,
            group_wild_rules: 0,
        }
    }

    fn finish(mut self) -> Stored {
        self.end_group();
        Stored::new(&self.agents, self.writer, self.topics)
    }

    /// Reads on in a group as long as there are rules as nearly all are.
    #[inline(always)]
    fn read_common_rules(&mut self) {
        if self.blank || self.agents.is_empty() {
            return;
        }
        let Ok(distance) = u8::try_from(self.line + 1 - self.writer.line()) else {
            return;
        };
        let (before, text) = self.body.split_at(self.at);
        // Lines of a file end alike.
        let line_end = if before.ends_with(b"\r\n") { 2 } else { 1 };
        let mut common = CommonRules {
            simd: self.simd,
            writer: &mut self.writer,
            line_end,
            distance,
            rules: 0,
            wild_rules: 0,
        };
        self.at += common.read(text);
        let CommonRules {
            rules, wild_rules, ..
        } = common;
        if rules > 0 {
            self.line += rules;
            self.group_rules += rules;
            self.group_wild_rules += wild_rules;
            self.note_rules(EXACT | GOOGLE);
        }
    }

    /// Reads the next line and steps behind it. Most are told apart by their first bytes; the few that might be a
    /// misspelt field take the long way.
    #[inline(always)]
    fn read_line(&mut self) {
        let line = &self.body[self.at..];
        if line.is_empty() {
            return;
        }
        self.line += 1;
        let lead = match line {
            [b' ' | b'\t', ..] => leading_blanks(self.simd, line),
            _ => 0,
        };
        let read = match line[lead..] {
            [] | [b'\n' | b'\r', ..] => {
                self.end_record();
                lead
            }
            [byte, ..] if byte.is_ascii_alphabetic() => self.read_field(line, lead),
            [0x0B | 0x0C, ..] => self.read_any_field(line),
            [b'#', ..] => lead,
            // Nothing that could be a field's name to any reader.
            _ => {
                let skipped = skip(self.simd, &line[lead..]);
                if skipped.lines > 0 {
                    return self.skip(lead, skipped);
                }
                lead
            }
        };
        self.end_line(read);
    }

    /// Steps behind a line of which so many bytes were read.
    #[inline(always)]
    fn end_line(&mut self, read: usize) {
        let line = &self.body[self.at..];
        let end = read + self.line_end(&line[read..]);
        self.at += match line[end..] {
            [b'\r', b'\n', ..] => end + 2,
            [] => end,
            _ => end + 1,
        };
    }

    /// Steps over what was skipped behind so many bytes of a line.
    #[inline(always)]
    fn skip(&mut self, read: usize, skipped: Skipped) {
        self.at += read + skipped.bytes;
        // The next line counts itself.
        self.line += skipped.lines - 1;
        if skipped.blank {
            self.end_record();
        }
    }

    /// Where the line ends that a text begins with.
    #[inline(always)]
    fn line_end(&self, text: &[u8]) -> usize {
        match text {
            [b'\n' | b'\r', ..] => 0,
            _ => first_of(self.simd, text, [b'\n', b'\r']),
        }
    }

    /// Reads the field that begins at `lead`; how much of the line was read.
    #[inline(always)]
    fn read_field(&mut self, line: &'a [u8], lead: usize) -> usize {
        const USER_AGE: u64 = u64::from_le_bytes(*b"user-age");
        let text = &line[lead..];
        let Some(head) = text.first_chunk::<12>() else {
            return self.read_any_field(line);
        };
        let folded = line::folded(head);
        if line::begins_disallow(head) {
            self.read_known(Field::Disallow, line, lead + 9)
        } else if line::begins_allow(head) {
            self.read_known(Field::Allow, line, lead + 6)
        } else if folded == USER_AGE && head[4] == b'-' && is_agent_end(&head[8..11]) {
            self.read_known(Field::UserAgent, line, lead + 11)
        } else if matches!(
            &folded.to_le_bytes()[..3],
            b"use" | b"all" | b"dis" | b"dia"
        ) {
            self.read_any_field(line)
        } else {
            lead + self.read_directive(text)
        }
    }

    /// A field spelt as all readers want it, whose value begins at `start`.
    #[inline(always)]
    fn read_known(&mut self, field: Field, line: &'a [u8], start: usize) -> usize {
        let text = &line[start..];
        let end = first_of(self.simd, text, [b'\n', b'\r', b'#', 0]);
        if text.get(end) == Some(&0) || start + end > GOOGLE_LINE_BYTES {
            return self.read_any_field(line);
        }
        let value = trim(&text[..end]);
        match field {
            Field::UserAgent => self.push_agent(EXACT | GOOGLE, value),
            _ => self.push_rule(field, EXACT | GOOGLE, value),
        }
        start + end
    }

    /// A field that no reader takes for a rule or a user-agent line.
    #[inline(always)]
    fn read_directive(&mut self, text: &'a [u8]) -> usize {
        let colon = first_of(self.simd, text, [b':', b'\n', b'\r', b'#']);
        let name = trim(&text[..colon]);
        if text.get(colon) != Some(&b':') || !is_directive(name) {
            return colon;
        }
        let value = &text[colon + 1..];
        let end = first_of(self.simd, value, [b'\n', b'\r', b'#']);
        self.push_other(EXACT | GOOGLE, name, trim(&value[..end]));
        colon + 1 + end
    }

    /// Reads a line as each reader does, letter by letter.
    #[cold]
    fn read_any_field(&mut self, text: &'a [u8]) -> usize {
        let line = &text[..self.line_end(text)];
        if trim(line).is_empty() {
            self.end_record();
        }
        self.push_statements(line::statement(line), line::google_statement(line));
        line.len()
    }

    fn first_line_after_partial_bom(&mut self, bom: usize) {
        let line = &self.body[..self.line_end(self.body)];
        self.line = 1;
        self.push_statements(line::statement(line), line::google_statement(&line[bom..]));
        self.end_line(line.len());
    }
}

/// How many blanks and tabs a text begins with.
#[inline(always)]
fn leading_blanks<S: Simd>(simd: S, text: &[u8]) -> usize {
    // The lines of markup and scripts begin with many.
    let is_other = |byte| !matches!(byte, b' ' | b'\t');
    blocks::first_where(
        simd,
        text,
        #[inline(always)]
        |block| !block.any_of([b' ']),
        is_other,
    )
}

fn is_agent_end(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"nt:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::robots_txt::statements::event::{AGENT, events};

    #[test]
    fn what_follows_a_part_of_a_byte_order_mark_is_line_one() {
        let markup = "<p>".repeat(50);
        let body = [b"\xEFUser-agent: a\n\n<p>\n".as_slice(), markup.as_bytes()].concat();
        let stored = parse(&body);
        let mut events = events(stored.statements().stream, 0);
        let agent = events.find(|event| event.kind() == AGENT);
        assert_eq!(agent.map(|event| event.agent()), Some((1, &b"a"[..])));
    }
}
