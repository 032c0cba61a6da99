//! Passes signals on to the process that this one started.

use std::io;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The signals that are passed on. Those of job control reach the command without help: it is in our process group.
const FORWARDED: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
];

/// The signals for a child, and of its end. They are blocked and read one by one, because only so their sender is known.
pub struct BlockedSignals(SignalFd);

impl BlockedSignals {
    /// Blocks the signals in this thread, and in all threads and processes that it starts from now on.
    ///
    /// # Errors
    ///
    /// Returns an error if the process has no room for a descriptor.
    pub fn block() -> io::Result<Self> {
        let mut mask = SigSet::empty();
        for signal in FORWARDED.into_iter().chain([Signal::SIGCHLD]) {
            mask.add(signal);
        }
        mask.thread_block()?;
        Ok(Self(SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC)?))
    }

    /// Passes signals on to `child` until it ends, and reaps other processes that end. Returns its exit status as a shell
    /// has it: 128 and the signal's number if a signal ended it.
    ///
    /// # Errors
    ///
    /// Returns an error if `child` is not a child of this process.
    pub(crate) fn supervise(&self, child: u32) -> io::Result<u8> {
        let child = Pid::from_raw(child.try_into().map_err(io::Error::other)?);
        loop {
            let info = match self.0.read_signal() {
                Ok(Some(info)) => info,
                // The process was stopped and continued.
                Ok(None) | Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let signal = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
            let signal = Signal::try_from(signal)?;
            if signal == Signal::SIGCHLD {
                if let Some(status) = reap(child)? {
                    return Ok(status);
                }
            } else if info.ssi_code <= 0 {
                // Only a process's (SI_USER and below): the terminal sends its own to the whole process group. It fails if the
                // child has just ended.
                let _ = kill(child, signal);
            }
        }
    }
}

/// Reaps all processes that have ended. Returns the exit status of `child` if it is one of them.
fn reap(child: Pid) -> io::Result<Option<u8>> {
    let mut status = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) if status.is_some() => {
                return Ok(status);
            }
            Ok(WaitStatus::StillAlive) => return Ok(None),
            Ok(WaitStatus::Exited(pid, code)) if pid == child => {
                // An exit status has eight bits.
                status = u8::try_from(code & 0xff).ok();
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                status = u8::try_from(128 + signal as i32).ok();
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
