//! Process 1 inside: starts the command, and reaps the processes that it leaves behind. When this process ends, so does
//! everything inside.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use rustix::mount::{MountFlags, mount};

use super::signals::BlockedSignals;
use super::{privileges, socket_scope, system_calls};

/// Runs the command to its end. Returns its exit status.
///
/// # Errors
///
/// Returns an error if the PID namespace cannot be set up.
pub fn run(command: &[OsString]) -> anyhow::Result<u8> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // Otherwise /proc would show the processes outside, and this one's number there.
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).context(
        "mounting /proc: in a container, its own /proc must not be masked (Docker: \
         --security-opt systempaths=unconfined; Kubernetes: procMount: Unmasked)",
    )?;
    privileges::drop_all().context("dropping capabilities")?;
    // The command, which is the same user, could control this process otherwise.
    prctl::set_dumpable(false)?;
    socket_scope::forbid_outside_sockets()?;
    system_calls::forbid()?;
    let signals = BlockedSignals::block()?;
    let mut program = Command::new("/proc/self/exe");
    program.arg0("wayleave").args(["run-exec", "--"]).args(command);
    let program = program.spawn().context("starting the process of the command")?;
    Ok(signals.supervise(program.id())?)
}

/// Replaces this process by the command. Returns only the error if it cannot be executed.
///
/// A process of its own, because a program inherits blocked signals, and this one has no child to pass signals on to.
pub fn execute(command: &[OsString]) -> io::Error {
    if let Err(error) = SigSet::empty().thread_set_mask() {
        return error.into();
    }
    let (program, arguments) = command.split_first().expect("clap requires a command");
    Command::new(program).args(arguments).exec()
}
