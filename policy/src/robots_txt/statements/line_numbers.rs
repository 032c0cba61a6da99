//! Numbers: which line of the file an event is of.

use super::super::groups::agent::Agent;
use super::super::index::cache::Mark;
use super::super::statements::event::{AGENT, Event, events};
use super::super::statements::stored::Statements;

/// So many events of a large group have one mark.
const MARKED: usize = 32;

/// Events with the numbers of their lines; `before` is the number of the line before the first.
pub(crate) fn numbered<'a>(
    events: impl Iterator<Item = Event<'a>>,
    before: u32,
) -> impl Iterator<Item = (u32, Event<'a>)> {
    events.scan(before, |line, event| {
        *line = match event.kind() {
            AGENT => event.agent().0,
            _ => *line + event.lines(),
        };
        Some((*line, event))
    })
}

impl Statements<'_> {
    /// The number of the line whose event is at an offset. Only user-agent lines know theirs, so it is counted from the
    /// one above; in a large group from the mark above, since every decision with a rule asks.
    pub(crate) fn line(self, offset: usize) -> u32 {
        let agent = self.agents.last_until(offset);
        let agent_offset = agent.map_or(0, Agent::offset);
        let mark = agent.and_then(|agent| {
            let marks = self
                .indexes
                .marks(self.agents, agent, |first| self.marks(first))?;
            let after = marks.partition_point(|mark| mark.offset as usize <= offset);
            marks.get(after.checked_sub(1)?)
        });
        let (start, before) = match mark {
            Some(mark) if mark.offset as usize > agent_offset => (mark.offset as usize, mark.line),
            _ => (agent_offset, 0),
        };
        let mut numbered = numbered(events(self.stream, start), before);
        let found = numbered.find(|(_, event)| event.offset >= offset);
        found.map_or(0, |(line, _)| line)
    }

    /// The marks of the group that begins with a user-agent line.
    fn marks(self, first: Agent) -> Box<[Mark]> {
        let mut marks = Vec::new();
        let mut before = 0;
        let mut has_rules = false;
        let numbered = numbered(events(self.stream, first.offset()), before);
        for (count, (line, event)) in (1..).zip(numbered) {
            has_rules |= event.is_rule();
            if has_rules && event.kind() == AGENT {
                break;
            }
            if count % MARKED == 0 {
                let offset = u32::try_from(event.offset).expect("the limit is below 4 GiB");
                let line = before;
                marks.push(Mark { offset, line });
            }
            before = line;
        }
        marks.into()
    }
}

#[cfg(test)]
mod tests {
    use crate::{AccessResult, Dialect, Path, ProductToken, RobotsTxt, decide};

    #[test]
    fn every_line_of_a_large_group_is_known() {
        let filler = ["", "\n", "# a comment\n", "Sitemap: /s\n", "Allow: /~\n"];
        let mut body = String::from("User-agent: b\nDisallow: /\n\nUser-agent: a\nUser-agent: c\n");
        let mut lines = Vec::new();
        for number in 0..500 {
            // More lines between two rules than one byte counts.
            let gap = if number == 250 { 300 } else { number % 3 };
            body += &filler[number % filler.len()].repeat(gap);
            lines.push(body.matches('\n').count() + 1);
            body += &format!("Disallow: /{number:03}\n");
        }
        body += "User-agent: d\nDisallow: /\n";
        let access = AccessResult::Successful(RobotsTxt::parse(body.as_bytes()));
        for dialect in Dialect::ALL {
            for token in ["a", "c"].map(|name| [ProductToken::new(name).unwrap()]) {
                for (number, line) in lines.iter().enumerate() {
                    let decision = decide(
                        &access,
                        dialect,
                        &token,
                        &Path::parse(&format!("/{number:03}")).unwrap(),
                    );
                    let found = decision.line().map(|line| line as usize);
                    if dialect != Dialect::Koster1996 && dialect != Dialect::Selfhtml {
                        assert_eq!(found, Some(*line), "{number} in {dialect}");
                    } else {
                        assert!(
                            found.is_none_or(|found| found == *line),
                            "{number} in {dialect}"
                        );
                    }
                }
            }
        }
    }
}
