//! The signature base (RFC 9421 section 2.5), the text that is signed.
//!
//! The one crate for this profile, `web-bot-auth`, reads the system's clock and fixes label, order and nonce, so it could neither
//! use a test's clock nor sign the draft's examples. The hard parts, structured fields and Ed25519, come from `sfv` and `ring`.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sfv::{BareItem, FieldType as _, InnerList, Item, KeyRef, ListEntry, Parameters};

use super::key::SigningKey;

/// A component of a message: its identifier, and the value that is signed.
#[derive(Clone, Debug)]
pub(super) struct SignedComponent {
    pub(super) identifier: Item,
    pub(super) value: String,
}

/// A signature, as written after `label=` in its two fields.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EncodedSignature {
    /// The member of `Signature-Input`.
    pub(super) input: String,
    /// The member of `Signature`.
    pub(super) value: String,
}

/// Returns an identifier without parameters, such as `"@authority"`.
pub(super) fn identifier(name: &'static str) -> Item {
    Item::new(sf_string(name))
}

/// Returns an identifier with one parameter, such as `"@authority";req`.
pub(super) fn identifier_with(
    name: &'static str,
    parameter: &str,
    value: impl Into<BareItem>,
) -> Item {
    let mut item = identifier(name);
    add_parameter(&mut item.params, parameter, value.into());
    item
}

/// Adds a parameter after the others.
pub(super) fn add_parameter(parameters: &mut Parameters, name: &str, value: BareItem) {
    let name = KeyRef::from_str(name).expect("parameters are named here, in lower case");
    parameters.insert(name.to_owned(), value);
}

/// Returns text as a String (RFC 9651 section 3.3.3). Characters that are not visible ASCII are dropped.
pub(super) fn sf_string(text: &str) -> BareItem {
    let ascii: String = text.chars().filter(|c| matches!(c, ' '..='~')).collect();
    BareItem::String(sfv::String::from_string(ascii).expect("it is visible ASCII"))
}

/// Returns a time as an Integer, in seconds since 1970.
pub(super) fn sf_timestamp(at: SystemTime) -> BareItem {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    // The limit of an Integer (RFC 9651 section 3.3.1).
    let seconds =
        i64::try_from(since.as_secs().min(999_999_999_999_999)).expect("fifteen digits fit");
    BareItem::try_from(seconds).expect("an integer has at most fifteen digits")
}

/// Signs these components, in this order.
pub(super) fn sign(
    key: &SigningKey,
    components: Vec<SignedComponent>,
    parameters: Parameters,
) -> EncodedSignature {
    let (input, base) = signature_base(components, parameters);
    let value = format!(":{}:", BASE64_STANDARD.encode(key.sign(base.as_bytes())));
    EncodedSignature { input, value }
}

/// Returns the value of `@signature-params`, and the whole base.
fn signature_base(components: Vec<SignedComponent>, parameters: Parameters) -> (String, String) {
    let mut base = String::new();
    // One line for each component, then the parameters without a line feed at the end.
    for SignedComponent { identifier, value } in &components {
        let _ = writeln!(base, "{}: {value}", identifier.serialize());
    }
    let covered = components.into_iter().map(|component| component.identifier);
    let list = InnerList::with_params(covered.collect(), parameters);
    let input =
        vec![ListEntry::InnerList(list)].serialize().expect("a list with a member is not empty");
    let _ = write!(base, "\"@signature-params\": {input}");
    (input, base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::test_key;

    const KEY_ID: &str = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";

    fn parameters(expires: i64, nonce: &str) -> Parameters {
        let mut parameters = Parameters::new();
        add_parameter(&mut parameters, "created", BareItem::try_from(1_735_689_600_i64).unwrap());
        add_parameter(&mut parameters, "keyid", sf_string(test_key().thumbprint()));
        add_parameter(&mut parameters, "alg", sf_string("ed25519"));
        add_parameter(&mut parameters, "expires", BareItem::try_from(expires).unwrap());
        add_parameter(&mut parameters, "nonce", sf_string(nonce));
        add_parameter(&mut parameters, "tag", sf_string("web-bot-auth"));
        parameters
    }

    fn components(agent: Item) -> Vec<SignedComponent> {
        let component =
            |identifier, value: &str| SignedComponent { identifier, value: value.to_owned() };
        vec![
            component(identifier("@authority"), "example.com"),
            component(agent, "\"https://signature-agent.test\""),
        ]
    }

    /// The draft's test vectors for Ed25519, byte for byte, which revisions 00 and 01 have in common: `Signature-Agent` as a
    /// dictionary, and as one string.
    #[test]
    fn requests_of_the_draft_are_signed_byte_for_byte() {
        let vectors = [
            (
                identifier_with("signature-agent", "key", sf_string("agent2")),
                parameters(
                    4_889_289_600,
                    "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==",
                ),
                r#"("@authority" "signature-agent";key="agent2")"#,
                ":RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:",
            ),
            (
                identifier("signature-agent"),
                parameters(
                    1_735_693_200,
                    "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==",
                ),
                r#"("@authority" "signature-agent")"#,
                ":jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==:",
            ),
        ];
        for (agent, parameters, covered, signature) in vectors {
            let (expires, nonce) = (parameters["expires"].clone(), parameters["nonce"].clone());
            let (expires, nonce) =
                (expires.as_integer().unwrap(), nonce.as_string().unwrap().as_str().to_owned());
            let input = format!(
                "{covered};created=1735689600;keyid=\"{KEY_ID}\";alg=\"ed25519\";expires={expires};nonce=\"{nonce}\";tag=\"web-bot-auth\""
            );
            let lines = format!(
                "\"@authority\": example.com\n{}: \"https://signature-agent.test\"\n\"@signature-params\": {input}",
                agent.serialize()
            );
            assert_eq!(signature_base(components(agent.clone()), parameters.clone()).1, lines);
            let signed = sign(&test_key(), components(agent), parameters);
            assert_eq!(signed.input, input);
            assert_eq!(signed.value, signature);
        }
    }

    #[test]
    fn a_string_keeps_what_structured_fields_can_hold() {
        let item = Item::new(sf_string("a\"b\\c\u{e9}\n"));
        assert_eq!(item.serialize(), r#""a\"b\\c""#);
    }
}
