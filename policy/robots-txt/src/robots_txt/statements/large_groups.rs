//! The groups of a file that have so many rules that an index pays, and their indexes.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::groups::agent::UserAgentLine;
use super::super::groups::semantics::DialectSemantics;
use super::super::index::RuleIndex;
use super::{
    EXACT, EXACT_GROUP, FileStatement, GOOGLE, GOOGLE_GROUP, LARGE_GROUP, RECORD, StatementKind,
};

/// Groups with more rules, or with more wildcard rules, get an index when they are first searched.
const FEW_RULES: u32 = 48;
const FEW_WILD_RULES: u32 = 4;

/// The rules of one file that are indexed for each kind of reader: about 2 ms of work. The largest group of 3,000 real
/// files has 3,129 rules. Which groups get an index depends on the file alone, so that no verdict depends on earlier
/// questions.
const INDEXED_RULES: usize = 10 * 1024;

/// The bytes of a rule that take as long to index as a second short rule.
const BYTES_PER_INDEXED_RULE: usize = 64;

/// The marks of the three kinds of reader: those of their groups, and of the statements that they see.
const READERS: [(u8, u8); 3] = [(EXACT_GROUP, EXACT), (GOOGLE_GROUP, GOOGLE), (RECORD, EXACT)];

/// Returns whether so many rules are worth an index. Wildcards cost more to match, so fewer of them are.
pub(crate) fn is_large(rules: u32, wild_rules: u32) -> bool {
    rules > FEW_RULES || wild_rules > FEW_WILD_RULES
}

/// The indexes of a large group, one for each form, built on first use.
type GroupIndexes = [OnceLock<RuleIndex>; DialectSemantics::COUNT];

/// A large group, as one kind of reader sees it.
#[derive(Debug)]
struct LargeGroup {
    /// The mark at which groups begin for these readers.
    group_mark: u8,
    /// The statements from its first user-agent line to the next group.
    start: u32,
    end: u32,
    indexes: OnceLock<Box<GroupIndexes>>,
}

/// The large groups of a file, sorted by kind of reader and position.
#[derive(Debug, Default)]
pub(crate) struct LargeGroups {
    groups: Box<[LargeGroup]>,
    /// The number of bytes in the indexes built so far.
    index_bytes: AtomicU32,
}

impl LargeGroups {
    /// Finds the large groups among a file's statements, and marks their user-agent lines.
    #[cold]
    pub(crate) fn mark_in(statements: &mut [FileStatement], texts_len: usize) -> Self {
        let mut groups = Vec::new();
        for (group_mark, visible_mark) in READERS {
            let mut indexed = INDEXED_RULES;
            for group in groups_of(statements, group_mark, visible_mark) {
                let mut count = RuleCount::default();
                for at in group.clone() {
                    let end = statements.get(at + 1).map_or(texts_len, |next| next.start as usize);
                    if statements[at].is_rule() && statements[at].has_mark(visible_mark) {
                        count.add(&statements[at], end - statements[at].start as usize);
                    }
                }
                if !is_large(count.rules, count.wild_rules) {
                    continue;
                }
                let Some(left) = indexed.checked_sub(count.work) else {
                    continue;
                };
                indexed = left;
                for statement in &mut statements[group.clone()] {
                    if statement.kind() == StatementKind::Agent {
                        statement.marks |= LARGE_GROUP;
                    }
                }
                let [start, end] = [group.start, group.end].map(|at| at as u32);
                groups.push(LargeGroup { group_mark, start, end, indexes: OnceLock::new() });
            }
        }
        groups.sort_unstable_by_key(|group| (group.group_mark, group.start));
        Self { groups: groups.into(), index_bytes: AtomicU32::new(0) }
    }

    /// Returns the index of a user-agent line's group, built if it is missing; `None` if the group is not large.
    pub(crate) fn index(
        &self,
        semantics: &DialectSemantics,
        agent: UserAgentLine,
        build: impl FnOnce(Range<usize>) -> RuleIndex,
    ) -> Option<&RuleIndex> {
        let mark = semantics.group_mark;
        let agent = agent.statement;
        let after =
            self.groups.partition_point(|group| (group.group_mark, group.start) <= (mark, agent));
        let group = &self.groups[after.checked_sub(1)?];
        if group.group_mark != mark || group.end <= agent {
            return None;
        }
        // Most files are never searched with an index, so the slots are allocated on first use.
        let slots = group.indexes.get_or_init(|| {
            self.count(size_of::<GroupIndexes>());
            Box::default()
        });
        Some(slots[semantics.number()].get_or_init(|| {
            let index = build(group.start as usize..group.end as usize);
            self.count(index.heap_bytes());
            index
        }))
    }

    fn count(&self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        // Saturating: only files of hundreds of megabytes have indexes of more than 4 GiB.
        let add = |sum: u32| Some(sum.saturating_add(bytes));
        let _ = self.index_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Returns the bytes that they take with their indexes. Called often, so the sizes of indexes are kept as a sum.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&*self.groups) + self.index_bytes.load(Ordering::Relaxed) as usize
    }
}

/// Returns the groups of one kind of reader, each from its first user-agent line: rules before that apply to nobody.
fn groups_of(statements: &[FileStatement], group_mark: u8, visible_mark: u8) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut is_open = false;
    for (at, statement) in statements.iter().enumerate() {
        is_open &= !statement.has_mark(group_mark);
        let is_agent = statement.kind() == StatementKind::Agent && statement.has_mark(visible_mark);
        if is_agent && !is_open {
            groups.push(at..at);
            is_open = true;
        }
        if let Some(group) = groups.last_mut().filter(|_| is_open) {
            group.end = at + 1;
        }
    }
    groups
}

/// The rules of a group, and the work of indexing them in short rules.
#[derive(Default)]
struct RuleCount {
    rules: u32,
    wild_rules: u32,
    work: usize,
}

impl RuleCount {
    fn add(&mut self, rule: &FileStatement, bytes: usize) {
        let is_plain = rule.kind() == StatementKind::PlainRule;
        self.rules += 1;
        self.wild_rules += u32::from(!is_plain);
        // One that is not plain is compiled first, which takes twice as long.
        self.work += (1 + bytes / BYTES_PER_INDEXED_RULE) * if is_plain { 1 } else { 3 };
    }
}
