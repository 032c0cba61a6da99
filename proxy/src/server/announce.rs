//! Announces the proxy to users and to the service manager.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use crate::downstream::listeners::{BoundListener, ListenAddress};
use crate::environment::{GENERAL_TEMPLATE, fill_template};
use crate::tls::intercept::CertificateAuthority;

/// Prints where everything is, and the lines that a user pastes next, to standard output.
pub(super) fn announce(
    listeners: &[BoundListener],
    admin: SocketAddr,
    state_dir: &Path,
    authority: &CertificateAuthority,
) -> anyhow::Result<()> {
    // Absolute, because these lines are pasted in another directory.
    let certificate = std::path::absolute(authority.certificate_path())?.display().to_string();
    let mut text = format!("wayleave {}\n", env!("CARGO_PKG_VERSION"));
    for listener in listeners {
        writeln!(text, "  proxy    {}", listener.url())?;
    }
    writeln!(text, "  admin    http://{admin}")?;
    writeln!(text, "  state    {}", std::path::absolute(state_dir)?.display())?;
    writeln!(text, "  CA       {certificate}")?;
    writeln!(text, "           SHA-256 {}", authority.fingerprint())?;
    let admin_url = ListenAddress::http(admin).dialable().url();
    writeln!(text, "\nOther machines and clients: {admin_url}/#/connect")?;
    if let Some(proxy) = local_client_address(listeners) {
        writeln!(text, "Paste into the shell of a crawler:")?;
        let lines = fill_template(GENERAL_TEMPLATE, &proxy.into(), &certificate);
        for line in lines.lines().filter(|line| !line.starts_with('#')) {
            writeln!(text, "  {line}")?;
        }
        writeln!(text, "  curl -i https://www.example.com/")?;
    }
    // Standard output may be closed, and the proxy runs all the same.
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    Ok(())
}

/// Returns the address at which clients on this machine reach the HTTP proxy, if there is one.
pub(super) fn local_client_address(listeners: &[BoundListener]) -> Option<ListenAddress> {
    ListenAddress::for_local_clients(listeners.iter().map(|listener| listener.listen_address))
}

/// Notifies systemd, if it waits for that (sd_notify(3)).
pub(super) fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager could not be notified");
    }
}
