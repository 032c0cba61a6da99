//! The demands for payment of a log, one row for each crawler, host, scheme and currency.

use std::borrow::Cow;
use std::fmt;

use rust_decimal::Decimal;
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_record::{PaymentScheme, Word};

use super::entry::ReportEntry;
use crate::bounded_map::BoundedMap;

/// The most rows.
const MAX_ROWS: usize = 10_000;

/// Requests of one crawler to one host that were answered with a demand for payment.
#[derive(Debug, Serialize)]
pub struct PaymentRow {
    pub crawler: String,
    pub host: Option<String>,
    /// `cloudflare`, `x402` or `rsl`; `None` if the response follows no known scheme.
    pub scheme: Option<Word<PaymentScheme>>,
    /// The currency, or the asset in whose smallest unit the price is; `None` if no price was stated.
    pub currency: Option<String>,
    pub count: u64,
    /// The sum of the prices; `None` if none was stated, or it has too many digits.
    #[serde(serialize_with = "as_text")]
    pub would_have_cost: Option<Decimal>,
    /// The first of the requests.
    pub example: String,
}

/// The sum of what was asked for in one currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PaymentCost {
    /// `None` if it has too many digits.
    #[serde(serialize_with = "as_text")]
    #[schema(value_type = Option<String>)]
    pub amount: Option<Decimal>,
    /// The currency, or the asset in whose smallest unit the amount is.
    pub currency: String,
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

fn as_text<S: serde::Serializer>(cost: &Option<Decimal>, serializer: S) -> Result<S::Ok, S::Error> {
    // A number of JSON is a binary fraction to most readers.
    cost.map(|cost| cost.to_string()).serialize(serializer)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PaymentKey {
    crawler: String,
    host: Option<String>,
    scheme: Option<Word<PaymentScheme>>,
    currency: Option<String>,
}

#[derive(Debug)]
struct Demands {
    count: u64,
    sum: Option<Decimal>,
    example: String,
}

/// The rows in the making.
#[derive(Debug)]
pub(super) struct PaymentCounts(BoundedMap<PaymentKey, Demands>);

impl PaymentCounts {
    pub(super) fn new() -> Self {
        Self(BoundedMap::new(MAX_ROWS, |demands| (demands.count, 0)))
    }

    /// Counts a request that was answered with a demand.
    pub(super) fn count(&mut self, entry: &ReportEntry<'_>) {
        let owned = |text: &Option<Cow<'_, str>>| text.clone().map(Cow::into_owned);
        let key = PaymentKey {
            crawler: entry.crawler.clone().into_owned(),
            host: entry.host().map(str::to_owned),
            scheme: entry.scheme.clone(),
            currency: owned(&entry.currency),
        };
        let demands = self.0.entry(key, || Demands {
            count: 0,
            sum: entry.currency.is_some().then_some(Decimal::ZERO),
            example: entry.url.clone().into_owned(),
        });
        demands.count += 1;
        // A sum that leaves one price out would be wrong.
        demands.sum = demands.sum.and_then(|sum| {
            let price = Decimal::from_str_exact(entry.price.as_deref()?).ok()?;
            sum.checked_add(price)
        });
    }

    /// Returns the number of rows that were left out, and the rows, by frequency.
    pub(super) fn into_rows(self) -> (u64, Vec<PaymentRow>) {
        let left_out = self.0.forgotten();
        let rows = self.0.into_entries().map(|(key, demands)| PaymentRow {
            crawler: key.crawler,
            host: key.host,
            scheme: key.scheme,
            currency: key.currency,
            count: demands.count,
            would_have_cost: demands.sum,
            example: demands.example,
        });
        let mut rows: Vec<_> = rows.collect();
        // By name after the count, so that two reports of the same log are equal.
        rows.sort_unstable_by(|one, other| {
            (other.count.cmp(&one.count))
                .then_with(|| one.crawler.cmp(&other.crawler))
                .then_with(|| one.host.cmp(&other.host))
                .then_with(|| one.scheme.cmp(&other.scheme))
                .then_with(|| one.currency.cmp(&other.currency))
        });
        (left_out, rows)
    }
}
