//! The cost of a scope's rows, and eviction when it is too high.

use redb::ReadableTable;

use super::super::failure::StoreFailure;
use super::super::tables::decode;
use super::scope::{ALL, scopes};
use super::{PAST_VERSION, WHOLE_ENTRY, WriteBatch};
use crate::record::EntryRecord;

/// The maximum number of expired rows deleted per transaction, in addition to its changes.
const MAX_SWEPT: usize = 64;

/// A row that can be evicted.
struct EvictableItem {
    rank: u8,
    at: u64,
    key: String,
    first_seen_at: u64,
}

impl WriteBatch<'_> {
    fn spent(&self, scope: &str) -> Result<u64, StoreFailure> {
        if let Some(cost) = self.costs.get(scope) {
            return Ok(*cost);
        }
        Ok(self.spent.get(scope)?.map_or(0, |cost| cost.value()))
    }

    pub(super) fn charge(&mut self, scope: &str, cost: u64) -> Result<(), StoreFailure> {
        let spent = self.spent(scope)?.saturating_add(cost);
        self.costs.insert(scope.to_owned(), spent);
        Ok(())
    }

    pub(super) fn refund(&mut self, scope: &str, cost: u64) -> Result<(), StoreFailure> {
        let spent = self.spent(scope)?.saturating_sub(cost);
        self.costs.insert(scope.to_owned(), spent);
        Ok(())
    }

    /// Evicts rows until the scope costs no more than `bytes`.
    pub(crate) fn enforce_limit(&mut self, scope: &str, bytes: u64) -> Result<(), StoreFailure> {
        while self.spent(scope)? > bytes {
            match self.first_evictable(scope, PAST_VERSION)? {
                Some(item) => self.evict(&item)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Deletes some of the expired rows.
    pub(crate) fn drop_expired(&mut self) -> Result<(), StoreFailure> {
        let too_old = [
            (PAST_VERSION, self.limits.versions_not_before),
            (WHOLE_ENTRY, self.limits.entries_not_before),
        ];
        for (rank, since) in too_old {
            for _ in 0..MAX_SWEPT {
                match self.first_evictable(ALL, rank)? {
                    Some(item) if item.rank == rank && item.at < since => self.evict(&item)?,
                    _ => break,
                }
            }
        }
        Ok(())
    }

    /// Returns the first row to evict of this rank or the next. Held rows are passed over.
    fn first_evictable(
        &self,
        scope: &str,
        rank: u8,
    ) -> Result<Option<EvictableItem>, StoreFailure> {
        let from = (scope, rank, 0, "", 0);
        for row in self.order.range(from..)? {
            let (order_key, _) = row?;
            let (found, rank, at, key, first_seen_at) = order_key.value();
            if found != scope {
                break;
            }
            if !self.limits.held.includes(key) {
                return Ok(Some(EvictableItem { rank, at, key: key.to_owned(), first_seen_at }));
            }
        }
        Ok(None)
    }

    fn evict(&mut self, item: &EvictableItem) -> Result<(), StoreFailure> {
        let key = item.key.as_str();
        for scope in scopes(key) {
            let order_key = (scope, item.rank, item.at, key, item.first_seen_at);
            self.order.remove(order_key)?;
        }
        if item.rank == PAST_VERSION {
            return self.drop_version(key, item.first_seen_at);
        }
        let sealed = self.entries.get(key)?.map(|row| row.value().to_vec());
        let touched_at =
            |sealed: Vec<u8>| Some(decode::<EntryRecord>(key, &sealed)?.last_contact_at());
        // The row in the order belongs to a damaged entry that has been replaced since.
        if sealed.and_then(touched_at).is_some_and(|at| at != item.at) {
            return Ok(());
        }
        self.drop_entry(key)?;
        for first_seen_at in self.first_seen(key)? {
            self.drop_version(key, first_seen_at)?;
        }
        Ok(())
    }
}
