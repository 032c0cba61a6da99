//! A head of a whole log, as others keep it to notice later that the log was cut back, or is gone.

use std::cmp::Ordering;
use std::time::SystemTime;

use crate::chain::event::{EventKind, LogEvent};
use crate::chain::head::is_signed_by;
use crate::chain::link::previous_digest;
use crate::chain::{LogCount, TreeHead};
use crate::digest::Sha256Digest;

/// A head that names its log, with a valid signature of the key that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The head as a line, without a line feed.
    pub line: String,
    pub at: SystemTime,
    pub head: TreeHead,
    pub count: LogCount,
    /// The digest of the last line before it.
    pub last: Sha256Digest,
}

impl LogHead {
    /// Parses the head and checks its signature; `None` if one of them is wrong, or if it does not name its log.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let LogEvent { kind: EventKind::Head(head), at } = LogEvent::parse(line.as_bytes())? else {
            return None;
        };
        let last = previous_digest(line.as_bytes())?;
        let count = head.count.clone()?;
        let is_signed = is_signed_by(line.as_bytes(), &head.key);
        is_signed.then(|| Self { line: line.to_owned(), at, head, count, last })
    }

    /// Returns the number that rises from each head of a log to the next: a log that was cut back has lost more.
    #[must_use]
    pub fn rank(&self) -> (u64, u64, u64) {
        (self.count.lost_decisions, self.head.file, self.head.lines)
    }

    /// Returns how many decisions are missing from the log of which this head was published, if `found` is its head now.
    #[must_use]
    pub fn missing_from(&self, found: &Self) -> u64 {
        if self.precedes(found) {
            return found.count.lost_decisions;
        }
        let behind = self.count.total().saturating_sub(found.count.total());
        self.count.lost_decisions.saturating_add(behind.max(1))
    }

    /// Returns whether a log can have had this head before, or at the time of, `later`.
    #[must_use]
    pub fn precedes(&self, later: &Self) -> bool {
        match self.rank().cmp(&later.rank()) {
            Ordering::Less => true,
            Ordering::Equal => self.head.root_sha256 == later.head.root_sha256,
            Ordering::Greater => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::Ed25519KeyPair;

    use super::*;
    use crate::chain::HashChain;

    fn head(lines: u64, decisions: u64, lost_decisions: u64) -> LogHead {
        let key = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        let mut chain = HashChain::new();
        for line in 0..lines {
            chain.append(format!("{{\"line\":{line}}}").as_bytes());
        }
        let count =
            LogCount { decisions, lost_decisions, earlier_decisions: 100, log: "a".to_owned() };
        let head = TreeHead { count: Some(count), ..chain.tree_head(&key) };
        let line = chain.sign_head(&key, SystemTime::UNIX_EPOCH, head);
        LogHead::parse(str::from_utf8(&line).unwrap()).unwrap()
    }

    #[test]
    fn missing_lines_are_counted_until_the_log_records_its_loss() {
        let published = head(9, 7, 0);
        assert_eq!(published.missing_from(&head(12, 9, 0)), 0);
        assert_eq!(published.missing_from(&published), 0);
        assert_eq!(published.missing_from(&head(5, 3, 0)), 4, "cut back");
        assert_eq!(published.missing_from(&head(8, 7, 0)), 1, "only an event is missing");
        let mut rewritten = published.clone();
        rewritten.head.root_sha256 = rewritten.last;
        assert_eq!(published.missing_from(&rewritten), 1);
        // Once the log records its loss, it may go on.
        assert_eq!(published.missing_from(&head(6, 4, 4)), 4);
        assert_eq!(head(6, 4, 4).missing_from(&head(12, 9, 4)), 4);
        assert_eq!(head(8, 6, 4).missing_from(&head(5, 3, 0)), 7, "cut back again");
    }

    #[test]
    fn a_head_that_was_changed_or_names_no_log_is_none() {
        let line = head(9, 7, 0).line;
        assert!(LogHead::parse(&line.replace("\"decisions\":7", "\"decisions\":6")).is_none());
        assert!(LogHead::parse(&line.replace("\"log\"", "\"other\"")).is_none());
        assert!(LogHead::parse("").is_none());
    }
}
