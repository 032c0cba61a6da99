//! `Bucket`: the rules for some hosts, indexed by path.

use wayleave_robots_txt::HostPattern;

/// With fewer rules, looking at each is as fast.
const MAX_LEAF_RULES: usize = 4;

/// Rules that some hosts lead to, in their order.
#[derive(Debug)]
pub(super) struct HostBucket<P> {
    entries: Vec<BucketEntry>,
    /// The places of those that are for all paths.
    for_all_paths: Vec<usize>,
    /// The places of the others.
    by_path: PathTree<P>,
}

#[derive(Debug)]
pub(super) struct BucketEntry {
    /// Which rule, from 0.
    pub(super) index: usize,
    pub(super) pattern: HostPattern,
}

/// Places of rules, and all their paths in one: if none of them matches, no rule does. Else each half is asked the same.
#[derive(Debug)]
struct PathTree<P> {
    places: Vec<usize>,
    /// With few places: nothing.
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
        Self {
            places: if node.is_none() {
                places.to_vec()
            } else {
                Vec::new()
            },
            node,
        }
    }

    /// The first place that `is_it`, passing over those whose paths together cannot match.
    fn first(
        &self,
        can_match: &impl Fn(&P) -> bool,
        is_it: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        match &self.node {
            None => self.places.iter().copied().find(|place| is_it(*place)),
            Some(node) if !can_match(&node.paths) => None,
            Some(node) => {
                let mut halves = node.halves.iter();
                halves.find_map(|half| half.first(can_match, is_it))
            }
        }
    }
}

impl<P> HostBucket<P> {
    /// Rules in their order; `is_for_all_paths` tells of a rule's index, `together` makes one of the paths of several.
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
        Self {
            entries,
            for_all_paths,
            by_path,
        }
    }

    /// All of them.
    pub(super) fn entries(&self) -> &[BucketEntry] {
        &self.entries
    }

    /// The index of the first rule that `matches`, if it is before `before`; else that. `can_match` tells whether any of some
    /// paths can.
    pub(super) fn first(
        &self,
        before: usize,
        can_match: impl Fn(&P) -> bool,
        matches: impl Fn(&BucketEntry) -> bool,
    ) -> usize {
        if self
            .entries
            .first()
            .is_none_or(|first| first.index >= before)
        {
            return before;
        }
        let places = self.for_all_paths.iter();
        let entries = places.map(|place| &self.entries[*place]);
        let mut earlier = entries.take_while(|entry| entry.index < before);
        let first = earlier.find(|entry| matches(entry));
        let first = first.map_or(before, |entry| entry.index);
        let is_it = |place: usize| {
            let entry = &self.entries[place];
            entry.index < first && matches(entry)
        };
        let by_path = self.by_path.first(&can_match, &is_it);
        by_path.map_or(first, |place| self.entries[place].index)
    }
}
