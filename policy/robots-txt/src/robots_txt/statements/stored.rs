//! The stored form of a file.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::directive_topic::TopicSet;
use super::super::groups::agent::UserAgentLine;
use super::super::groups::semantics::DialectSemantics;
use super::super::head::{HEAD_BYTES, head};
use super::super::index::RuleIndex;
use super::{FileStatement, SITEMAP, StatementKind};

/// The indexes of a large group, one for each form, built on first use.
type GroupIndexes = [OnceLock<RuleIndex>; DialectSemantics::COUNT];

/// A run of user-agent lines of a large group. Some dialects merge runs into one group, others do not, so each has its
/// own indexes.
#[derive(Debug)]
struct LargeGroup {
    /// The statement of the first user-agent line.
    first_agent: u32,
    indexes: OnceLock<Box<GroupIndexes>>,
}

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
    large_groups: Box<[LargeGroup]>,
    /// The number of bytes in the indexes built so far.
    index_bytes: AtomicU32,
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
        large_groups: &[u32],
    ) -> Self {
        // A file without statements, such as a page, has no text to search and should take no memory.
        let padding: &[u8] = if statements.is_empty() { &[] } else { &[0; HEAD_BYTES] };
        let to_group = |&first_agent| LargeGroup { first_agent, indexes: OnceLock::new() };
        Self {
            statements: statements.into(),
            agents: agents.into(),
            tags: tags.into(),
            texts: [texts, padding].concat().into(),
            line_pages: line_pages.into(),
            large_groups: large_groups.iter().map(to_group).collect(),
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
        let statement = self.statements.first().map_or(0, |it| it.start);
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

    /// Returns the index of a user-agent line's group, which is large; builds it if it is missing and affordable.
    pub(crate) fn index(
        &self,
        semantics: &DialectSemantics,
        agent: UserAgentLine,
        build: impl FnOnce() -> Option<RuleIndex>,
    ) -> Option<&RuleIndex> {
        let groups = &self.large_groups;
        let after = groups.partition_point(|it| it.first_agent <= agent.statement);
        let group = &groups[after.checked_sub(1)?].indexes;
        let number = semantics.number();
        if let Some(index) = group.get().and_then(|slots| slots[number].get()) {
            return Some(index);
        }
        // Concurrent decisions may build the same index; only the first one is kept and counted.
        let index = build()?;
        let count = |bytes: usize| {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            // Saturating: only files of hundreds of megabytes have indexes of more than 4 GiB.
            let add = |sum: u32| Some(sum.saturating_add(bytes));
            let _ = self.index_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        };
        // Most files are never searched with an index, so the slots are allocated on first use.
        let slots = group.get_or_init(|| {
            count(size_of::<GroupIndexes>());
            Box::default()
        });
        Some(slots[number].get_or_init(|| {
            count(index.heap_bytes());
            index
        }))
    }

    /// Returns the bytes that it takes with all of its parts. Called often, so the sizes of indexes are kept as a sum.
    pub(crate) fn heap_bytes(&self) -> usize {
        // The reference counts of the `Arc` are next to it.
        2 * size_of::<usize>()
            + size_of::<Self>()
            + size_of_val(&*self.statements)
            + size_of_val(&*self.agents)
            + self.tags.len()
            + self.texts.len()
            + size_of_val(&*self.line_pages)
            + size_of_val(&*self.large_groups)
            + self.index_bytes.load(Ordering::Relaxed) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::GroupIndexes;
    use crate::{AccessResult, Dialect, ProductToken, RobotsTxt, UrlPath, decide};

    #[test]
    fn the_first_index_counts_the_slots_of_all() {
        let rules: String = (0..100).map(|n| format!("Disallow: /{n}\n")).collect();
        let robots = RobotsTxt::parse(format!("User-agent: *\n{rules}").as_bytes());
        let access = AccessResult::from(robots.clone());
        let [first, second] = [Dialect::Rfc9309, Dialect::Google].map(|dialect| {
            let before = robots.heap_bytes();
            let _ = decide(&access, dialect, &[], &UrlPath::ROOT);
            robots.heap_bytes() - before
        });
        assert_eq!(first, second + size_of::<GroupIndexes>());
    }

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
