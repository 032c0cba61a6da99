//! The shares of `robots.memory`.

/// The store's shares, in sixteenths: one each for pending changes, the transaction in progress and the database's
/// cache.
const STORE_SIXTEENTHS: usize = 3;
/// The share of long files while they are fetched.
const FETCH_SIXTEENTHS: usize = 2;
/// The unused share: gaps that the allocator cannot fill between files of all lengths, as seen in floods of unique
/// files.
const GAP_SIXTEENTHS: usize = 3;
const SIXTEENTHS: usize = 16;
/// With less memory the store would write every file in a transaction of its own.
const MIN_STORE_BYTES: usize = 4 << 20;

/// The shares, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShares {
    /// The limit of entries: [`RobotsCacheConfig::memory_bytes`](super::RobotsCacheConfig::memory_bytes).
    pub entries: usize,
    /// The limit of files being fetched: [`FetchConfig::memory_bytes`](super::FetchConfig::memory_bytes).
    pub fetches: usize,
    /// The size of each of the store's three shares: [`RobotsStoreConfig::memory_bytes`](super::RobotsStoreConfig::memory_bytes).
    pub store: usize,
}

impl MemoryShares {
    /// Divides this many bytes. Below 64 MiB the store takes up to 12 MiB more than its share.
    pub fn split(memory: usize) -> Self {
        let one = memory / SIXTEENTHS;
        Self {
            entries: memory - (STORE_SIXTEENTHS + FETCH_SIXTEENTHS + GAP_SIXTEENTHS) * one,
            fetches: FETCH_SIXTEENTHS * one,
            store: one.max(MIN_STORE_BYTES),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_leave_three_sixteenths_for_gaps() {
        for memory in [64 << 20, 100_000_007, 256 << 20, usize::MAX] {
            let MemoryShares { entries, fetches, store } = MemoryShares::split(memory);
            let all = entries + fetches + 3 * store + memory / 16 * 3;
            assert_eq!(all, memory, "{memory}");
        }
    }

    #[test]
    fn a_small_memory_leaves_entries_and_store_enough() {
        let shares = MemoryShares {
            entries: (1 << 20) / 16 * 8,
            fetches: (1 << 20) / 16 * 2,
            store: 4 << 20,
        };
        assert_eq!(MemoryShares::split(1 << 20), shares);
    }
}
