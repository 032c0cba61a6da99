//! The rule that decides: one pass over the rules of a crawler's groups.

use std::hint::black_box;

use super::agent::Agent;
use super::build::build;
use super::choose::Choice;
use super::compiled::Compiled;
use super::effort::Effort;
use super::found::{Found, Match};
use super::holds::Holds;
use super::index::Index;
use super::pattern::{self, Body, HEAD_OCTETS, Path, Patterns, has_stars, wild_parts};
use super::reader::Reader;
use super::sieve::Sieve;
use super::stream::{ALLOW, DISALLOW, Event, PLAIN, RUN, WILD, events};
use crate::forms::MAX_WRITTEN;
use crate::{Dialect, ProductToken};

/// Of a file with a sieve, so many groups of a crawler are searched one by one.
const FEW_GROUPS: usize = 8;

/// What one decision has found out and spent so far, in all the dialects and spellings it asks for.
#[derive(Debug, Default)]
pub(crate) struct Search {
    holds: Holds,
    effort: Effort,
    /// Made when a rule is met that needs it, which few decisions do.
    patterns: Option<Box<Patterns>>,
}

impl<'a> Compiled<'a> {
    /// The rule that decides about a path.
    #[inline]
    pub(super) fn find(
        self,
        reader: Reader,
        tokens: &[ProductToken],
        path: &Path<'_>,
        search: &mut Search,
    ) -> Found {
        self.ask_for_memory();
        search.holds.turn_to(path);
        for token in tokens {
            let choice = Choice::Named(token);
            let found = if reader.takes_first {
                self.find_in_best(reader, choice, path, search)
            } else {
                self.find_in_all(reader, choice, path, search)
            };
            if found != Found::NoGroup {
                return found;
            }
        }
        if reader.takes_first {
            self.find_in_best(reader, Choice::Everyone, path, search)
        } else {
            self.find_in_all(reader, Choice::Everyone, path, search)
        }
    }

    /// Reads one octet of each of the first lines of memory. Of a file that nobody asked about lately they come all at
    /// once then, where the search would wait for each before it knows of the next.
    #[inline]
    fn ask_for_memory(self) {
        const LINE: usize = 64;
        const LINES: usize = 6;
        let octets = self.stream.iter().step_by(LINE).take(LINES);
        black_box(octets.fold(0, |all, octet| all ^ octet));
    }

    /// What decides in the one record chosen.
    fn find_in_best(
        self,
        reader: Reader,
        choice: Choice<'_>,
        path: &Path<'_>,
        search: &mut Search,
    ) -> Found {
        let Some(agent) = self.best_agent(reader, choice) else {
            return Found::NoGroup;
        };
        let best = match self.indexes.sieve(reader) {
            Some(sieve) if agent.is_huge() => self.sift_group(sieve, reader, agent, path, search),
            _ => self.search_group(reader, agent, path, search, None).best,
        };
        best.map_or(Found::NoRule, Found::Rule)
    }

    /// What decides in all groups chosen. Inlined, since most of it falls away for either choice.
    #[inline(always)]
    fn find_in_all(
        self,
        reader: Reader,
        choice: Choice<'_>,
        path: &Path<'_>,
        search: &mut Search,
    ) -> Found {
        if let Some(sieve) = self.indexes.sieve(reader)
            && self.pays_to_sift(sieve, reader, choice)
        {
            let best = self.sift(sieve, reader, choice, path, search);
            return best.map_or(Found::NoRule, Found::Rule);
        }
        let mut found = Found::NoGroup;
        let mut best = None;
        let mut next = 0;
        while let Some(agent) = self.next_agent(reader, choice, &mut next) {
            found = Found::NoRule;
            let group = self.search_group(reader, agent, path, search, best);
            best = group.best;
            // Other lines of this group say nothing new.
            while let Some(other) = self.agents.at(next)
                && other.offset() < group.end
            {
                next += 1;
            }
        }
        best.map_or(found, Found::Rule)
    }

    /// Whether the groups chosen have more rules than are searched sooner one by one, or with one index.
    #[cold]
    fn pays_to_sift(self, sieve: &Sieve, reader: Reader, choice: Choice<'_>) -> bool {
        let (mut groups, mut end, mut has_large) = (0, 0, false);
        for agent in self.chosen_agents(reader, choice) {
            if agent.offset() < end {
                continue;
            }
            end = sieve.group(agent.offset()).end;
            groups += 1;
            has_large |= agent.is_large();
            if agent.is_huge() || groups > FEW_GROUPS || has_large && groups > 1 {
                return true;
            }
        }
        false
    }

    /// What decides among the rules of all groups chosen, found through a sieve.
    #[cold]
    fn sift(
        self,
        sieve: &Sieve,
        reader: Reader,
        choice: Choice<'_>,
        path: &Path<'_>,
        search: &mut Search,
    ) -> Option<Match> {
        let mut are_chosen = vec![None; sieve.groups()];
        sieve.find(path.octets(), |offset, best| {
            let group = sieve.group(offset);
            let is_chosen = are_chosen[group.number]
                .get_or_insert_with(|| self.is_chosen(reader, choice, group.start..group.end));
            if !*is_chosen {
                return None;
            }
            self.judge(offset, reader, path, search, best)
        })
    }

    /// What decides among the rules of the group of a user-agent line, found through a sieve.
    #[cold]
    fn sift_group(
        self,
        sieve: &Sieve,
        reader: Reader,
        agent: Agent,
        path: &Path<'_>,
        search: &mut Search,
    ) -> Option<Match> {
        let group = sieve.group(agent.offset());
        sieve.find_first(path.octets(), group, |offset| {
            self.judge(offset, reader, path, search, None)
        })
    }

    /// The rule at an offset, if it matches and decides before `best`.
    fn judge(
        self,
        offset: usize,
        reader: Reader,
        path: &Path<'_>,
        search: &mut Search,
        best: Option<Match>,
    ) -> Option<Match> {
        let events = events(self.stream, offset);
        let event = { events }.next()?;
        if !events.may_match(&event, path.head()) {
            return None;
        }
        match_rule(&event, reader, path, search, best)
    }

    /// What decides among `best` and the rules of the group of a user-agent line.
    #[inline(always)]
    fn search_group(
        self,
        reader: Reader,
        agent: Agent,
        path: &Path<'_>,
        search: &mut Search,
        best: Option<Match>,
    ) -> Searched {
        if agent.is_large()
            && let Some(index) = self.index(reader, agent, &mut search.effort)
        {
            return Searched {
                best: best.max(index.find(path, &mut search.holds)),
                end: index.end(),
            };
        }
        search_rules(reader, (self.stream, agent.offset()), path, search, best)
    }

    /// Few groups are large. Apart, so that the compiler puts the search of the others into their decisions: the median
    /// takes 55 instead of 59 ns.
    #[inline(never)]
    fn index(self, reader: Reader, agent: Agent, effort: &mut Effort) -> Option<&'a Index> {
        self.indexes.find_or_build(
            self.agents,
            reader.dialect,
            agent,
            effort,
            |agent, effort| build(reader, events(self.stream, agent.offset()), effort),
        )
    }
}

/// What decides after a group was searched, and where the group ends.
struct Searched {
    best: Option<Match>,
    end: usize,
}

fn search_rules(
    reader: Reader,
    (stream, start): (&[u8], usize),
    path: &Path<'_>,
    search: &mut Search,
    mut best: Option<Match>,
) -> Searched {
    let mut events = events(stream, start);
    let mut end = usize::MAX;
    loop {
        let is_alike = events.skip_unlike(path.head(), reader.ends);
        let Some(event) = events.next() else { break };
        match event.kind() {
            ALLOW | DISALLOW if event.tag & reader.sees != 0 => {
                if !is_alike && !events.may_match(&event, path.head()) {
                    continue;
                }
                let rule = match_rule(&event, reader, path, search, best);
                best = best.max(rule);
                if reader.takes_first && rule.is_some() {
                    break;
                }
            }
            RUN if event.tag & reader.ends != 0 => {
                end = event.offset;
                break;
            }
            _ => {}
        }
    }
    Searched { best, end }
}

/// The rule, if it matches and decides before `best`.
#[inline]
fn match_rule(
    event: &Event<'_>,
    reader: Reader,
    path: &Path<'_>,
    search: &mut Search,
    best: Option<Match>,
) -> Option<Match> {
    let (value, _) = event.rule();
    let octets = if reader.takes_first { 0 } else { value.len() };
    let rule = Some(Match::new(octets, event.kind() == ALLOW, event.offset));
    let dialect = reader.dialect;
    let matches = match event.form() {
        // An empty value is no rule, but to Google's parser one that decides nothing.
        PLAIN if value.is_empty() && dialect != Dialect::Google => false,
        // Whoever asks has compared the head.
        PLAIN if value.len() <= HEAD_OCTETS => rule > best && path.octets().len() >= value.len(),
        PLAIN => rule > best && path.octets().starts_with(value),
        WILD if !has_stars(dialect) => path.octets().starts_with(value),
        WILD => rule > best && match_wild(event, path, search),
        _ => return match_special(event, reader, path, search, best),
    };
    rule.filter(|_| matches)
}

fn match_wild(event: &Event<'_>, path: &Path<'_>, search: &mut Search) -> bool {
    let body = Body::of(event.rule().0, Dialect::Rfc9309);
    let parts = wild_parts(body.text);
    body.may_fit(path.octets()) && search.holds.search(path, parts, body.anchored)
}

/// A rule that the dialects read differently, if it matches and decides before `best`.
#[cold]
fn match_special(
    event: &Event<'_>,
    reader: Reader,
    path: &Path<'_>,
    search: &mut Search,
    best: Option<Match>,
) -> Option<Match> {
    let (value, _) = event.rule();
    let (allow, dialect) = (event.kind() == ALLOW, reader.dialect);
    let rule = |octets: usize| {
        let octets = if reader.takes_first { 0 } else { octets };
        Some(Match::new(octets, allow, event.offset)).filter(|rule| Some(*rule) > best)
    };
    rule(MAX_WRITTEN * value.len())?;
    let Search {
        holds, patterns, ..
    } = search;
    let mut match_body = |body: Body<'_>| {
        if !pattern::form(dialect).may_begin(path.octets(), body.text, has_stars(dialect)) {
            return None;
        }
        holds.spend(path);
        // Each part is looked for as soon as it is written, since most rules fail early.
        let mut end = None;
        let matches = |part: &[u8], is_last: bool| {
            let text = path.octets();
            end = match end {
                None if is_last && body.anchored => (text == part).then_some(text.len()),
                None => text.starts_with(part).then_some(part.len()),
                Some(from) if is_last && body.anchored => {
                    text[from..].ends_with(part).then_some(text.len())
                }
                Some(from) => holds.find(path, from, part).map(|at| at + part.len()),
            };
            end.is_some()
        };
        let patterns = patterns.get_or_insert_default();
        let pattern = patterns.take_apart(body, dialect, matches)?;
        rule(pattern.octets(body, dialect))
    };
    let rule = match_body(Body::of(value, dialect));
    if rule.is_some() || dialect != Dialect::Google || !allow {
        return rule;
    }
    // The directory is less specific than the file in it.
    match_body(Body::of_directory(value)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::robots_txt::parse::parse;
    use crate::robots_txt::sieve::Sieves;

    /// What decides as found by a search rule by rule, and through a sieve.
    fn searched_and_sifted(
        compiled: Compiled<'_>,
        sieves: &Sieves,
        dialect: Dialect,
        choice: Choice<'_>,
        path: &str,
    ) -> [Found; 2] {
        let reader = Reader::new(dialect);
        let sieve = sieves.by(reader);
        let path = Path::new(path, dialect);
        let mut search = Search::default();
        search.holds.turn_to(&path);
        if !reader.takes_first {
            let searched = compiled.find_in_all(reader, choice, &path, &mut search);
            let sifted = compiled.sift(sieve, reader, choice, &path, &mut Search::default());
            let is_any = compiled.next_agent(reader, choice, &mut 0).is_some();
            let none = if is_any {
                Found::NoRule
            } else {
                Found::NoGroup
            };
            return [searched, sifted.map_or(none, Found::Rule)];
        }
        let searched = compiled.find_in_best(reader, choice, &path, &mut search);
        let agent = compiled.best_agent(reader, choice);
        let sifted = agent
            .map(|agent| compiled.sift_group(sieve, reader, agent, &path, &mut Search::default()));
        let sifted = sifted.map_or(Found::NoGroup, |rule| {
            rule.map_or(Found::NoRule, Found::Rule)
        });
        [searched, sifted]
    }

    /// Of these, paths and rules are made so that many match, and of what is read in several ways.
    const PIECES: &str = "abcdefghijkl|mnop|\u{e9}/|%2Fq|[ab]{40}";
    const ODD: &str = "[ab%*$\u{e9}/?~4 ]|%2[fFaA4]|%61|%C3%A9|/index\\.htm|[ab]{9,70}";

    fn text(pattern: &str) -> impl Strategy<Value = String> + use<> {
        proptest::string::string_regex(pattern).expect("a regular expression")
    }

    fn lines() -> impl Strategy<Value = String> {
        let rule = format!("(Disallow|Allow): ?/?(\\*?({PIECES})){{0,3}}\\$?");
        let odd_rule = format!("(Disallow|Allow): ?/?({ODD}){{0,7}}");
        let line = prop_oneof![
            3 => "[Uu]ser-agent: ?(\\*|foobot|FooBot/2|foo|x|useragent)",
            6 => text(&rule),
            6 => text(&odd_rule),
            1 => "|#|Disalow: /a|Allow /ab|Crawl-delay: 1|useragent: foobot",
        ];
        let lines = prop::collection::vec(line, 0..40);
        (lines, "\n{1,2}").prop_map(|(lines, end)| {
            let lines = lines.iter().map(|line| format!("{line}{end}"));
            lines.collect()
        })
    }

    fn path() -> impl Strategy<Value = String> {
        prop_oneof![
            text(&format!("/({PIECES}){{0,4}}")),
            text(&format!("/({ODD}){{0,9}}")),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn a_sieve_finds_what_a_search_finds(
            body in lines(),
            path in path(),
        ) {
            let token = ProductToken::new("foobot").unwrap();
            let kept = parse(body.as_bytes());
            let compiled = kept.compiled();
            let sieves = Sieves::of(compiled.stream);
            for dialect in Dialect::EACH {
                for choice in [Choice::Named(&token), Choice::Everyone] {
                    let [searched, sifted] = searched_and_sifted(compiled, &sieves, dialect, choice, &path);
                    prop_assert_eq!(searched, sifted, "{} {:?}", dialect, choice);
                }
            }
        }
    }
}
