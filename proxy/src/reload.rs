//! Reads the configuration again: on SIGHUP, when the file changes, and when an operator says so.
//!
//! What requests go by is made anew as one value and put in the place of the old one; an exchange goes by the one it began
//! with. A file with a mistake changes nothing. What was set up at the start (listeners, connections, directories, how
//! robots.txt is fetched) stays as it is, and a change of it is answered with the names of the keys that need a restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use arc_swap::ArcSwap;
use notify::{RecursiveMode, Watcher};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::config::{Config, Proxy, Robots};
use crate::crawlers::Crawlers;
use crate::flow::{Flow, Options, Settings};
use crate::metrics::Metrics;
use crate::rules::Rules;
use crate::upstream::Upstream;

/// Wishes that may wait; each is granted by reading the file once.
const WAITING: usize = 64;
/// A file is read this long after it changed: editors write in several steps.
const SETTLING: Duration = Duration::from_millis(100);

/// What a reload did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// Which configuration holds now, counted from 1 at the start.
    pub(crate) configuration: u64,
    /// Sections and keys that differ from what was started with, and do not count before a restart.
    pub(crate) needs_restart: Vec<&'static str>,
}

/// What an operator hears: what was done, or every mistake.
type Answer = Result<Reloaded, Vec<String>>;

/// Why the file is read again.
#[derive(Debug)]
enum Wish {
    Signal,
    /// Something changed beside the file, perhaps the file.
    Change,
    Operator(oneshot::Sender<Answer>),
}

/// The configuration that holds, and how reading it again went.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    /// Which it is, counted from 1 at the start.
    pub(crate) configuration: u64,
    /// None: the built-in defaults hold.
    pub(crate) file: Option<String>,
    pub(crate) read_at: SystemTime,
    pub(crate) last_attempt: Option<Attempt>,
    pub(crate) needs_restart: Vec<&'static str>,
    /// All of it, for everyone to see.
    pub(crate) toml: String,
}

/// One time that the file was read again.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) at: SystemTime,
    pub(crate) cause: String,
    /// None: what it says holds.
    pub(crate) mistakes: Vec<String>,
}

/// Has the configuration read again.
#[derive(Clone, Debug)]
pub(crate) struct Reload {
    wishes: mpsc::Sender<Wish>,
    status: Arc<ArcSwap<Status>>,
}

impl Reload {
    /// The process was told by a signal.
    pub(crate) fn on_signal(&self) {
        // With many wishes waiting, the file will be read anyway.
        let _ = self.wishes.try_send(Wish::Signal);
    }

    /// Reads the file now.
    ///
    /// # Errors
    ///
    /// Returns every mistake; the running configuration stays.
    pub(crate) async fn now(&self) -> Answer {
        let (reply, answer) = oneshot::channel();
        let gone = || vec!["the proxy is stopping".to_owned()];
        let wish = Wish::Operator(reply);
        self.wishes.send(wish).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// What holds now.
    pub(crate) fn status(&self) -> Status {
        Status::clone(&self.status.load())
    }
}

/// The task that reads the file.
struct Reader {
    file: PathBuf,
    text: Option<Vec<u8>>,
    started_with: Config,
    flow: Arc<Flow>,
    metrics: Arc<Metrics>,
    wishes: mpsc::Receiver<Wish>,
    status: Arc<ArcSwap<Status>>,
    /// Dropping it ends the watching.
    _watcher: Option<notify::RecommendedWatcher>,
}

/// Starts to read `file` again when it changes or somebody wishes; `config` is what it said at the start. Without a file
/// there is nothing to read.
pub(crate) fn start(
    file: Option<&Path>,
    config: &Config,
    flow: &Arc<Flow>,
    metrics: &Arc<Metrics>,
) -> Reload {
    let (sender, wishes) = mpsc::channel(WAITING);
    metrics.config_reloaded(Some(SystemTime::now()));
    let status = Arc::new(ArcSwap::from_pointee(Status {
        configuration: 1,
        file: file.map(|file| file.display().to_string()),
        read_at: flow.robots.clock().now(),
        last_attempt: None,
        needs_restart: Vec::new(),
        toml: config.without_secrets(),
    }));
    let reload = Reload {
        wishes: sender,
        status: Arc::clone(&status),
    };
    let Some(file) = file else {
        tokio::spawn(refuse_all(wishes));
        return reload;
    };
    let watcher = watch(file, reload.wishes.clone()).inspect_err(|error| {
        let error = format!("{error:#}");
        tracing::warn!(
            error,
            "changes of the configuration file are not noticed: send SIGHUP"
        );
    });
    let reader = Reader {
        file: file.to_owned(),
        text: std::fs::read(file).ok(),
        started_with: config.clone(),
        flow: Arc::clone(flow),
        metrics: Arc::clone(metrics),
        wishes,
        status,
        _watcher: watcher.ok(),
    };
    tokio::spawn(reader.run());
    reload
}

async fn refuse_all(mut wishes: mpsc::Receiver<Wish>) {
    while let Some(wish) = wishes.recv().await {
        let refusal = "there is no configuration file: the built-in defaults are used";
        tracing::warn!("{refusal}");
        if let Wish::Operator(reply) = wish {
            // Whoever asked may have gone.
            let _ = reply.send(Err(vec![refusal.to_owned()]));
        }
    }
}

/// Watches the directory, since editors and orchestrators put a new file in the old one's place.
fn watch(file: &Path, wishes: mpsc::Sender<Wish>) -> anyhow::Result<notify::RecommendedWatcher> {
    let file = std::path::absolute(file)?;
    let dir = file.parent().context("the file is in no directory")?;
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // With many wishes waiting, the file will be read anyway.
            let _ = wishes.try_send(Wish::Change);
        }
    })?;
    watcher.watch(dir, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

impl Reader {
    async fn run(mut self) {
        // When a change has settled, however many events it is made of.
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
                        let _ = self.reload("SIGHUP").await;
                    }
                    Some(Wish::Change) => {
                        settled_at.get_or_insert_with(|| Instant::now() + SETTLING);
                    }
                    Some(Wish::Operator(reply)) => {
                        let answer = self.reload("POST /v1/reload").await;
                        // Whoever asked may have gone.
                        let _ = reply.send(answer);
                    }
                },
                () = settled => {
                    settled_at = None;
                    if tokio::fs::read(&self.file).await.ok() != self.text {
                        // The mistakes are in the log.
                        let _ = self.reload("the file changed").await;
                    }
                }
            }
        }
    }

    async fn reload(&mut self, cause: &str) -> Answer {
        self.text = tokio::fs::read(&self.file).await.ok();
        let file = self.file.clone();
        let loading = tokio::task::spawn_blocking(move || Config::load(&file));
        let loaded = match loading.await {
            Ok(Ok(config)) => Ok(config),
            Ok(Err(mistakes)) => Err(mistakes.iter().map(ToString::to_string).collect()),
            Err(error) => Err(vec![format!("reading the file failed: {error}")]),
        };
        match loaded {
            Ok(config) => Ok(self.apply(&config, cause)),
            Err(mistakes) => {
                self.metrics.config_reloaded(None);
                self.note(cause, mistakes.clone(), None);
                for mistake in &mistakes {
                    tracing::error!(cause, mistake, "the configuration stays as it was");
                }
                Err(mistakes)
            }
        }
    }

    /// Notes how reading the file went; `applied` is what holds now, if it was sound.
    fn note(&self, cause: &str, mistakes: Vec<String>, applied: Option<(&Config, &Reloaded)>) {
        let at = self.flow.robots.clock().now();
        let mut status = Status::clone(&self.status.load());
        status.last_attempt = Some(Attempt {
            at,
            cause: cause.to_owned(),
            mistakes,
        });
        if let Some((config, reloaded)) = applied {
            status.configuration = reloaded.configuration;
            status.read_at = at;
            status.needs_restart = reloaded.needs_restart.clone();
            status.toml = config.without_secrets();
        }
        self.status.store(Arc::new(status));
    }

    fn apply(&self, config: &Config, cause: &str) -> Reloaded {
        let before = self.flow.settings();
        let now = self.flow.robots.clock().now();
        let upstream = Arc::clone(&before.upstream);
        let settings = settings(config, before.configuration + 1, upstream, now);
        for crawler in &config.crawlers.crawlers {
            self.metrics.know_crawler(&crawler.name);
        }
        let reloaded = Reloaded {
            configuration: settings.configuration,
            needs_restart: needs_restart(&self.started_with, config),
        };
        self.flow.settings.store(Arc::new(settings));
        self.metrics.config_reloaded(Some(SystemTime::now()));
        self.note(cause, Vec::new(), Some((config, &reloaded)));
        let configuration = reloaded.configuration;
        tracing::info!(cause, configuration, "the configuration was read again");
        if !reloaded.needs_restart.is_empty() {
            let keys = reloaded.needs_restart.join(", ");
            tracing::warn!(keys, "these changes do not count before a restart");
        }
        reloaded
    }
}

/// What requests go by from now on. Says which rules have expired.
pub(crate) fn settings(
    config: &Config,
    configuration: u64,
    upstream: Arc<Upstream>,
    now: SystemTime,
) -> Settings {
    let rules = Rules::new(config.rules.clone());
    for expired in rules.count(now).1 {
        tracing::warn!(rule = %expired, "this rule has expired and does not count");
    }
    Settings {
        configuration,
        options: Options {
            name: config.proxy.name.clone(),
            header_timeout: config.proxy.header_timeout,
            idle_timeout: config.proxy.idle_timeout,
        },
        crawlers: Crawlers::new(config.crawlers.clone()),
        rules,
        politeness: config.politeness,
        upstream,
    }
}

/// What differs between two configurations and is only looked at when the process starts.
fn needs_restart(running: &Config, read: &Config) -> Vec<&'static str> {
    let fixed = |proxy: &Proxy| {
        let (listen, most) = (proxy.listen.clone(), proxy.max_connections);
        (listen, most, proxy.shutdown_grace)
    };
    let without_dialect = |robots: &Robots| Robots {
        dialect: read.robots.dialect,
        ..robots.clone()
    };
    let differs = [
        (
            "proxy.listen, proxy.max_connections, proxy.shutdown_grace",
            fixed(&running.proxy) != fixed(&read.proxy),
        ),
        ("[admin]", running.admin != read.admin),
        ("[https]", running.https != read.https),
        ("[upstream]", running.upstream != read.upstream),
        ("[dns]", running.dns != read.dns),
        (
            "[robots] but dialect",
            without_dialect(&running.robots) != read.robots,
        ),
        ("[state]", running.state != read.state),
        ("[log]", running.log != read.log),
    ];
    let keys = differs.into_iter().filter(|(_, differs)| *differs);
    keys.map(|(keys, _)| keys).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_restart_is_named() {
        let config = |text: &str| Config::from_toml("t.toml", text).unwrap();
        let running = config("");
        assert_eq!(needs_restart(&running, &running), [""; 0]);
        let alive = "proxy.name = \"a\"\nrobots.dialect = \"google\"\npoliteness.max_wait = \"1s\"";
        assert_eq!(needs_restart(&running, &config(alive)), [""; 0]);
        let fixed = "state.dir = \"b\"\nrobots.max_age = \"1h\"";
        let expected = ["[https]", "[robots] but dialect", "[state]", "[log]"];
        assert_eq!(needs_restart(&running, &config(fixed)), expected);
    }
}
