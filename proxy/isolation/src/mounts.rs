//! The mounts inside: the files that the command sees instead of the machine's own.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use nix::unistd::Uid;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use serde::{Deserialize, Serialize};

use super::sockets::{RUN_DIRS, find_outside_sockets};

/// The mounts to make.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct MountPlan {
    /// Files and directories (second) that show others (first).
    replaced: Vec<(PathBuf, PathBuf)>,
    /// Sockets to which nothing inside can connect. Their names need not be Unicode.
    hidden: Vec<OsString>,
}

impl MountPlan {
    /// Shows `source` in place of `target`, if there is one.
    pub fn replace(&mut self, source: PathBuf, target: impl Into<PathBuf>) {
        let target = target.into();
        // Links are followed now: their targets may be hidden later.
        if let Ok(target) = target.canonicalize() {
            self.replaced.push((source, target));
        }
    }

    /// Makes our name server, and it alone, the one that resolves names. Writes the files that say so to `dir`.
    pub fn resolve_names_inside(&mut self, dir: &Path) -> io::Result<()> {
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
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be known which there are.
    pub fn hide_services(&mut self) -> anyhow::Result<()> {
        self.hidden.extend(find_outside_sockets()?.into_iter().map(PathBuf::into_os_string));
        Ok(())
    }

    /// Makes the mounts in this process's namespace, which is new.
    ///
    /// # Errors
    ///
    /// Returns an error if the process lacks a capability in its namespace.
    pub(super) fn apply(&self) -> anyhow::Result<()> {
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).context("making the mounts private")?;
        let in_run = |target: &Path| RUN_DIRS.iter().any(|dir| target.starts_with(dir));
        let (in_run, elsewhere): (Vec<_>, Vec<_>) =
            self.replaced.iter().partition(|(_, target)| in_run(target));
        for (source, target) in elsewhere {
            mount_bind(source, target)
                .with_context(|| format!("mounting over {}", target.display()))?;
        }
        for socket in &self.hidden {
            hide_socket(Path::new(socket))?;
        }
        let mut kept = Vec::with_capacity(in_run.len());
        for (source, target) in in_run {
            kept.push((target, fs::read(source)?));
        }
        cover_run()?;
        for (target, content) in kept {
            fs::create_dir_all(target.parent().context("a file is in a directory")?)?;
            fs::write(target, content)?;
        }
        Ok(())
    }
}

/// Mounts something over a socket that nobody can connect to.
fn hide_socket(socket: &Path) -> anyhow::Result<()> {
    let mounted = mount_bind("/dev/null", socket).map_err(io::Error::from);
    let is_socket = |path: &Path| -> io::Result<bool> {
        Ok(fs::symlink_metadata(path)?.file_type().is_socket())
    };
    match mounted.and_then(|()| is_socket(socket)) {
        // It may be gone, or out of reach; then it is for the command, too.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => {
            Ok(())
        }
        Err(error) => Err(error).with_context(|| format!("covering {}", socket.display())),
        Ok(is_socket) => {
            ensure!(!is_socket, "{} cannot be covered", socket.display());
            Ok(())
        }
    }
}

/// Covers /run with an empty directory, in which later sockets of services do not appear either; and /var/run, if that is another.
fn cover_run() -> anyhow::Result<()> {
    let mut dirs = BTreeSet::new();
    for dir in RUN_DIRS {
        // Usually, one is a link to the other.
        match fs::canonicalize(dir) {
            Ok(dir) => drop(dirs.insert(dir)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("covering {dir}")),
        }
    }
    for path in dirs {
        // Some systems keep links to their programs here (NixOS: /run/current-system). Without them if it cannot be listed.
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        let links: Vec<(PathBuf, PathBuf)> = entries
            .filter_map(|entry| Some((entry.path(), fs::read_link(entry.path()).ok()?)))
            .collect();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("tmpfs", &path, "tmpfs", flags, Some(c"mode=0755"))
            .with_context(|| format!("covering {}", path.display()))?;
        for (link, target) in links {
            symlink(target, link)?;
        }
        let lock = path.join("lock");
        fs::create_dir(&lock)?;
        fs::set_permissions(&lock, Permissions::from_mode(0o1777))?;
        // Where XDG_RUNTIME_DIR usually is.
        let own = path.join("user").join(Uid::current().to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(own)?;
    }
    Ok(())
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
    fn hosts_are_looked_up_by_dns_alone() {
        let switch = "passwd: files\n hosts: files mdns4_minimal [NOTFOUND=return] resolve\nnetworks: files\n";
        assert_eq!(with_hosts_by_dns(switch), "passwd: files\nnetworks: files\nhosts: files dns\n");
    }
}
