//! Stored statements: a short record for each, with their texts concatenated elsewhere.

pub(crate) mod large_groups;
pub(crate) mod stored;

use super::head::HEAD_BYTES;

/// The kind of a statement. Of rules there are three, by the form of their value. Their numbers share the bit
/// [`RULE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementKind {
    Agent = 0,
    /// Any other statement; the text is `name:value`.
    Other = 1,
    /// A statement named [`SITEMAP`], whose text is the value alone.
    Sitemap = 2,
    /// A rule whose value means the same in every dialect, and matches paths that start with it.
    PlainRule = 4,
    /// A rule whose value contains `*` or ends in `$`, and is plain otherwise.
    WildRule = 5,
    /// A rule whose value the dialects read differently.
    SpecialRule = 6,
}

const RULE: u8 = 4;

/// The name that most directives have, spelt as most spell it.
pub(crate) const SITEMAP: &[u8] = b"Sitemap";

/// Marks a statement seen by exact readers: all dialects but `google`.
pub(crate) const EXACT: u8 = 1;
/// Marks a statement seen by Google's parser.
pub(crate) const GOOGLE: u8 = 2;
/// Marks the beginning of a new group for exact readers, for Google's parser, and for dialects in which a blank line
/// ends a record.
pub(crate) const EXACT_GROUP: u8 = 4;
pub(crate) const GOOGLE_GROUP: u8 = 8;
pub(crate) const RECORD: u8 = 16;
/// Marks a [`StatementKind::Other`] whose record is still open in dialects in which a blank line ends it.
pub(crate) const IN_RECORD: u8 = 32;
/// Marks a rule that allows.
pub(crate) const ALLOW: u8 = 64;
/// Marks a [`StatementKind::Agent`] whose group has, for some readers, so many rules that an index pays.
pub(crate) const LARGE_GROUP: u8 = 128;

/// A statement without its text. Rules are scanned in sequence and files are kept by the million, so it takes seven
/// bytes.
#[derive(Clone, Copy, Debug)]
#[repr(Rust, packed)]
pub(crate) struct FileStatement {
    /// The offset of its text among all texts; it ends where the next one begins.
    pub(crate) start: u32,
    /// The lowest byte of the line's number.
    pub(crate) line: u8,
    /// The kind, and above its [`KIND_BITS`](Self::KIND_BITS) the uncertain bits, a multiple of eight.
    kind_and_uncertain_bits: u8,
    pub(crate) marks: u8,
}

impl FileStatement {
    const KIND_BITS: u8 = 7;

    /// Creates a statement. Of the value of a rule, some bytes at the start are certain: all dialects read them alike.
    pub(crate) fn new(
        kind: StatementKind,
        marks: u8,
        start: u32,
        line: u32,
        certain_bytes: usize,
    ) -> Self {
        let uncertain_bits = 8 * HEAD_BYTES.saturating_sub(certain_bytes) as u8;
        Self {
            start,
            line: line as u8,
            kind_and_uncertain_bits: uncertain_bits | kind as u8,
            marks,
        }
    }

    #[inline]
    pub(crate) fn kind(&self) -> StatementKind {
        match self.kind_and_uncertain_bits & Self::KIND_BITS {
            0 => StatementKind::Agent,
            1 => StatementKind::Other,
            2 => StatementKind::Sitemap,
            4 => StatementKind::PlainRule,
            5 => StatementKind::WildRule,
            _ => StatementKind::SpecialRule,
        }
    }

    /// Returns the number of bits at the end of a rule's head that are not its own, or that not every dialect reads
    /// alike.
    #[inline]
    pub(crate) fn uncertain_bits(&self) -> u8 {
        self.kind_and_uncertain_bits & !Self::KIND_BITS
    }

    #[inline]
    pub(crate) fn is_rule(&self) -> bool {
        self.kind_and_uncertain_bits & RULE != 0
    }

    pub(crate) fn is_allow(&self) -> bool {
        self.has_mark(ALLOW)
    }

    pub(crate) fn has_mark(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }

    /// Returns whether it is neither a rule nor a user-agent line for exact readers.
    pub(crate) fn is_directive(&self) -> bool {
        // Where only Google's parser reads such a line, it is a rule or a user-agent line.
        matches!(self.kind(), StatementKind::Other | StatementKind::Sitemap) && self.has_mark(EXACT)
    }
}
