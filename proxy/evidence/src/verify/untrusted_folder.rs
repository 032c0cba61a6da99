//! Access to an export's folder, which is untrusted: links are not followed, and only regular files are opened, since a pipe or
//! a device may never end.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, ensure};

/// The depth of the folders of an export.
const MAX_DEPTH: usize = 2;

/// Opens a file by its path in the export, whose parts are separated by slashes.
///
/// # Errors
///
/// Returns an error if it does not exist, is not a regular file, or is behind a link.
pub(super) fn open_file(dir: &Path, path: &str) -> anyhow::Result<File> {
    let mut current = dir.to_owned();
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        ensure!(!matches!(part, "" | "." | ".."), "is not a path of an export");
        // Each folder on the way is checked, because a link may stand in for any of them.
        current.push(part);
        let found = fs::symlink_metadata(&current)?;
        let is_expected = if parts.peek().is_none() { found.is_file() } else { found.is_dir() };
        ensure!(is_expected, "is not a regular file: links are not followed");
    }
    File::open(&current).context("cannot be opened")
}

/// Returns the paths of everything in the folder, sorted. Folders are listed only if they are too deep to belong to an export.
pub(super) fn list_paths(dir: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    collect(dir, "", MAX_DEPTH, &mut paths);
    paths.sort();
    paths
}

fn collect(dir: &Path, prefix: &str, depth: usize, paths: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && depth > 1 {
            collect(&entry.path(), &format!("{name}/"), depth - 1, paths);
        } else {
            paths.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn links_pipes_and_outside_paths_are_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        fs::create_dir_all(out.join("bodies")).unwrap();
        fs::write(dir.path().join("elsewhere"), "a").unwrap();
        fs::write(out.join("bodies/file"), "a").unwrap();
        symlink(dir.path().join("elsewhere"), out.join("bodies/link")).unwrap();
        symlink(dir.path(), out.join("log")).unwrap();
        symlink(&out, out.join("bodies/loop")).unwrap();
        let made = Command::new("mkfifo").arg(out.join("bodies/pipe")).status();
        assert!(made.unwrap().success());
        assert!(open_file(&out, "bodies/file").is_ok());
        for path in [
            "bodies/link",
            "bodies/pipe",
            "bodies",
            "log/elsewhere",
            "../elsewhere",
            "bodies/loop/bodies/file",
            "/etc/passwd",
            "bodies//file",
        ] {
            assert!(open_file(&out, path).is_err(), "{path}");
        }
        let expected = ["bodies/file", "bodies/link", "bodies/loop", "bodies/pipe", "log"];
        assert_eq!(list_paths(&out), expected);
    }
}
