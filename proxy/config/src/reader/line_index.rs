//! Line numbers of offsets.

/// The starts of a text's lines, so that a line number takes a binary search and not a count.
#[derive(Debug)]
pub(super) struct LineIndex(Vec<usize>);

impl LineIndex {
    pub(super) fn new(text: &str) -> Self {
        let line_feeds = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(line_feeds.map(|(at, _)| at + 1).collect())
    }

    /// Returns the line of an offset, counted from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        1 + self.0.partition_point(|start| *start <= at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_line_number_is_the_number_of_line_feeds_before(
            text in "(a|\u{e9}|=|\r\n|\n|\r|\n\n){0,40}",
            past in 0_usize..3,
        ) {
            let index = LineIndex::new(&text);
            for at in 0..=text.len() + past {
                let before = &text.as_bytes()[..at.min(text.len())];
                let line_feeds = before.iter().filter(|byte| **byte == b'\n').count();
                prop_assert_eq!(index.line(at), 1 + line_feeds, "{} of {:?}", at, text);
            }
        }
    }
}
