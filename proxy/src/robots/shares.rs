//! Shares: who may hold how much of `robots.memory`.

/// The store's, in sixteenths: what waits for the disk, what is being written, and what is at hand of its file hold one each.
const STORE: usize = 3;
/// Long files' while they are fetched.
const FETCHES: usize = 2;
/// Nobody's: the gaps that the allocator cannot fill between files of all lengths. Seen in floods of unique ones.
const GAPS: usize = 3;
const ALL: usize = 16;
/// With less the store would write each file by itself.
const LEAST_OF_STORE: usize = 4 << 20;

/// The shares, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// What entries may hold: [`Options::memory`](super::Options::memory).
    pub(crate) entries: usize,
    /// What is being fetched: [`FetchOptions::memory`](super::FetchOptions::memory).
    pub(crate) fetches: usize,
    /// Each of the store's three: [`StoreOptions::memory`](super::StoreOptions::memory).
    pub(crate) store: usize,
}

impl Shares {
    /// Of so many bytes. Of less than 64 MiB the store takes up to 12 MiB more than it is given.
    pub(crate) fn of(memory: usize) -> Self {
        let one = memory / ALL;
        Self {
            entries: memory - (STORE + FETCHES + GAPS) * one,
            fetches: FETCHES * one,
            store: one.max(LEAST_OF_STORE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_leave_a_part_of_the_whole_for_gaps() {
        for memory in [64 << 20, 100_000_007, 256 << 20, usize::MAX] {
            let Shares {
                entries,
                fetches,
                store,
            } = Shares::of(memory);
            let all = entries + fetches + 3 * store + memory / 16 * 3;
            assert_eq!(all, memory, "{memory}");
        }
    }

    #[test]
    fn a_small_whole_leaves_entries_and_store_enough() {
        let shares = Shares {
            entries: (1 << 20) / 16 * 8,
            fetches: (1 << 20) / 16 * 2,
            store: 4 << 20,
        };
        assert_eq!(Shares::of(1 << 20), shares);
    }
}
