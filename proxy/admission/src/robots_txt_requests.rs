//! Requests for robots.txt itself, answered from the copy that decides: crawlers read the file that their requests are judged by,
//! and the origin is asked once for all of them.

use std::sync::Arc;
use std::time::Duration;

use wayleave_decision::{Permit, Reason, RobotsAnswer};
use wayleave_record::AnswerSource;
use wayleave_robots_cache::CopyHead;

use crate::settings::RobotsTxtSource;

use super::gated_request::GatedRequest;
use super::outcome::{CopyReply, NotSent, permitted_outcome};
use super::validators::is_not_modified;

impl GatedRequest<'_, '_> {
    /// Answers a permitted request from the copy of robots.txt that decides. Returns `None` if it has to be forwarded: a request
    /// for anything else, or by `robots.answer`; in mode "observe" if nothing usable came from the origin; and if the store has
    /// lost the copy.
    pub(crate) async fn answer_from_copy(&mut self, permit: &Permit) -> Option<NotSent> {
        let answer = permit.robots_answer.as_ref()?;
        if self.connection.gateway.is_some() {
            return self.unusable_origin(answer);
        }
        if let Some(reply) = self.pinned_reply(permit) {
            self.record.from = Some(AnswerSource::Pinned);
            let outcome = permitted_outcome(permit, reply.status());
            return Some(NotSent::FromCopy(Box::new((outcome, reply))));
        }
        if self.settings.robots_txt_source == RobotsTxtSource::Origin {
            return None;
        }
        let reply = match answer {
            RobotsAnswer::File => self.file_reply(permit).await?,
            RobotsAnswer::Missing(status) => {
                CopyReply::Missing { status: *status, age: self.copy_age() }
            }
            RobotsAnswer::Unreachable(_) if self.is_observe_mode() => return None,
            RobotsAnswer::Unreachable(refusal) if refusal.reason == Reason::Unreachable => {
                CopyReply::Unreachable(refusal.clone())
            }
            // The origin has no usable address, whatever its robots.txt would be.
            RobotsAnswer::Unreachable(refusal) => {
                self.record.from = Some(AnswerSource::Copy);
                return Some(NotSent::Refused(*refusal.clone()));
            }
        };
        self.record.from = Some(AnswerSource::Copy);
        let outcome = permitted_outcome(permit, reply.status());
        Some(NotSent::FromCopy(Box::new((outcome, reply))))
    }

    /// Returns the refusal of a gateway's request for robots.txt, which it would send itself, if the origin has no usable address.
    fn unusable_origin(&self, answer: &RobotsAnswer) -> Option<NotSent> {
        match answer {
            RobotsAnswer::Unreachable(refusal)
                if refusal.reason != Reason::Unreachable && !self.is_observe_mode() =>
            {
                Some(NotSent::Refused(*refusal.clone()))
            }
            _ => None,
        }
    }

    /// Returns the file that decided, if the configuration states it: the client must meet no other, whatever `robots.answer`.
    fn pinned_reply(&self, permit: &Permit) -> Option<CopyReply> {
        let finding = self.record.facts.finding.as_ref().filter(|finding| finding.is_pinned)?;
        let robots = &self.gate.decider.robots;
        let origin = permit.resolved.target.origin();
        let (head, copy) = robots.pinned_copy(origin, &finding.sha256?)?;
        let age = copy.age(robots.clock().now());
        let content = (self.received.method() != "HEAD").then_some(copy);
        Some(CopyReply::File { head, content, age, is_not_modified: false })
    }

    /// Returns the file that decided, or that the client has it already.
    async fn file_reply(&self, permit: &Permit) -> Option<CopyReply> {
        let finding = self.record.facts.finding.as_ref()?;
        let (sha256, fetched_at) = finding.sha256.zip(finding.fetched_at)?;
        let robots = &self.gate.decider.robots;
        let origin = permit.resolved.target.origin();
        let identity = &self.fetch_identity;
        let now = robots.clock().now();
        let is_head = self.received.method() == "HEAD";
        // Unpacking a file takes longer than sending it, so it is left to clients that get its content.
        if let Some(head) = robots.stored_head(origin, identity, &sha256, fetched_at) {
            let is_not_modified = self.has_already(&head);
            if is_head || is_not_modified {
                let age = head.fetch.age(now);
                return Some(CopyReply::File { head, content: None, age, is_not_modified });
            }
        }
        let copy = robots.stored_copy(origin, identity, &sha256, fetched_at).await?;
        let head = Arc::new(CopyHead::of(&copy));
        let is_not_modified = self.has_already(&head);
        let age = copy.age(now);
        Some(CopyReply::File { head, content: Some(copy), age, is_not_modified })
    }

    /// Returns whether the client has the file already.
    fn has_already(&self, head: &CopyHead) -> bool {
        head.fetch.outcome.fields().is_some_and(|stated| {
            let fields = self.received.fields();
            is_not_modified(&fields, stated.etag.as_deref(), stated.last_modified.as_deref())
        })
    }

    /// Returns the age of the answer by which the origin has no file.
    fn copy_age(&self) -> Duration {
        let fetched_at = self.record.facts.finding.as_ref().and_then(|finding| finding.fetched_at);
        let now = self.gate.decider.robots.clock().now();
        fetched_at.and_then(|at| now.duration_since(at).ok()).unwrap_or_default()
    }
}
