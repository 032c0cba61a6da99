//! `wayleave drill`: sends a running proxy, through its listener, requests that it must refuse, and reports every other answer.
//!
//! ```text
//!  mod ─┬─ probes     the requests, and the answer that each must get
//!       ├─ exempt     the cases that the configuration does not enforce
//!       ├─ verdict    whether an answer is right
//!       ├─ client     requests through the listener
//!       ├─ origin     the origins of all of them, in this process
//!       ├─ textfile   the results for Prometheus
//!       └─ report     the results
//! ```
//!
//! A drill takes the way of every client: a TCP connection, the crawler's identity, the decision, the robots.txt cache, egress. The
//! proxy knows nothing of drills, so its log has the requests like all others. Each origin is a port of a loopback address that
//! `upstream.allow_private` lists, so a fault of enforcement leaves this machine at most for an internal address.

mod client;
mod exempt;
mod origin;
mod probes;
mod report;
mod textfile;
mod verdict;

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use ipnet::IpNet;
use tokio::time::{Instant, timeout_at};
use wayleave_clock::system_time;
use wayleave_config::Config;
use wayleave_config::{ListenAddress, ListenProtocol};
use wayleave_robots_txt::UrlScheme;
use wayleave_transport::tls::intercept::CertificateAuthority;

use self::client::DrillClient;
use self::exempt::is_intercepted;
use self::origin::DrillOrigin;
use self::probes::{CRAWL_DELAY, Probe};
use self::report::{DrillFamily, DrillReport, DrillResult, ProbeVerdict};
use self::verdict::{judge, judge_pace};
use super::config_file::load_config;
use super::terminal::{CommandResult, UNUSABLE, print, print_errors, unusable};

/// The longest time for one request, and for all of one drill.
const TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT_OF_ALL: Duration = Duration::from_secs(60);
/// The time after which a request counts as held: nothing but its slot takes as long.
const HELD_AFTER: Duration = Duration::from_millis(700);
/// The shortest delay that a drill can distinguish from none.
const SHORTEST_DELAY: Duration = Duration::from_secs(1);
/// The pause before the last of three requests of which the delay permits one: long enough to find a delay that is cut short.
const LAST_PAUSE: Duration = Duration::from_millis(1500);

#[derive(Debug, Args)]
#[command(
    after_help = "docs/operating.md says which keys let the proxy reach the drill's origins, which listen on loopback.\n\
                  Exit status: 0 nothing is wrong, 1 a wrong answer, 2 it cannot be told."
)]
pub(super) struct DrillArguments {
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write the results as metrics, too, for the textfile collector of node_exporter; the file is replaced as a whole
    #[arg(long, value_name = "FILE")]
    textfile: Option<PathBuf>,
}

pub(super) fn run(arguments: &DrillArguments, config: Option<&Path>) -> CommandResult {
    let (config, _) = load_config(config)?;
    let drill = Drill::new(&config).map_err(|error| unusable(&format!("{error:#}")))?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let report = runtime
        .context("starting the runtime")
        .and_then(|runtime| runtime.block_on(drill.run()))
        .map_err(|error| unusable(&format!("{error:#}")))?;
    if let Some(file) = &arguments.textfile {
        textfile::write(file, &report)
            .map_err(|error| unusable(&format!("{}: {error:#}", file.display())))?;
    }
    if let Some(note) = drill.unasked() {
        print_errors(&format!("wayleave: note: {note}\n"));
    }
    let text = if arguments.json { report.to_json() } else { report.to_text() };
    Ok(match (print(&text), report.worst()) {
        (ExitCode::SUCCESS, DrillResult::Wrong) => ExitCode::FAILURE,
        (ExitCode::SUCCESS, DrillResult::Failed) => ExitCode::from(UNUSABLE),
        (printed, _) => printed,
    })
}

/// One drill of the proxy that runs with this configuration.
struct Drill<'a> {
    config: &'a Config,
    client: DrillClient,
    /// The loopback address at which the origins listen.
    address: Ipv4Addr,
    /// The CA that signs the certificates of the origins, if the proxy trusts it.
    authority: Option<Arc<CertificateAuthority>>,
}

impl<'a> Drill<'a> {
    /// # Errors
    ///
    /// Returns an error that names the key to set if the configuration lets no drill through.
    fn new(config: &'a Config) -> anyhow::Result<Self> {
        let egress = &config.upstream.egress;
        let address = loopback(&egress.allow_private).context(
            "the proxy cannot reach the drill's origins: upstream.allow_private has no loopback address; list one at which \
             nothing else listens, such as \"127.0.73.1/32\", and reload",
        )?;
        let host = address.to_string();
        let is_direct =
            egress.parent.is_none() || egress.bypass.iter().any(|pattern| pattern.matches(&host));
        anyhow::ensure!(
            is_direct,
            "the parent proxy cannot reach the drill's origins: list {address} in upstream.proxy_bypass, and reload"
        );
        let listeners = config.proxy.listen.iter().copied();
        let plain = listeners.filter(|listener| listener.protocol == ListenProtocol::Http);
        let listener = ListenAddress::for_local_clients(plain)
            .context("no listener of proxy.listen is an HTTP proxy without TLS")?;
        let is_inspected = is_intercepted(config, &host);
        let ca_dir = &config.https.ca_dir;
        let certificate = is_inspected
            .then(|| CertificateAuthority::read_public(ca_dir))
            .transpose()
            .context("reading the interception CA")?
            .map(|(_, pem)| pem);
        let client = DrillClient::new(listener.address, certificate.as_deref())?;
        let authority = trusted_authority(config).filter(|_| is_inspected).map(Arc::new);
        Ok(Self { config, client, address, authority })
    }

    /// Returns which questions were left out, if any were.
    fn unasked(&self) -> Option<String> {
        let is_left_out = self.client.is_inspecting() && self.authority.is_none();
        is_left_out.then(|| {
            let certificate = self.config.https.ca_dir.join("ca.crt");
            format!(
                "https was only asked for what needs no robots.txt: upstream.extra_roots does not list {}, or its key \
                 cannot be read",
                certificate.display()
            )
        })
    }

    async fn run(&self) -> anyhow::Result<DrillReport> {
        let end = Instant::now() + TIMEOUT_OF_ALL;
        let origin = DrillOrigin::start(self.address, self.authority.as_ref()).await?;
        let mut report = DrillReport::new(system_time());
        for probe in probes::all(&self.prohibited()) {
            for scheme in self.schemes(&probe) {
                let verdict = self.ask(&origin, &probe, scheme, end).await;
                report.add(probe.family, verdict);
            }
        }
        let pace = self.ask_too_fast(&origin, end).await;
        report.add(DrillFamily::Pace, pace);
        Ok(report)
    }

    /// Returns the internal addresses that the configuration does not let the proxy reach.
    fn prohibited(&self) -> Vec<Ipv4Addr> {
        let allowed = &self.config.upstream.egress.allow_private;
        let is_allowed =
            |address: &Ipv4Addr| allowed.iter().any(|net| net.contains(&IpAddr::V4(*address)));
        probes::INTERNAL.into_iter().filter(|address| !is_allowed(address)).collect()
    }

    /// Returns the schemes by which a drill asks: `https` as far as tunnels are inspected. Where the proxy trusts no certificate
    /// of the origins, it gets requests that it refuses before it looks for a robots.txt.
    fn schemes(&self, probe: &Probe) -> impl Iterator<Item = UrlScheme> + use<> {
        let is_https = self.client.is_inspecting()
            && (self.authority.is_some() || probe.family.is_refused_before_robots_txt());
        [UrlScheme::Http].into_iter().chain(is_https.then_some(UrlScheme::Https))
    }

    async fn ask(
        &self,
        origin: &DrillOrigin,
        probe: &Probe,
        scheme: UrlScheme,
        end: Instant,
    ) -> ProbeVerdict {
        if let Some(why) = exempt::why(self.config, probe, self.address) {
            return ProbeVerdict::not_enforced(why);
        }
        origin.forget_arrivals();
        let deadline = end.min(Instant::now() + TIMEOUT);
        let authority = origin.authority_of(probe.host, scheme);
        let asking = self.client.get(scheme, &authority, probe.path, probe.user_agent);
        let answer = timeout_at(deadline, asking).await.unwrap_or_else(|_| client::no_answer());
        judge(self.config, self.address, probe, scheme, answer, origin.arrivals().len())
    }

    /// Sends requests of which only one may arrive before the delay is over.
    async fn ask_too_fast(&self, origin: &DrillOrigin, end: Instant) -> ProbeVerdict {
        let config = self.config;
        let delay = exempt::kept_delay(&config.politeness, CRAWL_DELAY);
        let probe = probes::paced();
        let too_short = || "[politeness] keeps no Crawl-delay of a second or more".to_owned();
        let exempt = exempt::why(config, &probe, self.address)
            .or_else(|| exempt::refusing_rule(config, probe.host, self.address));
        if let Some(why) = exempt.or_else(|| (delay < SHORTEST_DELAY).then(too_short)) {
            return ProbeVerdict::not_enforced(why);
        }
        origin.forget_arrivals();
        let authority = origin.authority_of(probe.host, UrlScheme::Http);
        let mut answers = Vec::new();
        for pause in [Duration::ZERO, Duration::ZERO, LAST_PAUSE.min(delay.mul_f64(0.75))] {
            tokio::time::sleep(pause).await;
            let deadline = end.min(Instant::now() + HELD_AFTER);
            let asking = self.client.get(UrlScheme::Http, &authority, probe.path, None);
            answers.push(timeout_at(deadline, asking).await.ok());
        }
        judge_pace(delay, &answers, &origin.arrivals())
    }
}

/// Returns the first loopback address that one of these networks has: the usual one, if it does.
fn loopback(networks: &[IpNet]) -> Option<Ipv4Addr> {
    networks.iter().find_map(|network| match network {
        IpNet::V4(network) if network.contains(&Ipv4Addr::LOCALHOST) => Some(Ipv4Addr::LOCALHOST),
        IpNet::V4(network) => network.hosts().next().filter(Ipv4Addr::is_loopback),
        IpNet::V6(_) => None,
    })
}

/// Returns the interception CA, if `upstream.extra_roots` lists it and this user may read its key.
fn trusted_authority(config: &Config) -> Option<CertificateAuthority> {
    let authority = CertificateAuthority::load(&config.https.ca_dir).ok()?;
    let roots = config.upstream.extra_roots.iter().flat_map(|file| &file.certificates);
    roots.into_iter().any(|root| authority.is(root)).then_some(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origins_are_on_loopback_or_nowhere() {
        let found = |networks: &[&str]| {
            let networks: Vec<IpNet> = networks.iter().map(|text| text.parse().unwrap()).collect();
            loopback(&networks).map(|address| address.to_string())
        };
        assert_eq!(found(&["10.0.0.0/8", "127.0.73.1/32"]).as_deref(), Some("127.0.73.1"));
        assert_eq!(found(&["127.0.73.0/24"]).as_deref(), Some("127.0.73.1"));
        assert_eq!(found(&["127.0.0.0/8"]).as_deref(), Some("127.0.0.1"));
        assert_eq!(found(&["0.0.0.0/0"]).as_deref(), Some("127.0.0.1"));
        assert_eq!(found(&["10.0.0.0/8", "::1/128"]), None);
        assert_eq!(found(&[]), None);
    }
}
