//! The settings of `[signing]`, and the profile's names.

use std::time::Duration;

use url::Url;

/// The fields of a signature.
pub const SIGNATURE_FIELDS: [&str; 3] = ["Signature-Agent", "Signature-Input", "Signature"];

pub(super) const SIGNATURE_AGENT: &str = "signature-agent";
pub(super) const SIGNATURE_INPUT: &str = "signature-input";
pub(super) const SIGNATURE: &str = "signature";

/// The `tag` of signatures of this profile.
pub(super) const TAG: &str = "web-bot-auth";
/// The `alg` of Ed25519 in RFC 9421 section 6.2.2.
pub(super) const ALGORITHM: &str = "ed25519";

/// The requests that are signed, of crawlers that have a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SigningMode {
    #[default]
    Off,
    Always,
    /// Requests to origins that ask for it by `Accept-Signature`.
    OnRequest,
}

/// The form of the field `Signature-Agent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentFieldForm {
    /// A dictionary with a member for each signature.
    #[default]
    Dictionary,
    /// One string, as in earlier versions of the draft.
    String,
}

/// The settings of `[signing]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SigningSettings {
    pub mode: SigningMode,
    /// The agent's URL, where verifiers find the keys. Always set unless the mode is off.
    pub agent: Option<Url>,
    pub form: AgentFieldForm,
    /// The time until a signature expires.
    pub lifetime: Duration,
}

/// Returns `agent` as text, without the slash of an empty path.
pub(super) fn agent_uri(agent: &Url) -> &str {
    match agent.path() {
        "/" if agent.query().is_none() => agent.as_str().trim_end_matches('/'),
        _ => agent.as_str(),
    }
}
