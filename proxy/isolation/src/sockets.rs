//! Finds the Unix sockets outside our namespaces. No namespace blocks them: whoever may write to a socket's file can connect to it.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// The directories in which services keep their sockets. They are hidden as a whole, not searched.
pub(super) const RUN_DIRS: [&str; 2] = ["/run", "/var/run"];
/// The directories of other sockets, whoever bound them, and under whatever name.
const SEARCHED_DIRS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// The file systems in which nobody can bind a socket.
const KERNEL_FILE_SYSTEMS: [&[u8]; 17] = [
    b"autofs",
    b"binfmt_misc",
    b"bpf",
    b"cgroup",
    b"cgroup2",
    b"configfs",
    b"debugfs",
    b"devpts",
    b"efivarfs",
    b"fusectl",
    b"hugetlbfs",
    b"mqueue",
    b"proc",
    b"pstore",
    b"securityfs",
    b"sysfs",
    b"tracefs",
];
/// The number of directories that are searched below one, the nearest first.
const MAX_DIRS: usize = 5_000;

/// Returns the files of the sockets of this machine to which this user could connect.
///
/// # Errors
///
/// Returns an error if the kernel does not say which sockets are bound, or a directory that is likely to have some cannot be listed.
pub(super) fn find_outside_sockets() -> anyhow::Result<BTreeSet<PathBuf>> {
    let table = fs::read("/proc/self/mountinfo").context("reading the mount table")?;
    let mounts: Vec<_> = table.split(|byte| *byte == b'\n').filter_map(MountEntry::parse).collect();
    let mut search = SocketSearch::default();
    for name in bound_names()? {
        search.look_for(Path::new(&name));
        for path in other_paths(Path::new(&name), &mounts) {
            search.look_for_path(&path);
        }
    }
    for dir in likely_dirs() {
        search
            .search_below(&dir)
            .with_context(|| format!("{}: its sockets could not be hidden", dir.display()))?;
    }
    for MountEntry { point, .. } in mounts.iter().filter(|mount| !is_in_run(&mount.point)) {
        if point == Path::new("/") {
            search.look_in(point);
        } else if !search.add_if_socket(point) {
            search.search_if_listable(point);
        }
    }
    search.files.retain(|path| is_bound(path));
    Ok(search.files)
}

/// A search for files of sockets, whether they are bound or left over.
#[derive(Debug, Default)]
struct SocketSearch {
    files: BTreeSet<PathBuf>,
    searched: BTreeSet<PathBuf>,
}

impl SocketSearch {
    /// Adds the socket that was bound to this name, and those beside it. If its file is gone, or has other names too, also adds the
    /// sockets below the directories above it, since it may have been renamed.
    fn look_for(&mut self, name: &Path) {
        if name.is_absolute() {
            self.look_for_path(name);
            return;
        }
        // The name is as it was passed to bind(2), by a process that nobody knows. It may also be that of an abstract socket.
        for dir in working_dirs() {
            let path = dir.join(name);
            if path.parent().is_some_and(Path::is_dir) {
                self.look_for_path(&path);
            }
        }
    }

    fn look_for_path(&mut self, path: &Path) {
        if is_in_run(path) {
            return;
        }
        let file = fs::symlink_metadata(path).ok().filter(|file| file.file_type().is_socket());
        self.files.extend(file.as_ref().map(|_| path.to_owned()));
        let mut dirs = path.ancestors().skip(1).filter(|dir| dir.is_dir());
        if file.is_some_and(|file| file.nlink() == 1) {
            dirs.next().into_iter().for_each(|dir| self.look_in(dir));
            return;
        }
        // It has another name, or had one: the file or a directory above it was renamed.
        for (distance, dir) in dirs.enumerate() {
            if distance == 0 || dir != Path::new("/") {
                self.search_if_listable(dir);
            }
        }
    }

    fn add_if_socket(&mut self, path: &Path) -> bool {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket && !is_in_run(path) {
            self.files.insert(path.to_owned());
        }
        is_socket
    }

    /// Adds the sockets in a directory.
    fn look_in(&mut self, dir: &Path) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            self.add_entry(&entry);
        }
    }

    fn add_entry(&mut self, entry: &DirEntry) {
        if entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            self.files.insert(entry.path());
        }
    }

    /// Searches like [`search_below`](Self::search_below), but passes over a root that cannot be listed: sockets there are found
    /// only under the names to which they were bound.
    fn search_if_listable(&mut self, root: &Path) {
        let _ = self.search_below(root);
    }

    /// Adds the sockets below a directory on its file system, in the nearest [`MAX_DIRS`] directories.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory is there and cannot be listed.
    fn search_below(&mut self, root: &Path) -> io::Result<()> {
        let root = match root.canonicalize().and_then(|root| fs::read_dir(&root).map(|_| root)) {
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) =>
            {
                return Ok(());
            }
            root => root?,
        };
        if is_in_run(&root) || !self.searched.insert(root.clone()) {
            return Ok(());
        }
        let device = |path: &Path| fs::symlink_metadata(path).map(|found| found.dev()).ok();
        let root_device = device(&root);
        let mut waiting = VecDeque::from([root]);
        let mut searched = 0;
        while let Some(dir) = waiting.pop_front().filter(|_| searched < MAX_DIRS) {
            searched += 1;
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                self.add_entry(&entry);
                let path = entry.path();
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_dir && !is_in_run(&path) && device(&path) == root_device {
                    waiting.push_back(path);
                }
            }
        }
        Ok(())
    }
}

fn is_in_run(path: &Path) -> bool {
    RUN_DIRS.iter().any(|dir| path.starts_with(dir))
}

/// Returns whether a socket is bound to the file. A process that has ended may have left the file behind: nobody can connect to
/// that, and a program that binds the name again must be able to remove it.
fn is_bound(path: &Path) -> bool {
    // The kernel finds the socket by device and inode. Connecting a datagram socket sends nothing, and does not reach sockets of
    // other types.
    let connected = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    // A path too long for an address cannot be tried, and so counts as bound.
    !connected.is_err_and(|error| {
        matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound)
    })
}

/// Returns the directories of this user, and those in which everybody may create files. Those of sockets that the environment names
/// are among them.
fn likely_dirs() -> BTreeSet<PathBuf> {
    let mut dirs: BTreeSet<PathBuf> = SEARCHED_DIRS.iter().map(PathBuf::from).collect();
    dirs.extend(std::env::current_dir());
    dirs.extend(std::env::var_os("TMPDIR").map(PathBuf::from));
    if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
        // In a large home, `.ssh` may be too far away.
        dirs.extend([home.join(".ssh"), home]);
    }
    for (_, value) in std::env::vars_os() {
        // Such as `unix:path=/home/me/.bus,guid=1` or `unix:///home/me/docker.sock`.
        for part in value.as_bytes().split(|byte| b"=,:;".contains(byte)) {
            let path = Path::new(OsStr::from_bytes(part));
            if path.is_absolute()
                && fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
            {
                dirs.extend(
                    path.canonicalize().ok().and_then(|path| Some(path.parent()?.to_owned())),
                );
            }
        }
    }
    dirs
}

/// Returns the numbers of processes, as directories of /proc.
fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_bytes()[0].is_ascii_digit())
        .map(|entry| entry.path())
}

fn working_dirs() -> BTreeSet<PathBuf> {
    processes().filter_map(|process| fs::read_link(process.join("cwd")).ok()).collect()
}

/// Returns the names of sockets that are bound in any network namespace of a process.
fn bound_names() -> anyhow::Result<BTreeSet<OsString>> {
    let own = fs::read("/proc/self/net/unix").context("reading which sockets are bound")?;
    let mut names: BTreeSet<_> = names_in(&own).into_iter().collect();
    let mut seen = BTreeSet::new();
    for process in processes() {
        let table = process.join("net/unix");
        // Each namespace has a file of its own. A process may have ended meanwhile.
        let number = |path: &Path| -> io::Result<u64> { Ok(fs::metadata(path)?.ino()) };
        if number(&table).is_ok_and(|number| seen.insert(number)) {
            names.extend(names_in(&fs::read(&table).unwrap_or_default()));
        }
    }
    names.remove(OsStr::new(""));
    Ok(names)
}

/// Returns the names in a table such as /proc/net/unix (proc_net_unix(5)), which may contain spaces and line feeds.
fn names_in(table: &[u8]) -> Vec<OsString> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let table = table.strip_suffix(b"\n").unwrap_or(table);
    for line in table.split(|byte| *byte == b'\n').skip(1) {
        match (name_column(line), names.last_mut()) {
            (Some(name), _) => names.push(name.to_owned()),
            (None, Some(begun)) => begun.extend([b"\n", line].concat()),
            (None, None) => {}
        }
    }
    names.into_iter().map(OsString::from_vec).collect()
}

/// Returns the name in a line, which is empty if the socket has none; `None` if no socket begins in this line.
fn name_column(line: &[u8]) -> Option<&[u8]> {
    let is_number = |column: &[u8]| column.iter().all(u8::is_ascii_hexdigit) && !column.is_empty();
    let (address, mut rest) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
    rest = &rest[1..];
    for _ in 0..6 {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        if !is_number(&rest[..end]) {
            return None;
        }
        rest = &rest[end..];
    }
    is_number(address).then(|| rest.strip_prefix(b" ").unwrap_or_default())
}

/// A line of the mount table (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq, Eq)]
struct MountEntry {
    device: OsString,
    /// The directory of the file system, or the file, that is mounted.
    root: PathBuf,
    point: PathBuf,
}

impl MountEntry {
    /// Parses a line; `None` if no socket can be bound there.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut columns = line.split(|byte| *byte == b' ');
        let device = columns.nth(2)?;
        let mut path = || Some(PathBuf::from(OsString::from_vec(unescape(columns.next()?))));
        let root = path()?;
        let point = path()?;
        let kind = columns.skip_while(|column| *column != b"-").nth(1)?;
        let device = OsStr::from_bytes(device).to_owned();
        (!KERNEL_FILE_SYSTEMS.contains(&kind)).then_some(Self { device, root, point })
    }
}

/// Returns the paths of a file at the other places where its file system is mounted.
fn other_paths(path: &Path, mounts: &[MountEntry]) -> Vec<PathBuf> {
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    let Some(own) = around.max_by_key(|mount| mount.point.as_os_str().len()) else {
        return Vec::new();
    };
    let below = |path: &Path, dir: &Path| path.strip_prefix(dir).ok().map(Path::to_owned);
    let Some(in_file_system) = below(path, &own.point).map(|rest| own.root.join(rest)) else {
        return Vec::new();
    };
    let others =
        mounts.iter().filter(|mount| mount.device == own.device && mount.point != own.point);
    let other_path = |mount: &MountEntry| {
        let rest = below(&in_file_system, &mount.root)?;
        // Joining nothing would append a slash.
        Some(if rest.as_os_str().is_empty() { mount.point.clone() } else { mount.point.join(rest) })
    };
    others.filter_map(other_path).collect()
}

/// Returns a column of the mount table with its octal escapes (`\040` is a space) decoded.
fn unescape(column: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(column.len());
    let mut rest = column;
    while let Some((first, after)) = rest.split_first() {
        let digits = (*first == b'\\').then(|| after.get(..3)).flatten();
        let code =
            digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        decoded.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    decoded
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn names_may_contain_whatever_files_may() {
        let entry = |name: &[u8]| {
            [b"0000000000000000: 00000002 00000000 00010000 0001 01   304", name, b"\n"].concat()
        };
        let table = [
            b"Num       RefCount Protocol Flags    Type St Inode Path\n".to_vec(),
            entry(b""),
            entry(b" /tmp/tmux-0/my default"),
            entry(b" /tmp/a\nb\n\n12: c"),
            entry(b" relative"),
            entry(b" @abstract"),
            entry(b" /tmp/\xff"),
        ]
        .concat();
        let expected: [&[u8]; 6] = [
            b"",
            b"/tmp/tmux-0/my default",
            b"/tmp/a\nb\n\n12: c",
            b"relative",
            b"@abstract",
            b"/tmp/\xff",
        ];
        assert_eq!(names_in(&table), expected.map(|name| OsString::from_vec(name.to_vec())));
        assert!(names_in(b"Num       RefCount Protocol Flags    Type St Inode Path\n").is_empty());
    }

    fn mounted(line: &str) -> Option<MountEntry> {
        MountEntry::parse(format!("36 35 {line}").as_bytes())
    }

    #[test]
    fn mount_points_are_unescaped_and_those_of_the_kernel_left_out() {
        let found = mounted(r"98:0 /docker.sock /a\040b\134 rw,noatime master:1 - tmpfs none rw");
        assert_eq!(found.map(|mount| mount.point), Some(PathBuf::from("/a b\\")));
        for other in ["0:5 / /proc rw - proc proc rw", "0:5 /", ""] {
            assert_eq!(mounted(other), None, "{other}");
        }
    }

    #[test]
    fn a_path_is_found_wherever_its_file_system_is_mounted() {
        let mounts = [
            "8:1 / / rw - ext4 none rw",
            "0:9 / /run rw - tmpfs none rw",
            "0:9 /docker.sock /srv/docker.sock rw - tmpfs none rw",
            "0:9 /user /mnt/user rw - tmpfs none rw",
            "8:1 /home /mnt/home rw - ext4 none rw",
        ]
        .map(|line| mounted(line).unwrap());
        for (path, expected) in [
            ("/run/docker.sock", &["/srv/docker.sock"][..]),
            ("/run/user/1/bus", &["/mnt/user/1/bus"]),
            ("/run/other", &[]),
            ("/mnt/home/me/s", &["/home/me/s"]),
            ("/home/me/s", &["/mnt/home/me/s"]),
        ] {
            let expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(other_paths(Path::new(path), &mounts), expected, "{path}");
        }
    }

    #[test]
    fn only_bound_sockets_count_however_they_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "").unwrap();
        assert!(!is_bound(&path("file")));
        let stream = UnixListener::bind(path("bound")).unwrap();
        fs::rename(path("bound"), path("renamed")).unwrap();
        fs::hard_link(path("renamed"), path("linked")).unwrap();
        let datagrams = UnixDatagram::bind(path("datagrams")).unwrap();
        for name in ["renamed", "linked", "datagrams"] {
            assert!(is_bound(&path(name)), "{name}");
        }
        drop((stream, datagrams));
        for name in ["renamed", "linked", "datagrams", "bound"] {
            assert!(!is_bound(&path(name)), "{name}");
        }
    }
}
