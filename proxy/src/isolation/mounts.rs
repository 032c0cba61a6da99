//! The mounts inside: what the command sees instead of the machine's own files.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::unistd::Uid;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use serde::{Deserialize, Serialize};

/// The directory of the sockets of services.
const RUN: &str = "/run";

/// The mounts to make.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct MountPlan {
    /// Files and directories (second) that show others (first).
    replaced: Vec<(PathBuf, PathBuf)>,
    /// Sockets to which nothing inside can connect.
    hidden: Vec<PathBuf>,
}

impl MountPlan {
    /// Shows `source` in place of `target`, if there is one.
    pub(crate) fn replace(&mut self, source: PathBuf, target: impl Into<PathBuf>) {
        let target = target.into();
        // Links are followed now: what they lead to may be hidden later.
        if let Ok(target) = target.canonicalize() {
            self.replaced.push((source, target));
        }
    }

    /// Makes our name server, and it alone, the one that resolves names. Writes the files that say so to `dir`.
    pub(crate) fn resolve_names_inside(&mut self, dir: &Path) -> io::Result<()> {
        let switch = fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default();
        let files = [
            ("resolv.conf", "nameserver 127.0.0.1\noptions timeout:2 attempts:2\n".to_owned()),
            ("hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n".to_owned()),
            ("nsswitch.conf", with_hosts_by_dns(&switch)),
        ];
        for (name, text) in files {
            let file = dir.join(name);
            fs::write(&file, text)?;
            self.replace(file, Path::new("/etc").join(name));
        }
        Ok(())
    }

    /// Hides the sockets that services have bound outside of /run, which is hidden as a whole. Each could be asked to connect to
    /// somewhere for the command, as Docker's and tmux's can.
    pub(crate) fn hide_services(&mut self) {
        let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let bound: BTreeSet<PathBuf> = table.lines().filter_map(bound_path).collect();
        let is_socket = |path: &PathBuf| {
            fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
        };
        self.hidden.extend(bound.into_iter().filter(is_socket));
    }

    /// Makes the mounts in this process's namespace, which is new.
    ///
    /// # Errors
    ///
    /// Returns an error if the process lacks a capability in its namespace.
    pub(super) fn apply(&self) -> anyhow::Result<()> {
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).context("making the mounts private")?;
        let (in_run, elsewhere): (Vec<_>, Vec<_>) =
            self.replaced.iter().partition(|(_, target)| target.starts_with(RUN));
        for (source, target) in elsewhere {
            mount_bind(source, target)
                .with_context(|| format!("mounting over {}", target.display()))?;
        }
        for socket in &self.hidden {
            // It may be gone, or out of reach; then it is for the command, too.
            let _ = mount_bind("/dev/null", socket);
        }
        let mut kept = Vec::with_capacity(in_run.len());
        for (source, target) in in_run {
            kept.push((target, fs::read(source)?));
        }
        cover_run().context("covering /run")?;
        for (target, content) in kept {
            fs::create_dir_all(target.parent().unwrap_or(Path::new(RUN)))?;
            fs::write(target, content)?;
        }
        Ok(())
    }
}

/// Covers /run with an empty directory, in which later sockets of services do not appear either.
fn cover_run() -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(RUN) else {
        return Ok(());
    };
    // Some systems keep links to their programs here (NixOS: /run/current-system).
    let links: Vec<(PathBuf, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((entry.path(), fs::read_link(entry.path()).ok()?)))
        .collect();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", RUN, "tmpfs", flags, Some(c"mode=0755"))?;
    for (path, target) in links {
        symlink(target, path)?;
    }
    let lock = Path::new(RUN).join("lock");
    fs::create_dir(&lock)?;
    fs::set_permissions(&lock, Permissions::from_mode(0o1777))?;
    // Where XDG_RUNTIME_DIR usually is.
    let own = Path::new(RUN).join("user").join(Uid::current().to_string());
    DirBuilder::new().recursive(true).mode(0o700).create(own)?;
    Ok(())
}

/// Returns the path in a line of /proc/net/unix (proc_net_unix(5)), if it has one that is not hidden with /run.
fn bound_path(line: &str) -> Option<PathBuf> {
    // Seven columns precede it, and it may contain spaces.
    let (_, path) = line.split_once(" /")?;
    let path = Path::new("/").join(path);
    let is_in_run = path.starts_with(RUN) || path.starts_with("/var/run");
    (!is_in_run).then_some(path)
}

/// Returns nsswitch.conf with hosts looked up in /etc/hosts and by DNS, and by nothing else.
fn with_hosts_by_dns(switch: &str) -> String {
    let others = switch.lines().filter(|line| !line.trim_start().starts_with("hosts:"));
    others.chain(["hosts: files dns"]).flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_sockets_outside_of_run_are_found() {
        let path = |rest: &str| {
            bound_path(&format!("0000000000000000: 00000002 00000000 00010000 0001 01 20304{rest}"))
        };
        let expected = Some(PathBuf::from("/tmp/tmux-0/my default"));
        assert_eq!(path(" /tmp/tmux-0/my default"), expected);
        for rest in ["", " @/tmp/abstract", " /run/docker.sock", " /var/run/nscd/socket"] {
            assert_eq!(path(rest), None, "{rest}");
        }
        assert_eq!(bound_path("Num       RefCount Protocol Flags    Type St Inode Path"), None);
    }

    #[test]
    fn hosts_are_looked_up_by_dns_alone() {
        let switch = "passwd: files\n hosts: files mdns4_minimal [NOTFOUND=return] resolve\nnetworks: files\n";
        assert_eq!(with_hosts_by_dns(switch), "passwd: files\nnetworks: files\nhosts: files dns\n");
    }
}
