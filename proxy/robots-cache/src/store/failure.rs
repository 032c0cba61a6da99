//! Failures of the store's file, and whether they mean that it is damaged.
//!
//! redb promises that a commit is either complete or absent, not that it notices damage by a disk later: with a
//! file that was truncated or overwritten it may return an error, return garbage, or panic. Panics are caught here.

use std::cell::Cell;
use std::fmt;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A failure of the database. The remedy is always to reopen the file.
#[derive(Debug)]
pub(super) enum StoreFailure {
    Database(redb::Error),
    /// redb panicked, with this message.
    Panic(String),
    /// A body could not be compressed.
    Pack(std::io::Error),
    /// A record could not be encoded.
    Encode(postcard::Error),
}

impl StoreFailure {
    /// Returns whether the file is damaged, so that reopening it would not help.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Database(redb::Error::Io(error)) => {
                let is_damage = [ErrorKind::InvalidData, ErrorKind::UnexpectedEof];
                is_damage.contains(&error.kind())
            }
            // After a failed read or write redb refuses everything else; the cause was reported then.
            Self::Database(redb::Error::PreviousIo | redb::Error::DatabaseAlreadyOpen) => false,
            Self::Database(redb::Error::TransactionPoisoned) => false,
            Self::Database(_) | Self::Panic(_) => true,
            Self::Pack(_) | Self::Encode(_) => false,
        }
    }

    /// Returns whether the file has reached its maximum size.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Database(redb::Error::Io(error)) if error.kind() == ErrorKind::QuotaExceeded)
    }
}

impl fmt::Display for StoreFailure {
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
        $(impl From<redb::$error> for StoreFailure {
            fn from(error: redb::$error) -> Self {
                Self::Database(error.into())
            }
        })*
    };
}

from_redb!(CommitError, CompactionError, DatabaseError, StorageError, TableError, TransactionError);

impl From<postcard::Error> for StoreFailure {
    fn from(error: postcard::Error) -> Self {
        Self::Encode(error)
    }
}

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether a panic of this thread would be caught here, and is to be reported as a fault of the file.
pub fn is_panic_caught() -> bool {
    IS_CAUGHT.get()
}

/// Runs `work` on the database. The only place where its panics are caught.
///
/// After a panic, nothing that `work` used of the database may be used again.
///
/// # Errors
///
/// If `work` fails, or with its panic.
pub(super) fn catching_panics<T>(
    work: impl FnOnce() -> Result<T, StoreFailure>,
) -> Result<T, StoreFailure> {
    let was_caught = IS_CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(was_caught);
    done.unwrap_or_else(|panic| {
        // `panic!` has a `String` for its payload if it formats arguments, otherwise a `&str`.
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(StoreFailure::Panic(message.unwrap_or("without a message").to_owned()))
    })
}
