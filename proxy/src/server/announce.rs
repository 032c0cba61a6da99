//! Announces the proxy to users and to the service manager.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use wayleave_config::{Config, ConfigSources, ListenAddress};
use wayleave_decision::{CrawlersConfig, EnforcementMode};
use wayleave_forwarding::downstream::listeners::{BoundListener, BoundListeners};
use wayleave_transport::tls::intercept::CertificateAuthority;

use crate::environment::shell_quoted;

/// A page that is disallowed for all crawlers, as it has been for many years.
const REFUSED_PAGE: &str = "https://en.wikipedia.org/wiki/Special:Random";

/// Prints where everything is, and the lines that a user pastes next, to standard output.
pub(super) fn announce(
    config: &Config,
    sources: Option<&ConfigSources>,
    listeners: &BoundListeners,
    admin: SocketAddr,
    authority: &CertificateAuthority,
) -> anyhow::Result<()> {
    // Absolute, because these lines are pasted in another directory.
    let certificate = std::path::absolute(authority.certificate_path())?.display().to_string();
    let mut text = format!("wayleave {}\n", env!("CARGO_PKG_VERSION"));
    let file = match sources {
        Some(sources) => std::path::absolute(sources.main_path())?.display().to_string(),
        None => "none: the built-in defaults".to_owned(),
    };
    writeln!(text, "  config   {file}")?;
    writeln!(text, "  mode     {}", mode_in_words(&config.crawlers))?;
    for listener in &listeners.clients {
        writeln!(text, "  proxy    {}", listener.url())?;
    }
    for gateway in &listeners.gateways {
        writeln!(text, "  gateway  {}", gateway.listen())?;
    }
    writeln!(text, "  admin    http://{admin}")?;
    writeln!(text, "  state    {}", std::path::absolute(&config.state.dir)?.display())?;
    writeln!(text, "  CA       {certificate}")?;
    writeln!(text, "           SHA-256 {}", authority.fingerprint())?;
    let admin_url = ListenAddress::http(admin).dialable().url();
    writeln!(text, "\nEvery decision, in a browser: {admin_url}/")?;
    writeln!(text, "Other machines and clients:   {admin_url}/#/connect")?;
    if let Some(proxy) = local_client_address(&listeners.clients) {
        let [program, certificate] = [program(), certificate].map(|path| shell_quoted(&path));
        let url = proxy.url();
        writeln!(
            text,
            "To try it from a shell, with a page that robots.txt disallows, so that it is refused:"
        )?;
        writeln!(text, "  eval \"$({program} env --proxy {url} --ca {certificate})\"")?;
        writeln!(text, "  curl -i {REFUSED_PAGE}")?;
    }
    // Standard output may be closed, and the proxy runs all the same.
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    Ok(())
}

/// Returns the mode, and how many crawlers have the other one.
fn mode_in_words(crawlers: &CrawlersConfig) -> String {
    let mode = crawlers.mode;
    let (of_mode, of_other) = match mode {
        EnforcementMode::Enforce => ("enforce", "only observed"),
        EnforcementMode::Observe => ("observe: refusals are counted, not made", "enforced"),
    };
    let others = crawlers.crawlers.iter().filter(|crawler| crawler.mode != mode).count();
    match others {
        0 => of_mode.to_owned(),
        1 => format!("{of_mode}; 1 [[crawler]] is {of_other}"),
        others => format!("{of_mode}; {others} [[crawler]] are {of_other}"),
    }
}

/// Returns the path of this program, or, where /proc is not mounted, the name by which it was started.
fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = || std::env::args_os().next().map(PathBuf::from);
    path.or_else(name).unwrap_or_else(|| "wayleave".into()).display().to_string()
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
