//! Budgets for matching, and the search for a part of a pattern in a path.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x64};

/// The number of bytes searched at once. Nothing else takes as much of a decision about a long path, and plain loops
/// take five times as long.
const BLOCK: usize = 64;

/// The work that judging a request may still do. All matching for a request shares it, in all dialects and spellings,
/// so that a decision ends within milliseconds whatever the files and the path contain.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// The steps left. One takes as long as searching one block of a path: one or two nanoseconds.
    steps: usize,
    rules_to_index: usize,
}

impl Budget {
    /// About 5 ms. None of 47,063 real questions needs more, in any dialect, with or without equivalent spellings, nor
    /// do questions about the same paths lengthened to 16 KiB.
    const STEPS: usize = 1 << 20;

    /// About 2 ms. The largest group of 3,000 real files has 3,129 rules.
    const RULES_TO_INDEX: usize = 10 * 1024;

    /// The steps to begin a search, or to compare at one position.
    const COMPARED: usize = 4;

    /// The steps to encode a byte of a rule and to measure its specificity.
    const WRITTEN: usize = 6;

    /// The bytes of a rule that take as long to index as a second short rule.
    const BYTES_SORTED: usize = 64;

    /// The steps to store and look up what a rule matches, for the rule and for each of its bytes.
    const KEPT: usize = 200;
    const KEPT_BYTE: usize = 2;

    /// The bytes of a path that are encoded in one step.
    const WRITTEN_BLOCK: usize = 8;

    /// The steps to parse and store a statement about use, for the statement and for each of its bytes.
    #[cfg(feature = "preferences")]
    const READ: usize = 300;
    #[cfg(feature = "preferences")]
    const READ_BYTE: usize = 8;

    /// Spends some steps, such as one for each statement skipped. Returns whether any are left.
    #[inline]
    pub(crate) fn spend(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_sub(steps);
        self.steps > 0
    }

    /// Spends the cost of comparing some bytes at one position.
    #[inline]
    pub(super) fn spend_on_comparing(&mut self, bytes: usize) -> bool {
        self.spend(Self::COMPARED + bytes / BLOCK)
    }

    /// Spends the cost of encoding a rule in a dialect's form.
    pub(super) fn spend_on_writing(&mut self, bytes: usize) -> bool {
        self.spend(Self::COMPARED + Self::WRITTEN * bytes)
    }

    /// Spends the cost of writing a spelling of a path, or of encoding one.
    pub(crate) fn spend_on_form(&mut self, bytes: usize) -> bool {
        self.spend(Self::COMPARED + bytes / Self::WRITTEN_BLOCK)
    }

    /// Spends the cost of parsing a statement about use.
    #[cfg(feature = "preferences")]
    pub(crate) fn spend_on_reading(&mut self, bytes: usize) -> bool {
        self.spend(Self::READ + Self::READ_BYTE * bytes)
    }

    /// Spends the cost of storing what a rule matches.
    pub(super) fn spend_on_keeping(&mut self, bytes: usize) -> bool {
        self.spend(Self::KEPT + Self::KEPT_BYTE * bytes)
    }

    /// Spends the cost of indexing a rule; one that is not plain is compiled first, which takes twice as long. Returns
    /// whether the budget covered it.
    pub(super) fn spend_on_index(&mut self, bytes: usize, is_plain: bool) -> bool {
        let rules = (1 + bytes / Self::BYTES_SORTED) * if is_plain { 1 } else { 3 };
        let left = self.rules_to_index.checked_sub(rules);
        self.rules_to_index = left.unwrap_or(0);
        left.is_some()
    }

    /// Returns whether nothing is left, so that the rule found may not be the one that decides.
    pub(crate) fn is_spent(&self) -> bool {
        self.steps == 0
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            steps: Self::STEPS,
            rules_to_index: Self::RULES_TO_INDEX,
        }
    }
}

/// Returns the first position of a part in a text; `None` once the budget is spent.
#[inline]
pub(super) fn find(text: &[u8], part: &[u8], budget: &mut Budget) -> Option<usize> {
    let Some(first) = part.first() else {
        return Some(0);
    };
    let starts = (text.len() + 1).checked_sub(part.len())?;
    budget.spend_on_comparing(0);
    if starts >= BLOCK {
        return dispatch!(Level::new(), simd => find_in_blocks(simd, text, part, budget));
    }
    // A text shorter than a block is not worth the vector code.
    memchr::memchr_iter(*first, &text[..starts]).find(|&at| is_at(at, text, part, budget))
}

/// Searches block by block for positions where both the first and the last byte of the part match, and compares there.
#[inline(always)]
fn find_in_blocks<S: Simd>(
    simd: S,
    text: &[u8],
    part: &[u8],
    budget: &mut Budget,
) -> Option<usize> {
    let ends = &text[part.len() - 1..];
    let mut rest = ends.len();
    while rest > 0 && budget.spend(1) {
        // The last block overlaps the one before it, so that no block is partial.
        let at = ends.len() - rest.max(BLOCK);
        let block = |text: &[u8], byte| u8x64::from_slice(simd, &text[at..][..BLOCK]).simd_eq(byte);
        let pairs = block(text, part[0]) & block(ends, part[part.len() - 1]);
        let mut places = pairs.to_bitmask();
        while places != 0 {
            let place = at + places.trailing_zeros() as usize;
            if is_at(place, text, part, budget) {
                return Some(place);
            }
            places &= places - 1;
        }
        rest = rest.saturating_sub(BLOCK);
    }
    None
}

#[inline(always)]
fn is_at(place: usize, text: &[u8], part: &[u8], budget: &mut Budget) -> bool {
    budget.spend_on_comparing(part.len()) && text[place..].starts_with(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many steps it takes to look for a part in a text.
    fn steps(text: &str, part: &str) -> usize {
        let mut budget = Budget::default();
        find(text.as_bytes(), part.as_bytes(), &mut budget);
        Budget::STEPS - budget.steps
    }

    #[test]
    fn each_comparison_spends_budget() {
        // Too short for blocks: every `a` is compared.
        for count in [1, 5, 20] {
            let text = "a".repeat(count) + "c";
            assert_eq!(steps(&text, "ab"), Budget::COMPARED * (1 + count));
        }
        // In blocks where first and last byte of the part are: nowhere, at one place of each block, everywhere.
        let blocks = 8;
        let text = |piece: &str| piece.repeat(blocks * BLOCK / piece.len());
        let looked = Budget::COMPARED + blocks;
        assert_eq!(steps(&(text("x") + "yz"), "a-b"), looked);
        let once = format!("a+b{}", "x".repeat(BLOCK - 3));
        let found = steps(&(text(&once) + "yz"), "a-b");
        assert_eq!(found, looked + Budget::COMPARED * blocks);
        let found = steps(&(text("a") + "yy"), "aba");
        assert_eq!(found, looked + Budget::COMPARED * (blocks * BLOCK - 2));
    }

    #[test]
    fn a_long_comparison_costs_its_blocks() {
        let part = format!("{}b{}", "a".repeat(10 * BLOCK), "a".repeat(BLOCK));
        let text = "a".repeat(part.len());
        let one = Budget::COMPARED + part.len() / BLOCK;
        assert_eq!(steps(&text, &part), Budget::COMPARED + one);
    }

    #[test]
    fn nothing_is_found_once_the_budget_is_spent() {
        let mut budget = Budget::default();
        budget.spend_on_writing(Budget::STEPS);
        assert!(budget.is_spent());
        let text = "x".repeat(2 * BLOCK) + "ab";
        assert_eq!(find(text.as_bytes(), b"ab", &mut budget), None);
        assert_eq!(find(b"ab", b"ab", &mut budget), None);
    }

    #[test]
    fn every_kind_of_work_takes_its_steps() {
        let took = |work: fn(&mut Budget) -> bool| {
            let mut budget = Budget::default();
            assert!(work(&mut budget));
            Budget::STEPS - budget.steps
        };
        assert_eq!(took(|it| it.spend(1_000)), 1_000);
        assert_eq!(took(|it| it.spend_on_comparing(1_000)), 19);
        assert_eq!(took(|it| it.spend_on_writing(1_000)), 6_004);
        assert_eq!(took(|it| it.spend_on_keeping(1_000)), 2_200);
        let rules = |bytes, is_plain| {
            let mut budget = Budget::default();
            assert!(budget.spend_on_index(bytes, is_plain));
            Budget::RULES_TO_INDEX - budget.rules_to_index
        };
        assert_eq!(
            [rules(10, true), rules(640, true), rules(10, false)],
            [1, 11, 3]
        );
        let mut budget = Budget::default();
        assert!(!budget.spend_on_index(Budget::RULES_TO_INDEX * Budget::BYTES_SORTED, true));
        assert!(!budget.spend_on_index(1, true));
    }
}
