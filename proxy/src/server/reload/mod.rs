//! Reloads the configuration: on SIGHUP, when the file changes, and on `POST /v1/reload`.
//!
//! The settings for requests are rebuilt as one value that replaces the previous one; an exchange keeps the value it began
//! with. A file that has a mistake, or names something that cannot be opened, changes nothing. Keys that are fixed for the
//! process (listeners, connection limits, the directories of the state and the CA) do not change; the answer names those that
//! need a restart, and everything else in the file takes effect.
//!
//! A process that runs without a file has nothing to read but the system's files, and does so for the same reasons.
//!
//! Included files are part of the configuration, and so is their number. The certificate files that it names are watched, too,
//! and the system's files about names and roots: when they change, the configuration is reloaded.
//!
//! After a change on disk, the configuration is loaded only if it looks complete: the writer of each file has closed it, the file
//! is not empty, and no file is gone or has lost all of its rules or crawlers. A reload that an operator requests, by signal or
//! API, confirms the last of these; but it waits for a moment, and is refused, if a file is still being written then.

mod changed;
mod completeness;
mod differences;
mod system_files;
#[cfg(test)]
mod tests;
mod watch;

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tokio::time::Instant;
use wayleave_assembly::wiring::{self, OutboundClients, OutboundConfig};
use wayleave_clock::system_time;
use wayleave_config::{Config, ConfigMistake, ConfigSources};
use wayleave_decision_log::{ClientMask, ConfigRevision, Journal};
use wayleave_evidence::{Sha256Digest, regular_file};
use wayleave_forwarding::exchange::ExchangeServices;
use wayleave_notation::Sha256Hasher;
use wayleave_robots_cache::{HttpFetcher, PinnedFiles};
use wayleave_telemetry::collector::CollectorTls;
use wayleave_telemetry::logging::LogHandle;

use self::changed::changed_toml;
use self::completeness::{find_emptiness, find_incompleteness};
use self::differences::describe_changes;
use self::system_files::CHECK_INTERVAL;
pub(crate) use self::system_files::SystemFiles;
use self::watch::ConfigWatch;
use crate::admin::{
    AdminGuard, ConfigStatus, ReloadAttempt, ReloadHandle, ReloadReply, ReloadResult, Reloaded,
};

/// The operators' requests that may wait.
const MAX_QUEUED: usize = 64;
/// The time after which a file that is still being written is named in the log, and an operator's reload is refused.
const WRITING_TIME: Duration = Duration::from_secs(5);
/// The time between two readings of the files that must be the same.
const READ_AGAIN_DELAY: Duration = Duration::from_millis(20);
/// The advice that ends the message about a file that is being written.
const WRITER_ADVICE: &str = "write to another file and rename it, then reload";
/// The delay between a change and the reload: editors and orchestrators replace a file in several steps.
const SETTLE_DELAY: Duration = Duration::from_millis(100);

/// The cause of a reload. Only `Signal` and `Api`, an operator's, confirm that the files are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReloadCause {
    Change,
    System,
    Signal,
    Api,
}

impl ReloadCause {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Change => "the file changed",
            Self::System => "the system's DNS servers, hosts or roots changed",
            Self::Signal => "SIGHUP",
            Self::Api => "POST /v1/reload",
        }
    }

    const fn is_confirmed(self) -> bool {
        matches!(self, Self::Signal | Self::Api)
    }
}

/// The parts of the proxy that a reload changes.
pub(crate) struct ReloadedParts {
    pub(crate) exchanges: Arc<ExchangeServices>,
    /// The client that fetches robots.txt files.
    pub(crate) fetcher: Arc<ArcSwap<HttpFetcher>>,
    pub(crate) log: LogHandle,
    pub(crate) collector_tls: CollectorTls,
    /// The addresses on which this process listens.
    pub(crate) own_listeners: Vec<SocketAddr>,
    /// The rights of operators.
    pub(crate) guard: Arc<ArcSwap<AdminGuard>>,
    /// The configuration in effect, for what is published about the crawlers.
    pub(crate) published: Arc<ArcSwap<Config>>,
    pub(crate) system_files: SystemFiles,
}

/// Waits for reasons to reload the configuration.
pub(crate) struct ReloadService {
    operators: mpsc::Receiver<ReloadReply>,
    hangup: Signal,
    reloader: ConfigReloader,
}

/// Reloads one file, or the system's settings.
struct ConfigReloader {
    /// `None` if the built-in defaults are in use.
    file: Option<PathBuf>,
    /// The files as they were last read, in effect or not. Empty without a file.
    last_read: ConfigSources,
    /// The files in effect.
    in_effect: ConfigSources,
    /// The cause for which the next look reloads even if the text is the one read last, such as a change that was put off because
    /// a file was being written.
    due: Option<ReloadCause>,
    /// The time to look whether the files have changed.
    look_at: Option<Instant>,
    /// The time to name in the log the files that are still being written.
    overdue_at: Option<Instant>,
    started_with: Config,
    /// The configuration in effect.
    running: Config,
    /// The configuration that the present outbound clients were built from.
    outbound_config: OutboundConfig,
    parts: ReloadedParts,
    status: Arc<ArcSwap<ConfigStatus>>,
    watch: ConfigWatch,
    /// The reason that some changes are not noticed, as it was logged last.
    logged_fault: Option<String>,
    referenced_files: ReferencedFiles,
}

/// A reload, of which everything that can fail has succeeded.
struct PreparedReload {
    config: Config,
    /// The configuration as the page shows it, and its differences from the defaults.
    toml: String,
    changed_toml: String,
    needs_restart: Vec<String>,
    /// `None` if the outbound clients do not change.
    outbound: Option<OutboundClients>,
    journal: (Option<Journal>, ClientMask),
    configuration: ConfigRevision,
    pinned: Arc<PinnedFiles>,
}

/// Creates the service that reloads the files which `config` was read from at the start, as `sources` has them, on SIGHUP
/// (`hangup`) among other reasons. Returns it with the handle by which operators request a reload.
pub(crate) fn service(
    sources: Option<ConfigSources>,
    config: &Config,
    parts: ReloadedParts,
    hangup: Signal,
) -> (ReloadHandle, ReloadService) {
    let (requests, operators) = mpsc::channel(MAX_QUEUED);
    parts.exchanges.gate.metrics.config_reloaded(Some(system_time()));
    let status = status(config, sources.as_ref().map(ConfigSources::main_path), &parts);
    let published = Arc::clone(&parts.published);
    let handle = ReloadHandle::new(requests, Arc::clone(&status), published);
    let reloader = ConfigReloader::new(sources, config, parts, status);
    (handle, ReloadService { operators, hangup, reloader })
}

impl ReloadService {
    /// Reloads the configuration whenever there is a reason to, for as long as the process runs.
    pub(crate) async fn serve(self) {
        self.reloader.run(self.operators, self.hangup).await;
    }
}

/// Returns the status that the API shows at the start.
fn status(
    config: &Config,
    file: Option<&Path>,
    parts: &ReloadedParts,
) -> Arc<ArcSwap<ConfigStatus>> {
    Arc::new(ArcSwap::from_pointee(ConfigStatus {
        configuration: wiring::FIRST_CONFIGURATION,
        file: file.map(|file| file.display().to_string()),
        read_at: parts.exchanges.gate.decider.robots.clock().now(),
        last_attempt: None,
        needs_restart: Vec::new(),
        included: included_names(config),
        changed_toml: changed_toml(&config.to_string()),
        toml: config.to_string(),
    }))
}

/// The files that the configuration refers to and that change independently of it, such as certificates.
struct ReferencedFiles {
    /// Each file, with the digest of its contents in effect.
    in_effect: Vec<(PathBuf, Sha256Digest)>,
    /// The digest of each file when it was last read, or `None` if it could not be read.
    last_read: Vec<Option<Sha256Digest>>,
}

impl ReferencedFiles {
    fn new(config: &Config) -> Self {
        let in_effect = config.watched_files();
        Self { last_read: expected_digests(&in_effect), in_effect }
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.in_effect.iter().map(|(file, _)| &**file)
    }

    /// Notes that `config` is in effect. Returns the files that were referred to before, too, and whose content is another one now.
    fn apply(&mut self, config: &Config) -> Vec<String> {
        let before = std::mem::replace(self, Self::new(config)).in_effect;
        let changed = self.in_effect.iter().filter(|(file, digest)| {
            before.iter().any(|(other, before)| other == file && before != digest)
        });
        changed.map(|(file, _)| file.display().to_string()).collect()
    }

    /// Reads the files, and returns whether any content has changed since the previous call.
    fn have_changed(&mut self) -> bool {
        let digests = self.in_effect.iter().map(|(file, _)| digest_of(file).ok()).collect();
        let before = std::mem::replace(&mut self.last_read, digests);
        before != self.last_read
    }
}

/// Returns the digests that reading the files gives for as long as nobody changes them.
fn expected_digests(files: &[(PathBuf, Sha256Digest)]) -> Vec<Option<Sha256Digest>> {
    files.iter().map(|(_, digest)| Some(*digest)).collect()
}

/// Hashes a file. A pipe in its place would have no end, and another file may be larger than memory.
fn digest_of(file: &Path) -> std::io::Result<Sha256Digest> {
    let mut file = regular_file::open(file)?;
    let mut hasher = Sha256Hasher::new();
    let mut part = vec![0; 64 * 1024];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(&part[..read]),
        }
    }
}

fn included_names(config: &Config) -> Vec<String> {
    config.included.iter().map(|file| file.name.clone()).collect()
}

impl ConfigReloader {
    /// Creates the reloader for `parts` that were built from `config`, which was read from `sources`, if from any.
    fn new(
        sources: Option<ConfigSources>,
        config: &Config,
        parts: ReloadedParts,
        status: Arc<ArcSwap<ConfigStatus>>,
    ) -> Self {
        let file = sources.as_ref().map(|sources| sources.main_path().to_owned());
        let last_read = sources.unwrap_or_else(|| read_sources(None));
        let mut reloader = Self {
            file,
            in_effect: last_read.clone(),
            last_read,
            due: None,
            look_at: None,
            overdue_at: None,
            started_with: config.clone(),
            running: config.clone(),
            outbound_config: OutboundConfig::new(config, &parts.own_listeners),
            parts,
            status,
            watch: ConfigWatch::default(),
            logged_fault: None,
            referenced_files: ReferencedFiles::new(config),
        };
        reloader.follow();
        reloader
    }

    async fn run(mut self, mut operators: mpsc::Receiver<ReloadReply>, mut hangup: Signal) {
        let mut system_check = tokio::time::interval(CHECK_INTERVAL);
        loop {
            tokio::select! {
                Some(reply) = operators.recv() => {
                    let result = self.reload(ReloadCause::Api).await;
                    // The operator may have disconnected.
                    let _ = reply.send(result);
                }
                _ = hangup.recv() => {
                    // The mistakes are in the log.
                    let _ = self.reload(ReloadCause::Signal).await;
                }
                () = self.watch.wait_for_events() => self.note_events(),
                _ = system_check.tick() => self.check_system(),
                () = sleep_until(self.overdue_at) => {
                    self.overdue_at = None;
                    self.warn_of_open_files();
                }
                () = sleep_until(self.look_at) => {
                    self.look_at = None;
                    self.reload_if_changed().await;
                }
            }
        }
    }

    /// Reads the events of the watch, and sees to it that the files are looked at after a change.
    fn note_events(&mut self) {
        if self.watch.read_events() {
            self.look_soon();
        }
    }

    /// Sees to it that the files are looked at: once their writers have closed them.
    fn look_soon(&mut self) {
        if self.watch.writing().is_empty() {
            // One replacement of a file is several events: it is read once, after the first of them has settled.
            self.look_at.get_or_insert_with(|| Instant::now() + SETTLE_DELAY);
            self.overdue_at = None;
        } else {
            self.look_at = None;
            self.overdue_at.get_or_insert_with(|| Instant::now() + WRITING_TIME);
        }
    }

    /// Looks for changes of the system's files, and tries again to watch what could not be watched.
    fn check_system(&mut self) {
        if self.parts.system_files.have_changed() {
            // Noted, since the next call does not say so again, and the files are not read while somebody writes to one.
            self.due = Some(ReloadCause::System);
            self.look_soon();
        }
        if self.logged_fault.is_some() {
            self.follow();
        }
    }

    fn warn_of_open_files(&self) {
        for path in self.watch.writing() {
            tracing::warn!(
                file = %path.display(),
                "changes of the configuration wait for a file that its writer has not closed: if there is none, touch the file"
            );
        }
    }

    /// Reloads unless the files have the same contents as before. Events are hints: a file may be rewritten with its text.
    async fn reload_if_changed(&mut self) {
        self.follow();
        let Ok(read) = self.read_settled(Duration::ZERO).await else {
            self.look_soon();
            return;
        };
        if self.referenced_files.have_changed() || read != self.last_read {
            self.due.get_or_insert(ReloadCause::Change);
        }
        if let Some(cause) = self.due {
            // The mistakes are in the log.
            let _ = self.load(read, cause).await;
        }
    }

    /// Watches the directories that lead to the files now. Call it before the files are used: a link that is swapped meanwhile, or
    /// a file that is replaced, is then noticed. Returns whether other files or directories were watched before.
    fn follow(&mut self) -> bool {
        let is_change = self.watch.follow(|| {
            let others = self.file.as_deref().into_iter().chain(self.referenced_files.paths());
            self.last_read.watch_list(others)
        });
        if is_change {
            // A file may have changed before it was watched.
            self.look_soon();
        }
        let fault = self.watch.fault();
        if fault != self.logged_fault.as_deref() {
            self.logged_fault = fault.map(str::to_owned);
            if let Some(error) = fault {
                tracing::warn!(
                    error,
                    "some changes of the configuration's files are not noticed: send SIGHUP after them"
                );
            }
        }
        is_change
    }

    /// Reads all files of the configuration.
    async fn read(&self) -> ConfigSources {
        let file = self.file.clone();
        let read = tokio::task::spawn_blocking(move || read_sources(file.as_deref())).await;
        read.unwrap_or_else(|_| self.last_read.clone())
    }

    /// Reads all files until nobody writes to them, at most for the time that `patience` is.
    ///
    /// # Errors
    ///
    /// Returns which file is still being written.
    async fn read_settled(&mut self, patience: Duration) -> Result<ConfigSources, String> {
        let give_up_at = Instant::now() + patience;
        let mut read = self.read().await;
        loop {
            tokio::time::sleep(READ_AGAIN_DELAY).await;
            let again = self.read().await;
            // After the files, so that whoever wrote to them until now is known.
            self.note_events();
            let changed = read
                .first_change(&again)
                .map(|name| format!("{name}: it changed while it was read; {WRITER_ADVICE}"));
            let Some(fault) = self.find_unclosed().or(changed) else {
                return Ok(again);
            };
            if Instant::now() >= give_up_at {
                return Err(fault);
            }
            read = again;
        }
    }

    /// Returns which file is being written, if any.
    fn find_unclosed(&self) -> Option<String> {
        let path = self.watch.writing().first()?.display();
        Some(format!("{path}: its writer has not closed it yet; {WRITER_ADVICE}"))
    }

    /// Reloads the files that there are now, for an operator who may be a script that does not wait for the writer.
    async fn reload(&mut self, cause: ReloadCause) -> ReloadResult {
        self.follow();
        match self.read_settled(WRITING_TIME).await {
            Ok(read) => self.load(read, cause).await,
            Err(fault) => {
                self.due.get_or_insert(ReloadCause::Change);
                self.look_soon();
                self.refuse(cause, vec![fault])
            }
        }
    }

    /// Puts the files that were read into effect, if nothing is wrong with them.
    async fn load(&mut self, read: ConfigSources, cause: ReloadCause) -> ReloadResult {
        self.due = None;
        self.last_read = read;
        if self.follow() {
            for pattern in self.last_read.unmatched() {
                tracing::warn!(pattern, "include: no file matches");
            }
        }
        let prepared = self.prepare_complete(cause).await;
        // Certificates and the like were read only now.
        self.note_events();
        match (self.find_unclosed(), prepared) {
            (Some(fault), _) => {
                let is_confirmed = cause.is_confirmed();
                self.due = Some(if is_confirmed { ReloadCause::Change } else { cause });
                // Nobody waits for the answer: the next event of the writer leads here again.
                if is_confirmed { self.refuse(cause, vec![fault]) } else { Err(vec![fault]) }
            }
            (None, Ok(prepared)) => Ok(self.apply(prepared, cause.as_str()).await),
            (None, Err(mistakes)) => self.refuse(cause, mistakes),
        }
    }

    fn refuse(&self, cause: ReloadCause, mistakes: Vec<String>) -> ReloadResult {
        self.parts.exchanges.gate.metrics.config_reloaded(None);
        self.record_attempt(cause.as_str(), mistakes.clone(), |_| {});
        for mistake in &mistakes {
            tracing::error!(cause = cause.as_str(), mistake, "the configuration is unchanged");
        }
        Err(mistakes)
    }

    /// Records the attempt, and its changes, in the status that the API shows.
    fn record_attempt(
        &self,
        cause: &str,
        mistakes: Vec<String>,
        change: impl FnOnce(&mut ConfigStatus),
    ) {
        let at = self.parts.exchanges.gate.decider.robots.clock().now();
        let mut status = ConfigStatus::clone(&self.status.load());
        status.last_attempt = Some(ReloadAttempt { at, cause: cause.to_owned(), mistakes });
        change(&mut status);
        self.status.store(Arc::new(status));
    }

    /// Prepares the files that were read last, if they seem to be complete.
    async fn prepare_complete(&self, cause: ReloadCause) -> Result<PreparedReload, Vec<String>> {
        let has_become_blank = self.last_read.is_main_blank() && !self.in_effect.is_main_blank();
        if self.file.is_some() && has_become_blank {
            let advice = "the file is empty: if all defaults are meant, write a comment into it";
            return Err(vec![advice.to_owned()]);
        }
        let prepared = self.prepare().await?;
        if self.file.is_none() || cause.is_confirmed() {
            return Ok(prepared);
        }
        let emptiness = find_emptiness(&self.in_effect, &self.last_read);
        match emptiness.or_else(|| find_incompleteness(&self.running, &prepared.config)) {
            Some(reason) => Err(vec![reason]),
            None => Ok(prepared),
        }
    }

    /// Does everything that can fail, without any effect on the running proxy.
    async fn prepare(&self) -> Result<PreparedReload, Vec<String>> {
        let file = self.file.clone();
        let read = self.last_read.clone();
        let started_with = self.started_with.clone();
        let current_outbound = self.outbound_config.clone();
        let clock = self.parts.exchanges.gate.decider.robots.clock();
        let metrics = Arc::clone(&self.parts.exchanges.gate.metrics);
        let own_listeners = self.parts.own_listeners.clone();
        let number = self.parts.exchanges.gate.decider.settings().configuration + 1;
        // Certificates, roots and the log are read from disk, which may be slow.
        tokio::task::spawn_blocking(move || {
            let config = match &file {
                Some(_) => Config::load_again(&read, &started_with),
                None => Ok(started_with.clone()),
            };
            let config = config.map_err(|mistakes| to_messages(&mistakes))?;
            let name =
                file.map_or("the built-in defaults".to_owned(), |file| file.display().to_string());
            let fault = |error: anyhow::Error| vec![format!("{name}: {error:#}")];
            // Connections, sessions and resolved names are worth keeping: they are rebuilt only if they must be.
            let outbound_config = OutboundConfig::new(&config, &own_listeners);
            let outbound = (outbound_config != current_outbound)
                .then(|| wiring::outbound_clients(outbound_config, clock, &metrics));
            let toml = config.public_toml(&started_with);
            Ok(PreparedReload {
                outbound: outbound.transpose().map_err(fault)?,
                journal: wiring::open_journal(&config, clock).map_err(fault)?,
                configuration: wiring::archive_config(&toml, &started_with.state.dir, number)
                    .map_err(fault)?,
                pinned: wiring::pinned_files(&config, clock.now()).map_err(fault)?,
                changed_toml: changed_toml(&toml),
                toml,
                needs_restart: config.needs_restart(&started_with),
                config,
            })
        })
        .await
        .unwrap_or_else(|error| Err(vec![format!("reading the file failed: {error}")]))
    }

    /// Replaces the configuration in effect. Nothing here can fail.
    async fn apply(&mut self, prepared: PreparedReload, cause: &str) -> Reloaded {
        let config = prepared.config;
        let exchanges = &self.parts.exchanges;
        let decider = &exchanges.gate.decider;
        let before = decider.settings();
        let mut upstream = Arc::clone(&before.upstream);
        if let Some(outbound) = prepared.outbound {
            upstream = outbound.upstream;
            self.outbound_config = outbound.config;
            self.parts.collector_tls.store(outbound.collector_tls.load_full());
            let fetcher = outbound.fetcher.replacing(&self.parts.fetcher.load());
            self.parts.fetcher.store(Arc::new(fetcher));
        }
        let cache_config = wiring::robots_cache_config(&config);
        decider.robots.reconfigure(&cache_config).await;
        decider.robots.store().set_memory(config.robots_store.memory_bytes);
        // As with other servers, a reload also reopens a log file that was moved away.
        exchanges.gate.decisions.replace_journal(prepared.journal, prepared.configuration);
        self.parts.guard.store(Arc::new(AdminGuard::new(&config)));
        // Before the settings: a key is published before it signs.
        self.parts.published.store(Arc::new(config.clone()));
        self.parts.log.set_format(config.log.format);
        self.parts.log.set_decisions(config.log.events);
        for crawler in &config.crawlers.crawlers {
            exchanges.gate.metrics.start_crawler_series(&crawler.name);
        }
        let now = decider.robots.clock().now();
        let settings =
            wiring::build_settings(&config, Some(&before), upstream, prepared.pinned, now);
        let configuration = settings.configuration;
        self.parts.fetcher.load().set_identities(Arc::clone(&settings.identities));
        // With nothing in between, since a request that meets the texts of one configuration and the settings of the other is
        // decided again (`admission/src/decide.rs`).
        decider.robots.set_pinned(Arc::clone(&settings.pinned));
        decider.replace_settings(settings);
        exchanges.gate.metrics.config_reloaded(Some(system_time()));
        let replaced_files = self.referenced_files.apply(&config);
        let changes = describe_changes(&self.status.load().toml, &prepared.toml, &replaced_files);
        self.record_attempt(cause, Vec::new(), |status| {
            status.configuration = configuration;
            status.read_at = now;
            status.needs_restart.clone_from(&prepared.needs_restart);
            status.included = included_names(&config);
            status.toml = prepared.toml;
            status.changed_toml = prepared.changed_toml;
        });
        tracing::info!(cause, configuration, changes, "the configuration was reloaded");
        let removed_crawlers = removed_crawlers(&self.running, &config);
        if !removed_crawlers.is_empty() {
            let names = removed_crawlers.join(", ");
            tracing::warn!(
                names,
                "the new configuration has these crawlers no longer: what they send is decided as for any other client"
            );
        }
        self.running = config;
        self.in_effect = self.last_read.clone();
        // Other files may be referred to now.
        self.follow();
        if !prepared.needs_restart.is_empty() {
            let keys = prepared.needs_restart.join(", ");
            tracing::warn!(keys, "these changes take effect only after a restart");
        }
        Reloaded { configuration, needs_restart: prepared.needs_restart, removed_crawlers }
    }
}

/// Sleeps until an instant, if there is one.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Reads all files of the configuration; none if there is no main one.
fn read_sources(file: Option<&Path>) -> ConfigSources {
    match file {
        Some(file) => ConfigSources::read(file),
        None => ConfigSources::of_text("", "", Path::new("")),
    }
}

/// Returns the names of the crawlers that the configuration had before, and has no longer.
fn removed_crawlers(before: &Config, now: &Config) -> Vec<String> {
    let is_there = |name: &str| now.crawlers.crawlers.iter().any(|crawler| crawler.name == name);
    let names = before.crawlers.crawlers.iter().map(|crawler| &*crawler.name);
    names.filter(|name| !is_there(name)).map(str::to_owned).collect()
}

fn to_messages(mistakes: &[ConfigMistake]) -> Vec<String> {
    mistakes.iter().map(ToString::to_string).collect()
}
