//! Files in directories where others may have put something else: a pipe has no end until its writer leaves, and opening one
//! waits for somebody at its other end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Opens a file to read.
///
/// # Errors
///
/// Returns an error if it cannot be opened, or is a directory, a pipe, a socket or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // Before it is opened, which has an effect on some devices.
    check(&fs::metadata(path)?)?;
    let file = options().read(true).open(path)?;
    // And after that, because it may have been replaced in between.
    check(&file.metadata()?)?;
    Ok(file)
}

/// Returns the contents of a file.
///
/// # Errors
///
/// Returns an error as [`open`] does, or if it cannot be read to its end.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the contents of a file that is text.
///
/// # Errors
///
/// Returns an error as [`read`] does, or if it is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Returns options for opening a file, also one to write, without waiting for the other end of a pipe.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

/// Creates a file that only its owner may read, or opens the one that is there, to read it and to append to it. Returns whether
/// it is new.
///
/// # Errors
///
/// Returns an error if it cannot be opened, is a link or no regular file, belongs to another user, or may be written by others:
/// in a directory such as /tmp, somebody else may have put it there.
pub fn open_private(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed());
    options.read(true).append(true).mode(0o600);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => return Ok((created?, true)),
    }
    let refused = |message| Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    if fs::symlink_metadata(path)?.is_symlink() {
        return refused("is a symbolic link");
    }
    let file = options.open(path)?;
    let found = file.metadata()?;
    check(&found)?;
    if found.uid() != geteuid().as_raw() {
        return refused("belongs to another user");
    }
    if found.mode() & 0o022 != 0 {
        return refused("may be written by others");
    }
    Ok((file, false))
}

fn check(found: &fs::Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let message = "is not a regular file, but a directory, a pipe, a socket or a device";
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_private_file_is_our_own_and_nobody_else_writes_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        assert!(open_private(&file).unwrap().1);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert!(!open_private(&file).unwrap().1);
        let link = dir.path().join("link");
        symlink(&file, &link).unwrap();
        let dangling = dir.path().join("dangling");
        symlink(dir.path().join("elsewhere"), &dangling).unwrap();
        for path in [&link, &dangling] {
            assert_eq!(open_private(path).unwrap_err().to_string(), "is a symbolic link");
        }
        assert!(!dir.path().join("elsewhere").exists());
        let shared = dir.path().join("shared");
        fs::write(&shared, "").unwrap();
        fs::set_permissions(&shared, Permissions::from_mode(0o620)).unwrap();
        assert_eq!(open_private(&shared).unwrap_err().to_string(), "may be written by others");
        open_private(dir.path()).unwrap_err();
        if geteuid().is_root() {
            chown(&file, Some(65_534), None).unwrap();
            assert_eq!(open_private(&file).unwrap_err().to_string(), "belongs to another user");
        }
    }

    #[test]
    fn pipes_sockets_and_devices_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let socket = dir.path().join("socket");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [&pipe, &socket, Path::new("/dev/zero"), dir.path()] {
            for error in [open(path).unwrap_err(), read_to_string(path).unwrap_err()] {
                assert!(
                    error.to_string().starts_with("is not a regular file"),
                    "{path:?}: {error}"
                );
            }
        }
        options().write(true).open(&pipe).unwrap_err();
        let file = dir.path().join("file");
        fs::write(&file, "text").unwrap();
        assert_eq!(read_to_string(&file).unwrap(), "text");
        assert_eq!(open(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
