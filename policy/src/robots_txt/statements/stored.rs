//! Compiled: what is kept of a file, in one stretch of memory.

use triomphe::ThinArc;

use super::super::groups::agent::{Agent, Agents};
use super::super::index::cache::Indexes;
use super::super::topic::{Topic, Topics};
use super::writer::Writer;

/// Who is named in a file and what it states, in one allocation behind one pointer: a decision on a
/// file that nobody asked about lately waits for memory once or twice, not once for each part.
///
/// ```text
/// tags, one byte each ‖ agents, four bytes each ‖ stream
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Stored(ThinArc<Header, u8>);

#[derive(Debug, Default)]
struct Header {
    indexes: Indexes,
    /// How many user-agent lines there are.
    agents: u32,
    topics: Topics,
    has_respelt_rules: bool,
}

impl Stored {
    /// Takes the user-agent lines and their tags in the order of the file, what they are in, and what that speaks of.
    pub(crate) fn new(agents: &[(Agent, u8)], writer: Writer, topics: Topics) -> Self {
        let has_respelt_rules = writer.has_respelt_rules();
        // Moving the stream takes less than another stretch of memory would.
        let mut all = writer.finish();
        let bytes = all.len();
        let before = agents.len() * (1 + Agents::BYTES);
        all.resize(before + bytes, 0);
        all.copy_within(..bytes, before);
        let (tags, rest) = all.split_at_mut(agents.len());
        for (slot, (_, tag)) in tags.iter_mut().zip(agents) {
            *slot = *tag;
        }
        for (slot, (agent, _)) in rest.as_chunks_mut().0.iter_mut().zip(agents) {
            *slot = agent.to_bytes();
        }
        let header = Header {
            indexes: Indexes::default(),
            agents: u32::try_from(agents.len()).expect("no more than bytes in a file"),
            topics,
            has_respelt_rules,
        };
        Self(ThinArc::from_header_and_slice(header, &all))
    }

    #[inline]
    pub(crate) fn statements(&self) -> Statements<'_> {
        let Header {
            indexes, agents, ..
        } = &self.0.header.header;
        let (tags, rest) = self.0.slice.split_at(*agents as usize);
        let (agents, stream) = rest.split_at(Agents::BYTES * tags.len());
        Statements {
            stream,
            tags,
            agents: Agents::new(agents),
            indexes,
        }
    }

    /// Whether any directive is about this.
    pub(crate) fn speaks_of(&self, topic: Topic) -> bool {
        self.0.header.header.topics.has(topic)
    }

    /// Whether a rule differs between the forms in which a path is judged strictly.
    pub(crate) fn has_respelt_rules(&self) -> bool {
        self.0.header.header.has_respelt_rules
    }

    #[cfg(test)]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(&*self.0, &*other.0)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        // The count of owners and the length stand beside the header.
        let besides = 2 * size_of::<usize>() + size_of::<Header>();
        besides + self.0.slice.len() + self.0.header.header.indexes.heap_bytes()
    }
}

/// A file's statements as a stream of events, and where its user-agent lines are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statements<'a> {
    pub(crate) stream: &'a [u8],
    /// A tag for each user-agent line: what to look at first.
    pub(crate) tags: &'a [u8],
    /// In the order of the file; parallel to `tags`.
    pub(crate) agents: Agents<'a>,
    pub(crate) indexes: &'a Indexes,
}
