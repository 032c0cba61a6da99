//! Building an index: the rules of a group, taken apart and sorted.

use std::cmp::Ordering;

use super::super::budget::Budget;
use super::super::byte_pairs::BytePairs;
use super::super::groups::semantics::Semantics;
use super::super::head::head;
use super::super::matched_rule::MatchedRule;
use super::super::pattern::{Pattern, Patterns, Value};
use super::super::statements::event::{ALLOW, Event, Events, PLAIN, WILD};
use super::{Index, Prefix, Wild, common_length, decides};
use crate::Dialect;

/// An index of the group of the user-agent line that the events begin with; `None` if the budget does not bear
/// it.
pub(crate) fn build(
    semantics: Semantics,
    events: Events<'_>,
    budget: &mut Budget,
) -> Option<Index> {
    let entries = Entries::read(semantics, events, budget)?;
    let common = entries.common();
    let mut builder = Builder::new(&entries);
    for (head, entry) in entries.sorted(common) {
        builder.push(head, &entries.all[entry as usize]);
    }
    let Builder {
        heads,
        prefixes,
        needs,
        wilds,
        ..
    } = builder;
    Some(Index {
        takes_first: entries.takes_first,
        end: entries.end,
        common,
        heads: heads.into(),
        prefixes: prefixes.into(),
        needs: needs.into(),
        wilds: wilds.into(),
        literals: entries.patterns.literals.into(),
        stars: entries.patterns.stars.into(),
    })
}

/// The rules of a group in the order of the file.
struct Entries {
    patterns: Patterns,
    all: Vec<Entry>,
    end: usize,
    takes_first: bool,
}

struct Entry {
    start: usize,
    prefix: usize,
    rule: MatchedRule,
    wild: Option<Wild>,
}

impl Entries {
    fn read(semantics: Semantics, events: Events<'_>, budget: &mut Budget) -> Option<Self> {
        let mut entries = Self {
            patterns: Patterns::default(),
            all: Vec::new(),
            end: usize::MAX,
            takes_first: semantics.takes_first,
        };
        for event in events {
            if semantics.ends_at(&event) {
                entries.end = event.offset;
                break;
            }
            if event.is_rule() && event.tag & semantics.sees != 0 {
                let (value, _) = event.rule();
                if !budget.spend_on_index(value.len(), event.form() == PLAIN) {
                    return None;
                }
                entries.push_event(semantics, &event);
            }
        }
        Some(entries)
    }

    fn push_event(&mut self, semantics: Semantics, event: &Event<'_>) {
        let (value, _) = event.rule();
        let (allow, dialect) = (event.kind() == ALLOW, semantics.dialect);
        if value.is_empty() && dialect != Dialect::Google {
            return;
        }
        self.push(semantics, event, Value::read(value, semantics));
        if event.form() != PLAIN
            && allow
            && dialect == Dialect::Google
            && let Some(directory) = Value::directory(value)
        {
            self.push(semantics, event, directory);
        }
    }

    fn push(&mut self, semantics: Semantics, event: &Event<'_>, value: Value<'_>) {
        let (start, first_star) = (self.patterns.literals.len(), self.patterns.stars.len());
        if event.form() == PLAIN {
            self.patterns.literals.extend_from_slice(value.text);
        } else {
            self.patterns.push(value, semantics);
        }
        let pattern = Pattern {
            literals: &self.patterns.literals[start..],
            stars: &self.patterns.stars[first_star..],
            anchored: value.anchored,
        };
        let length = match event.form() {
            _ if semantics.takes_first => 0,
            PLAIN | WILD => value.text.len() + usize::from(value.anchored),
            _ => value.specificity(semantics),
        };
        let rule = MatchedRule::new(length, event.kind() == ALLOW, event.offset);
        let wild = (!pattern.is_prefix()).then(|| Wild {
            start: small(start),
            length: small(pattern.literals.len()),
            stars: (small(first_star), small(self.patterns.stars.len())),
            anchored: value.anchored,
            rule,
        });
        let prefix = pattern.prefix_length();
        self.all.push(Entry {
            start,
            prefix,
            rule,
            wild,
        });
    }

    fn text(&self, entry: &Entry) -> &[u8] {
        &self.patterns.literals[entry.start..][..entry.prefix]
    }

    fn pattern(&self, wild: &Wild) -> Pattern<'_> {
        wild.pattern(&self.patterns.literals, &self.patterns.stars)
    }

    /// How many bytes all prefixes start with.
    fn common(&self) -> usize {
        let Some(first) = self.all.first().map(|entry| self.text(entry)) else {
            return 0;
        };
        self.all.iter().fold(first.len(), |common, entry| {
            common_length(&first[..common], self.text(entry))
        })
    }

    /// By prefix, then literal rules first, then by what decides first. Most are told apart by the bytes
    /// behind the common ones, which stand in a number beside.
    fn sorted(&self, common: usize) -> Vec<(u64, u32)> {
        let head = |entry: &Entry| head(&self.text(entry)[common..]).swap_bytes();
        let heads = self.all.iter().map(head).zip(0..);
        let mut order: Vec<(u64, u32)> = heads.collect();
        order.sort_unstable_by(|one, other| {
            one.0
                .cmp(&other.0)
                .then_with(|| self.compare(one.1, other.1))
        });
        order
    }

    fn compare(&self, one: u32, other: u32) -> Ordering {
        let (one, other) = (&self.all[one as usize], &self.all[other as usize]);
        let order = |entry: &Entry| (entry.wild.is_some(), decides(self.takes_first, entry.rule));
        let texts = self.text(one).cmp(self.text(other));
        texts.then_with(|| order(one).cmp(&order(other)))
    }
}

/// Puts the prefixes of sorted entries in a row.
struct Builder<'a> {
    entries: &'a Entries,
    heads: Vec<u64>,
    prefixes: Vec<Prefix>,
    needs: Vec<BytePairs>,
    wilds: Vec<Wild>,
}

impl<'a> Builder<'a> {
    fn new(entries: &'a Entries) -> Self {
        Self {
            entries,
            heads: Vec::with_capacity(entries.all.len()),
            prefixes: Vec::with_capacity(entries.all.len()),
            needs: Vec::new(),
            wilds: Vec::new(),
        }
    }

    fn push(&mut self, head: u64, entry: &Entry) {
        let text = self.entries.text(entry);
        let is_new = |last: &Prefix| self.text(last) != text;
        if self.prefixes.last().is_none_or(is_new) {
            self.push_prefix(head, entry, text);
        }
        self.push_rule(entry);
    }

    fn push_prefix(&mut self, head: u64, entry: &Entry, text: &[u8]) {
        // The prefixes this one starts with are the one before and what that starts with.
        let mut parent = self.prefixes.len().checked_sub(1);
        while let Some(index) = parent
            && !text.starts_with(self.text(&self.prefixes[index]))
        {
            parent = self.prefixes[index].parent.map(|parent| parent as usize);
        }
        let above = parent.map(|index| self.prefixes[index]);
        let wilds = small(self.wilds.len());
        self.prefixes.push(Prefix {
            start: small(entry.start),
            length: small(text.len()),
            parent: parent.map(small),
            literal: above.and_then(|above| above.literal),
            wilds: (wilds, wilds),
            wild_prefix: above.and_then(|above| above.wild_prefix),
        });
        self.heads.push(head);
    }

    fn push_rule(&mut self, entry: &Entry) {
        let index = small(self.prefixes.len() - 1);
        let prefix = self
            .prefixes
            .last_mut()
            .expect("its prefix was pushed before");
        let Some(wild) = entry.wild else {
            let candidates = [Some(entry.rule), prefix.literal].into_iter().flatten();
            let takes_first = self.entries.takes_first;
            prefix.literal = candidates.min_by_key(|rule| decides(takes_first, *rule));
            return;
        };
        let mut needs = BytePairs::default();
        let pattern = self.entries.pattern(&wild);
        pattern.parts().for_each(|part| needs.add(part));
        self.needs.push(needs);
        self.wilds.push(wild);
        prefix.wilds.1 = small(self.wilds.len());
        prefix.wild_prefix = Some(index);
    }

    fn text(&self, prefix: &Prefix) -> &'a [u8] {
        &self.entries.patterns.literals[prefix.start as usize..][..prefix.length as usize]
    }
}

fn small(number: usize) -> u32 {
    u32::try_from(number).expect("the limit of a file is below 4 GiB")
}
