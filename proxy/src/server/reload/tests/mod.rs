//! A reload leads to the same state as a start with the new file, whatever it changes.

mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use wayleave_admission::settings::Settings;
use wayleave_assembly::ProcessParts;
use wayleave_clock::Clock;
use wayleave_config::DEFAULT_FILE;
use wayleave_fleet::Fleet;
use wayleave_forwarding::exchange::ExchangeServices;
use wayleave_robots_cache::RobotsStore;
use wayleave_robots_txt::Origin;
use wayleave_signing::SigningKey;
use wayleave_telemetry::line_writer::LineWriterGuard;
use wayleave_telemetry::logging;
use wayleave_telemetry::metrics::Metrics;

use self::rows::{KeyRow, ROWS};
use super::*;

/// Values by key.
type KeyValues = BTreeMap<&'static str, &'static str>;

/// A proxy without listeners, in its own directory.
struct ReloadableProxy {
    reloader: ConfigReloader,
    refresh: JoinHandle<()>,
    dir: TempDir,
    _writing: LineWriterGuard,
}

impl ReloadableProxy {
    fn start(text: &str) -> Self {
        Self::start_while(&[("config.toml", text)], |_| {})
    }

    /// Starts a proxy that reads the named files, and lets `edit` change their directory before it watches them.
    fn start_while(files: &[(&str, &str)], edit: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("config.toml");
        for (name, text) in files {
            fs::write(dir.path().join(name), text).expect("the directory can be written");
        }
        let sources = ConfigSources::read(&file);
        let config = Config::load_sources(&sources).expect("nothing is wrong with it");
        let (log, writing) = logging::start_discarding(config.log.format);
        let metrics = Arc::new(Metrics::new().expect("they are sound"));
        let clock = Clock::start();
        let store =
            RobotsStore::open(&config.state.dir, config.robots_store, clock, Arc::clone(&metrics))
                .expect("it is new");
        let process = ProcessParts::new(&log, &metrics, clock);
        let built = wayleave_assembly::build(&config, process, store, Fleet::default())
            .expect("nothing is missing");
        let parts = ReloadedParts {
            exchanges: Arc::new(ExchangeServices::new(built.gate)),
            fetcher: built.fetcher,
            log,
            collector_tls: built.collector_tls,
            own_listeners: Vec::new(),
            guard: Arc::new(ArcSwap::from_pointee(AdminGuard::new(&config))),
            published: Arc::new(ArcSwap::from_pointee(config.clone())),
            system_files: SystemFiles::new(),
        };
        edit(dir.path());
        // The tests reload by themselves.
        let status = status(&config, Some(&file), &parts);
        let reloader = ConfigReloader::new(Some(sources), &config, parts, status);
        let refresh = tokio::spawn(built.refresh);
        Self { reloader, refresh, dir, _writing: writing }
    }

    /// Returns the number of the configuration in effect.
    fn configuration(&self) -> u64 {
        self.reloader.parts.exchanges.gate.decider.settings().configuration
    }

    fn file(&self) -> &Path {
        self.reloader.file.as_deref().expect("it runs with one")
    }

    /// Reloads, and returns which keys need a restart.
    async fn reload(&mut self, text: &str) -> Vec<String> {
        fs::write(self.file(), text).expect("the directory can be written");
        let reloaded = self.reloader.reload(ReloadCause::Api).await;
        reloaded.expect("nothing is wrong with it").needs_restart
    }

    /// Returns everything that depends on the configuration, of what was built from it.
    async fn built(&self) -> String {
        let parts = &self.reloader.parts;
        let decider = &parts.exchanges.gate.decider;
        let settings = decider.settings();
        let fetcher = parts.fetcher.load();
        assert!(fetcher.uses(&settings.upstream), "they are ways of one time");
        let decisions = &parts.exchanges.gate.decisions;
        let journal = decisions.journal().map(|journal| journal.config.clone());
        let client = decisions.mask_client(std::net::IpAddr::from([192, 0, 2, 7]));
        let client = std::mem::discriminant(&client);
        let log = (parts.log.form(), parts.log.has_decisions());
        let robots = decider.robots.settings_in_effect().await;
        assert!(Arc::ptr_eq(&settings.pinned, &decider.robots.pinned()), "they are of one time");
        let guard = parts.guard.load();
        let all = format!(
            "{}\n{:#?}\n{guard:?}\n{fetcher:#?}\n{robots:#?}\n{journal:#?}\n{client:?} {log:?}",
            shown(&settings),
            self.reloader.outbound_config
        );
        all.replace(&self.dir.path().display().to_string(), "DIR")
    }

    async fn stop(self) {
        let exchanges = &self.reloader.parts.exchanges;
        exchanges.gate.decisions.close();
        exchanges.gate.decider.robots.close().await;
        self.refresh.await.expect("it ends");
    }
}

/// A start may wait for another process to end, after it has read the files and before it watches them.
#[tokio::test]
async fn a_file_that_changes_during_the_start_is_read_again() {
    let text = "include = [\"*.inc\"]\n\
                [[robots.pinned]]\norigin = \"http://a.test\"\nfile = \"a.txt\"\n";
    let with_mode = format!("{text}[proxy]\nmode = \"observe\"\n");
    for (name, new, configuration) in [
        ("config.toml", &*with_mode, 2),
        ("a.inc", "[[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\n", 2),
        ("a.txt", "User-agent: *\nDisallow: /\n", 2),
        ("a.txt", "", 1),
    ] {
        let edit = |dir: &Path| fs::write(dir.join(name), new).expect("it can be written");
        let files = [("config.toml", text), ("a.txt", "")];
        let mut running = ReloadableProxy::start_while(&files, edit);
        assert!(running.reloader.look_at.is_some(), "the files are looked at");
        // Once, and not again while nothing changes.
        for _ in 0..2 {
            running.reloader.reload_if_changed().await;
            assert_eq!(running.configuration(), configuration, "{name}");
        }
        running.stop().await;
    }
}

/// The file is not watched before the configuration that names it is in effect.
#[tokio::test]
async fn a_named_file_that_changes_during_a_reload_is_read_again() {
    let mut running = ReloadableProxy::start_while(&[("config.toml", ""), ("a.txt", "")], |_| {});
    let pinned = "[[robots.pinned]]\norigin = \"http://a.test\"\nfile = \"a.txt\"\n";
    fs::write(running.file(), pinned).expect("it can be written");
    let reloader = &mut running.reloader;
    reloader.look_at = None;
    reloader.last_read = reloader.read().await;
    let prepared = reloader.prepare().await.expect("nothing is wrong with it");
    fs::write(running.dir.path().join("a.txt"), "User-agent: *\n").expect("it can be written");
    reloader.apply(prepared, "a test").await;
    assert!(reloader.look_at.is_some(), "the files are looked at");
    let before = running.configuration();
    running.reloader.reload_if_changed().await;
    assert_eq!(running.configuration(), before + 1);
    running.stop().await;
}

/// As soon as somebody has begun to write, and until the file is closed.
#[tokio::test]
async fn no_cause_loads_files_that_are_being_written() {
    let text = "include = [\"*.inc\"]\n\
                [[robots.pinned]]\norigin = \"http://a.test\"\nfile = \"a.txt\"\n";
    let files = [("config.toml", text), ("a.inc", ""), ("a.txt", "")];
    let mut running = ReloadableProxy::start_while(&files, |_| {});
    for (name, text) in files {
        for due in [None, Some(ReloadCause::System)] {
            let before = running.configuration();
            let path = running.dir.path().join(name);
            let mut writing = File::create(&path).expect("it can be written");
            writeln!(writing, "{text}# it ends").expect("it can be written");
            running.reloader.due = due;
            running.reloader.reload_if_changed().await;
            assert_eq!(running.configuration(), before, "{name}");
            writeln!(writing, "# here, {due:?}").expect("it can be written");
            drop(writing);
            running.reloader.reload_if_changed().await;
            assert_eq!(running.configuration(), before + 1, "{name}");
        }
    }
    running.stop().await;
}

#[tokio::test]
async fn a_system_change_is_not_forgotten_while_a_file_is_written() {
    let mut running = ReloadableProxy::start("");
    let system_file = running.dir.path().join("resolv.conf");
    let parts = &mut running.reloader.parts;
    parts.system_files = SystemFiles::of(vec![system_file.clone()]);
    running.reloader.reload_if_changed().await;
    let mut writing = File::create(running.file()).expect("it can be written");
    writeln!(writing, "# half").expect("it can be written");
    running.reloader.note_events();
    fs::write(&system_file, "nameserver 192.0.2.1\n").expect("it can be written");
    running.reloader.look_at = None;
    running.reloader.check_system();
    assert_eq!(running.reloader.look_at, None, "it waits");
    drop(writing);
    fs::write(running.file(), "").expect("it can be written");
    running.reloader.note_events();
    assert!(running.reloader.look_at.is_some(), "the writer has closed the file");
    running.reloader.reload_if_changed().await;
    assert_eq!(running.configuration(), 2);
    let attempt = running.reloader.status.load().last_attempt.clone().expect("it is noted");
    assert_eq!(attempt.cause, ReloadCause::System.as_str());
    running.stop().await;
}

/// A file without rules is complete if it is the one in effect.
#[tokio::test]
async fn the_system_may_change_beside_a_file_of_comments() {
    for text in ["", "# all as it comes\n"] {
        let mut running = ReloadableProxy::start(text);
        running.reloader.due = Some(ReloadCause::System);
        running.reloader.reload_if_changed().await;
        assert_eq!(running.configuration(), 2, "{text:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn crawlers_that_are_gone_are_named() {
    let crawler = |name: &str| {
        format!(
            "[[crawler]]\nname = \"{name}\"\ntokens = [\"A\"]\nmatch = {{ user_agent = \"{name}\" }}\n"
        )
    };
    let mut running = ReloadableProxy::start(&(crawler("a") + &crawler("b")));
    fs::write(running.file(), crawler("b") + &crawler("c")).expect("it can be written");
    let reloaded = running.reloader.reload(ReloadCause::Api).await;
    assert_eq!(reloaded.expect("nothing is wrong with it").removed_crawlers, ["a"]);
    running.stop().await;
}

#[tokio::test]
async fn without_a_file_what_the_system_knows_is_read_again() {
    let mut running = ReloadableProxy::start("");
    // As a process that was started without a file.
    running.reloader.file = None;
    let reloader = &mut running.reloader;
    for cause in [ReloadCause::Signal, ReloadCause::Api, ReloadCause::System] {
        let upstream = |reloader: &ConfigReloader| {
            Arc::clone(&reloader.parts.exchanges.gate.decider.settings().upstream)
        };
        let before = upstream(reloader);
        let tls = reloader.parts.collector_tls.load_full();
        reloader.reload(cause).await.expect("nothing is wrong");
        assert!(Arc::ptr_eq(&before, &upstream(reloader)), "nothing has changed");
        reloader.outbound_config.forget_system_roots();
        reloader.reload(cause).await.expect("nothing is wrong");
        assert!(!Arc::ptr_eq(&before, &upstream(reloader)), "{cause:?}");
        assert!(!Arc::ptr_eq(&tls, &reloader.parts.collector_tls.load_full()), "{cause:?}");
    }
    running.stop().await;
}

/// Returns all settings but their number.
fn shown(settings: &Settings) -> String {
    let Settings {
        configuration: _,
        options,
        https,
        crawlers,
        // Its passwords are those of the crawlers, and its TLS is the entrance below.
        authenticator: _,
        rules,
        preferences,
        robots_txt_source,
        pinned,
        pacing,
        upstream,
        signer,
        identities,
        on_failure,
        digests_bodies,
        entrance,
        gateway_tokens,
    } = settings;
    let named: Vec<_> = crawlers.all().collect();
    let accounts = named.iter().filter_map(|crawler| crawler.account.as_ref());
    let hashes: Vec<_> = accounts.map(|account| &account.password_hash).collect();
    let others = (crawlers.require_crawler, crawlers.dialect, crawlers.mode);
    let rules: Vec<_> = rules.all().collect();
    let mut pinned: Vec<_> = pinned.origins().map(Origin::to_string).collect();
    pinned.sort_unstable();
    let files = entrance.as_ref().map(|entrance| entrance.files());
    format!(
        "{options:#?}\n{https:#?}\n{named:#?}\n{hashes:#?}\n{others:?}\n{rules:#?}\n{preferences:#?}\n\
         {robots_txt_source:?}\n{pinned:?}\n{pacing:#?}\n{upstream:#?}\n{signer:#?}\n{identities:#?}\n{on_failure:?}\n{digests_bodies:?}\n{entrance:#?}\n{files:?}\n{gateway_tokens:?}"
    )
}

/// Writes the files that rows refer to.
fn files() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).expect("the directory can be written");
    };
    let key = rcgen::KeyPair::generate().expect("ring makes keys");
    for name in ["a", "b"] {
        let params = rcgen::CertificateParams::new(vec![format!("{name}.test")]);
        let certificate = params.and_then(|params| params.self_signed(&key));
        let certificate = certificate.expect("the parameters are plain");
        write(&format!("{name}.pem"), &certificate.pem());
    }
    write("a.txt", "User-agent: *\nDisallow: /\n");
    write("a.key", &key.serialize_pem());
    write("copy.key", &key.serialize_pem());
    for name in ["news.pem", "next.pem"] {
        SigningKey::read_or_create(&dir.path().join(name)).expect("a key is made");
    }
    dir
}

/// Returns a configuration file with these keys, a crawler and a rule.
fn written(keys: &KeyValues, files: &Path) -> String {
    let mut all = KeyValues::from([
        ("crawler.name", "\"news\""),
        ("crawler.tokens", "[\"NewsBot\"]"),
        ("rule.action", "\"refuse\""),
        ("rule.hosts", "[\"*.a.test\"]"),
    ]);
    all.extend(keys);
    let of = |table: &str| {
        let lines = all.iter().filter_map(|(key, value)| {
            let key = key.strip_prefix(table)?.strip_prefix('.')?;
            Some(format!("{key} = {value}\n"))
        });
        lines.collect::<String>()
    };
    let plain = all.iter().filter(|(key, _)| {
        let section = key.split('.').next();
        section != Some("crawler") && section != Some("rule")
    });
    let plain: String = plain.map(|(key, value)| format!("{key} = {value}\n")).collect();
    let text = format!("{plain}[[crawler]]\n{}[[rule]]\n{}", of("crawler"), of("rule"));
    text.replace("FILES", &files.display().to_string())
}

/// Returns all keys, as the reader lists them when one is misspelt.
fn declared() -> BTreeSet<String> {
    let shipped: toml::Table = DEFAULT_FILE.parse().expect("it is TOML");
    let sections = shipped.iter().filter(|(_, value)| value.is_table());
    let sections = sections.map(|(name, _)| format!("[{name}]\nzzzzzzzz = 1\n"));
    let mut text: String = sections.collect();
    text += "[[crawler]]\nzzzzzzzz = 1\nmatch = { zzzzzzzz = 1 }\n[[rule]]\nzzzzzzzz = 1\n";
    let mistakes = Config::from_toml("t.toml", &text).expect_err("no such keys");
    let mut found = BTreeSet::new();
    for mistake in mistakes.iter().map(ToString::to_string) {
        let Some((place, known)) = mistake.split_once(".zzzzzzzz: unknown key; expected one of ")
        else {
            continue;
        };
        let section = place.rsplit(' ').next().expect("one at least");
        let section = match section.strip_prefix("1") {
            Some(rest) if place.contains("[[crawler]]") => format!("crawler{rest}"),
            Some(rest) => format!("rule{rest}"),
            None => section.to_owned(),
        };
        let tables = ["crawler.match"];
        let keys = known.split(", ").map(|key| format!("{section}.{key}"));
        found.extend(keys.filter(|key| !tables.contains(&&**key)));
    }
    found
}

#[track_caller]
fn assert_same(reloaded: &str, expected: &str, what: &str) {
    let mut lines = reloaded.lines().zip(expected.lines());
    let different = lines.find(|(reloaded, expected)| reloaded != expected);
    assert_eq!(different, None, "{what}: after a reload, and as it should be");
    assert_eq!(reloaded.len(), expected.len(), "{what}");
}

fn keys_of(row: &KeyRow) -> KeyValues {
    row.with.iter().copied().collect()
}

#[test]
fn every_key_has_a_row() {
    let rows: BTreeSet<_> = ROWS.iter().map(|row| row.key.to_owned()).collect();
    assert_eq!(rows, declared());
}

/// Reloads each value of a key, and compares what comes of it with a start.
async fn expect_effect_of_restart(row: &KeyRow, files: &Path) {
    let before = keys_of(row);
    let mut running = ReloadableProxy::start(&written(&before, files));
    let at_start = running.built().await;
    for value in row.values {
        let key = row.key;
        let mut after = before.clone();
        after.insert(key, value);
        let new = written(&after, files);
        let needs_restart = running.reload(&new).await;
        let reloaded = running.built().await;
        if needs_restart.is_empty() {
            let fresh = ReloadableProxy::start(&new);
            let expected = fresh.built().await;
            fresh.stop().await;
            assert_ne!(at_start, expected, "{key} = {value} is not looked at");
            assert_same(&reloaded, &expected, &format!("{key} = {value}"));
        } else {
            let section = key.split('.').next().unwrap_or_default();
            let names = [key.to_owned(), format!("[{section}]")];
            assert!(names.contains(&needs_restart[0]), "{key}: {needs_restart:?}");
            assert_same(&reloaded, &at_start, &format!("{key} = {value}"));
        }
    }
    running.stop().await;
}

/// A key that needs a restart is named and changes nothing; every other key has the effect that it has at a start. Most of the
/// time is spent waiting for the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_reloaded_key_has_the_effect_of_a_restart() {
    let files = Arc::new(files());
    let expect = |row: &'static KeyRow| {
        let files = Arc::clone(&files);
        tokio::spawn(async move { expect_effect_of_restart(row, files.path()).await })
    };
    let mut rows = stream::iter(ROWS).map(expect).buffer_unordered(4);
    while let Some(ended) = rows.next().await {
        ended.expect("the effects are the same");
    }
}

/// Pseudo-random numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        self.0 = hasher.finish();
        usize::try_from(self.0 % sides as u64).unwrap_or_default()
    }
}

/// Returns a valid file with a random choice of keys and values, sometimes few and sometimes many.
fn next_file(
    dice: &mut Dice,
    alive: &[&KeyRow],
    set: &mut [Option<usize>],
    files: &Path,
) -> String {
    let before = set.to_vec();
    loop {
        set.copy_from_slice(&before);
        let rate = [2, 40][dice.below(2)];
        let mut keys = KeyValues::new();
        for (row, set) in alive.iter().zip(&mut *set) {
            if dice.below(rate) == 0 {
                *set = (dice.below(3) == 0).then(|| dice.below(row.values.len()));
            }
            let Some(value) = *set else {
                continue;
            };
            for (key, value) in row.with {
                keys.entry(key).or_insert(value);
            }
            keys.insert(row.key, row.values[value]);
        }
        let text = written(&keys, files);
        if Config::from_toml("t.toml", &text).is_ok() {
            return text;
        }
    }
}

/// Runs `WAYLEAVE_RELOADS` reloads, 20 by default, starting from the seed `WAYLEAVE_SEED`:
/// `WAYLEAVE_RELOADS=1000 cargo test -p wayleave --lib -- random_configurations`.
#[tokio::test(flavor = "multi_thread")]
async fn random_configurations_reload_to_the_state_of_a_fresh_start() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let count = number("WAYLEAVE_RELOADS").unwrap_or(20);
    let seed = number("WAYLEAVE_SEED");
    let files = files();
    let defaults = Config::default();
    let is_alive = |row: &&KeyRow| {
        let mut keys = keys_of(row);
        keys.insert(row.key, row.values[0]);
        let config = Config::from_toml("t.toml", &written(&keys, files.path()));
        config.expect("nothing is wrong with it").needs_restart(&defaults).is_empty()
    };
    let alive: Vec<_> = ROWS.iter().filter(is_alive).collect();
    let mut dice = Dice(seed.unwrap_or(1));
    let mut set = vec![None; alive.len()];
    let mut next = || next_file(&mut dice, &alive, &mut set, files.path());
    let mut running = ReloadableProxy::start(&next());
    for n in 0..count {
        let text = next();
        assert_eq!(running.reload(&text).await, [""; 0]);
        let fresh = ReloadableProxy::start(&text);
        let reloaded = running.built().await;
        let expected = fresh.built().await;
        assert_same(&reloaded, &expected, &format!("the {n}th:\n{text}"));
        fresh.stop().await;
    }
    running.stop().await;
}
