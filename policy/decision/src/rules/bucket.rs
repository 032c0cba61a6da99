//! The rules whose host patterns share a lookup key, indexed by path.

use wayleave_robots_txt::HostPattern;

/// With so few rules, trying each is as fast.
const MAX_LEAF_RULES: usize = 4;

/// The rules of one key, in their order.
#[derive(Debug)]
pub(super) struct HostBucket<P> {
    entries: Vec<BucketEntry>,
    /// The positions in `entries` of the rules that apply to all paths.
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
    /// The rules' positions in a leaf; empty if there is a node.
    positions: Vec<usize>,
    /// The halves; none with few rules.
    node: Option<PathNode<P>>,
}

#[derive(Debug)]
struct PathNode<P> {
    paths: P,
    halves: Box<[PathTree<P>; 2]>,
}

impl<P> PathTree<P> {
    fn new(positions: &[usize], join_paths: &impl Fn(&[usize]) -> P) -> Self {
        let node = (positions.len() > MAX_LEAF_RULES).then(|| {
            let (first, second) = positions.split_at(positions.len() / 2);
            PathNode {
                paths: join_paths(positions),
                halves: Box::new([first, second].map(|half| Self::new(half, join_paths))),
            }
        });
        Self { positions: if node.is_none() { positions.to_vec() } else { Vec::new() }, node }
    }

    /// Returns the first position for which `matches` holds, skipping those whose joined paths cannot match.
    fn first(
        &self,
        can_match: &impl Fn(&P) -> bool,
        matches: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        match &self.node {
            None => self.positions.iter().copied().find(|position| matches(*position)),
            Some(node) if !can_match(&node.paths) => None,
            // The first half holds the earlier rules.
            Some(node) => node.halves.iter().find_map(|half| half.first(can_match, matches)),
        }
    }
}

impl<P> HostBucket<P> {
    /// Indexes rules, which keep their order. `is_for_all_paths` is called with a rule's index; `join_paths` joins the paths of
    /// several rules.
    pub(super) fn new(
        entries: Vec<BucketEntry>,
        is_for_all_paths: impl Fn(usize) -> bool,
        join_paths: impl Fn(&[usize]) -> P,
    ) -> Self {
        let (for_all_paths, others): (Vec<_>, Vec<_>) =
            (0..entries.len()).partition(|position| is_for_all_paths(entries[*position].index));
        let rules = |positions: &[usize]| -> Vec<usize> {
            positions.iter().map(|position| entries[*position].index).collect()
        };
        let by_path = PathTree::new(&others, &|positions: &[usize]| join_paths(&rules(positions)));
        Self { entries, for_all_paths, by_path }
    }

    /// Returns all entries.
    pub(super) fn entries(&self) -> &[BucketEntry] {
        &self.entries
    }

    /// Returns the index of the first rule that `matches`, if it is below `before`; else `before`. `can_match` returns whether
    /// any of the joined paths can match.
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
            .map(|position| &self.entries[*position])
            .take_while(|entry| entry.index < before)
            .find(|entry| matches(entry))
            .map_or(before, |entry| entry.index);
        let is_earlier_match = |position: usize| {
            let entry = &self.entries[position];
            entry.index < for_all_paths && matches(entry)
        };
        self.by_path
            .first(&can_match, &is_earlier_match)
            .map_or(for_all_paths, |position| self.entries[position].index)
    }
}
