//! The ClientHello that a client begins TLS with, read without answering it.

use rustls::server::Acceptor;
use tokio::io::AsyncReadExt;
use wayleave_transport::http::transport::BufferedStream;

/// The longest ClientHello that is read. One with post-quantum keys and a ticket takes about 2 KiB.
const MAX_HELLO_BYTES: usize = 32 * 1024;

/// The reason why there is no ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelloError {
    /// The client is gone.
    Closed,
    /// The bytes are not a ClientHello that can be read.
    Unreadable,
}

/// Returns the server name of the ClientHello that the stream begins with. All bytes read remain buffered.
///
/// # Errors
///
/// Returns the reason why no ClientHello can be read.
pub(super) async fn read_server_name(
    incoming: &mut BufferedStream,
) -> Result<Option<String>, HelloError> {
    let BufferedStream { stream, buffered } = incoming;
    let mut acceptor = Acceptor::default();
    let mut taken = 0;
    loop {
        // The acceptor keeps its input, so each byte is fed to it once.
        while taken < buffered.len() {
            match acceptor.read_tls(&mut &buffered[taken..]) {
                Ok(read @ 1..) => taken += read,
                Ok(0) | Err(_) => return Err(HelloError::Unreadable),
            }
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                return Ok(accepted.client_hello().server_name().map(str::to_owned));
            }
            Ok(None) if buffered.len() < MAX_HELLO_BYTES => {}
            Ok(None) | Err(_) => return Err(HelloError::Unreadable),
        }
        if !matches!(stream.read_buf(buffered).await, Ok(1..)) {
            return Err(HelloError::Closed);
        }
    }
}
