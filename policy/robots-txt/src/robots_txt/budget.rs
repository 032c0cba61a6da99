//! Budgets for matching, and the search for a part of a pattern in a path.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, u8x64};

/// The number of bytes searched at once. Nothing else takes as much of a decision about a long path, and plain loops
/// take five times as long.
const BLOCK: usize = 64;

/// The work that judging a request may still do. All matching for a request shares it, in all dialects and spellings,
/// so that a decision ends within milliseconds whatever the files and the path contain.
#[derive(Clone, Debug)]
pub struct MatchBudget {
    /// The steps left. One takes as long as searching one block of a path: one or two nanoseconds.
    steps: usize,
}

impl MatchBudget {
    /// About 5 ms. None of 47,063 real questions needs more, in any dialect, with or without equivalent spellings, nor
    /// do questions about the same paths lengthened to 16 KiB.
    const STEPS: usize = 1 << 20;

    /// About 150 us: nearly all decisions need less.
    const BRIEF_STEPS: usize = Self::STEPS / 32;

    /// The steps to begin a search, or to compare at one position.
    const COMPARISON_STEPS: usize = 4;

    /// The steps to encode a byte of a rule and to measure its specificity.
    const ENCODE_BYTE_STEPS: usize = 6;

    /// The steps to store and look up a rule's matches, for the rule and for each of its bytes.
    const KEEP_RULE_STEPS: usize = 200;
    const KEEP_BYTE_STEPS: usize = 2;

    /// The bytes of a path that are encoded in one step.
    const BYTES_PER_PATH_STEP: usize = 8;

    /// The steps to parse and store a statement about use, for the statement and for each of its bytes.
    const READ_STATEMENT_STEPS: usize = 300;
    const READ_BYTE_STEPS: usize = 8;

    /// Creates a budget for a first attempt. A decision that spends it has to be made again, with a whole one.
    #[must_use]
    pub fn brief() -> Self {
        Self { steps: Self::BRIEF_STEPS }
    }

    /// Makes a brief budget a whole one, less the steps that it has spent.
    pub fn extend(&mut self) {
        self.steps += Self::STEPS - Self::BRIEF_STEPS;
    }

    /// Spends some steps, such as one for each statement skipped. Returns whether any are left.
    #[inline]
    pub fn spend(&mut self, steps: usize) -> bool {
        // Saturating: once spent it remains spent, so callers in a loop may check later.
        self.steps = self.steps.saturating_sub(steps);
        self.steps > 0
    }

    /// Spends the cost of comparing some bytes at one position.
    #[inline]
    pub(super) fn spend_on_comparing(&mut self, bytes: usize) -> bool {
        self.spend(Self::COMPARISON_STEPS + bytes / BLOCK)
    }

    /// Spends the cost of encoding a rule in a dialect's form.
    pub(super) fn spend_on_encoding(&mut self, bytes: usize) -> bool {
        self.spend(Self::COMPARISON_STEPS + Self::ENCODE_BYTE_STEPS * bytes)
    }

    /// Spends the cost of writing a spelling of a path, or of encoding one.
    pub(crate) fn spend_on_form(&mut self, bytes: usize) -> bool {
        self.spend(Self::COMPARISON_STEPS + bytes / Self::BYTES_PER_PATH_STEP)
    }

    /// Spends the cost of parsing a statement about use.
    pub fn spend_on_reading(&mut self, bytes: usize) -> bool {
        self.spend(Self::READ_STATEMENT_STEPS + Self::READ_BYTE_STEPS * bytes)
    }

    /// Spends the cost of storing a rule's matches.
    pub(super) fn spend_on_keeping(&mut self, bytes: usize) -> bool {
        self.spend(Self::KEEP_RULE_STEPS + Self::KEEP_BYTE_STEPS * bytes)
    }

    /// Returns whether nothing is left, so that the rule found may not be the one that decides.
    pub(crate) fn is_spent(&self) -> bool {
        self.steps == 0
    }
}

impl Default for MatchBudget {
    fn default() -> Self {
        Self { steps: Self::STEPS }
    }
}

/// Returns the first position of a part in a text; `None` once the budget is spent.
#[inline]
pub(super) fn find_part(text: &[u8], part: &[u8], budget: &mut MatchBudget) -> Option<usize> {
    let Some(first) = part.first() else {
        return Some(0);
    };
    let starts = (text.len() + 1).checked_sub(part.len())?;
    budget.spend_on_comparing(0);
    if starts >= BLOCK {
        // The level is detected once for the process; a call costs one load.
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
    budget: &mut MatchBudget,
) -> Option<usize> {
    let ends = &text[part.len() - 1..];
    let mut rest = ends.len();
    while rest > 0 && budget.spend(1) {
        // The last block overlaps the one before it, so that no block is partial.
        let at = ends.len() - rest.max(BLOCK);
        let block = |text: &[u8], byte| u8x64::from_slice(simd, &text[at..][..BLOCK]).simd_eq(byte);
        let pairs = block(text, part[0]) & block(ends, part[part.len() - 1]);
        let mut candidates = pairs.to_bitmask();
        while candidates != 0 {
            let position = at + candidates.trailing_zeros() as usize;
            if is_at(position, text, part, budget) {
                return Some(position);
            }
            // Clears the lowest bit.
            candidates &= candidates - 1;
        }
        rest = rest.saturating_sub(BLOCK);
    }
    None
}

#[inline(always)]
fn is_at(position: usize, text: &[u8], part: &[u8], budget: &mut MatchBudget) -> bool {
    budget.spend_on_comparing(part.len()) && text[position..].starts_with(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of steps that it takes to look for a part in a text.
    fn steps(text: &str, part: &str) -> usize {
        let mut budget = MatchBudget::default();
        find_part(text.as_bytes(), part.as_bytes(), &mut budget);
        MatchBudget::STEPS - budget.steps
    }

    #[test]
    fn each_comparison_spends_budget() {
        // Too short for blocks: every `a` is compared.
        for count in [1, 5, 20] {
            let text = "a".repeat(count) + "c";
            assert_eq!(steps(&text, "ab"), MatchBudget::COMPARISON_STEPS * (1 + count));
        }
        // In blocks where first and last byte of the part are: nowhere, at one place of each block, everywhere.
        let blocks = 8;
        let text = |piece: &str| piece.repeat(blocks * BLOCK / piece.len());
        let searched = MatchBudget::COMPARISON_STEPS + blocks;
        assert_eq!(steps(&(text("x") + "yz"), "a-b"), searched);
        let once = format!("a+b{}", "x".repeat(BLOCK - 3));
        let found = steps(&(text(&once) + "yz"), "a-b");
        assert_eq!(found, searched + MatchBudget::COMPARISON_STEPS * blocks);
        let found = steps(&(text("a") + "yy"), "aba");
        assert_eq!(found, searched + MatchBudget::COMPARISON_STEPS * (blocks * BLOCK - 2));
    }

    #[test]
    fn a_long_comparison_costs_its_blocks() {
        let part = format!("{}b{}", "a".repeat(10 * BLOCK), "a".repeat(BLOCK));
        let text = "a".repeat(part.len());
        let one = MatchBudget::COMPARISON_STEPS + part.len() / BLOCK;
        assert_eq!(steps(&text, &part), MatchBudget::COMPARISON_STEPS + one);
    }

    #[test]
    fn nothing_is_found_once_the_budget_is_spent() {
        let mut budget = MatchBudget::default();
        budget.spend_on_encoding(MatchBudget::STEPS);
        assert!(budget.is_spent());
        let text = "x".repeat(2 * BLOCK) + "ab";
        assert_eq!(find_part(text.as_bytes(), b"ab", &mut budget), None);
        assert_eq!(find_part(b"ab", b"ab", &mut budget), None);
    }

    #[test]
    fn every_kind_of_work_takes_its_steps() {
        let took = |work: fn(&mut MatchBudget) -> bool| {
            let mut budget = MatchBudget::default();
            assert!(work(&mut budget));
            MatchBudget::STEPS - budget.steps
        };
        assert_eq!(took(|budget| budget.spend(1_000)), 1_000);
        assert_eq!(took(|budget| budget.spend_on_comparing(1_000)), 19);
        assert_eq!(took(|budget| budget.spend_on_encoding(1_000)), 6_004);
        assert_eq!(took(|budget| budget.spend_on_keeping(1_000)), 2_200);
    }
}
