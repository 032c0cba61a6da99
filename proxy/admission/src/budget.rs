//! The crawler's daily budget: requests beyond it are refused until midnight UTC.

use std::pin::pin;
use std::time::{Duration, SystemTime};

use wayleave_decision::{Crawler, Identity, Permit, Reason, Refusal, TargetScope};
use wayleave_fleet::engine::BudgetKind;
use wayleave_pacing::budget::{ByteMeter, DailyBudgets, SpentBudget};

use super::gated_request::GatedRequest;
use super::outcome::NotSent;
use super::waiting_client::{WaitingClient, run_unless_gone};

impl GatedRequest<'_, '_> {
    /// Returns the crawler if a budget limits it. Reading robots.txt is always allowed, and free.
    fn budgeted_crawler(&self, permit: &Permit) -> Option<&Crawler> {
        let is_limited = permit.resolved.scope != TargetScope::RobotsTxt;
        self.crawler().filter(|crawler| is_limited && crawler.budget.has_limit())
    }

    /// Refuses a request whose crawler has spent its budget, as far as this node knows: it would wait for a slot in vain.
    pub(crate) fn check_budget(&self, permit: &mut Permit) -> Result<(), NotSent> {
        let origin = permit.resolved.target.origin();
        let spent = self
            .budgeted_crawler(permit)
            .filter(|crawler| self.charged.as_deref() != Some(crawler.name.as_str()))
            .and_then(|crawler| self.gate.budgets.spent(crawler, origin));
        spent.map_or(Ok(()), |spent| self.refuse_spent(permit, spent))
    }

    /// Counts a request that is about to be sent, once however often it is decided again.
    pub(crate) async fn charge_budget(
        &mut self,
        permit: &mut Permit,
        client: &mut impl WaitingClient,
    ) -> Result<(), NotSent> {
        let Some(crawler) = self.budgeted_crawler(permit) else {
            return Ok(());
        };
        if self.charged.as_deref() == Some(crawler.name.as_str()) {
            return Ok(());
        }
        let budgets = &self.gate.budgets;
        let origin = permit.resolved.target.origin();
        let name = crawler.name.clone();
        // In a box it takes no room in every exchange. The engine of a fleet may take a while to answer.
        let taken = Box::pin(async {
            let mut taking = Box::pin(budgets.take(crawler, origin));
            let taking = run_unless_gone(client, taking.as_mut());
            self.gate.shutdown.unless_cancelled(pin!(taking)).await
        })
        .await;
        let taken = taken.ok_or(NotSent::ShutDown)?.ok_or(NotSent::ClientLeft)?;
        if taken.is_err() && self.is_observe_mode() {
            budgets.count_observed(crawler, origin);
        }
        if let Err(spent) = taken {
            self.refuse_spent(permit, spent)?;
        }
        self.charged = Some(name);
        Ok(())
    }

    fn refuse_spent(&self, permit: &mut Permit, spent: SpentBudget) -> Result<(), NotSent> {
        let refusal = refusal(spent, self.gate.decider.robots.clock().now());
        let mode = self.record.identity.as_ref().map(Identity::mode);
        let observed = refusal.observe_or_refuse(mode.unwrap_or_default());
        // Of several observed refusals the first counts, as within a decision.
        permit.observed.get_or_insert(observed.map_err(NotSent::Refused)?);
        Ok(())
    }

    /// Returns the byte meter, if the crawler has a byte budget.
    pub fn byte_meter(&self) -> Option<ByteMeter<'_>> {
        byte_meter(&self.gate.budgets, self.crawler()?)
    }
}

/// Returns the byte meter of a crawler, if it has a byte budget.
pub fn byte_meter<'a>(budgets: &'a DailyBudgets, crawler: &'a Crawler) -> Option<ByteMeter<'a>> {
    (crawler.budget.bytes > 0).then_some(ByteMeter { budgets, crawler })
}

fn refusal(spent: SpentBudget, now: SystemTime) -> Refusal {
    let SpentBudget { kind, limit, retry_after } = spent;
    // The next second, or a client that counts in whole ones comes back too soon.
    let retry_after = Duration::from_secs(retry_after.as_secs() + 1);
    let key = match kind {
        BudgetKind::Requests => format!("requests_per_day of this crawler, {limit}, is"),
        BudgetKind::Bytes => format!("bytes_per_day of this crawler, {limit} bytes, is"),
        BudgetKind::NewOrigins => {
            format!(
                "this origin is new today, and new_origins_per_day of this crawler, {limit}, is"
            )
        }
    };
    let midnight = humantime::format_rfc3339_seconds(now + retry_after);
    let details = format!("{key} spent until {midnight}");
    Refusal {
        is_policy: true,
        retry_after: Some(retry_after),
        ..Refusal::new(Reason::Budget, details)
    }
}
