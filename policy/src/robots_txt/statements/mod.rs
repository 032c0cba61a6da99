//! The statements of a file as they are kept: a short record for each, and their texts one after the other.

pub(crate) mod stored;

/// What a line states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Agent,
    /// Anything else; the text is `name:value`.
    Other,
    Allow,
    Disallow,
}

/// How the value of a rule is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// It reads the same in every dialect, and matches what starts with it.
    Plain,
    /// It holds `*`, or ends in `$`, but is plain otherwise.
    Wild,
    /// The dialects read it differently.
    Special,
}

/// A mark: seen by those who read fields as spelt: all dialects but `google`.
pub(crate) const EXACT: u8 = 1;
/// Seen by Google's parser.
pub(crate) const GOOGLE: u8 = 2;
/// A new group begins here for the former, for the latter, and for those who end records at blank lines.
pub(crate) const EXACT_GROUP: u8 = 4;
pub(crate) const GOOGLE_GROUP: u8 = 8;
pub(crate) const RECORD: u8 = 16;
/// Of a [`Kind::Other`]: the record is still open for those who end records at blank lines.
pub(crate) const IN_RECORD: u8 = 32;

/// A statement, but for its text. Rules are looked at in a row, so it is kept small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement {
    /// The number of its line.
    pub(crate) line: u32,
    /// Where its text begins among those of the file; it ends where the next begins.
    pub(crate) start: u32,
    pub(crate) kind: Kind,
    pub(crate) form: Form,
    /// Of a rule: so many bits at the end of its head are not its own, or not read alike by every dialect.
    pub(crate) unsure: u8,
    pub(crate) marks: u8,
}

impl Statement {
    pub(crate) fn is_rule(&self) -> bool {
        matches!(self.kind, Kind::Allow | Kind::Disallow)
    }

    pub(crate) fn is_allow(&self) -> bool {
        self.kind == Kind::Allow
    }

    pub(crate) fn has(&self, marks: u8) -> bool {
        self.marks & marks != 0
    }

    /// Whether it is neither a rule nor a user-agent line to those who read fields as spelt.
    pub(crate) fn is_directive(&self) -> bool {
        self.kind == Kind::Other && self.has(EXACT)
    }
}
