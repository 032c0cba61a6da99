//! Parses bytes into statements, line by line; never fails.

pub(super) mod line;
pub(super) mod lines;

use memchr::memchr;

use super::directive_topic::{DirectiveTopic, TopicSet};
use super::groups::agent::UserAgentLine;
use super::head::HEAD_BYTES;
use super::pattern::index_directory;
use super::statements::large_groups::{LargeGroups, is_large};
use super::statements::stored::ParsedFile;
use super::statements::{
    ALLOW, EXACT, EXACT_GROUP, FileStatement, GOOGLE, GOOGLE_GROUP, IN_RECORD, RECORD, SITEMAP,
    StatementKind,
};
use crate::percent_encoding::plain::{self, is_plain};
use crate::{name_tag, percent_encoding};
use line::{LineField, ParsedLine, is_directive_name};
use lines::Line;

pub(crate) fn parse(body: &[u8]) -> ParsedFile {
    const BOM: &[u8] = b"\xEF\xBB\xBF";
    let bom = BOM.iter().zip(body).take_while(|(bom, byte)| bom == byte).count();
    // Google's parser also skips part of a byte order mark; for the other dialects that is text.
    let (body, partial_bom) = if bom == BOM.len() { (&body[bom..], 0) } else { (body, bom) };
    let mut parser = StatementParser::for_body(body);
    for line in lines::lines(body) {
        parser.read(line, if parser.line == 0 { partial_bom } else { 0 });
    }
    parser.finish()
}

#[derive(Default)]
struct StatementParser {
    statements: Vec<FileStatement>,
    agents: Vec<UserAgentLine>,
    tags: Vec<u8>,
    texts: Vec<u8>,
    line_pages: Vec<u32>,
    topics: TopicSet,
    has_respelt_rules: bool,
    /// The number of the current line.
    line: u32,
    /// The first statement of the current run: user-agent lines, and the rules after them.
    run: usize,
    run_has_rules: bool,
    /// Whether the current group has rules, for exact readers and for Google's parser.
    exact_rules: bool,
    google_rules: bool,
    /// Whether the current record has rules, and whether it is still open, for dialects in which a blank line ends a
    /// record.
    record_rules: bool,
    record_open: bool,
    /// Whether no user-agent line or rule has followed the last blank line.
    blank: bool,
    /// The rules of the file, and those among them that are not plain.
    rules: u32,
    wild_rules: u32,
}

impl StatementParser {
    fn for_body(body: &[u8]) -> Self {
        Self {
            // Sizes that few files exceed: growing step by step took a twentieth of all parsing.
            statements: Vec::with_capacity(body.len() / 64 + 8),
            texts: Vec::with_capacity(body.len() / 4 + 64),
            agents: Vec::with_capacity(8),
            tags: Vec::with_capacity(8),
            ..Self::default()
        }
    }

    fn finish(mut self) -> ParsedFile {
        // Few files have a large group, and those that cannot have one are not searched for it.
        let large_groups = if is_large(self.rules, self.wild_rules) {
            LargeGroups::mark_in(&mut self.statements, self.texts.len())
        } else {
            LargeGroups::default()
        };
        let mut file = ParsedFile::new(
            &self.statements,
            &self.agents,
            &self.tags,
            &self.texts,
            &self.line_pages,
            large_groups,
        );
        file.topics = self.topics;
        file.has_respelt_rules = self.has_respelt_rules;
        file
    }

    /// Parses a line, of which Google's parser skips the bytes of a partial byte order mark.
    fn read(&mut self, line: Line<'_>, partial_bom: usize) {
        self.line += 1;
        // The first byte that is not a space rules out most lines without statements, above all comments.
        match line.text.iter().find(|&&byte| !line::is_space(byte)) {
            None => self.end_record(),
            Some(byte) if byte.is_ascii_alphabetic() => self.read_statements(line),
            Some(_) if partial_bom > 0 => {
                if let Some(read) = line::google_statement(&line.text[partial_bom..]) {
                    self.push_google_only(&read);
                }
            }
            // No reader knows a field that starts like this.
            Some(_) => {}
        }
    }

    /// Parses a line for both kinds of reader; mostly they agree.
    fn read_statements(&mut self, line: Line<'_>) {
        if let Some(read) = line::usual_statement(line.before_comment) {
            let classes = plain::classes(read.value);
            // Google's parser stops at a NUL, which is not plain: few values have to be searched for one.
            if classes & plain::OTHER == 0 || !read.value.contains(&0) {
                return self.push(&read, EXACT | GOOGLE, classes);
            }
        }
        let line = line.text;
        let exact = &line::exact_statement(line);
        let google = match exact {
            Some(exact) if line::google_reads_all(line) => Some(exact.as_read_by_google()),
            // Without a colon only Google's parser reads anything, and only if a known field comes first.
            None if !line::may_be_field(line) => None,
            _ => line::google_statement(line),
        };
        if let Some(exact) = exact {
            // One statement for both keeps the file small, and searches short.
            if google
                .is_some_and(|google| google.field == exact.field && google.value == exact.value)
            {
                return self.push(exact, EXACT | GOOGLE, plain::classes(exact.value));
            }
            self.push(exact, EXACT, plain::classes(exact.value));
        }
        if let Some(google) = google {
            self.push_google_only(&google);
        }
    }

    /// Stores a statement that only Google's parser reads, if it is a rule or a user-agent line.
    fn push_google_only(&mut self, read: &ParsedLine<'_>) {
        if read.field != LineField::Other {
            self.push(read, GOOGLE, plain::classes(read.value));
        }
    }

    /// Stores a statement, given the [classes](plain::classes) of its value's bytes.
    fn push(&mut self, read: &ParsedLine<'_>, seen_by: u8, classes: u8) {
        match read.field {
            LineField::UserAgent => self.push_agent(seen_by, read.value),
            LineField::Allow => self.push_rule(seen_by | ALLOW, read.value, classes),
            LineField::Disallow => self.push_rule(seen_by, read.value, classes),
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
        if read.name == SITEMAP {
            self.push_statement(StatementKind::Sitemap, seen_by | in_record, 0);
        } else {
            self.push_statement(StatementKind::Other, seen_by | in_record, 0);
            self.texts.extend_from_slice(read.name);
            self.texts.push(b':');
        }
        self.texts.extend_from_slice(read.value);
    }

    fn push_agent(&mut self, seen_by: u8, value: &[u8]) {
        let begins_run = self.run_has_rules || self.blank || self.agents.is_empty();
        let mut marks = if begins_run { self.begin_run() } else { 0 };
        marks |= self.begin_groups(seen_by);
        let statement = to_u32(self.statements.len());
        self.agents.push(UserAgentLine { statement });
        self.tags.push(name_tag::tag(value));
        self.push_statement(StatementKind::Agent, seen_by, 0);
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

    fn push_rule(&mut self, seen_by: u8, value: &[u8], classes: u8) {
        // Rules before any user-agent line apply to nobody (RFC 9309 §2.2, grammar).
        if self.agents.is_empty() {
            return;
        }
        let marks = if self.blank { self.begin_run() } else { 0 };
        let (kind, certain_bytes) = rule_kind(value, classes, seen_by & ALLOW != 0);
        // Only special rules can differ between forms, and the check is not cheap.
        if kind == StatementKind::SpecialRule && !self.has_respelt_rules {
            let text = value.strip_suffix(b"$").unwrap_or(value);
            self.has_respelt_rules = !percent_encoding::is_same_in_all_forms(text);
        }
        self.rules += 1;
        self.wild_rules += u32::from(kind != StatementKind::PlainRule);
        self.push_statement(kind, seen_by | marks, certain_bytes);
        self.texts.extend_from_slice(value);
        self.run_has_rules = true;
        // A rule of another kind of reader does not end this reader's run of user-agent lines.
        let exact = seen_by & EXACT != 0;
        self.exact_rules |= exact;
        self.google_rules |= seen_by & GOOGLE != 0;
        self.record_rules |= exact & self.record_open;
    }

    /// Stores a statement whose text is still to be appended. A call for each would take 2 % of all parsing.
    #[inline(always)]
    fn push_statement(&mut self, kind: StatementKind, marks: u8, certain_bytes: usize) {
        while self.line_pages.len() < self.line as usize / 256 {
            self.line_pages.push(to_u32(self.statements.len()));
        }
        let start = to_u32(self.texts.len());
        let statement = FileStatement::new(kind, marks, start, self.line, certain_bytes);
        self.statements.push(statement);
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
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).expect("the limit of a file is far below 4 GiB")
}

/// Returns the kind of a rule by its value, and how many of its first eight bytes all dialects read alike.
fn rule_kind(value: &[u8], classes: u8, allow: bool) -> (StatementKind, usize) {
    let directory = if allow { index_directory(value) } else { None };
    let kind = if directory.is_some() || classes & plain::OTHER != 0 {
        // `.../index.html` also means `.../` to Google's parser: only the bytes before the name are certain.
        StatementKind::SpecialRule
    } else if classes == plain::PLAIN {
        return (StatementKind::PlainRule, value.len());
    } else if classes & plain::DOLLAR != 0 && memchr(b'$', value) != value.len().checked_sub(1) {
        StatementKind::SpecialRule
    } else {
        StatementKind::WildRule
    };
    let head = directory.unwrap_or(value).iter().take(HEAD_BYTES);
    (kind, head.take_while(|&&byte| is_plain(byte)).count())
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
        assert_eq!(
            (agent.kind(), file.line(0), file.text(0)),
            (StatementKind::Agent, 1, &b"a"[..])
        );
        assert_eq!(agent.marks & (EXACT | GOOGLE), GOOGLE);
    }

    #[test]
    fn a_line_is_stored_once_if_all_readers_agree() {
        const NUL: &[u8] = b"/a\0b";
        let body = b"User-agent: *\nDisallow: /a\nDisallow: /a\0b\ndisalow: /c\nallow /\n";
        let file = parse(body);
        let found = file.statements.iter().enumerate().map(|(at, it)| {
            assert_eq!(it.is_allow(), file.text(at) == b"/");
            (it.kind(), file.text(at), it.marks & (EXACT | GOOGLE))
        });
        let expected = [
            (StatementKind::Agent, &b"*"[..], EXACT | GOOGLE),
            (StatementKind::PlainRule, b"/a", EXACT | GOOGLE),
            (StatementKind::SpecialRule, NUL, EXACT),
            (StatementKind::PlainRule, b"/a", GOOGLE),
            (StatementKind::Other, b"disalow:/c", EXACT),
            (StatementKind::PlainRule, b"/c", GOOGLE),
            (StatementKind::PlainRule, b"/", GOOGLE),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_rule_is_classified_by_what_it_holds() {
        use StatementKind::{PlainRule, SpecialRule, WildRule};
        let kind = |value: &[u8], allow| rule_kind(value, plain::classes(value), allow);
        for (allow, value, expected) in [
            (false, "", (PlainRule, 0)),
            (false, "/a", (PlainRule, 2)),
            (false, "/a/b/c/d/e", (PlainRule, 10)),
            (false, "/a/b/c/d/e*", (WildRule, 8)),
            (false, "/a*b$", (WildRule, 2)),
            (false, "$", (WildRule, 0)),
            (false, "/a$b", (SpecialRule, 2)),
            (false, "/a*b$$", (SpecialRule, 2)),
            (false, "/a*%41", (SpecialRule, 2)),
            (false, "/\u{e9}", (SpecialRule, 1)),
            (false, "/a/index.html", (PlainRule, 13)),
            (true, "/a/index.html", (SpecialRule, 3)),
            (true, "/%/index.htm", (SpecialRule, 1)),
            (true, "/index.htm/a", (PlainRule, 12)),
        ] {
            assert_eq!(kind(value.as_bytes(), allow), expected, "{allow} {value}");
        }
        for byte in 0..=u8::MAX {
            let expected = match byte {
                b'*' | b'$' => WildRule,
                _ if is_plain(byte) => PlainRule,
                _ => SpecialRule,
            };
            assert_eq!(kind(&[b'/', byte], false).0, expected, "{byte:#x}");
        }
    }
}
