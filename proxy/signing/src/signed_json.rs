//! Signed JSON: a canonical object (RFC 8785) with its JSON Web Signature (RFC 7515).

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::key::SigningKey;

/// Signs a value, and returns the file that holds it: `protected`, `signature` and `statement`, in canonical form (RFC 8785)
/// on one line. The signature is a JWS with detached content (RFC 7515 appendix F) over the canonical form of the value.
///
/// Numbers must be integers below 2^53, which everybody writes alike.
#[must_use]
pub fn signed_statement(key: &SigningKey, statement: &Value) -> String {
    let header = canonical_json(&json!({ "alg": "EdDSA", "kid": key.thumbprint() }));
    let protected = BASE64_URL_SAFE_NO_PAD.encode(header);
    let payload = BASE64_URL_SAFE_NO_PAD.encode(canonical_json(statement));
    let signature = key.sign(format!("{protected}.{payload}").as_bytes());
    let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
    let file = json!({ "protected": protected, "signature": signature, "statement": statement });
    canonical_json(&file) + "\n"
}

/// Returns the canonical form of a value: no white space, and members in the order of their names.
fn canonical_json(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(canonical_json).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            // By UTF-16 code units (section 3.2.3).
            sorted.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            let members = sorted.into_iter().map(|(name, member)| {
                format!("{}:{}", Value::from(name.as_str()), canonical_json(member))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of the examples of RFC 8785, sections 3.2.2 and 3.2.3.
    #[test]
    fn canonical_form_is_that_of_the_rfc() {
        let text = r#"{"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            canonical_json(&value),
            "{\"literals\":[null,true,false],\"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
        let text = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
        let value: Value = serde_json::from_str(text).unwrap();
        let sorted = canonical_json(&value);
        let order: String = sorted.chars().filter(|c| ('2'..='7').contains(c)).collect();
        assert_eq!(order, "246753", "{sorted}");
    }
}
