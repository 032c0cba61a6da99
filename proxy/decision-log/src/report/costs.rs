//! The sums of demands for payment, for each row of a summary.

use std::collections::{BTreeMap, HashMap};

use rust_decimal::Decimal;

use super::dimension::{NO_NAME, ReportDimension};
use super::payments::{PaymentCost, PaymentRow};
use super::summary::SummaryRow;

/// Adds the cost of demands for payment to the rows of a summary by crawler or by host.
pub(super) fn add_costs(rows: &mut [SummaryRow], by: ReportDimension, payments: &[PaymentRow]) {
    let mut costs = HashMap::<&str, BTreeMap<&str, Option<Decimal>>>::new();
    for payment in payments {
        let name = match by {
            ReportDimension::Crawler => payment.crawler.as_str(),
            ReportDimension::Host => payment.host.as_deref().unwrap_or(NO_NAME),
            _ => return,
        };
        let Some(currency) = &payment.currency else { continue };
        let of_name = costs.entry(name).or_default();
        let sum = of_name.entry(currency).or_insert(Some(Decimal::ZERO));
        // A sum that leaves one price out would be wrong.
        *sum = sum.zip(payment.would_have_cost).and_then(|(sum, cost)| sum.checked_add(cost));
    }
    for row in rows {
        let of_row = costs.remove(row.name.as_str()).unwrap_or_default();
        let of_row = of_row
            .into_iter()
            .map(|(currency, amount)| PaymentCost { amount, currency: currency.to_owned() });
        row.would_have_cost = of_row.collect();
    }
}
