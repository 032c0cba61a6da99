//! Sockets and descriptors outside, of every kind, tried from inside: rows of a table, each with the result that stops it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::Stage;
use crate::harness::tools::{self, output_of, project};

const REFUSED: &str = "ECONNREFUSED";
const FORBIDDEN: &str = "EPERM";
const ABSENT: &str = "ENOENT";
const GONE: &str = "ESRCH";

/// The kinds of Unix sockets. Each is tried in all the ways of [`WAYS`].
const KINDS: [&str; 3] = ["stream", "datagram", "seqpacket"];
/// The ways in which a socket outside came to its name.
const WAYS: [&str; 15] = [
    "bound by its path",
    "bound by a relative path",
    "renamed",
    "moved to another directory",
    "linked from another directory",
    "its directory was renamed",
    "line feeds in its path",
    "not unicode",
    "spaces in its path",
    "in the temporary directory",
    "in .ssh",
    "abstract",
    "by a symbolic link",
    "bound in another network namespace",
    "renamed in another network namespace",
];

/// The other attempts of sockets.py, each with its result, or with those of different kernels and users.
const ROWS: &[(&str, &str)] = &[
    ("datagram: bound by its path, with sendto", REFUSED),
    ("datagram: bound by its path, with sendmsg", REFUSED),
    ("stream: bound by its path, through /proc", REFUSED),
    ("stream: bound by its path, after removing what is over it", "EBUSY"),
    ("a path that is too long for an address", REFUSED),
    ("in a directory that cannot be listed", REFUSED),
    ("in /run", ABSENT),
    ("in /run, mounted elsewhere as a file", REFUSED),
    ("in /run, mounted elsewhere with its directory", REFUSED),
    ("in a /var/run of its own", ABSENT),
    ("in /tmp", REFUSED),
    ("in /dev/shm", REFUSED),
    ("on a file system of its own", REFUSED),
    ("named by a variable", REFUSED),
    ("a socket of the command's own", "connected"),
    ("a socket that another process left behind, made anew", "bound"),
    ("a pair of sockets of the family packet", "EPERM|EAFNOSUPPORT|EOPNOTSUPP"),
    ("links by netlink", "lo"),
    ("events of devices by netlink", "EAGAIN|EPERM"),
    // Opening them makes no interface, and names no peer: that needs a privilege, or another family.
    ("the device net/tun", "opened|ENOENT|EACCES|ENODEV"),
    ("the device vsock", "opened|ENOENT|EACCES"),
    ("the device vhost-vsock", "ENOENT|EACCES"),
    ("the device vhost-net", "ENOENT|EACCES"),
    ("the device kmem", ABSENT),
    ("the root of a process outside", ABSENT),
    ("the working directory of a process outside", ABSENT),
    ("the descriptors of a process outside", ABSENT),
    ("the memory of a process outside", ABSENT),
    ("the network of a process outside", ABSENT),
    ("the sockets of a process outside", ABSENT),
    ("a process outside by its number", GONE),
    ("ptrace of a process outside", GONE),
    ("a descriptor of process 1, opened", "EACCES"),
    ("a descriptor of process 1, duplicated", FORBIDDEN),
    ("the memory of process 1", FORBIDDEN),
    ("the network of process 1, entered", "EACCES"),
    ("an io_uring", "ENOSYS"),
    ("a bpf program", FORBIDDEN),
    ("a file by its handle", FORBIDDEN),
    ("a performance counter of the machine", "EACCES|EPERM|ENOENT"),
    ("a socket by the x32 interface", "ENOSYS"),
    ("a network namespace of its own", FORBIDDEN),
    ("typing into the terminal", FORBIDDEN),
    ("typing into the terminal, with bits that the kernel ignores", FORBIDDEN),
    ("pasting into the console", FORBIDDEN),
];

/// The families of sockets that may lead out of the machine or to its devices.
const FAMILIES: [&str; 25] = [
    "ax25",
    "ipx",
    "appletalk",
    "x25",
    "key",
    "packet",
    "rds",
    "pppox",
    "llc",
    "infiniband",
    "can",
    "tipc",
    "bluetooth",
    "rxrpc",
    "phonet",
    "ieee802154",
    "caif",
    "alg",
    "nfc",
    "vsock",
    "kcm",
    "qipcrtr",
    "smc",
    "xdp",
    "mctp",
];

/// The ways that are left, and the result: on a kernel whose Landlock knows the names of sockets, only files and descriptors lead out.
/// docs/closing.md has each.
const LEFT: &[(&str, &str)] = &[
    ("a fifo", "bound"),
    ("a descriptor that was passed", "sent"),
    ("bound later outside of /run", "connected|EACCES"),
    ("moved behind more directories than are searched", "connected|EACCES"),
    ("renamed in a directory that cannot be listed", "connected|EACCES|ECONNREFUSED"),
];

/// Returns the expected result of an attempt.
fn expected(name: &str) -> Option<&'static str> {
    let row = ROWS.iter().chain(LEFT).find(|(row, _)| *row == name);
    if let Some((_, result)) = row {
        return Some(result);
    }
    if let Some(family) = name.strip_prefix("a socket of the family ") {
        return FAMILIES.contains(&family).then_some("EAFNOSUPPORT");
    }
    let (kind, way) = name.split_once(": ")?;
    (KINDS.contains(&kind) && WAYS.contains(&way)).then_some(REFUSED)
}

/// Makes all attempts with the sockets on a file system of this kind. Returns for each its result, and whether the service outside
/// was reached.
fn attempts(file_system: &str, is_root: bool) -> BTreeMap<String, (String, bool)> {
    let stage = Stage::new();
    let command = if is_root { stage.command(&[]) } else { stage.command_of_user(&[]) };
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    // Not in /tmp, which is searched whatever is bound there.
    let base = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("it can be made");
    let readable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(base.path(), readable).expect("it is ours");
    let script = super::copy_script("sockets.py", base.path());
    let settings = json!({
        "fs": file_system,
        "uid": if is_root { 0 } else { super::USER },
        "dir": base.path(),
        "cwd": stage.dir.path(),
        "command": words,
    });
    let mut unshare = tools::clean(tools::program("unshare"));
    unshare.args(["--mount", "--propagation", "private", "/usr/bin/python3"]);
    unshare.arg(&script).arg("outside").arg(settings.to_string());
    let printed = output_of(&mut unshare, b"", super::LIMIT);
    let row = |line| {
        let (name, result, was_reached) = serde_json::from_str(line).expect("a row");
        (name, (result, was_reached))
    };
    printed.lines().map(row).collect()
}

fn check(file_system: &str, is_root: bool) {
    let results = attempts(file_system, is_root);
    let mut different = Vec::new();
    for (name, (result, was_reached)) in &results {
        let expected = expected(name).unwrap_or("no attempt of this name");
        if !expected.split('|').any(|one| one == result) {
            different.push(format!("{name}: {result}, not {expected}"));
        }
        let may_be_reached = LEFT.iter().any(|(left, _)| left == name);
        if *was_reached && !may_be_reached {
            different.push(format!("{name}: the service outside was reached"));
        }
        if !was_reached && ["bound", "sent", "connected"].contains(&&**result) && may_be_reached {
            different.push(format!("{name}: the service outside was not reached"));
        }
    }
    let ways = KINDS.iter().flat_map(|kind| WAYS.map(|way| format!("{kind}: {way}")));
    let families = FAMILIES.iter().map(|family| format!("a socket of the family {family}"));
    let rows = ROWS.iter().chain(LEFT).map(|(name, _)| (*name).to_owned());
    for name in ways.chain(families).chain(rows) {
        let needs_crowd = name == "moved behind more directories than are searched";
        if !results.contains_key(&name) && (file_system == "tmpfs" || !needs_crowd) {
            different.push(format!("{name}: not tried"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn root_reaches_no_socket_on_a_disk() {
    check("disk", true);
}

#[test]
fn root_reaches_no_socket_on_an_overlay() {
    check("overlay", true);
}

#[test]
fn root_reaches_no_socket_in_memory() {
    check("tmpfs", true);
}

#[test]
fn a_user_reaches_no_socket_on_a_disk() {
    check("disk", false);
}

#[test]
fn a_user_reaches_no_socket_on_an_overlay() {
    check("overlay", false);
}

#[test]
fn a_user_reaches_no_socket_in_memory() {
    check("tmpfs", false);
}

#[test]
fn open_ways_out_are_documented() {
    let text = std::fs::read_to_string(project().join("docs/closing.md")).expect("readable");
    for (name, _) in LEFT {
        assert!(
            text.contains(&format!("<!-- {name} -->")),
            "docs/closing.md does not have: {name}"
        );
    }
    assert!(ROWS.len() + KINDS.len() * WAYS.len() + FAMILIES.len() > 100);
}
