//! The own copies of clients without a `[[crawler]]`: how many there are is up to clients, so they are limited.

use std::collections::{HashMap, VecDeque};

use wayleave_lifecycle::Resource;

/// The most own copies of such clients for one document. Few sites answer clients differently, and few clients without a
/// `[[crawler]]` visit them.
const MAX_COPIES: usize = 8;

/// The own copies in memory, by the document that they are copies of, the oldest first.
#[derive(Default)]
pub(super) struct ClientCopies(HashMap<Resource, VecDeque<Resource>>);

impl ClientCopies {
    /// Adds a copy with a holder, or makes it the newest. Returns the one that has to give way.
    pub(super) fn add(&mut self, copy: &Resource) -> Option<Resource> {
        copy.holder()?;
        let copies = self.0.entry(copy.shared()).or_default();
        copies.retain(|other| other != copy);
        copies.push_back(copy.clone());
        (copies.len() > MAX_COPIES).then(|| copies.pop_front())?
    }

    /// Forgets a document that is no longer in memory.
    pub(super) fn forget(&mut self, copy: &Resource) {
        if copy.holder().is_none() {
            return;
        }
        let shared = copy.shared();
        if let Some(copies) = self.0.get_mut(&shared) {
            copies.retain(|other| other != copy);
            if copies.is_empty() {
                self.0.remove(&shared);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_nine_own_copies_gives_way() {
        let shared = Resource::parse("https://shop.example").expect("a resource");
        let mut copies = ClientCopies::default();
        for n in 0..8 {
            assert_eq!(copies.add(&shared.held_by(&n.to_string())), None);
        }
        assert_eq!(copies.add(&shared.held_by("0")), None, "it is the newest now");
        assert_eq!(copies.add(&shared), None, "the shared one is no own copy");
        assert_eq!(copies.add(&shared.held_by("8")), Some(shared.held_by("1")));
        copies.forget(&shared.held_by("2"));
        assert_eq!(copies.add(&shared.held_by("9")), None);
    }
}
