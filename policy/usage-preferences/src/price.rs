//! Prices as sites state them.

/// The most digits of a price: as many as the largest 256-bit number has.
const MAX_DIGITS: usize = 78;

/// A price as a site states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LicencePrice {
    /// A decimal number.
    pub amount: String,
    /// The currency in capitals, three letters (ISO 4217).
    pub currency: String,
}

impl LicencePrice {
    /// Reads a price. Returns `None` if it is no decimal number in a currency.
    pub(super) fn read(amount: &str, currency: &str) -> Option<Self> {
        let amount = amount.trim();
        let currency = currency.trim();
        let is_digits =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let (whole, fraction) = amount.split_once('.').unwrap_or((amount, "0"));
        let is_decimal = amount.len() <= MAX_DIGITS && is_digits(whole) && is_digits(fraction);
        let is_currency =
            currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_alphabetic());
        (is_decimal && is_currency)
            .then(|| Self { amount: amount.to_owned(), currency: currency.to_ascii_uppercase() })
    }
}
