//! File descriptors. The last few are kept for operators, DNS and files: connections of clients and to origins get none of
//! them, however many there are.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::LazyLock;

use rustix::io::Errno;

/// The most descriptors that are reserved, and the smallest share of the limit that is left to connections.
const MAX_RESERVED: u64 = 64;
const RESERVED_SHARE: u64 = 8;

/// RLIMIT_NOFILE when it is first asked for. The process raises it before it serves anybody.
static LIMIT: LazyLock<u64> =
    LazyLock::new(|| rlimit::Resource::NOFILE.get().map_or(u64::MAX, |(soft, _)| soft));

/// Returns how many descriptors the process may have.
pub fn limit() -> u64 {
    *LIMIT
}

/// Returns how many of them are reserved.
pub fn reserved() -> u64 {
    (limit() / RESERVED_SHARE).min(MAX_RESERVED)
}

/// Returns whether a socket has one of the reserved descriptors. The kernel gives out the lowest number that is free, so by
/// then all others are in use.
pub fn is_reserved(socket: &impl AsRawFd) -> bool {
    let number = u64::try_from(socket.as_raw_fd()).unwrap_or_default();
    number >= limit() - reserved()
}

/// Returns the error of a process that has no descriptor left.
pub fn used_up() -> io::Error {
    Errno::MFILE.into()
}

/// Returns whether a call failed because the process, or the whole machine, has no descriptor left.
pub fn are_used_up(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}
