//! The identities under which files are fetched again when no request waits for them.

use std::collections::HashMap;

use wayleave_lifecycle::Resource;

use super::fetch::FetchIdentity;

/// For each file in memory, the crawler with a key or an address of its own that last caused it to be fetched. The file
/// is fetched again with that signature and from that address: an origin that admits only this crawler would answer
/// anyone else that there is no robots.txt.
#[derive(Default)]
pub(super) struct RefetchIdentities(HashMap<Resource, FetchIdentity>);

impl RefetchIdentities {
    /// Records the identity that caused a fetch.
    pub(super) fn note(&mut self, resource: &Resource, identity: &FetchIdentity) {
        // Fetches are repeated as for the last crawler that caused one, and this one has no identity of its own.
        if identity.signed_by.is_none() && identity.source.is_none() {
            self.0.remove(resource);
            return;
        }
        let identity = FetchIdentity {
            signed_by: identity.signed_by.clone(),
            source: identity.source,
            ..Self::anonymous()
        };
        self.0.insert(resource.clone(), identity);
    }

    pub(super) fn identity_for(&self, resource: &Resource) -> FetchIdentity {
        self.0.get(resource).cloned().unwrap_or_else(Self::anonymous)
    }

    /// Forgets the identity for a file that is no longer in memory.
    pub(super) fn forget(&mut self, resource: &Resource) {
        self.0.remove(resource);
    }

    /// Forgets all identities: keys and addresses may have changed.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn anonymous() -> FetchIdentity {
        FetchIdentity { is_refetch: true, ..FetchIdentity::default() }
    }
}
