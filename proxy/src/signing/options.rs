//! How the configuration wants requests signed, and the names that the profile gives.

use std::time::Duration;

use url::Url;

/// The fields that a signature takes.
pub(crate) const FIELDS: [&str; 3] = ["Signature-Agent", "Signature-Input", "Signature"];

pub(super) const SIGNATURE_AGENT: &str = "signature-agent";
pub(super) const SIGNATURE_INPUT: &str = "signature-input";
pub(super) const SIGNATURE: &str = "signature";

/// The `tag` of signatures of this profile.
pub(super) const TAG: &str = "web-bot-auth";
/// The `alg` of Ed25519 in RFC 9421 section 6.2.2.
pub(super) const ALGORITHM: &str = "ed25519";

/// Which requests of crawlers with a key are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Off,
    Always,
    /// Those to origins that asked for it, by `Accept-Signature`.
    OnRequest,
}

/// How `Signature-Agent` is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// A dictionary with a member for each signature.
    #[default]
    Dictionary,
    /// One string, as in earlier versions of the draft.
    String,
}

/// `[signing]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    /// Who signs: where verifiers find the keys. There is one unless the mode is off.
    pub(crate) agent: Option<Url>,
    pub(crate) form: Form,
    /// How long a signature holds.
    pub(crate) lifetime: Duration,
}

/// `agent` as it is written: without the slash that is its whole path.
pub(super) fn agent_uri(agent: &Url) -> &str {
    match agent.path() {
        "/" if agent.query().is_none() => agent.as_str().trim_end_matches('/'),
        _ => agent.as_str(),
    }
}
