//! Passes sockets from one process to another (unix(7), SCM_RIGHTS).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The most sockets that are passed; the kernel allows 253.
pub(super) const MAX_SOCKETS: usize = 128;

const SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_SOCKETS));

/// Sends all `sockets`, at most [`MAX_SOCKETS`], in one message.
pub(super) fn send(stream: &UnixStream, sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(sockets)) {
        return Err(io::Error::other("too many sockets for one message"));
    }
    // The rights go with a byte: an empty message would carry none.
    sendmsg(stream, &[IoSlice::new(b"!")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Receives the message of [`send`]. Nothing means that the sender has closed the connection.
pub(super) fn receive(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut buffers = [IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut received = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(sockets) = message {
            received.extend(sockets);
        }
    }
    Ok(received)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_listener_that_was_passed_accepts() {
        let (inside, outside) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        send(&inside, &[listener.as_fd()]).unwrap();
        drop((listener, inside));
        let mut sockets = receive(&outside).unwrap();
        let passed = TcpListener::from(sockets.remove(0));
        assert!(sockets.is_empty());
        #[expect(clippy::disallowed_methods, reason = "a client")]
        TcpStream::connect(address).unwrap().write_all(b"x").unwrap();
        let mut read = String::new();
        passed.accept().unwrap().0.read_to_string(&mut read).unwrap();
        assert_eq!(read, "x");
        assert!(receive(&outside).unwrap().is_empty());
    }
}
