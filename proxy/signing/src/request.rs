//! Signs one request.

use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use sfv::{FieldType as _, Item, Parameters};
use wayleave_http_wire::field_pairs::FieldPair;

use super::accept_signature::SignatureRequest;
use super::agent::AgentKey;
use super::existing::{AgentField, ExistingSignatures, joined_lines};
use super::key::SigningKey;
use super::settings::{
    ALGORITHM, AgentFieldForm, SIGNATURE, SIGNATURE_AGENT, SIGNATURE_INPUT, SigningSettings, TAG,
};
use super::signature_base::{
    self, SignedComponent, add_parameter, identifier, identifier_with, sf_string, sf_timestamp,
};

/// The label of our signature, before its number, unless the origin asks for another.
const LABEL: &str = "sig";
/// The client's fields that promise a price. Cloudflare charges only if the signature covers them (pay per crawl).
const PRICE_FIELDS: [&str; 2] = ["crawler-exact-price", "crawler-max-price"];
/// The nonce's length that the profile's verifiers demand, if they demand a nonce.
const NONCE_BYTES: usize = 64;

/// The request as it will be sent.
#[derive(Clone, Copy, Debug)]
pub struct MessageToSign<'a> {
    pub method: &'a str,
    pub scheme: &'a str,
    /// The authority, in lower case, without the scheme's default port.
    pub authority: &'a str,
    /// The path with its query, or `*`.
    pub path: &'a str,
    /// The fields, including those of the client's own signatures.
    pub fields: &'a [FieldPair<'a>],
}

/// The values that replace a request's three signature fields. The client's own signatures are included.
pub type SignatureFields = [String; 3];

/// Signs a request with `key` for its agent by `settings`, and as the origin `requested`, if it did.
///
/// Returns `None` if the request cannot be signed as requested.
pub(crate) fn sign(
    AgentKey { agent, key }: &AgentKey,
    settings: &SigningSettings,
    requested: Option<&SignatureRequest>,
    message: &MessageToSign<'_>,
    now: SystemTime,
) -> Option<SignatureFields> {
    let agent = Item::new(sf_string(&agent.signature_agent())).serialize();
    // An origin may ask for another of the agent's keys, which this crawler does not have.
    let keyid = requested.and_then(|requested| requested.keyid.as_ref());
    if keyid.is_some_and(|id| id != key.thumbprint()) {
        return None;
    }
    // Malformed fields are replaced: a verifier could not parse ours next to them.
    let parsed = ExistingSignatures::parse(message.fields);
    let is_well_formed = parsed.is_some();
    let existing = parsed.unwrap_or_default();
    let label = unused_label(&existing, requested);
    // A client's field has one of the two forms, and a member can only be added in the same form.
    let form = match existing.agent {
        AgentField::None => settings.form,
        AgentField::Whole(_) => AgentFieldForm::String,
        AgentField::Members(_) => AgentFieldForm::Dictionary,
    };
    let (identifier, member) = match form {
        AgentFieldForm::String => (identifier(SIGNATURE_AGENT), agent.clone()),
        AgentFieldForm::Dictionary => {
            let identifier = identifier_with(SIGNATURE_AGENT, "key", sf_string(&label));
            (identifier, format!("{label}={agent}"))
        }
    };
    let value = match &existing.agent {
        AgentField::Whole(item) => item.serialize(),
        _ => agent,
    };
    let components = components(message, requested, SignedComponent { identifier, value })?;
    let signature =
        signature_base::sign(key, components, parameters(key, settings, requested, now)?);
    let with_existing = |name: &str, own: String| match joined_lines(message.fields, name) {
        Some(others) if is_well_formed && !others.is_empty() => format!("{others}, {own}"),
        _ => own,
    };
    Some([
        match existing.agent {
            AgentField::Whole(item) => item.serialize(),
            _ => with_existing(SIGNATURE_AGENT, member),
        },
        with_existing(SIGNATURE_INPUT, format!("{label}={}", signature.input)),
        with_existing(SIGNATURE, format!("{label}={}", signature.value)),
    ])
}

/// Returns the requested label, or else ours, unless another signature has it.
fn unused_label(existing: &ExistingSignatures, requested: Option<&SignatureRequest>) -> String {
    let requested_label = requested.map(|requested| requested.label.clone());
    let numbered = (1..).map(|number| format!("{LABEL}{number}"));
    requested_label
        .into_iter()
        .chain(numbered)
        .find(|label| !existing.has_label(label))
        .expect("there are more numbers than signatures")
}

/// Returns the components to cover: the profile's (`@method` and `@path` are recommended), the price that the client promises,
/// and those requested.
fn components(
    message: &MessageToSign<'_>,
    requested: Option<&SignatureRequest>,
    agent: SignedComponent,
) -> Option<Vec<SignedComponent>> {
    let mut components = Vec::with_capacity(4);
    for name in ["@method", "@authority", "@path"] {
        let identifier = identifier(name);
        let value = message.value(&identifier)?;
        components.push(SignedComponent { identifier, value });
    }
    components.push(agent);
    for identifier in PRICE_FIELDS.map(identifier) {
        let value = message.value(&identifier);
        components.extend(value.map(|value| SignedComponent { identifier, value }));
    }
    for identifier in requested.iter().flat_map(|requested| &requested.components) {
        let name = identifier.bare_item.as_string()?;
        let is_covered = |component: &SignedComponent| component.identifier == *identifier;
        // It is covered already: whichever member is requested, only ours exists.
        if name.as_str() == SIGNATURE_AGENT || components.iter().any(is_covered) {
            continue;
        }
        let (identifier, value) = (identifier.clone(), message.value(identifier)?);
        components.push(SignedComponent { identifier, value });
    }
    Some(components)
}

/// Returns the signature's parameters, in the order of the draft's examples.
fn parameters(
    key: &SigningKey,
    settings: &SigningSettings,
    requested: Option<&SignatureRequest>,
    now: SystemTime,
) -> Option<Parameters> {
    let nonce = match requested.and_then(|requested| requested.nonce.clone()) {
        Some(nonce) => nonce,
        None => {
            let mut random = [0; NONCE_BYTES];
            SystemRandom::new().fill(&mut random).ok()?;
            BASE64_STANDARD.encode(random)
        }
    };
    // Verifiers accept any order, but the draft's examples are tested byte for byte.
    let mut parameters = Parameters::new();
    add_parameter(&mut parameters, "created", sf_timestamp(now));
    add_parameter(&mut parameters, "keyid", sf_string(key.thumbprint()));
    add_parameter(&mut parameters, "alg", sf_string(ALGORITHM));
    add_parameter(&mut parameters, "expires", sf_timestamp(now + settings.lifetime));
    add_parameter(&mut parameters, "nonce", sf_string(&nonce));
    add_parameter(&mut parameters, "tag", sf_string(TAG));
    Some(parameters)
}

impl MessageToSign<'_> {
    /// Returns the value of a component (RFC 9421 sections 2.1 and 2.2). `None` if the request does not have it, or if its
    /// identifier has parameters.
    fn value(&self, identifier: &Item) -> Option<String> {
        let name = identifier.bare_item.as_string()?.as_str();
        if !identifier.params.is_empty() {
            return None;
        }
        // For `*`, `@path` is the path of the target URI, which is empty and so `/` (RFC 9421 section 2.2.6).
        let (path, query) = match self.path {
            "*" => ("/", None),
            path => path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query))),
        };
        Some(match name {
            "@method" => self.method.to_owned(),
            "@authority" => self.authority.to_owned(),
            "@scheme" => self.scheme.to_owned(),
            "@path" => path.to_owned(),
            "@query" => format!("?{}", query.unwrap_or_default()),
            "@request-target" => self.path.to_owned(),
            "@target-uri" if self.path == "*" => format!("{}://{}", self.scheme, self.authority),
            "@target-uri" => format!("{}://{}{}", self.scheme, self.authority, self.path),
            "host" => self.authority.to_owned(),
            name if name.starts_with('@') => return None,
            name => {
                // The signature base is ASCII (RFC 9421 section 2.1).
                let value = joined_lines(self.fields, name)?;
                value.is_ascii().then_some(value)?
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    use sfv::{Dictionary, ListEntry, Parser};

    use super::*;
    use crate::agent::{KeyDiscovery, SigningAgent};
    use crate::key::test_key;
    use crate::settings::{PlainHttp, SigningMode};

    fn agent_key(text: &str, discovery: KeyDiscovery) -> AgentKey {
        let url = SigningAgent::parse_url(text, discovery).unwrap();
        let key = Arc::new(test_key());
        let agent = Arc::new(SigningAgent::new(url, discovery, vec![Arc::clone(&key)]));
        AgentKey { agent, key }
    }

    fn settings(form: AgentFieldForm) -> SigningSettings {
        SigningSettings {
            mode: SigningMode::Always,
            form,
            lifetime: Duration::from_secs(60),
            plain_http: PlainHttp::Sign,
        }
    }

    fn signed(
        form: AgentFieldForm,
        requested: Option<&str>,
        fields: &[FieldPair<'_>],
    ) -> Option<SignatureFields> {
        let requested = requested.map(|requested| {
            SignatureRequest::from_fields(&[(b"accept-signature", requested.as_bytes())]).unwrap()
        });
        let message = MessageToSign {
            method: "GET",
            scheme: "https",
            authority: "shop.example",
            path: "/a?b=c",
            fields,
        };
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let key = agent_key("https://bot.example", KeyDiscovery::Origin);
        sign(&key, &settings(form), requested.as_ref(), &message, now)
    }

    fn covered(input: &str, label: &str) -> String {
        let input: Dictionary = Parser::new(input).parse().unwrap();
        let Some(ListEntry::InnerList(list)) = input.get(label) else {
            panic!("no {label} in {input:?}")
        };
        let items = list.items.iter().map(Item::serialize);
        items.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn both_forms_cover_what_the_profile_wants() {
        let [agent, input, signature] = signed(AgentFieldForm::Dictionary, None, &[]).unwrap();
        assert_eq!(agent, r#"sig1="https://bot.example""#);
        let expected = r#""@method" "@authority" "@path" "signature-agent";key="sig1""#;
        assert_eq!(covered(&input, "sig1"), expected);
        let parameters = format!(
            r#";created=1700000000;keyid="{}";alg="ed25519";expires=1700000060;nonce=""#,
            test_key().thumbprint()
        );
        assert!(input.contains(&parameters), "{input}");
        assert!(input.ends_with(r#";tag="web-bot-auth""#), "{input}");
        assert!(signature.starts_with("sig1=:") && signature.ends_with(':'));
        let [agent, input, _] = signed(AgentFieldForm::String, None, &[]).unwrap();
        assert_eq!(agent, r#""https://bot.example""#);
        assert!(covered(&input, "sig1").ends_with(r#""signature-agent""#), "{input}");
    }

    /// Revision 01 of the draft: the member is the URL of the JWK Set, as it is, without parameters.
    #[test]
    fn with_uri_the_member_is_the_key_sets_url() {
        let message = MessageToSign {
            method: "GET",
            scheme: "https",
            authority: "shop.example",
            path: "/",
            fields: &[],
        };
        for (url, expected) in [
            ("https://bot.example/search", r#"sig1="https://bot.example/search""#),
            (
                "https://bot.example",
                r#"sig1="https://bot.example/.well-known/http-message-signatures-directory""#,
            ),
        ] {
            let key = agent_key(url, KeyDiscovery::Uri);
            let settings = settings(AgentFieldForm::Dictionary);
            let [agent, input, _] = sign(&key, &settings, None, &message, UNIX_EPOCH).unwrap();
            assert_eq!(agent, expected);
            let expected = r#""@method" "@authority" "@path" "signature-agent";key="sig1""#;
            assert_eq!(covered(&input, "sig1"), expected);
        }
    }

    #[test]
    fn no_two_signatures_are_the_same() {
        let one = signed(AgentFieldForm::Dictionary, None, &[]).unwrap();
        assert_ne!(one, signed(AgentFieldForm::Dictionary, None, &[]).unwrap());
    }

    #[test]
    fn the_clients_signature_stays_beside_ours() {
        let fields: [FieldPair<'_>; 3] = [
            (b"Signature-Agent", br#"sig1="https://bot.example""#),
            (b"Signature-Input", br#"sig1=("@method")"#),
            (b"Signature", b"sig1=:AAAA:"),
        ];
        let [agent, input, signature] = signed(AgentFieldForm::String, None, &fields).unwrap();
        assert_eq!(agent, r#"sig1="https://bot.example", sig2="https://bot.example""#);
        assert!(input.starts_with(r#"sig1=("@method"), sig2=("#), "{input}");
        assert!(signature.starts_with("sig1=:AAAA:, sig2=:"), "{signature}");
    }

    #[test]
    fn a_price_that_the_client_promises_is_covered() {
        let fields: [FieldPair<'_>; 2] =
            [(b"Crawler-Exact-Price", b"USD 0.01"), (b"Accept", b"*/*")];
        let requested = r#"sig1=("crawler-exact-price" "@authority")"#;
        for requested in [None, Some(requested)] {
            let [_, input, _] = signed(AgentFieldForm::Dictionary, requested, &fields).unwrap();
            let expected = r#""@method" "@authority" "@path" "signature-agent";key="sig1" "crawler-exact-price""#;
            assert_eq!(covered(&input, "sig1"), expected);
        }
        let fields: [FieldPair<'_>; 1] = [(b"crawler-max-price", b"USD 0.05")];
        let [_, input, _] = signed(AgentFieldForm::String, None, &fields).unwrap();
        assert!(covered(&input, "sig1").ends_with(r#""crawler-max-price""#), "{input}");
    }

    #[test]
    fn requested_components_are_covered_or_nothing_is_signed() {
        let fields: [FieldPair<'_>; 1] = [(b"Accept", b" text/html ")];
        let requested = r#"x=("@target-uri" "accept" "@query" "@method" "signature-agent";key="x");nonce="n";created"#;
        let [agent, input, _] =
            signed(AgentFieldForm::Dictionary, Some(requested), &fields).unwrap();
        assert_eq!(agent, r#"x="https://bot.example""#);
        let expected = r#""@method" "@authority" "@path" "signature-agent";key="x" "@target-uri" "accept" "@query""#;
        assert_eq!(covered(&input, "x"), expected);
        assert!(input.contains(r#";nonce="n";"#), "{input}");
        for requested in [
            r#"x=("content-digest")"#,
            r#"x=("@status")"#,
            r#"x=("accept";sf)"#,
            r#"x=();keyid="another""#,
        ] {
            assert_eq!(
                signed(AgentFieldForm::Dictionary, Some(requested), &fields),
                None,
                "{requested}"
            );
        }
    }
}
