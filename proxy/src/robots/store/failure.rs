//! Failures of the store's file, and whether the file itself is damaged.
//!
//! redb promises that a commit is whole or not there, not that it notices what a disk does to it later: of a file that
//! was cut off or overwritten it may say so, return nonsense, or panic. Panics end here.

use std::cell::Cell;
use std::fmt;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A failure of the database. Whatever it is, the answer is to open the file anew.
#[derive(Debug)]
pub(super) enum Failure {
    Database(redb::Error),
    /// redb panicked, with these words.
    Panic(String),
    /// A body could not be packed.
    Pack(std::io::Error),
    /// A record could not be written down.
    Encode(postcard::Error),
}

impl Failure {
    /// Whether the file is damaged, and opening it anew would not help.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Database(redb::Error::Io(error)) => {
                let is_damage = [ErrorKind::InvalidData, ErrorKind::UnexpectedEof];
                is_damage.contains(&error.kind())
            }
            // After a failed read or write redb refuses everything else: what it failed by was told before.
            Self::Database(redb::Error::PreviousIo | redb::Error::DatabaseAlreadyOpen) => false,
            Self::Database(redb::Error::TransactionPoisoned) => false,
            Self::Database(_) | Self::Panic(_) => true,
            Self::Pack(_) | Self::Encode(_) => false,
        }
    }

    /// Whether the file may not grow as much as it would have to.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Database(redb::Error::Io(error)) if error.kind() == ErrorKind::QuotaExceeded)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => error.fmt(f),
            Self::Panic(words) => write!(f, "the database panicked: {words}"),
            Self::Pack(error) => write!(f, "a body cannot be compressed: {error}"),
            Self::Encode(error) => write!(f, "a record cannot be encoded: {error}"),
        }
    }
}

macro_rules! from_redb {
    ($($error:ident),*) => {
        $(impl From<redb::$error> for Failure {
            fn from(error: redb::$error) -> Self {
                Self::Database(error.into())
            }
        })*
    };
}

from_redb!(
    CommitError,
    CompactionError,
    DatabaseError,
    StorageError,
    TableError,
    TransactionError
);

impl From<postcard::Error> for Failure {
    fn from(error: postcard::Error) -> Self {
        Self::Encode(error)
    }
}

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread would be caught here: then it is the file's fault, and told of as such.
pub(crate) fn is_caught() -> bool {
    IS_CAUGHT.get()
}

/// Does `work` with the database. The one place where a panic of it ends.
///
/// What `work` holds of the database must not be used again after a panic.
///
/// # Errors
///
/// As `work`, or with its panic.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let was_caught = IS_CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(was_caught);
    done.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Failure::Panic(words.unwrap_or("without a word").to_owned()))
    })
}
