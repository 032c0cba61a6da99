//! Runs a command in namespaces of its own, from which nothing but wayleave can be reached.
//!
//! The network namespace has no interface but `lo`, and a local route for every address: to the command, the whole internet is
//! this machine. Our sockets listen there on the captured ports and on port 53; the kernel refuses everything else at once. The
//! sockets are passed to the proxy outside, which accepts and connects as usual.
//!
//! ```text
//!  enclosure            outside: starts the entry, receives the sockets, waits for the command
//!     ├─ entry            makes the namespaces and the sockets, then starts init
//!     │    ├─ network       `lo`, the routes, the sockets
//!     │    ├─ mounts        names by our server only, the CA's certificate, no sockets of services outside
//!     │    │    └─ sockets     where those are
//!     │    └─ privileges    none is left to the command
//!     ├─ init             process 1 of the new PID namespace: starts the command
//!     │    ├─ socket_scope  no connections to Unix sockets outside, where the kernel can forbid them
//!     │    └─ system_calls  no sockets that a network namespace does not confine, and no typing into the terminal
//!     ├─ handover         passes sockets from inside to outside
//!     └─ signals          passes signals on, from each process to the one that it started
//!
//!  dns ── names         the addresses that names have inside
//! ```
//!
//! This crate knows nothing of HTTP or robots.txt. Begin reading at [`Enclosure`].

mod dns;
mod enclosure;
mod entry;
mod handover;
mod init;
mod mounts;
mod names;
mod network;
mod privileges;
mod signals;
mod socket_scope;
mod sockets;
mod system_calls;

pub use self::dns::DnsServer;
pub use self::enclosure::{Enclosure, EnclosureSockets};
pub use self::entry::{FAILED, enter};
pub use self::init::{execute, run as run_init};
pub use self::mounts::MountPlan;
pub use self::names::ReservedNames;
pub use self::signals::BlockedSignals;
