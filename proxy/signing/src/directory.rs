//! The key directory: a JWK Set at a well-known URI of the agent, or at the agent's own URL, signed with each of its keys to prove
//! that their owner published it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::digest;
use serde::Serialize;
use sfv::Parameters;

pub use super::agent::DIRECTORY_PATH;
use super::agent::SigningAgent;
use super::key::{Jwk, SigningKey};
use super::signature_base::{
    self, SignedComponent, add_parameter, identifier, identifier_with, sf_string, sf_timestamp,
};

pub const MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";
const TAG: &str = "http-message-signatures-directory";
/// The lifetime of a directory's signatures. Verifiers cache it for about a day.
const SIGNATURE_LIFETIME: Duration = Duration::from_hours(48);

#[derive(Debug, Serialize)]
struct KeySet {
    keys: Vec<Jwk>,
}

/// Returns the directory's body.
pub fn body(keys: &[Arc<SigningKey>]) -> String {
    let set = KeySet { keys: keys.iter().map(|key| key.jwk()).collect() };
    serde_json::to_string(&set).expect("strings are JSON")
}

/// Returns the media type of an agent's directory. Only the one at the well-known path has a type of its own; elsewhere it is a JWK
/// Set like any other (RFC 7517 section 8.5.1).
pub fn media_type(agent: &SigningAgent) -> &'static str {
    match agent.key_set_path() {
        DIRECTORY_PATH => MEDIA_TYPE,
        _ => "application/jwk-set+json",
    }
}

/// Returns the fields that sign `agent`'s directory with each of its keys, as names and values.
pub fn signature_fields(
    agent: &SigningAgent,
    body: &str,
    now: SystemTime,
) -> [(&'static str, String); 3] {
    // `url` leaves out the scheme's default port, as `@authority` has to.
    let authority = agent.authority();
    let sha256 = digest::digest(&digest::SHA256, body.as_bytes());
    let content_digest = format!("sha-256=:{}:", BASE64_STANDARD.encode(sha256));
    let (mut inputs, mut signatures) = (Vec::new(), Vec::new());
    for (index, key) in agent.keys.iter().enumerate() {
        // The draft's examples call a single signature `binding`.
        let label = match index {
            0 => "binding".to_owned(),
            _ => format!("binding{}", index + 1),
        };
        let signature = sign(key, authority, &content_digest, now, now + SIGNATURE_LIFETIME);
        inputs.push(format!("{label}={}", signature.input));
        signatures.push(format!("{label}={}", signature.value));
    }
    [
        ("content-digest", content_digest),
        ("signature-input", inputs.join(", ")),
        ("signature", signatures.join(", ")),
    ]
}

fn sign(
    key: &SigningKey,
    authority: &str,
    digest: &str,
    created_at: SystemTime,
    expires_at: SystemTime,
) -> signature_base::EncodedSignature {
    let components = vec![
        // `req`: the response is signed, and the authority is in its request (RFC 9421 section 2.4).
        SignedComponent {
            identifier: identifier_with("@authority", "req", true),
            value: authority.to_owned(),
        },
        SignedComponent { identifier: identifier("content-digest"), value: digest.to_owned() },
    ];
    let mut parameters = Parameters::new();
    add_parameter(&mut parameters, "created", sf_timestamp(created_at));
    add_parameter(&mut parameters, "expires", sf_timestamp(expires_at));
    add_parameter(&mut parameters, "keyid", sf_string(key.thumbprint()));
    add_parameter(&mut parameters, "tag", sf_string(TAG));
    signature_base::sign(key, components, parameters)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::agent::KeyDiscovery;
    use crate::key::test_key;

    fn agent(text: &str, keys: Vec<Arc<SigningKey>>) -> SigningAgent {
        let url = SigningAgent::parse_url(text, KeyDiscovery::Origin).unwrap();
        SigningAgent::new(url, KeyDiscovery::Origin, keys)
    }

    /// The draft's test vector, byte for byte, which revisions 00 and 01 have in common.
    #[test]
    fn directory_of_the_draft_is_signed_byte_for_byte() {
        let keys = [Arc::new(test_key())];
        let body = body(&keys);
        assert_eq!(
            body,
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs","use":"sig"}]}"#
        );
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let agent = agent("https://signature-agent.test", keys.to_vec());
        let [(_, digest), (_, input), (_, signature)] = signature_fields(&agent, &body, at(0));
        assert_eq!(digest, "sha-256=:CADMT2aBdV/rqQr/NIru64ERQkCobVvllA4V0fLFDu0=:");
        assert!(input.starts_with(r#"binding=("@authority";req "content-digest");created=0;"#));
        assert!(signature.starts_with("binding=:"));
        let (created, expires) = (at(1_735_689_600), at(4_889_289_600));
        let signed = sign(&keys[0], "signature-agent.test", &digest, created, expires);
        assert_eq!(
            signed.input,
            r#"("@authority";req "content-digest");created=1735689600;expires=4889289600;keyid="poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";tag="http-message-signatures-directory""#
        );
        assert_eq!(
            signed.value,
            ":l6P8R67tm3kujAxbHWio7ll01qrEZ0dKD/WWlGhNYEmTnFZM8Wt0VQ9zqGfvo7T/UMkBxsigzChM1Gpz7gOVBg==:"
        );
    }

    #[test]
    fn every_key_signs() {
        let keys = [Arc::new(test_key()), Arc::new(test_key())];
        let agent = agent("https://bot.example:8443/", keys.to_vec());
        let [_, (_, input), (_, signature)] = signature_fields(&agent, "{}", UNIX_EPOCH);
        assert!(input.contains(", binding2=("), "{input}");
        assert!(signature.contains(", binding2=:"), "{signature}");
    }
}
