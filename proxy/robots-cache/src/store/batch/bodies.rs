//! Bodies, each stored once however many documents have it, with its references counted.

use redb::ReadableTable;
use wayleave_evidence::Sha256Digest as Sha256;

use super::super::failure::StoreFailure;
use super::super::sealed::{pack, unpack};
use super::super::tables::BodyDigest;
use super::WriteBatch;
use super::scope::{ALL, body_cost, scopes};
use crate::record::BodyRecord;

impl WriteBatch<'_> {
    pub(super) fn add_reference(
        &mut self,
        key: &str,
        body: &BodyRecord,
        bytes: Option<&[u8]>,
    ) -> Result<(), StoreFailure> {
        let digest = &body.digest;
        for scope in scopes(key) {
            let before = self.reference_count(digest, scope)?;
            self.references.insert((digest, scope), before + 1)?;
            // A scope pays for a body once, however many of its versions have it.
            if before == 0 {
                let cost = self.body_cost(digest)?;
                self.charge(scope, cost)?;
            }
        }
        match bytes {
            Some(bytes) => self.restore_body(digest, bytes),
            None => Ok(()),
        }
    }

    /// Stores a body that is referred to, if it is missing: it may be new, or have been dropped as damaged.
    pub(super) fn restore_body(
        &mut self,
        digest: &BodyDigest,
        bytes: &[u8],
    ) -> Result<(), StoreFailure> {
        if self.bodies.get(digest)?.is_some() {
            return Ok(());
        }
        // Such as a body of format 1 that was changed on disk.
        if Sha256::of(bytes).0 != *digest {
            self.damaged += 1;
            return Ok(());
        }
        let packed = pack(bytes).map_err(StoreFailure::Pack)?;
        self.bodies.insert(digest, packed.as_slice())?;
        for scope in self.holders(digest)? {
            self.charge(&scope, body_cost(packed.len()))?;
        }
        Ok(())
    }

    pub(super) fn drop_reference(
        &mut self,
        key: &str,
        digest: &BodyDigest,
    ) -> Result<(), StoreFailure> {
        // Before the loop, which may remove the body.
        let cost = self.body_cost(digest)?;
        for scope in scopes(key) {
            match self.reference_count(digest, scope)? {
                before @ 2.. => drop(self.references.insert((digest, scope), before - 1)?),
                _ => {
                    self.references.remove((digest, scope))?;
                    self.refund(scope, cost)?;
                    if scope == ALL {
                        self.bodies.remove(digest)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Drops a damaged body. It is stored again when it is next fetched.
    pub(crate) fn drop_body(&mut self, digest: &BodyDigest) -> Result<(), StoreFailure> {
        let Some(packed) = self.bodies.get(digest)?.map(|row| row.value().to_vec()) else {
            return Ok(());
        };
        if unpack(&packed, digest).is_some() {
            // It has been fetched again meanwhile.
            return Ok(());
        }
        self.bodies.remove(digest)?;
        for scope in self.holders(digest)? {
            self.refund(&scope, body_cost(packed.len()))?;
        }
        Ok(())
    }

    fn reference_count(&self, digest: &BodyDigest, scope: &str) -> Result<u64, StoreFailure> {
        let count = self.references.get((digest, scope))?;
        Ok(count.map_or(0, |count| count.value()))
    }

    /// Returns the scopes in which the body is counted.
    fn holders(&self, digest: &BodyDigest) -> Result<Vec<String>, StoreFailure> {
        let mut holders = Vec::new();
        for row in self.references.range((digest, "")..)? {
            let (key, _) = row?;
            let (found, scope) = key.value();
            if found != digest {
                break;
            }
            holders.push(scope.to_owned());
        }
        Ok(holders)
    }

    fn body_cost(&self, digest: &BodyDigest) -> Result<u64, StoreFailure> {
        let packed = self.bodies.get(digest)?;
        Ok(packed.map_or(0, |packed| body_cost(packed.value().len())))
    }
}
