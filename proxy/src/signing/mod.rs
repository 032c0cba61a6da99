//! Signs requests, so that origins can verify whose crawler sends them: HTTP Message Signatures (RFC 9421) by the profile of Web
//! Bot Auth (draft-ietf-webbotauth-httpsig-protocol).
//!
//! ```text
//!  signer                  which requests are signed, and for whom
//!  request ─┬─ carried     what the client signed itself
//!     │     └─ asked       what an origin asks for: Accept-Signature
//!  directory ──┐           the keys as they are published
//!     └────── base         what is signed, as text
//!              key         an Ed25519 key and its names
//!               └ secret   what is kept in a file of its own
//!  options                 `[signing]`, and the names of the profile
//! ```
//!
//! Nothing here sends requests, and the only files are those of keys. The caller passes the time.

mod accept_signature;
pub(crate) mod directory;
mod existing;
mod key;
mod request;
mod secret;
mod settings;
mod signature_base;
mod signer;

pub(crate) use self::accept_signature::SignatureRequest;
pub(crate) use self::existing::without_foreign_signatures;
pub(crate) use self::key::{Jwk, SigningKey};
pub(crate) use self::request::{MessageToSign, SignatureFields};
pub(crate) use self::secret::{SECRET_BYTES, new_secret, write_secret};
pub(crate) use self::settings::{AgentFieldForm, SIGNATURE_FIELDS, SigningMode, SigningSettings};
pub(crate) use self::signer::{KeySigner, MessageSigner};
