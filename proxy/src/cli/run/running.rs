//! Finds the proxy that runs with the configuration of a run.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use wayleave_clock::system_time;
use wayleave_config::ListenAddress;
use wayleave_transport::tls::intercept::{ProofNonce, is_proof};
use wayleave_upstream::egress::ParentProxy;

use super::super::admin_client;
use super::super::config_file::load_config;
use super::super::env::address_to_dial;

/// Returns the proxy that runs with this configuration, if one does. Only it can keep the pace that its crawlers have together.
///
/// # Errors
///
/// Prints the mistakes in the configuration, and returns the exit status.
pub(super) fn find(file: Option<&Path>) -> Result<Option<ParentProxy>, ExitCode> {
    let (config, _) = load_config(file)?;
    let Ok(certificate) = fs::read(config.https.ca_dir.join("ca.crt")) else {
        return Ok(None);
    };
    let admin = ListenAddress::http(config.admin.listen).dialable().address;
    // Anybody may listen at that address while no wayleave does, and everybody has the certificate: only ours has its key.
    let nonce = ProofNonce::random();
    let path = format!("/ca-proof.cer?nonce={}", nonce.as_str());
    let proof = admin_client::request_bytes(admin, &path).ok().flatten();
    if !proof.is_some_and(|proof| is_proof(&certificate, &proof, &nonce, system_time())) {
        return Ok(None);
    }
    // The certificate of a listener with TLS may name any host, so its user has to give the URL.
    let proxy = address_to_dial(&config).map(ListenAddress::url);
    Ok(proxy.filter(|url| url.starts_with("http://")).and_then(|url| url.parse().ok()))
}
