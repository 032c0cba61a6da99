//! Demands for payment: the price that an origin asks for a page, as far as its response says. Nothing is ever paid.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use wayleave_http_wire::field_pairs::{FieldPair, first, values};
use wayleave_http_wire::page::PageBuffer;
use wayleave_record::PaymentScheme;

/// The longest Base64 that is decoded, and the longest start of a body that is read, in bytes.
const MAX_BYTES: usize = 16 * 1024;
/// The most digits of a price: as many as the largest 256-bit number has.
const MAX_DIGITS: usize = 78;
/// The longest name of an asset. Addresses of contracts have up to 44 characters, CAIP-19 names some more.
const MAX_ASSET_BYTES: usize = 128;

/// The contracts of USDC, a dollar in millionths, on the networks that most x402 servers take: Base, Base Sepolia, Polygon,
/// Avalanche and Solana.
const USDC: [&str; 5] = [
    "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
    "0x036cbd53842c5426634e7929541ec2318f3dcf7e",
    "0x3c499c542cef5e3811e1192ce70d8cc03d5c3359",
    "0xb97ef9ef8734c71904d8002f8b6bc66dd9c48a6e",
    "epjfwdd5aufqssqem2qn1xzybapc8g4wegkzwytdt1v",
];
const USDC_DECIMALS: usize = 6;

/// A price as the origin states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedPrice {
    /// A decimal number.
    pub amount: String,
    /// A currency, or the asset in whose smallest unit the amount is.
    pub currency: String,
}

/// A demand for payment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaymentDemand {
    /// The scheme, if the response follows one that is known.
    pub scheme: Option<PaymentScheme>,
    /// The price, if the response states one that can be read.
    pub price: Option<StatedPrice>,
}

impl PaymentDemand {
    /// Returns the demand that the head of a response makes: 402, or a 401 that asks for a licence.
    pub(crate) fn of_head(status: u16, fields: &[FieldPair<'_>]) -> Option<Self> {
        let asks_for_licence = || values(fields, "www-authenticate").any(names_licence);
        if status != 402 && !(status == 401 && asks_for_licence()) {
            return None;
        }
        let (scheme, price) = if let Some(price) = first(fields, "crawler-price") {
            (Some(PaymentScheme::Cloudflare), crawler_price(price))
        } else if let Some(encoded) = first(fields, "payment-required") {
            (Some(PaymentScheme::X402), decoded(encoded).as_ref().and_then(x402_price))
        } else if asks_for_licence() {
            (Some(PaymentScheme::Rsl), None)
        } else {
            (None, None)
        };
        Some(Self { scheme, price })
    }

    /// Returns the buffer for the start of the body, if only that may say more.
    pub(crate) fn body_to_read(&self, status: u16, fields: &[FieldPair<'_>]) -> Option<PageBuffer> {
        let essence = first(fields, "content-type")?.split(|&byte| byte == b';').next()?;
        let is_json = essence.trim_ascii().eq_ignore_ascii_case(b"application/json");
        let is_open = self.scheme.is_none() && status == 402;
        (is_open && is_json).then(|| PageBuffer::new(fields, MAX_BYTES))
    }

    /// Adds the statements of the body.
    pub(crate) fn add_body(&mut self, body: &str) {
        let Ok(required) = serde_json::from_str::<Value>(body) else {
            return;
        };
        if required.get("x402Version").is_some_and(Value::is_number) {
            self.scheme = Some(PaymentScheme::X402);
            self.price = x402_price(&required);
        }
    }
}

/// Returns whether one of the challenges of a line is for a licence (RFC 9110 section 11.6.1).
fn names_licence(challenges: &[u8]) -> bool {
    // A comma also separates the parameters of a challenge, which a scheme's name never looks like.
    challenges.split(|&byte| byte == b',').any(|part| {
        let mut words = part.trim_ascii().split(u8::is_ascii_whitespace);
        words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"license"))
    })
}

/// Parses `USD 0.01`.
fn crawler_price(value: &[u8]) -> Option<StatedPrice> {
    let (currency, amount) = str::from_utf8(value).ok()?.trim().split_once(' ')?;
    let is_currency =
        currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_alphabetic());
    let amount = amount.trim();
    (is_currency && is_decimal(amount))
        .then(|| StatedPrice { amount: amount.to_owned(), currency: currency.to_ascii_uppercase() })
}

fn is_decimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= MAX_DIGITS && is_digits(whole) && is_digits(fraction)
}

fn decoded(encoded: &[u8]) -> Option<Value> {
    let encoded = encoded.trim_ascii();
    if encoded.len() > MAX_BYTES {
        return None;
    }
    serde_json::from_slice(&BASE64_STANDARD.decode(encoded).ok()?).ok()
}

/// Returns the price of the first way to pay that states one: servers list the one they prefer first.
fn x402_price(required: &Value) -> Option<StatedPrice> {
    required.get("accepts")?.as_array()?.iter().find_map(|way| {
        // Version 1 calls it `maxAmountRequired`.
        let amount = way.get("amount").or_else(|| way.get("maxAmountRequired"))?.as_str()?;
        let asset = way.get("asset")?.as_str()?;
        let is_amount = amount.len() <= MAX_DIGITS
            && !amount.is_empty()
            && amount.bytes().all(|byte| byte.is_ascii_digit());
        let is_asset = (1..=MAX_ASSET_BYTES).contains(&asset.len())
            && asset.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_amount || !is_asset {
            return None;
        }
        // Only of these is it known how many of the smallest units make one.
        if USDC.iter().any(|usdc| asset.eq_ignore_ascii_case(usdc)) {
            let amount = in_units(amount, USDC_DECIMALS);
            let currency = "USDC".to_owned();
            return Some(StatedPrice { amount, currency });
        }
        Some(StatedPrice { amount: amount.to_owned(), currency: asset.to_owned() })
    })
}

/// Moves the decimal point of a whole number to the left: `10000` is `0.01` for six places.
fn in_units(amount: &str, places: usize) -> String {
    let padded = format!("{amount:0>width$}", width = places + 1);
    let (whole, fraction) = padded.split_at(padded.len() - places);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    match fraction.trim_end_matches('0') {
        "" => whole.to_owned(),
        fraction => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decimal_point_moves() {
        for (amount, expected) in [
            ("10000", "0.01"),
            ("1", "0.000001"),
            ("0", "0"),
            ("1000000", "1"),
            ("25500000", "25.5"),
            ("000010000", "0.01"),
        ] {
            assert_eq!(in_units(amount, USDC_DECIMALS), expected, "{amount}");
        }
    }
}
