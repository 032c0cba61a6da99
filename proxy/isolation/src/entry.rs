//! The process between outside and inside: it makes the namespaces, and sets them up while it still may.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, anyhow};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid};

use super::mounts::MountPlan;
use super::signals::BlockedSignals;
use super::{handover, network, privileges};

/// The exit status if wayleave itself fails, as of env(1), timeout(1) and `docker run`.
pub const FAILED: u8 = 125;

/// Makes the namespaces, passes sockets for `ports` to the process that listens at `control`, makes the mounts that it answers
/// with, and runs the command. Returns the command's exit status.
///
/// # Errors
///
/// Returns an error if the namespaces cannot be made or set up; it names the remedies of an administrator.
pub fn enter(control: &Path, ports: &[u16], command: &[OsString]) -> anyhow::Result<u8> {
    let signals = BlockedSignals::block()?;
    let mut control = UnixStream::connect(control).context("wayleave has ended")?;
    make_namespaces().map_err(|error| explain(&error))?;
    // After the change of credentials, which may reset it: nothing runs inside without the proxy outside.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let sockets = network::set_up(ports).map_err(|error| explain(&error))?;
    let borrowed: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    handover::send(&control, &borrowed).context("passing the sockets")?;
    drop(sockets);
    let mut plan = Vec::new();
    control.read_to_end(&mut plan)?;
    if plan.is_empty() {
        // The proxy could not start, and has said why.
        return Ok(FAILED);
    }
    let plan: MountPlan = serde_json::from_slice(&plan)?;
    plan.apply()?;
    privileges::reduce_to_mounting().context("dropping privileges")?;
    let mut init = Command::new("/proc/self/exe");
    init.arg0("wayleave").args(["run-init", "--"]).args(command);
    let init = init.spawn().context("starting process 1")?;
    Ok(signals.supervise(init.id())?)
}

/// Moves this process into new namespaces, in which users and groups have the numbers that they have outside.
fn make_namespaces() -> anyhow::Result<()> {
    let user = Uid::effective();
    let group = Gid::effective();
    // A network namespace alone would need root. The next process is the first of the PID namespace.
    let flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC;
    unshare(flags).context("creating namespaces")?;
    let write = |file: &str, text: String| {
        let path = Path::new("/proc/self").join(file);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    // Without privileges a group can be mapped only if groups cannot be dropped any more (user_namespaces(7)).
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{user} {user} 1"))?;
    write("gid_map", format!("{group} {group} 1"))
}

/// Adds to the error the setting that keeps users from creating namespaces here, and an administrator's remedies.
fn explain(error: &anyhow::Error) -> anyhow::Error {
    anyhow!("{error:#}: {}", advice(|path| Ok(fs::read_to_string(path)?.trim().to_owned())))
}

/// Returns the advice for a machine whose kernel settings `read` returns.
fn advice(read: impl Fn(&str) -> io::Result<String>) -> &'static str {
    let is = |path: &str, value: &str| read(path).is_ok_and(|text| text == value);
    if is("/proc/sys/user/max_user_namespaces", "0") {
        "user namespaces are switched off here. An administrator can allow them: \
         `sysctl user.max_user_namespaces=10000`"
    } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "user namespaces are reserved for root here. An administrator can allow them: \
         `sysctl kernel.unprivileged_userns_clone=1`"
    } else if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor restricts user namespaces here. An administrator can allow them to wayleave by a profile with \
         `userns,`, or to all: `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    } else {
        "user namespaces seem to be forbidden here. In a container, its seccomp profile must allow unshare(2) \
         (Docker: `--security-opt seccomp=unconfined`)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_namespaces_is_named() {
        let settings = [
            ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces"),
            ("/proc/sys/kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
            ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
            ("/proc/sys/user/max_user_namespaces", "9", "seccomp"),
        ];
        for (path, value, word) in settings {
            let read = |asked: &str| {
                let found = (asked == path).then(|| value.to_owned());
                found.ok_or(io::Error::from(io::ErrorKind::NotFound))
            };
            assert!(advice(read).contains(word), "{path}");
        }
    }
}
