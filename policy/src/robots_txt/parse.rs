//! Bytes → events, line by line; never fails.

use memchr::{memchr, memchr2, memchr3};

use super::agent::Agent;
use super::compiled::Kept;
use super::effort::{Effort, cost};
use super::line::{self, Field, GOOGLE_LINE_BYTES, Statement, trim};
use super::stream::{EXACT, GOOGLE, PLAIN, RECORD, RuleToWrite, Scanned, Writer};
use crate::{name_tag, spelling};

/// Groups with more rules, or more with `*`, get an index when first asked, unless it costs more
/// than one decision can bear.
const FEW_RULES: u32 = 32;
const FEW_WILD_RULES: u32 = 4;

/// The longest name of a directive worth keeping; longer ones are prose, markup or scripts.
const NAME_BYTES: usize = 40;

pub(crate) fn parse(body: &[u8]) -> Kept {
    const BOM: &[u8] = b"\xEF\xBB\xBF";
    let mut parser = Parser::new(body);
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
        parser.line += 1;
        parser.read_line();
    }
    parser.finish()
}

struct Parser<'a> {
    body: &'a [u8],
    at: usize,
    line: u32,
    /// The white space before the field being read.
    lead: usize,
    writer: Writer,
    /// The user-agent lines with their tags.
    agents: Vec<(Agent, u8)>,
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
    /// What an index of it costs.
    group_cost: usize,
}

impl<'a> Parser<'a> {
    fn new(body: &'a [u8]) -> Self {
        Self {
            body,
            at: 0,
            line: 0,
            lead: 0,
            writer: Writer::with_capacity((body.len() / 2).min(32 * 1024) + 32),
            agents: Vec::with_capacity(8),
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
            group_cost: 0,
        }
    }

    fn finish(mut self) -> Kept {
        self.end_group();
        Kept::new(&self.agents, &self.writer.finish())
    }

    /// Reads the line at `at` and steps behind it. Most lines are told apart by their first octets;
    /// the few that might be a misspelt field take the long way.
    #[inline]
    fn read_line(&mut self) {
        let start = self.at;
        if let Some(b' ' | b'\t') = self.body.get(self.at) {
            self.step_over_blanks();
        }
        self.lead = self.at - start;
        let text = &self.body[self.at..];
        match text.first() {
            None | Some(b'\n' | b'\r') => self.end_record(),
            Some(byte) if byte.is_ascii_alphabetic() => return self.read_field(text),
            Some(0x0B | 0x0C) => return self.read_any_field(text),
            // A comment, or nothing that could be a field's name to any reader.
            Some(_) => {}
        }
        self.step_behind_line();
    }

    /// Steps over blanks and tabs: eight blanks at once, for the lines of markup and scripts begin with many.
    fn step_over_blanks(&mut self) {
        const BLANKS: u64 = u64::from_le_bytes([b' '; 8]);
        while let Some(word) = self.body[self.at..].first_chunk() {
            let others = u64::from_le_bytes(*word) ^ BLANKS;
            self.at += others.trailing_zeros() as usize / 8;
            if others != 0 {
                break;
            }
        }
        while let Some(b' ' | b'\t') = self.body.get(self.at) {
            self.at += 1;
        }
    }

    #[inline]
    fn read_field(&mut self, text: &'a [u8]) {
        const LOWER: u64 = 0x2020_2020_2020_2020;
        const DISALLOW: u64 = u64::from_le_bytes(*b"disallow");
        const USER_AGE: u64 = u64::from_le_bytes(*b"user-age");
        const ALLOW: u64 = u64::from_le_bytes(*b"allow\0\0\0");
        let Some(head) = text.first_chunk::<12>() else {
            return self.read_any_field(text);
        };
        let folded = u64::from_le_bytes(*head.first_chunk().expect("12 > 8")) | LOWER;
        if folded == DISALLOW && head[8] == b':' {
            self.read_rule(Field::Disallow, text, 9);
        } else if folded & 0xFF_FFFF_FFFF == ALLOW && head[5] == b':' {
            self.read_rule(Field::Allow, text, 6);
        } else if folded == USER_AGE && head[4] == b'-' && is_agent_end(&head[8..11]) {
            self.read_agent(text, 11);
        } else if matches!(
            &folded.to_le_bytes()[..3],
            b"use" | b"all" | b"dis" | b"dia"
        ) {
            self.read_any_field(text);
        } else {
            self.read_directive(text);
        }
    }

    #[inline]
    fn read_rule(&mut self, field: Field, text: &'a [u8], colon_end: usize) {
        let mut start = colon_end;
        while let Some(b' ' | b'\t') = text.get(start) {
            start += 1;
        }
        let scanned = Scanned::begin(&text[start..]);
        let end = start + scanned.value.len();
        if scanned.traits & spelling::NUL != 0 || self.lead + end > GOOGLE_LINE_BYTES {
            return self.read_any_field(text);
        }
        self.at += end;
        self.step_behind_line();
        self.push_rule(field, EXACT | GOOGLE, scanned);
    }

    fn read_agent(&mut self, text: &'a [u8], colon_end: usize) {
        let value = &text[colon_end..];
        let end = memchr3(b'\n', b'\r', b'#', value).unwrap_or(value.len());
        if self.lead + colon_end + end > GOOGLE_LINE_BYTES || memchr(0, &value[..end]).is_some() {
            return self.read_any_field(text);
        }
        self.at += colon_end + end;
        self.step_behind_line();
        self.push_agent(EXACT | GOOGLE, trim(&value[..end]));
    }

    /// A field that no reader takes for a rule or a user-agent line.
    fn read_directive(&mut self, text: &'a [u8]) {
        let is_name = |byte: u8| spelling::TRAITS[usize::from(byte)] & spelling::IN_NAME != 0;
        let name_end = text
            .iter()
            .take(NAME_BYTES + 8)
            .position(|&byte| !is_name(byte));
        if let Some(colon) = name_end.filter(|&end| text[end] == b':') {
            let name = trim(&text[..colon]);
            let value = &text[colon + 1..];
            let value = &value[..memchr3(b'\n', b'\r', b'#', value).unwrap_or(value.len())];
            if name.len() <= NAME_BYTES {
                self.push_other(EXACT | GOOGLE, name, trim(value));
            }
        }
        self.step_behind_line();
    }

    /// Steps behind the end of the line which `at` stands in or at.
    #[inline]
    fn step_behind_line(&mut self) {
        let text = &self.body[self.at..];
        self.at += match text {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            [b'\r', ..] => 1,
            _ => match memchr2(b'\n', b'\r', text) {
                Some(end) if text[end..].starts_with(b"\r\n") => end + 2,
                Some(end) => end + 1,
                None => text.len(),
            },
        };
    }

    /// Reads a line as each reader does, letter by letter.
    #[cold]
    fn read_any_field(&mut self, text: &'a [u8]) {
        let line = &text[..memchr2(b'\n', b'\r', text).unwrap_or(text.len())];
        if trim(line).is_empty() {
            self.end_record();
        }
        // The white space before the field counts for the length Google's parser keeps.
        let google_line = &self.body[self.at - self.lead..self.at + line.len()];
        self.push_statements(line::statement(line), line::google_statement(google_line));
        self.step_behind_line();
    }

    fn first_line_after_partial_bom(&mut self, bom: usize) {
        let line = &self.body[..memchr2(b'\n', b'\r', self.body).unwrap_or(self.body.len())];
        let google = line::google_statement(&line[bom..]);
        self.line = 1;
        self.push_statements(line::statement(line), google);
        self.at = line.len();
        self.step_behind_line();
    }

    fn push_statements(&mut self, exact: Option<Statement<'_>>, google: Option<Statement<'_>>) {
        let alike = exact
            .zip(google)
            .filter(|(exact, google)| exact.field == google.field && exact.value == google.value);
        if let Some((statement, _)) = alike {
            return self.push(&statement, EXACT | GOOGLE);
        }
        if let Some(statement) = exact {
            self.push(&statement, EXACT);
        }
        if let Some(statement) = google.filter(|statement| statement.field != Field::Other) {
            self.push(&statement, GOOGLE);
        }
    }

    fn push(&mut self, statement: &Statement<'_>, seen_by: u8) {
        match statement.field {
            Field::UserAgent => self.push_agent(seen_by, statement.value),
            Field::Allow | Field::Disallow => {
                self.push_rule(statement.field, seen_by, Scanned::all(statement.value));
            }
            Field::Other if is_directive(statement.name) => {
                self.push_other(seen_by, statement.name, statement.value);
            }
            Field::Other => {}
        }
    }

    fn push_other(&mut self, seen_by: u8, name: &[u8], value: &[u8]) {
        let open = if self.record_open { RECORD } else { 0 };
        self.writer
            .push_other(seen_by | open, self.line, name, value);
    }

    fn push_agent(&mut self, seen_by: u8, value: &[u8]) {
        let (run, goes_on) = match self.run {
            Some(run) if !self.run_has_rules && !self.blank => (run, true),
            _ => (self.begin_run(), false),
        };
        if seen_by & EXACT != 0 {
            if self.exact_rules {
                self.writer.flag(run, EXACT);
                self.end_group();
            }
            if self.record_rules || !self.record_open {
                self.writer.flag(run, RECORD);
            }
            self.exact_rules = false;
            self.record_rules = false;
            self.record_open = true;
        }
        if seen_by & GOOGLE != 0 && self.google_rules {
            self.writer.flag(run, GOOGLE);
            self.google_rules = false;
        }
        let offset = self.writer.push_agent(seen_by, self.line, value);
        let tag = name_tag::tag_of_value(value);
        self.agents.push((Agent::new(offset, goes_on), tag));
    }

    #[inline]
    fn push_rule(&mut self, field: Field, seen_by: u8, value: Scanned<'_>) {
        // Rules before any user-agent line are for nobody (RFC 9309 §2.2, grammar).
        if self.agents.is_empty() {
            return;
        }
        if self.blank {
            self.begin_run();
        }
        let rule = RuleToWrite::new(field, seen_by, value);
        self.group_rules += 1;
        self.group_wild_rules += u32::from(rule.form != PLAIN);
        self.group_cost += cost(rule.form, rule.value.len());
        self.writer.push_rule(&rule, self.line);
        self.run_has_rules = true;
        let exact = seen_by & EXACT != 0;
        self.exact_rules |= exact;
        self.google_rules |= seen_by & GOOGLE != 0;
        self.record_rules |= exact & self.record_open;
    }

    fn begin_run(&mut self) -> usize {
        let flags = if self.blank { RECORD } else { 0 };
        let run = self.writer.push_run(flags);
        self.run = Some(run);
        self.run_has_rules = false;
        self.blank = false;
        run
    }

    /// A blank line: the texts before RFC 9309 end a record here.
    #[inline]
    fn end_record(&mut self) {
        self.blank = true;
        self.record_open = false;
        self.record_rules = false;
    }

    /// Notes for the user-agent lines of the group just read whether it is large, but not too large.
    fn end_group(&mut self) {
        let many = self.group_rules > FEW_RULES || self.group_wild_rules > FEW_WILD_RULES;
        if many && self.group_cost <= Effort::MOST {
            for (agent, _) in &mut self.agents[self.group_agents..] {
                agent.mark_large();
            }
        }
        self.group_agents = self.agents.len();
        self.group_rules = 0;
        self.group_wild_rules = 0;
        self.group_cost = 0;
    }
}

fn is_agent_end(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"nt:")
}

/// Whether a field's name could be a directive's; scripts and markup are full of colons.
fn is_directive(name: &[u8]) -> bool {
    let in_name = |&byte: &u8| spelling::TRAITS[usize::from(byte)] & spelling::IN_NAME != 0;
    name.len() <= NAME_BYTES
        && name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.iter().all(in_name)
}
