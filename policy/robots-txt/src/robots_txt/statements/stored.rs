//! The stored form of a file.

use std::hint::black_box;

use super::super::directive_topic::TopicSet;
use super::super::groups::agent::UserAgentLine;
use super::super::head::{HEAD_BYTES, head};
use super::large_groups::LargeGroups;
use super::{FileStatement, SITEMAP, StatementKind};

/// The statements of a file, in its order, with the user-agent lines apart.
#[derive(Debug, Default)]
pub(crate) struct ParsedFile {
    pub(crate) statements: Box<[FileStatement]>,
    /// The user-agent lines.
    pub(crate) agents: Box<[UserAgentLine]>,
    /// The tag of the name on each user-agent line. Tags are compared first, since different names mostly have
    /// different tags.
    pub(crate) tags: Box<[u8]>,
    /// The texts of all statements, followed by zeros so that a head can be read anywhere.
    texts: Box<[u8]>,
    /// For each multiple of 256 lines, the index of the first statement at or behind it. A statement holds only the
    /// lowest byte of its line's number.
    line_pages: Box<[u32]>,
    pub(crate) large_groups: LargeGroups,
    /// The topics of its directives.
    pub(crate) topics: TopicSet,
    /// Whether a rule differs between the forms in which all spellings are judged.
    pub(crate) has_respelt_rules: bool,
}

impl ParsedFile {
    /// Creates a file from copies of its parts. An allocator may shrink a vector in place: the file would keep much of
    /// the room that the parser had.
    pub(crate) fn new(
        statements: &[FileStatement],
        agents: &[UserAgentLine],
        tags: &[u8],
        texts: &[u8],
        line_pages: &[u32],
        large_groups: LargeGroups,
    ) -> Self {
        // A file without statements, such as a page, has no text to search and should take no memory.
        let padding: &[u8] = if statements.is_empty() { &[] } else { &[0; HEAD_BYTES] };
        Self {
            statements: statements.into(),
            agents: agents.into(),
            tags: tags.into(),
            texts: [texts, padding].concat().into(),
            line_pages: line_pages.into(),
            large_groups,
            ..Self::default()
        }
    }

    /// Returns the text of the statement at an index.
    pub(crate) fn text(&self, at: usize) -> &[u8] {
        let end = match self.statements.get(at + 1) {
            Some(next) => next.start as usize,
            None => self.texts.len() - HEAD_BYTES,
        };
        &self.texts[self.statements[at].start as usize..end]
    }

    /// Returns the number of a statement's line.
    pub(crate) fn line(&self, at: usize) -> u32 {
        let pages = self.line_pages.partition_point(|&first| first as usize <= at);
        256 * pages as u32 + u32::from(self.statements[at].line)
    }

    /// Reads a byte of each part, so that the memory of a file that was not used lately is loaded in parallel, where a
    /// search would wait for each part in turn. This saves a quarter of a decision.
    #[inline]
    pub(crate) fn prefetch(&self) {
        let agent = self.agents.first().map_or(0, |agent| agent.statement);
        let statement = self.statements.first().map_or(0, |statement| statement.start);
        let text = self.texts.first().map_or(0, |byte| u32::from(*byte));
        // Nothing uses them, so the compiler would drop the loads.
        black_box(agent ^ statement ^ text);
    }

    /// Returns the first bytes of a text, and of the one after it if it is shorter.
    #[inline]
    pub(crate) fn head(&self, statement: &FileStatement) -> u64 {
        let start = statement.start as usize;
        head(&self.texts[start..start + HEAD_BYTES])
    }

    /// Returns the name and value of a statement that is neither a rule nor a user-agent line.
    pub(crate) fn name_and_value(&self, at: usize) -> (&[u8], &[u8]) {
        let text = self.text(at);
        if self.statements[at].kind() == StatementKind::Sitemap {
            return (SITEMAP, text);
        }
        // The parser writes it, and no directive's name contains one.
        let colon = memchr::memchr(b':', text).expect("a colon after the name");
        (&text[..colon], &text[colon + 1..])
    }

    /// Returns the bytes that it takes with all of its parts.
    pub(crate) fn heap_bytes(&self) -> usize {
        // The reference counts of the `Arc` are next to it.
        2 * size_of::<usize>()
            + size_of::<Self>()
            + size_of_val(&*self.statements)
            + size_of_val(&*self.agents)
            + self.tags.len()
            + self.texts.len()
            + size_of_val(&*self.line_pages)
            + self.large_groups.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use crate::{AccessResult, Dialect, ProductToken, RobotsTxt, UrlPath, decide};

    #[test]
    fn every_line_of_a_large_group_is_reported() {
        let filler = ["", "\n", "# a comment\n", "Sitemap: /s\n", "Allow: /~\n"];
        let mut body = String::from("User-agent: b\nDisallow: /\n\nUser-agent: a\nUser-agent: c\n");
        let mut lines = Vec::new();
        for number in 0..500 {
            // More lines between two rules than one byte counts.
            let gap = if number == 250 { 300 } else { number % 3 };
            body += &filler[number % filler.len()].repeat(gap);
            lines.push(body.matches('\n').count() + 1);
            body += &format!("Disallow: /{number:03}\n");
        }
        body += "User-agent: d\nDisallow: /\n";
        let access = AccessResult::Successful(RobotsTxt::parse(body.as_bytes()));
        for &dialect in Dialect::ALL {
            for token in ["a", "c"].map(|name| [ProductToken::new(name).unwrap()]) {
                for (number, line) in lines.iter().enumerate() {
                    let decision = decide(
                        &access,
                        dialect,
                        &token,
                        &UrlPath::parse(&format!("/{number:03}")).unwrap(),
                    );
                    let found = decision.line().map(|line| line as usize);
                    if dialect != Dialect::Koster1996 && dialect != Dialect::Selfhtml {
                        assert_eq!(found, Some(*line), "{number} in {dialect}");
                    } else {
                        assert!(found.is_none_or(|found| found == *line), "{number} in {dialect}");
                    }
                }
            }
        }
    }
}
