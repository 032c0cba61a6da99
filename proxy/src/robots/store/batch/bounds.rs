//! The cost of a scope's rows, and eviction when it is too high.

use redb::ReadableTable;

use super::super::failure::Failure;
use super::super::tables::read;
use super::scope::{ALL, scopes};
use super::{Batch, PAST, WHOLE};
use crate::robots::record::EntryRecord;

/// The maximum number of expired rows deleted per transaction, in addition to its changes.
const SWEPT: usize = 64;

/// A row that can be evicted.
struct Item {
    rank: u8,
    at: u64,
    key: String,
    first_seen_at: u64,
}

impl Batch<'_> {
    fn spent(&self, scope: &str) -> Result<u64, Failure> {
        if let Some(cost) = self.costs.get(scope) {
            return Ok(*cost);
        }
        Ok(self.spent.get(scope)?.map_or(0, |cost| cost.value()))
    }

    pub(super) fn charge(&mut self, scope: &str, cost: u64) -> Result<(), Failure> {
        let spent = self.spent(scope)?.saturating_add(cost);
        self.costs.insert(scope.to_owned(), spent);
        Ok(())
    }

    pub(super) fn refund(&mut self, scope: &str, cost: u64) -> Result<(), Failure> {
        let spent = self.spent(scope)?.saturating_sub(cost);
        self.costs.insert(scope.to_owned(), spent);
        Ok(())
    }

    /// Evicts rows until the scope costs no more than `bytes`.
    pub(crate) fn bound(&mut self, scope: &str, bytes: u64) -> Result<(), Failure> {
        while self.spent(scope)? > bytes {
            match self.first(scope, PAST)? {
                Some(item) => self.evict(&item)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Deletes some of what has expired.
    pub(crate) fn sweep(&mut self) -> Result<(), Failure> {
        let too_old = [
            (PAST, self.keep.versions_since),
            (WHOLE, self.keep.entries_since),
        ];
        for (rank, since) in too_old {
            for _ in 0..SWEPT {
                match self.first(ALL, rank)? {
                    Some(item) if item.rank == rank && item.at < since => self.evict(&item)?,
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// Returns the first row to evict of this rank or the next.
    fn first(&self, scope: &str, rank: u8) -> Result<Option<Item>, Failure> {
        let from = (scope, rank, 0, "", 0);
        let Some(row) = self.order.range(from..)?.next() else {
            return Ok(None);
        };
        let (place, _) = row?;
        let (found, rank, at, key, first_seen_at) = place.value();
        Ok((found == scope).then(|| Item {
            rank,
            at,
            key: key.to_owned(),
            first_seen_at,
        }))
    }

    fn evict(&mut self, item: &Item) -> Result<(), Failure> {
        let key = item.key.as_str();
        for scope in scopes(key) {
            let place = (scope, item.rank, item.at, key, item.first_seen_at);
            self.order.remove(place)?;
        }
        if item.rank == PAST {
            return self.drop_version(key, item.first_seen_at);
        }
        let sealed = self.entries.get(key)?.map(|row| row.value().to_vec());
        let touched_at = |sealed: Vec<u8>| Some(read::<EntryRecord>(key, &sealed)?.touched_at());
        // The row in the order belongs to a damaged entry that has been replaced since.
        if sealed.and_then(touched_at).is_some_and(|at| at != item.at) {
            return Ok(());
        }
        self.drop_entry(key)?;
        self.drop_versions(key)
    }
}
