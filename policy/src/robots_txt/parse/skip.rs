//! Passing over lines that say nothing to any reader: markup, mostly, where a page is served for a robots.txt. Half of all
//! bytes that origins serve are such, so they are not read line by line but by blocks.

use fearless_simd::Simd;

use crate::blocks::{BLOCK, Block};

/// What was passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Skipped {
    /// How many bytes: up to the start of a line, or none.
    pub(crate) bytes: usize,
    /// How many lines begin there, that one included.
    pub(crate) lines: u32,
    /// Whether blank lines were among them.
    pub(crate) blank: bool,
}

/// Passes over what is left of a line, and over those behind it up to one that may say something. The last bytes of a
/// text are not looked at.
#[inline(always)]
pub(crate) fn skip<S: Simd>(simd: S, text: &[u8]) -> Skipped {
    let mut skipped = Skipped::default();
    // What a block begins behind: a line feed, a carriage return, blanks that a line begins with.
    let (mut line_feed, mut carriage_return, mut lead) = (0, 0, 0);
    let mut blank = 0;
    for (block, bytes) in text.as_chunks().0.iter().enumerate() {
        let bytes = Block::new(simd, bytes);
        let line_feeds = bytes.any_of([b'\n']);
        let carriage_returns = bytes.any_of([b'\r']);
        let blanks = bytes.any_of([b' ', b'\t']);
        let ends = line_feeds | carriage_returns;
        let behind_return = carriage_returns << 1 | carriage_return;
        let starts = line_feeds << 1 | line_feed | behind_return & !line_feeds;
        // Adding the start of a line to the blanks there carries it to what is behind them.
        let (behind, over) = blanks.overflowing_add(blanks & starts);
        let (behind, over_too) = behind.overflowing_add(lead);
        let firsts = (behind | starts) & !blanks;
        let telling = firsts & bytes.telling() & !ends;
        // All before the first that may tell something.
        let passed = telling.wrapping_sub(1) & !telling;
        let starts = starts & (passed << 1 | 1);
        if starts != 0 {
            skipped.bytes = (block + 1) * BLOCK - 1 - starts.leading_zeros() as usize;
        }
        skipped.lines += starts.count_ones();
        blank |= firsts & ends & passed;
        if telling != 0 {
            break;
        }
        line_feed = line_feeds >> (BLOCK - 1);
        carriage_return = carriage_returns >> (BLOCK - 1);
        lead = u64::from(over | over_too);
    }
    skipped.blank = blank != 0;
    skipped
}

#[cfg(test)]
mod tests {
    use fearless_simd::{Level, dispatch};
    use proptest::prelude::*;

    use super::*;
    use crate::robots_txt::parse::line::lines;

    /// What is passed over, line by line.
    fn line_by_line(text: &[u8]) -> Skipped {
        let seen = text.len() / BLOCK * BLOCK;
        let mut skipped = Skipped::default();
        for (_, line) in lines(text).skip(1) {
            let start = line.as_ptr().addr() - text.as_ptr().addr();
            if start >= seen {
                break;
            }
            skipped.bytes = start;
            skipped.lines += 1;
            let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
            let lead = line.iter().take_while(|byte| is_blank(byte)).count();
            match line.get(lead) {
                _ if start + lead >= seen => break,
                None => skipped.blank = true,
                Some(b'\0'..=b'\x0C' | b'A'..) => break,
                Some(_) => {}
            }
        }
        skipped
    }

    proptest! {
        #[test]
        fn blocks_are_read_as_lines_are(text in "(<|[<a \t\x0B]{0,40}|[ \t]{60,70}|\r|\n|\r\n){0,40}") {
            let text = text.as_bytes();
            let skipped = dispatch!(Level::new(), simd => skip(simd, text));
            prop_assert_eq!(skipped, line_by_line(text));
        }
    }
}
