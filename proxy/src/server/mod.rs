//! The process, run by a pingora server.
//!
//! ```text
//!  process ── start         builds the proxy: everything that can fail, before any service runs
//!     │  └─── announce      where everything is, for users and for systemd
//!     │
//!     ├────── services      crawlers, operators, reload: each a pingora service with its own runtime
//!     └────── shutdown      the signals, and the drain that follows them
//!
//!  command                  the same for the connections of one command, until it ends
//!  in_process               the same for requests of this process itself
//!  reload                   replaces the configuration of a running proxy
//! ```

mod announce;
mod command;
mod gateways;
pub(crate) mod in_process;
mod process;
pub(crate) mod reload;
mod services;
mod shutdown;
mod start;

pub(crate) use self::command::run_for_command;
pub(crate) use self::process::run;
