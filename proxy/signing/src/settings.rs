//! The settings of `[signing]`, and the profile's names.

use std::time::Duration;

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

/// The treatment of requests over `http:`, whose signatures anyone on the way can use until they expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    #[default]
    Sign,
    LeaveUnsigned,
}

/// The settings of `[signing]` that all agents have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SigningSettings {
    pub mode: SigningMode,
    pub form: AgentFieldForm,
    /// The time until a signature expires.
    pub lifetime: Duration,
    /// The treatment of requests without TLS.
    pub plain_http: PlainHttp,
}
