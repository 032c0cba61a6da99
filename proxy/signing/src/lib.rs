//! Signs requests, so that origins can verify whose crawler sends them: HTTP Message Signatures (RFC 9421) by the profile of Web
//! Bot Auth (draft-ietf-webbotauth-httpsig-protocol).
//!
//! ```text
//!  signer                          which requests are signed, and with which key
//!  request ─┬─ existing            the client's own signatures
//!     │     └─ accept_signature    the signatures that origins request
//!   agent                          the name that is signed under, and its keys
//!  directory ──┐                   the published keys
//!     └─────── signature_base      the text that is signed
//!               key                an Ed25519 key and its public forms
//!                └ secret          secrets in files
//!  signed_json                     signed statements, in canonical form
//!  settings                        `[signing]`, and the profile's names
//! ```
//!
//! Nothing here sends requests, and the only files are those of keys. The caller passes the time. This crate knows nothing of
//! robots.txt or connections. Begin reading at [`MessageSigner`].

mod accept_signature;
mod agent;
pub mod directory;
mod existing;
mod key;
mod request;
mod secret;
mod settings;
mod signature_base;
mod signed_json;
mod signer;

pub use self::accept_signature::SignatureRequest;
pub use self::agent::{AgentKey, KeyDiscovery, SigningAgent};
pub use self::existing::without_foreign_signatures;
pub use self::key::{Jwk, SigningKey};
pub use self::request::{MessageToSign, SignatureFields};
pub use self::secret::{SECRET_BYTES, create_private_dir, new_secret, write_secret};
pub use self::settings::{
    AgentFieldForm, PlainHttp, SIGNATURE_FIELDS, SigningMode, SigningSettings,
};
pub use self::signed_json::signed_statement;
pub use self::signer::{KeySigner, MessageSigner};
