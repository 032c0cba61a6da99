//! Parses bytes into statements, line by line; never fails.

pub(super) mod line;

use std::num::NonZeroU32;

use super::directive_topic::{DirectiveTopic, TopicSet};
use super::groups::agent::UserAgentLine;
use super::head::HEAD_BYTES;
use super::pattern::index_directory;
use super::statements::stored::ParsedFile;
use super::statements::{
    EXACT, EXACT_GROUP, FileStatement, GOOGLE, GOOGLE_GROUP, IN_RECORD, RECORD, StatementKind,
    ValueForm,
};
use crate::percent_encoding::plain::{is_plain, plain_prefix_len};
use crate::{name_tag, percent_encoding};
use line::{LineField, ParsedLine, is_directive_name};

/// Groups with more rules, or with more wildcard rules, get an index when they are first searched.
const FEW_RULES: u32 = 32;
const FEW_WILD_RULES: u32 = 4;

pub(crate) fn parse(body: &[u8]) -> ParsedFile {
    const BOM: &[u8] = b"\xEF\xBB\xBF";
    let bom = BOM.iter().zip(body).take_while(|(bom, byte)| bom == byte).count();
    // Google's parser also skips part of a byte order mark; for the other dialects that is text.
    let (body, partial_bom) = if bom == BOM.len() { (&body[bom..], 0) } else { (body, bom) };
    let mut parser = StatementParser::default();
    for (number, line) in line::numbered_lines(body) {
        parser.read(number, line, if number == 1 { partial_bom } else { 0 });
    }
    parser.finish()
}

#[derive(Default)]
struct StatementParser {
    statements: Vec<FileStatement>,
    agents: Vec<UserAgentLine>,
    tags: Vec<u8>,
    texts: Vec<u8>,
    topics: TopicSet,
    has_respelt_rules: bool,
    /// The number of the current line.
    line: u32,
    /// The first statement of the current run: user-agent lines, and the rules after them.
    run: usize,
    run_has_rules: bool,
    /// The number of runs begun.
    runs: u32,
    /// Whether the current group has rules, for exact readers and for Google's parser.
    exact_rules: bool,
    google_rules: bool,
    /// Whether the current record has rules, and whether it is still open, for dialects in which a blank line ends a
    /// record.
    record_rules: bool,
    record_open: bool,
    /// Whether no user-agent line or rule has followed the last blank line.
    blank: bool,
    /// The current group: its first user-agent line, its rules, and those that are not plain.
    group_agents: usize,
    group_rules: u32,
    group_wild_rules: u32,
    large_groups: u32,
}

impl StatementParser {
    fn finish(mut self) -> ParsedFile {
        self.end_group();
        let mut file = ParsedFile::new(
            self.statements,
            self.agents,
            self.tags,
            self.texts,
            self.large_groups as usize,
        );
        file.topics = self.topics;
        file.has_respelt_rules = self.has_respelt_rules;
        file
    }

    /// Parses a line, of which Google's parser skips the bytes of a partial byte order mark.
    fn read(&mut self, number: u32, line: &[u8], partial_bom: usize) {
        self.line = number;
        // The first byte that is not a space rules out most lines without statements, above all comments.
        match line.iter().find(|&&byte| !line::is_space(byte)) {
            None => self.end_record(),
            Some(byte) if byte.is_ascii_alphabetic() => self.read_statements(line),
            Some(_) if partial_bom > 0 => {
                if let Some(read) = line::google_statement(&line[partial_bom..]) {
                    self.push_google_only(&read);
                }
            }
            // No reader knows a field that starts like this.
            Some(_) => {}
        }
    }

    /// Parses a line for both kinds of reader; mostly they agree.
    fn read_statements(&mut self, line: &[u8]) {
        let exact = &line::exact_statement(line);
        let google = match exact {
            Some(exact) if line::google_reads_all(line) => Some(exact.as_read_by_google()),
            // Without a colon only Google's parser reads anything, and nothing shorter than this.
            None if line.len() < b"allow /".len() => None,
            _ => line::google_statement(line),
        };
        if let Some(exact) = exact {
            // One statement for both keeps the file small, and searches short.
            if google.is_some_and(|it| it.field == exact.field && it.value == exact.value) {
                return self.push(exact, EXACT | GOOGLE);
            }
            self.push(exact, EXACT);
        }
        if let Some(google) = google {
            self.push_google_only(&google);
        }
    }

    /// Stores a statement that only Google's parser reads, if it is a rule or a user-agent line.
    fn push_google_only(&mut self, read: &ParsedLine<'_>) {
        if read.field != LineField::Other {
            self.push(read, GOOGLE);
        }
    }

    fn push(&mut self, read: &ParsedLine<'_>, seen_by: u8) {
        match read.field {
            LineField::UserAgent => self.push_agent(seen_by, read.value),
            LineField::Allow => self.push_rule(StatementKind::Allow, seen_by, read.value),
            LineField::Disallow => self.push_rule(StatementKind::Disallow, seen_by, read.value),
            LineField::Other if is_directive_name(read.name) => self.push_other(seen_by, read),
            LineField::Other => {}
        }
    }

    fn push_other(&mut self, seen_by: u8, read: &ParsedLine<'_>) {
        // Remembered for the whole file, so that files without such directives are recognised at once.
        if let Some(topic) = DirectiveTopic::of_name(read.name) {
            self.topics.insert(topic);
        }
        let in_record = if self.record_open { IN_RECORD } else { 0 };
        self.statements.push(self.statement(StatementKind::Other, seen_by | in_record));
        self.texts.extend_from_slice(read.name);
        self.texts.push(b':');
        self.texts.extend_from_slice(read.value);
    }

    fn push_agent(&mut self, seen_by: u8, value: &[u8]) {
        let begins_run = self.run_has_rules || self.blank || self.agents.is_empty();
        let mut marks = if begins_run { self.begin_run() } else { 0 };
        marks |= self.begin_groups(seen_by);
        self.runs += u32::from(begins_run);
        self.agents.push(UserAgentLine {
            statement: to_u32(self.statements.len()),
            large_group: NonZeroU32::new(self.runs),
        });
        self.tags.push(name_tag::tag(value));
        self.statements.push(self.statement(StatementKind::Agent, seen_by));
        self.texts.extend_from_slice(value);
        // Readers stop at the first statement of a run, so that is where the marks have to be.
        self.statements[self.run].marks |= marks;
    }

    /// Returns the marks of the readers for which a user-agent line begins a new group.
    fn begin_groups(&mut self, seen_by: u8) -> u8 {
        let mut marks = 0;
        if seen_by & EXACT != 0 {
            // Only a rule ends a run of user-agent lines (RFC 9309 §2.2).
            if self.exact_rules {
                marks |= EXACT_GROUP;
                self.end_group();
            }
            if self.record_rules {
                marks |= RECORD;
            }
            self.exact_rules = false;
            self.record_rules = false;
            self.record_open = true;
        }
        if seen_by & GOOGLE != 0 && self.google_rules {
            marks |= GOOGLE_GROUP;
            self.google_rules = false;
        }
        marks
    }

    fn push_rule(&mut self, kind: StatementKind, seen_by: u8, value: &[u8]) {
        // Rules before any user-agent line apply to nobody (RFC 9309 §2.2, grammar).
        if self.agents.is_empty() {
            return;
        }
        let marks = if self.blank { self.begin_run() } else { 0 };
        let (form, certain_bytes) = rule_form(kind, value);
        // Only special rules can differ between forms, and the check is not cheap.
        if form == ValueForm::Special {
            let text = value.strip_suffix(b"$").unwrap_or(value);
            self.has_respelt_rules |= !percent_encoding::is_same_in_all_forms(text);
        }
        self.group_rules += 1;
        self.group_wild_rules += u32::from(form != ValueForm::Plain);
        self.statements.push(FileStatement {
            form,
            uncertain_bits: 8 * HEAD_BYTES.saturating_sub(certain_bytes) as u8,
            ..self.statement(kind, seen_by | marks)
        });
        self.texts.extend_from_slice(value);
        self.run_has_rules = true;
        // A rule of another kind of reader does not end this reader's run of user-agent lines.
        let exact = seen_by & EXACT != 0;
        self.exact_rules |= exact;
        self.google_rules |= seen_by & GOOGLE != 0;
        self.record_rules |= exact & self.record_open;
    }

    /// Returns a statement whose text is still to be appended.
    fn statement(&self, kind: StatementKind, marks: u8) -> FileStatement {
        FileStatement {
            line: self.line,
            start: to_u32(self.texts.len()),
            kind,
            form: ValueForm::Plain,
            uncertain_bits: 0,
            marks,
        }
    }

    /// Begins a run, and returns the mark for a record that a blank line ended before it.
    fn begin_run(&mut self) -> u8 {
        let mark = if self.blank { RECORD } else { 0 };
        self.run = self.statements.len();
        self.run_has_rules = false;
        self.blank = false;
        mark
    }

    /// Ends a record at a blank line, as the texts before RFC 9309 do.
    fn end_record(&mut self) {
        self.blank = true;
        self.record_open = false;
        self.record_rules = false;
    }

    /// Replaces the run numbers held by the user-agent lines of the group just read by the number of its large group,
    /// if it is large.
    fn end_group(&mut self) {
        // Wildcards cost more to match, so fewer of them pay for an index.
        let is_large = self.group_rules > FEW_RULES || self.group_wild_rules > FEW_WILD_RULES;
        // An index for each run: some dialects merge runs into one group, others do not.
        for run in self.agents[self.group_agents..]
            .chunk_by_mut(|one, next| one.large_group == next.large_group)
        {
            self.large_groups += u32::from(is_large);
            let number = NonZeroU32::new(self.large_groups).filter(|_| is_large);
            run.iter_mut().for_each(|agent| agent.large_group = number);
        }
        self.group_agents = self.agents.len();
        self.group_rules = 0;
        self.group_wild_rules = 0;
    }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("the limit of a file is far below 4 GiB")
}

/// Returns the form of a rule's value, and the number of bytes at its start that all dialects read alike.
fn rule_form(kind: StatementKind, value: &[u8]) -> (ValueForm, usize) {
    let plain = plain_prefix_len(value);
    // `.../index.html` also means `.../` to Google's parser: only the bytes before the name are certain.
    if kind == StatementKind::Allow
        && let Some(directory) = index_directory(value)
    {
        return (ValueForm::Special, plain.min(directory.len()));
    }
    let rest = &value[plain..];
    let without_anchor = rest.strip_suffix(b"$").unwrap_or(rest);
    let form = if rest.is_empty() {
        ValueForm::Plain
    } else if without_anchor.iter().all(|&byte| byte == b'*' || is_plain(byte)) {
        ValueForm::Wild
    } else {
        ValueForm::Special
    };
    (form, plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_byte_order_mark_precedes_line_one() {
        let markup = "<p>".repeat(50);
        let body = [b"\xEFUser-agent: a\n\n<p>\n".as_slice(), markup.as_bytes()].concat();
        let file = parse(&body);
        let [agent] = *file.statements else {
            panic!("{:?}", file.statements);
        };
        assert_eq!((agent.kind, agent.line, file.text(0)), (StatementKind::Agent, 1, &b"a"[..]));
        assert_eq!(agent.marks & (EXACT | GOOGLE), GOOGLE);
    }

    #[test]
    fn a_line_is_stored_once_if_all_readers_agree() {
        const NUL: &[u8] = b"/a\0b";
        let body = b"User-agent: *\nDisallow: /a\nDisallow: /a\0b\ndisalow: /c\nallow /\n";
        let file = parse(body);
        let found = file
            .statements
            .iter()
            .enumerate()
            .map(|(at, it)| (it.kind, file.text(at), it.marks & (EXACT | GOOGLE)));
        let expected = [
            (StatementKind::Agent, &b"*"[..], EXACT | GOOGLE),
            (StatementKind::Disallow, b"/a", EXACT | GOOGLE),
            (StatementKind::Disallow, NUL, EXACT),
            (StatementKind::Disallow, b"/a", GOOGLE),
            (StatementKind::Other, b"disalow:/c", EXACT),
            (StatementKind::Disallow, b"/c", GOOGLE),
            (StatementKind::Allow, b"/", GOOGLE),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_rule_is_classified_by_what_it_holds() {
        for (kind, value, expected) in [
            (StatementKind::Disallow, "", (ValueForm::Plain, 0)),
            (StatementKind::Disallow, "/a", (ValueForm::Plain, 2)),
            (StatementKind::Disallow, "/a/b/c/d/e", (ValueForm::Plain, 10)),
            (StatementKind::Disallow, "/a*b$", (ValueForm::Wild, 2)),
            (StatementKind::Disallow, "$", (ValueForm::Wild, 0)),
            (StatementKind::Disallow, "/a$b", (ValueForm::Special, 2)),
            (StatementKind::Disallow, "/a*b$$", (ValueForm::Special, 2)),
            (StatementKind::Disallow, "/a*%41", (ValueForm::Special, 2)),
            (StatementKind::Disallow, "/\u{e9}", (ValueForm::Special, 1)),
            (StatementKind::Disallow, "/a/index.html", (ValueForm::Plain, 13)),
            (StatementKind::Allow, "/a/index.html", (ValueForm::Special, 3)),
            (StatementKind::Allow, "/%/index.htm", (ValueForm::Special, 1)),
            (StatementKind::Allow, "/index.htm/a", (ValueForm::Plain, 12)),
        ] {
            assert_eq!(rule_form(kind, value.as_bytes()), expected, "{kind:?} {value}");
        }
        for byte in 0..=u8::MAX {
            let expected = match byte {
                b'*' | b'$' => ValueForm::Wild,
                _ if is_plain(byte) => ValueForm::Plain,
                _ => ValueForm::Special,
            };
            assert_eq!(rule_form(StatementKind::Disallow, &[b'/', byte]).0, expected, "{byte:#x}");
        }
    }
}
