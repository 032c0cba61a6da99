//! The variables that make a client use the proxy and trust its CA: what `wayleave env` prints, and the proxy at its start.

use std::net::SocketAddr;

/// What suits most clients, as lines for a POSIX shell.
pub(crate) const GENERAL: &str = include_str!("../cli/clients/general.sh");

/// What is never asked of the proxy: it refuses internal addresses, and its own admin listener is one.
const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// A template of lines for a shell with the proxy's address and the path of its CA's certificate put in.
pub(crate) fn fill(template: &str, proxy: SocketAddr, certificate: &str) -> String {
    // The certificate last: its path is the only value that could hold what looks like a place to fill.
    template
        .replace("@URL@", &quoted(&format!("http://{proxy}")))
        .replace("@HOST@", &proxy.ip().to_string())
        .replace("@PORT@", &proxy.port().to_string())
        .replace("@NO_PROXY@", NO_PROXY)
        .replace("@CERTIFICATE@", &quoted(certificate))
}

/// One word of a POSIX shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=@%+".contains(&byte);
    if text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
