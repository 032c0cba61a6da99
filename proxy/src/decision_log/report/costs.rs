//! What demands for payment would have cost, for each row of a summary.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use rust_decimal::Decimal;
use serde::Serialize;
use utoipa::ToSchema;

use super::payments::{PaymentRow, as_text};
use super::summary::{NO_NAME, ReportDimension, SummaryRow};

/// The sum of what was asked for in one currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct PaymentCost {
    /// `None` if it has too many digits.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = Option<String>)]
    pub(crate) amount: Option<Decimal>,
    /// The currency, or the asset in whose smallest unit the amount is.
    pub(crate) currency: String,
}

impl fmt::Display for PaymentCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.amount {
            Some(amount) => write!(f, "{amount} ")?,
            None => f.write_str("? ")?,
        }
        // Assets have longer names than currencies.
        if self.currency.len() > "USDC".len() {
            f.write_str("of the smallest unit of ")?;
        }
        f.write_str(&self.currency)
    }
}

/// Adds to the rows of a summary by crawler or by host what their demands for payment would have cost.
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
