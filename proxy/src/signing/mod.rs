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

mod asked;
mod base;
mod carried;
pub(crate) mod directory;
mod key;
mod options;
mod request;
mod secret;
mod signer;

pub(crate) use self::asked::Asked;
pub(crate) use self::carried::without_foreign;
pub(crate) use self::key::{Jwk, Key};
pub(crate) use self::options::{FIELDS, Form, Mode, Options};
pub(crate) use self::request::{Message, Signed};
pub(crate) use self::secret::{SECRET_BYTES, new_secret, write_secret};
pub(crate) use self::signer::{SignedBy, Signer};
