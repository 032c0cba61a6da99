//! The sender of a fetch's requests.

use tokio::time::Instant;
use wayleave_lifecycle::FetchIdentity;
use wayleave_signing::KeySigner;

/// The sender of the requests of one fetch.
#[derive(Clone, Copy)]
pub(super) struct DocumentSender<'a> {
    pub(super) identity: &'a FetchIdentity,
    /// The key of the identity.
    pub(super) signer: Option<&'a KeySigner>,
    /// The proxies that the causing request passed through.
    pub(super) via: Option<&'a [u8]>,
    /// The time by which the fetch has to be complete.
    pub(super) deadline: Instant,
}
