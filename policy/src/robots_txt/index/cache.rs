//! The indexes of a file: one for each large group and way of comparing, and the marks of its lines, made when first asked.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use triomphe::ThinArc;

use super::super::groups::agent::{Agent, Agents};
use super::super::groups::semantics::Semantics;
use super::Index;

#[derive(Debug, Default)]
pub(crate) struct Indexes {
    /// Beside the slots stands how many bytes what is in them takes.
    slots: OnceLock<ThinArc<AtomicUsize, Slots>>,
}

/// An event in the midst of a group, and the number of the line before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) offset: u32,
    pub(crate) line: u32,
}

/// The indexes of one group.
#[derive(Debug)]
struct Slots {
    agent: Agent,
    marks: OnceLock<Box<[Mark]>>,
    by_semantics: [OnceLock<Box<Index>>; Semantics::COUNT],
}

impl Indexes {
    /// The index of the large group that a user-agent line is in, built if it is affordable now.
    pub(crate) fn find_or_build(
        &self,
        agents: Agents<'_>,
        semantics: Semantics,
        agent: Agent,
        build: impl FnOnce(Agent) -> Option<Index>,
    ) -> Option<&Index> {
        let slots = self.slots_of(agents, agent)?;
        let slot = &slots.by_semantics[semantics.number()];
        if slot.get().is_none() {
            let index = Box::new(build(slots.agent)?);
            slot.get_or_init(|| {
                self.note(size_of::<Index>() + index.heap_bytes());
                index
            });
        }
        slot.get().map(|index| &**index)
    }

    /// The marks of the large group that a user-agent line is in, or else of the one before.
    pub(crate) fn marks(
        &self,
        agents: Agents<'_>,
        agent: Agent,
        make: impl FnOnce(Agent) -> Box<[Mark]>,
    ) -> Option<&[Mark]> {
        let slots = self.slots_of(agents, agent)?;
        let marks = slots.marks.get_or_init(|| {
            let marks = make(slots.agent);
            self.note(size_of_val(&*marks));
            marks
        });
        Some(marks)
    }

    /// The lines of one group share the slots of the first.
    fn slots_of(&self, agents: Agents<'_>, agent: Agent) -> Option<&Slots> {
        let slots = &self.slots.get_or_init(|| slots(agents)).slice;
        let after = slots.partition_point(|slots| slots.agent.offset() <= agent.offset());
        slots.get(after.checked_sub(1)?)
    }

    /// Notes that so many bytes were taken.
    fn note(&self, bytes: usize) {
        if let Some(slots) = self.slots.get() {
            slots.header.header.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Asked for often, so nothing is added up here.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.get().map_or(0, |slots| {
            size_of_val(&**slots) + slots.header.header.load(Ordering::Relaxed)
        })
    }
}

/// Slots for the first line of each run of lines with a large group.
fn slots(agents: Agents<'_>) -> ThinArc<AtomicUsize, Slots> {
    let mut slots: Vec<Slots> = Vec::new();
    let mut first = None;
    for agent in agents.iter() {
        if !agent.goes_on() {
            first = Some(agent);
        }
        if let Some(agent) = first.take_if(|_| agent.is_large()) {
            slots.push(Slots {
                agent,
                marks: OnceLock::new(),
                by_semantics: Default::default(),
            });
        }
    }
    ThinArc::from_header_and_iter(AtomicUsize::new(0), slots.into_iter())
}

#[cfg(test)]
mod tests {
    use crate::{AccessResult, Dialect, Path, ProductToken, RobotsTxt, decide};

    /// How many bytes decisions for some names add to a file, one after the other.
    fn added(body: &str, names: &[&str]) -> Vec<usize> {
        let robots = RobotsTxt::parse(body.as_bytes());
        let access = AccessResult::Successful(robots.clone());
        let decide_and_measure = |name: &&str| {
            let before = robots.heap_bytes();
            let tokens = [ProductToken::new(name).unwrap()];
            let _ = decide(
                &access,
                Dialect::Rfc9309,
                &tokens,
                &Path::parse("/x").unwrap(),
            );
            robots.heap_bytes() - before
        };
        names.iter().map(decide_and_measure).collect()
    }

    fn rules(count: usize) -> String {
        (0..count).map(|n| format!("Disallow: /{n}\n")).collect()
    }

    #[test]
    fn every_name_of_a_group_shares_its_index() {
        let agents = "User-agent: a\nUser-agent: b\nCrawl-delay: 1\nUser-agent: c\n";
        let body = format!("{agents}{}", rules(100));
        let added = added(&body, &["b", "a", "c", "b", "unknown"]);
        assert!(added[0] > 100);
        assert_eq!(added[1..], [0; 4]);
    }

    #[test]
    fn a_group_too_large_for_one_decision_is_searched_without_an_index() {
        let body = format!("User-agent: a\n{}", rules(30_000));
        // Only where the indexes would be.
        let added_without = added(&body, &["a", "a"]);
        assert!(
            added_without[0] < 1_000 && added_without[1] == 0,
            "{added_without:?}"
        );
        let body = format!("User-agent: a\n{}", rules(10_000));
        assert!(added(&body, &["a"])[0] > 10_000);
    }

    #[test]
    fn what_one_decision_cannot_afford_is_left_to_later_ones() {
        let group = format!("User-agent: a\n{}", rules(9_000));
        let added = added(&group.repeat(2), &["a"; 3]);
        assert!(added[0] > 9_000 && added[1] > 9_000, "{added:?}");
        assert_eq!(added[2], 0);
    }
}
