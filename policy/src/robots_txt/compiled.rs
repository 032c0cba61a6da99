//! Compiled: what is kept of a file.

use super::agent::Agent;
use super::indexes::Indexes;

/// A file's statements as a stream of events, and where its user-agent lines are.
#[derive(Clone, Debug, Default)]
pub(super) struct Compiled {
    pub(super) stream: Box<[u8]>,
    /// A tag for each user-agent line: what to look at first.
    pub(super) tags: Box<[u8]>,
    /// In the order of the file; parallel to `tags`.
    pub(super) agents: Box<[Agent]>,
    pub(super) indexes: Indexes,
}

impl Compiled {
    pub(super) fn new(stream: Box<[u8]>, tags: Vec<u8>, agents: Vec<Agent>) -> Self {
        Self {
            stream,
            tags: tags.into(),
            agents: agents.into(),
            indexes: Indexes::default(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let agents = self.tags.len() + size_of_val(&*self.agents);
        self.stream.len() + agents + self.indexes.heap_bytes()
    }
}
