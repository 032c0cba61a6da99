//! What is read becomes events: to which group and record each statement belongs, for each reader.

use fearless_simd::Simd;

use super::Parser;
use super::line::{Field, Statement, is_directive};
use crate::name_tag;
use crate::robots_txt::groups::agent::Agent;
use crate::robots_txt::statements::event::{EXACT, GOOGLE, PLAIN, RECORD};
use crate::robots_txt::statements::writer::RuleToWrite;
use crate::robots_txt::topic::Topic;

/// Groups with more rules, or more with `*`, get an index when first asked.
const FEW_RULES: u32 = 32;
const FEW_WILD_RULES: u32 = 4;

impl<S: Simd> Parser<'_, S> {
    pub(super) fn push_statements(
        &mut self,
        exact: Option<Statement<'_>>,
        google: Option<Statement<'_>>,
    ) {
        let alike = exact
            .zip(google)
            .filter(|(exact, google)| exact.field == google.field && exact.value == google.value);
        if let Some((statement, _)) = alike {
            return self.push(&statement, EXACT | GOOGLE);
        }
        if let Some(statement) = exact {
            self.push(&statement, EXACT);
        }
        if let Some(statement) = google.filter(|it| it.field != Field::Other) {
            self.push(&statement, GOOGLE);
        }
    }

    fn push(&mut self, statement: &Statement<'_>, seen_by: u8) {
        match statement.field {
            Field::UserAgent => self.push_agent(seen_by, statement.value),
            Field::Allow | Field::Disallow => {
                self.push_rule(statement.field, seen_by, statement.value);
            }
            Field::Other if is_directive(statement.name) => {
                self.push_other(seen_by, statement.name, statement.value);
            }
            Field::Other => {}
        }
    }

    pub(super) fn push_other(&mut self, seen_by: u8, name: &[u8], value: &[u8]) {
        if let Some(topic) = Topic::named(name) {
            self.topics.insert(topic);
        }
        let open = if self.record_open { RECORD } else { 0 };
        self.writer
            .push_other(seen_by | open, self.line, name, value);
    }

    #[inline(always)]
    pub(super) fn push_agent(&mut self, seen_by: u8, value: &[u8]) {
        let (run, goes_on) = match self.run {
            Some(run) if !self.run_has_rules && !self.blank => (run, true),
            _ => (self.begin_run(), false),
        };
        if seen_by & EXACT != 0 {
            if self.exact_rules {
                self.writer.flag(run, EXACT);
                self.end_group();
            }
            if self.record_rules || !self.record_open {
                self.writer.flag(run, RECORD);
            }
            self.exact_rules = false;
            self.record_rules = false;
            self.record_open = true;
        }
        if seen_by & GOOGLE != 0 && self.google_rules {
            self.writer.flag(run, GOOGLE);
            self.google_rules = false;
        }
        let offset = self.writer.push_agent(seen_by, self.line, value);
        let tag = name_tag::tag(self.simd, value);
        self.agents.push((Agent::new(offset, goes_on), tag));
    }

    #[inline(always)]
    pub(super) fn push_rule(&mut self, field: Field, seen_by: u8, value: &[u8]) {
        // Rules before any user-agent line are for nobody (RFC 9309 §2.2, grammar).
        if self.agents.is_empty() {
            return;
        }
        if self.blank {
            self.begin_run();
        }
        let rule = RuleToWrite::new(self.simd, field, seen_by, value);
        self.group_rules += 1;
        self.group_wild_rules += u32::from(rule.form != PLAIN);
        self.writer.push_rule(&rule, self.line);
        self.note_rules(seen_by);
    }

    /// Notes that the group being written has rules.
    pub(super) fn note_rules(&mut self, seen_by: u8) {
        self.run_has_rules = true;
        let exact = seen_by & EXACT != 0;
        self.exact_rules |= exact;
        self.google_rules |= seen_by & GOOGLE != 0;
        self.record_rules |= exact & self.record_open;
    }

    fn begin_run(&mut self) -> usize {
        let flags = if self.blank { RECORD } else { 0 };
        let run = self.writer.push_run(flags);
        self.run = Some(run);
        self.run_has_rules = false;
        self.blank = false;
        run
    }

    /// A blank line: the texts before RFC 9309 end a record here.
    #[inline(always)]
    pub(super) fn end_record(&mut self) {
        self.blank = true;
        self.record_open = false;
        self.record_rules = false;
    }

    /// Notes for the user-agent lines of the group just read whether it is large.
    pub(super) fn end_group(&mut self) {
        let many = self.group_rules > FEW_RULES || self.group_wild_rules > FEW_WILD_RULES;
        if many {
            for (agent, _) in &mut self.agents[self.group_agents..] {
                agent.mark_large();
            }
        }
        self.group_agents = self.agents.len();
        self.group_rules = 0;
        self.group_wild_rules = 0;
    }
}
