//! Reloads the configuration: on SIGHUP, when the file changes, and on `POST /v1/reload`.
//!
//! The settings for requests are rebuilt as one value that replaces the previous one; an exchange keeps the value it began
//! with. A file that has a mistake, or names something that cannot be opened, changes nothing. Keys that are fixed for the
//! process (listeners, connection limits, the directories of the state and the CA) do not change; the answer names those that
//! need a restart, and everything else in the file takes effect.
//!
//! The certificate files that the configuration names are watched, too: when they change, the configuration is reloaded.
//!
//! After a change on disk, the file is loaded only if it looks complete: its writer has closed it, it is not empty, and it
//! has not lost all of its rules or crawlers. A reload that an operator requests, by signal or API, skips that check.

mod doubt;
#[cfg(test)]
mod tests;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::doubt::doubt;
use self::watch::{Seen, Watch};
use crate::admin::{Answer, Asked, Attempt, Reload, Reloaded, Status};
use crate::clock::calendar;
use crate::config::{Config, Mistake};
use crate::exchange::Exchanges;
use crate::observe::decisions::{Clients, Configuration, Journal};
use crate::observe::digest::Digest;
use crate::observe::logging::Log;
use crate::robots::HttpFetch;
use crate::run::wiring::{self, Ways, WaysOptions};

/// The reload requests that may wait; one read of the file answers each.
const WAITING: usize = 64;
/// The delay between a change and the reload: editors and orchestrators replace a file in several steps.
const SETTLING: Duration = Duration::from_millis(100);

/// A reason to read the file again.
#[derive(Debug)]
enum Wish {
    Signal,
    /// The file changed on disk.
    Seen(Seen),
    Operator(Asked),
}

/// The cause of a reload. Only an operator's is trusted to be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Change,
    Signal,
    Operator,
}

impl Cause {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Change => "the file changed",
            Self::Signal => "SIGHUP",
            Self::Operator => "POST /v1/reload",
        }
    }
}

/// Requests reloads on SIGHUP.
#[derive(Clone, Debug)]
pub(crate) struct Signals(mpsc::Sender<Wish>);

impl Signals {
    /// Requests a reload because of SIGHUP.
    pub(crate) fn hangup(&self) {
        // If the queue is full, the file will be read anyway.
        let _ = self.0.try_send(Wish::Signal);
    }
}

/// The parts of the proxy that a reload changes.
pub(crate) struct Parts {
    pub(crate) exchanges: Arc<Exchanges>,
    /// The client that fetches robots.txt files.
    pub(crate) fetch: Arc<ArcSwap<HttpFetch>>,
    pub(crate) log: Log,
    /// The addresses on which this process listens.
    pub(crate) own_listeners: Vec<SocketAddr>,
}

/// The task that reloads the file.
struct Reader {
    file: PathBuf,
    text: Option<Vec<u8>>,
    started_with: Config,
    /// The configuration in effect.
    running: Config,
    /// The configuration that the present outbound clients were built from.
    ways: WaysOptions,
    parts: Parts,
    wishes: mpsc::Receiver<Wish>,
    status: Arc<ArcSwap<Status>>,
    /// Watches the file until it is dropped.
    watch: Option<Watch>,
    others: Others,
}

/// A reload, of which everything that can fail has succeeded.
struct Prepared {
    config: Config,
    needs_restart: Vec<String>,
    /// `None` if the outbound clients do not change.
    ways: Option<Ways>,
    journal: (Option<Journal>, Clients),
    configuration: Configuration,
}

/// Starts the task that reloads `file`, of which `config` was read at the start. Without a file, every request to reload is
/// refused.
pub(crate) fn start(file: Option<&Path>, config: &Config, parts: Parts) -> (Reload, Signals) {
    let (sender, wishes) = mpsc::channel(WAITING);
    let (asking, asked) = mpsc::channel(WAITING);
    parts.exchanges.metrics.config_reloaded(Some(calendar()));
    let status = status(config, file, &parts);
    let reload = Reload::new(asking, Arc::clone(&status));
    let signals = Signals(sender);
    tokio::spawn(pass_on(asked, signals.0.clone()));
    let Some(file) = file else {
        tokio::spawn(refuse_all(wishes));
        return (reload, signals);
    };
    let watch = watch(file, &signals);
    let heard = (signals.clone(), wishes);
    let reader = Reader::new((file.to_owned(), watch), config, parts, heard, status);
    tokio::spawn(reader.run());
    (reload, signals)
}

/// Returns the status that the API shows at the start.
fn status(config: &Config, file: Option<&Path>, parts: &Parts) -> Arc<ArcSwap<Status>> {
    Arc::new(ArcSwap::from_pointee(Status {
        configuration: 1,
        file: file.map(|file| file.display().to_string()),
        read_at: parts.exchanges.decider.robots.clock().now(),
        last_attempt: None,
        needs_restart: Vec::new(),
        toml: config.in_use(config),
    }))
}

fn watch(file: &Path, signals: &Signals) -> Option<Watch> {
    let changes = signals.0.clone();
    let watch = Watch::start(file, move |seen| {
        // If the queue is full, the file will be read anyway.
        let _ = changes.try_send(Wish::Seen(seen));
    });
    watch.inspect_err(unnoticed).ok()
}

/// The files that the configuration refers to and that change independently of it, such as certificates.
struct Others {
    files: Vec<PathBuf>,
    /// The digest of each file when it was last read, or `None` if it could not be read.
    seen: Vec<Option<Digest>>,
    watches: Vec<Watch>,
    signals: Signals,
}

impl Others {
    fn of(config: &Config, signals: Signals) -> Self {
        let files = config.files();
        Self {
            seen: look(&files),
            watches: files
                .iter()
                .filter_map(|file| watch(file, &signals))
                .collect(),
            files,
            signals,
        }
    }

    /// Watches the files that `config` refers to instead, if they are others.
    fn follow(&mut self, config: &Config) {
        if config.files() != self.files {
            *self = Self::of(config, self.signals.clone());
        }
    }

    /// Returns whether any content has changed since the previous call.
    fn changed(&mut self) -> bool {
        for watch in &mut self.watches {
            if let Err(error) = watch.follow_links() {
                unnoticed(&error.into());
            }
        }
        let seen = look(&self.files);
        let differs = seen != self.seen;
        self.seen = seen;
        differs
    }
}

fn look(files: &[PathBuf]) -> Vec<Option<Digest>> {
    let read = files.iter().map(|file| std::fs::read(file).ok());
    read.map(|read| read.map(|bytes| Digest::of(&bytes)))
        .collect()
}

fn unnoticed(error: &anyhow::Error) {
    let error = format!("{error:#}");
    tracing::warn!(
        error,
        "changes to a file of the configuration go unnoticed: send SIGHUP"
    );
}

/// Forwards operators' requests until either side is closed.
async fn pass_on(mut asked: mpsc::Receiver<Asked>, wishes: mpsc::Sender<Wish>) {
    while let Some(reply) = asked.recv().await {
        if wishes.send(Wish::Operator(reply)).await.is_err() {
            return;
        }
    }
}

async fn refuse_all(mut wishes: mpsc::Receiver<Wish>) {
    while let Some(wish) = wishes.recv().await {
        let refusal = "there is no configuration file to reload: the built-in defaults are in use";
        tracing::warn!("{refusal}");
        if let Wish::Operator(reply) = wish {
            // The operator may have disconnected.
            let _ = reply.send(Err(vec![refusal.to_owned()]));
        }
    }
}

impl Reader {
    /// Creates the task for `parts` that were built from `config`.
    fn new(
        (file, watch): (PathBuf, Option<Watch>),
        config: &Config,
        parts: Parts,
        (signals, wishes): (Signals, mpsc::Receiver<Wish>),
        status: Arc<ArcSwap<Status>>,
    ) -> Self {
        Self {
            text: std::fs::read(&file).ok(),
            file,
            started_with: config.clone(),
            running: config.clone(),
            ways: WaysOptions::of(config, &parts.own_listeners),
            parts,
            wishes,
            status,
            watch,
            others: Others::of(config, signals),
        }
    }

    async fn run(mut self) {
        // One replacement of a file is several events: it is read once, after the first of them has settled.
        let mut settled_at: Option<Instant> = None;
        loop {
            let settled = async {
                match settled_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                wish = self.wishes.recv() => match wish {
                    None => return,
                    Some(Wish::Signal) => {
                        // The mistakes are in the log.
                        let _ = self.reload(Cause::Signal).await;
                    }
                    Some(Wish::Seen(Seen::InPlace)) => {
                        settled_at.get_or_insert_with(|| Instant::now() + SETTLING);
                    }
                    Some(Wish::Seen(Seen::Writing)) => settled_at = None,
                    Some(Wish::Operator(reply)) => {
                        let answer = self.reload(Cause::Operator).await;
                        // The operator may have disconnected.
                        let _ = reply.send(answer);
                    }
                },
                () = settled => {
                    settled_at = None;
                    self.follow_links();
                    // Not short-circuited below: the digests must be up to date whatever the reason for the reload.
                    let have_others = self.others.changed();
                    if have_others || tokio::fs::read(&self.file).await.ok() != self.text {
                        // The mistakes are in the log.
                        let _ = self.reload(Cause::Change).await;
                    }
                }
            }
        }
    }

    fn follow_links(&mut self) {
        if let Some(Err(error)) = self.watch.as_mut().map(Watch::follow_links) {
            unnoticed(&error.into());
        }
    }

    async fn reload(&mut self, cause: Cause) -> Answer {
        // Before the file is read: a link that is swapped meanwhile is then noticed.
        self.follow_links();
        let read = tokio::fs::read(&self.file).await;
        self.text = read.as_ref().ok().cloned();
        let prepared = self.prepare(read).await.and_then(|prepared| {
            let text = self.text.as_deref().unwrap_or_default();
            match doubt(text, &self.running, &prepared.config) {
                Some(doubt) if cause == Cause::Change => Err(vec![doubt]),
                _ => Ok(prepared),
            }
        });
        let cause = cause.as_str();
        match prepared {
            Ok(prepared) => Ok(self.apply(prepared, cause).await),
            Err(mistakes) => {
                self.parts.exchanges.metrics.config_reloaded(None);
                self.note(cause, mistakes.clone(), |_| {});
                for mistake in &mistakes {
                    tracing::error!(cause, mistake, "the configuration is unchanged");
                }
                Err(mistakes)
            }
        }
    }

    /// Records the attempt, and what it changed, in the status that the API shows.
    fn note(&self, cause: &str, mistakes: Vec<String>, change: impl FnOnce(&mut Status)) {
        let at = self.parts.exchanges.decider.robots.clock().now();
        let mut status = Status::clone(&self.status.load());
        status.last_attempt = Some(Attempt {
            at,
            cause: cause.to_owned(),
            mistakes,
        });
        change(&mut status);
        self.status.store(Arc::new(status));
    }

    /// Does everything that can fail, without any effect on the running proxy.
    async fn prepare(&self, read: io::Result<Vec<u8>>) -> Result<Prepared, Vec<String>> {
        let file = self.file.clone();
        let (started_with, running_ways) = (self.started_with.clone(), self.ways.clone());
        let clock = self.parts.exchanges.decider.robots.clock();
        let metrics = Arc::clone(&self.parts.exchanges.metrics);
        let own = self.parts.own_listeners.clone();
        let number = self.parts.exchanges.decider.settings().configuration + 1;
        let preparing = tokio::task::spawn_blocking(move || {
            let config = Config::again(&file, read, &started_with);
            let config = config.map_err(|mistakes| in_words(&mistakes))?;
            let fault = |error: anyhow::Error| vec![format!("{}: {error:#}", file.display())];
            let options = WaysOptions::of(&config, &own);
            let ways = (options != running_ways).then(|| wiring::ways(options, clock, &metrics));
            Ok(Prepared {
                ways: ways.transpose().map_err(fault)?,
                journal: wiring::journal(&config).map_err(fault)?,
                configuration: wiring::keep_configuration(&config, &started_with, number)
                    .map_err(fault)?,
                needs_restart: config.needs_restart(&started_with),
                config,
            })
        });
        let prepared = preparing.await;
        prepared.unwrap_or_else(|error| Err(vec![format!("reading the file failed: {error}")]))
    }

    /// Replaces the configuration in effect. Nothing here can fail.
    async fn apply(&mut self, prepared: Prepared, cause: &str) -> Reloaded {
        let config = prepared.config;
        let exchanges = &self.parts.exchanges;
        let decider = &exchanges.decider;
        let before = decider.settings();
        let mut upstream = Arc::clone(&before.upstream);
        if let Some(ways) = prepared.ways {
            upstream = ways.upstream;
            self.ways = ways.options;
            ways.fetch.follow_by(exchanges.gate());
            let fetch = ways.fetch.traced(exchanges.traces.clone());
            self.parts.fetch.store(Arc::new(fetch));
        }
        let options = wiring::robots_options(&config);
        let are_crawlers_others =
            config.crawlers != self.running.crawlers || config.signing != self.running.signing;
        decider
            .robots
            .reconfigure(&options, are_crawlers_others)
            .await;
        decider.robots.store().set_memory(config.store.memory);
        // As with other servers, a reload also reopens a log file that was moved away.
        let decisions = &exchanges.decisions;
        decisions.replace_journal(prepared.journal, prepared.configuration);
        self.parts.log.set_format(config.log.format);
        self.parts.log.set_decisions(config.log.events);
        for crawler in &config.crawlers.crawlers {
            exchanges.metrics.know_crawler(&crawler.name);
        }
        let now = decider.robots.clock().now();
        let settings = wiring::settings(&config, Some(&before), upstream, now);
        let configuration = settings.configuration;
        decider.go_by(settings);
        exchanges.metrics.config_reloaded(Some(calendar()));
        self.note(cause, Vec::new(), |status| {
            status.configuration = configuration;
            status.read_at = now;
            status.needs_restart.clone_from(&prepared.needs_restart);
            status.toml = config.in_use(&self.started_with);
        });
        tracing::info!(cause, configuration, "the configuration was reloaded");
        self.others.follow(&config);
        self.running = config;
        if !prepared.needs_restart.is_empty() {
            let keys = prepared.needs_restart.join(", ");
            tracing::warn!(keys, "these changes take effect only after a restart");
        }
        Reloaded {
            configuration,
            needs_restart: prepared.needs_restart,
        }
    }
}

fn in_words(mistakes: &[Mistake]) -> Vec<String> {
    mistakes.iter().map(ToString::to_string).collect()
}
