//! Files in directories where others may have put something else: a pipe has no end until its writer leaves, and opening one
//! waits for somebody at its other end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

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

fn check(found: &fs::Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let message = "is not a regular file, but a directory, a pipe, a socket or a device";
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

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
