//! The rules for some hosts, indexed by path.

use wayleave_robots_txt::HostPattern;

/// With so few rules, trying each is as fast.
const MAX_LEAF_RULES: usize = 4;

/// The rules for some hosts, in their order.
#[derive(Debug)]
pub(super) struct HostBucket<P> {
    entries: Vec<BucketEntry>,
    /// The positions in `entries` of the rules that are for all paths.
    for_all_paths: Vec<usize>,
    /// The positions of the others.
    by_path: PathTree<P>,
}

#[derive(Debug)]
pub(super) struct BucketEntry {
    /// The rule's index in the configuration, from 0.
    pub(super) index: usize,
    pub(super) pattern: HostPattern,
}

/// The positions of rules, with all their paths in one: if none of these matches, no rule does. Else the halves are tried.
#[derive(Debug)]
struct PathTree<P> {
    places: Vec<usize>,
    /// The halves; none with few rules.
    node: Option<PathNode<P>>,
}

#[derive(Debug)]
struct PathNode<P> {
    paths: P,
    halves: Box<[PathTree<P>; 2]>,
}

impl<P> PathTree<P> {
    fn new(places: &[usize], together: &impl Fn(&[usize]) -> P) -> Self {
        let node = (places.len() > MAX_LEAF_RULES).then(|| {
            let (first, second) = places.split_at(places.len() / 2);
            PathNode {
                paths: together(places),
                halves: Box::new([first, second].map(|half| Self::new(half, together))),
            }
        });
        Self { places: if node.is_none() { places.to_vec() } else { Vec::new() }, node }
    }

    /// Returns the first place for which `is_it` holds, skipping those whose paths together cannot match.
    fn first(
        &self,
        can_match: &impl Fn(&P) -> bool,
        is_it: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        match &self.node {
            None => self.places.iter().copied().find(|place| is_it(*place)),
            Some(node) if !can_match(&node.paths) => None,
            // The first half holds the earlier rules.
            Some(node) => node.halves.iter().find_map(|half| half.first(can_match, is_it)),
        }
    }
}

impl<P> HostBucket<P> {
    /// Indexes rules, which keep their order. `is_for_all_paths` is called with a rule's index; `together` joins the paths of
    /// several rules.
    pub(super) fn new(
        entries: Vec<BucketEntry>,
        is_for_all_paths: impl Fn(usize) -> bool,
        together: impl Fn(&[usize]) -> P,
    ) -> Self {
        let is_for_all = |place: &usize| is_for_all_paths(entries[*place].index);
        let (for_all_paths, others): (Vec<_>, Vec<_>) = (0..entries.len()).partition(is_for_all);
        let rules = |places: &[usize]| -> Vec<usize> {
            places.iter().map(|place| entries[*place].index).collect()
        };
        let by_path = PathTree::new(&others, &|places: &[usize]| together(&rules(places)));
        Self { entries, for_all_paths, by_path }
    }

    /// Returns all entries.
    pub(super) fn entries(&self) -> &[BucketEntry] {
        &self.entries
    }

    /// Returns the index of the first rule that `matches`, if it is below `before`; else `before`. `can_match` says whether any
    /// of some paths can match.
    pub(super) fn first(
        &self,
        before: usize,
        can_match: impl Fn(&P) -> bool,
        matches: impl Fn(&BucketEntry) -> bool,
    ) -> usize {
        // Entries are in the configuration's order, so none of them can be earlier.
        if self.entries.first().is_none_or(|first| first.index >= before) {
            return before;
        }
        let for_all_paths = self
            .for_all_paths
            .iter()
            .map(|place| &self.entries[*place])
            .take_while(|entry| entry.index < before)
            .find(|entry| matches(entry))
            .map_or(before, |entry| entry.index);
        let is_earlier_match = |place: usize| {
            let entry = &self.entries[place];
            entry.index < for_all_paths && matches(entry)
        };
        self.by_path
            .first(&can_match, &is_earlier_match)
            .map_or(for_all_paths, |place| self.entries[place].index)
    }
}
