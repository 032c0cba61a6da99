//! `wayleave ca`: creates and shows the certificate authority that clients must trust.

use std::path::Path;

use clap::Subcommand;
use wayleave_transport::tls::intercept::CertificateAuthority;

use super::config_file::load_keys;
use super::terminal::{CommandResult, absolute_path, print, unusable};

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum CaCommand {
    /// Create the CA unless it exists, and say where it is
    Init,
    /// Print the certificate (PEM) and its SHA-256 fingerprint
    Show,
}

pub(super) fn run(command: CaCommand, file: Option<&Path>) -> CommandResult {
    let (config, _) = load_keys(file, &["state.dir", "https.ca_dir"])?;
    let dir = config.https.ca_dir;
    let text = match command {
        CaCommand::Init => CertificateAuthority::load_or_create(&dir).map(|ca| {
            let path = absolute_path(ca.certificate_path());
            format!("certificate  {}\nSHA-256      {}\n", path.display(), ca.fingerprint())
        }),
        // Text before the first BEGIN line is a comment in PEM (RFC 7468 section 2), so the output is a usable file.
        CaCommand::Show => CertificateAuthority::read_public(&dir)
            .map(|(fingerprint, pem)| format!("SHA-256 {fingerprint}\n{pem}")),
    };
    match text {
        Ok(text) => Ok(print(&text)),
        Err(error) => Err(unusable(&format!("{error:#}"))),
    }
}
