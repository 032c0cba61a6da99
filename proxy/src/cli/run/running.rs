//! Finds the proxy that runs with the configuration of a run.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use super::super::admin_client;
use super::super::config_file::load_config;
use super::super::env::address_to_dial;
use crate::downstream::listeners::ListenAddress;
use crate::upstream::egress::ParentProxy;

/// Returns the proxy that runs with this configuration, if one does. Only it can keep the pace that its crawlers have together.
///
/// # Errors
///
/// Prints what is wrong with the configuration, and returns the exit status.
pub(super) fn find(file: Option<&Path>) -> Result<Option<ParentProxy>, ExitCode> {
    let (config, _) = load_config(file)?;
    let Ok(certificate) = fs::read(config.https.ca_dir.join("ca.crt")) else {
        return Ok(None);
    };
    let admin = ListenAddress::http(config.admin.listen).dialable().address;
    // Another wayleave may listen at the default addresses: this one has our CA.
    let served = admin_client::request_bytes(admin, "/ca.pem").ok().flatten();
    if served.is_none_or(|served| served.trim_ascii() != certificate.trim_ascii()) {
        return Ok(None);
    }
    // The certificate of a listener with TLS may be for any name: its user has to give that.
    let proxy = address_to_dial(&config).map(ListenAddress::url);
    Ok(proxy.filter(|url| url.starts_with("http://")).and_then(|url| url.parse().ok()))
}
