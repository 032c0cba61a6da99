//! Stored statements: a short record for each, with their texts concatenated elsewhere.

pub(crate) mod stored;

/// The kind of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatementKind {
    Agent,
    /// Any other statement; the text is `name:value`.
    Other,
    Allow,
    Disallow,
}

/// The form of a rule's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueForm {
    /// The value means the same in every dialect, and matches paths that start with it.
    Plain,
    /// The value contains `*` or ends in `$`, and is plain otherwise.
    Wild,
    /// The dialects read the value differently.
    Special,
}

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

/// A statement without its text. Rules are scanned in sequence, so it is kept small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileStatement {
    /// The line's number.
    pub(crate) line: u32,
    /// The offset of its text among all texts; it ends where the next one begins.
    pub(crate) start: u32,
    pub(crate) kind: StatementKind,
    pub(crate) form: ValueForm,
    /// The number of bits at the end of a rule's head that are not its own, or that not every dialect reads alike.
    pub(crate) uncertain_bits: u8,
    pub(crate) marks: u8,
}

impl FileStatement {
    pub(crate) fn is_rule(&self) -> bool {
        matches!(self.kind, StatementKind::Allow | StatementKind::Disallow)
    }

    pub(crate) fn is_allow(&self) -> bool {
        self.kind == StatementKind::Allow
    }

    pub(crate) fn has_mark(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }

    /// Returns whether it is neither a rule nor a user-agent line for exact readers.
    pub(crate) fn is_directive(&self) -> bool {
        // Where only Google's parser reads such a line, it is a rule or a user-agent line.
        self.kind == StatementKind::Other && self.has_mark(EXACT)
    }
}
