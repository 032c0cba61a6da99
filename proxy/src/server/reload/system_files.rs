//! The system's files about names and roots. Their changes are looked for from time to time: a file that is mounted into a
//! container changes outside it, where inotify does not look.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use wayleave_transport::tls::roots::root_paths;
use wayleave_upstream::egress::{HOSTS, RESOLV_CONF};

/// The interval at which changes are looked for.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The files, and the version of each when it was last looked at.
#[derive(Clone, Debug)]
pub(crate) struct SystemFiles {
    paths: Vec<PathBuf>,
    versions: Vec<Option<FileVersion>>,
}

/// The properties that differ between two versions of a file: device, inode, size, and the time of the last change.
type FileVersion = (u64, u64, u64, i64, i64);

impl SystemFiles {
    pub(crate) fn new() -> Self {
        let mut paths = root_paths();
        paths.extend([RESOLV_CONF, HOSTS].map(PathBuf::from));
        Self::of(paths)
    }

    pub(super) fn of(paths: Vec<PathBuf>) -> Self {
        Self { versions: versions(&paths), paths }
    }

    /// Returns whether any has changed since the previous call.
    pub(super) fn have_changed(&mut self) -> bool {
        let before = std::mem::replace(&mut self.versions, versions(&self.paths));
        before != self.versions
    }
}

fn versions(paths: &[PathBuf]) -> Vec<Option<FileVersion>> {
    let metadata = paths.iter().map(|path| fs::metadata(path).ok());
    let version = |it: fs::Metadata| (it.dev(), it.ino(), it.size(), it.ctime(), it.ctime_nsec());
    metadata.map(|metadata| metadata.map(version)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_a_system_file_is_noticed_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("resolv.conf");
        let mut files = SystemFiles::of(vec![file.clone()]);
        assert!(!files.have_changed());
        for text in ["", "nameserver 192.0.2.1"] {
            fs::write(&file, text).unwrap();
            assert!(files.have_changed(), "{text:?}");
            assert!(!files.have_changed());
        }
        // As it is replaced by programs that write to a file beside it.
        fs::write(dir.path().join("new"), "nameserver 192.0.2.1").unwrap();
        fs::rename(dir.path().join("new"), &file).unwrap();
        assert!(files.have_changed());
        fs::remove_file(&file).unwrap();
        assert!(files.have_changed());
    }
}
