//! The configuration of the proxy that runs for a command.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tempfile::TempDir;
use toml::{Table, Value};
use wayleave_config::Config;
use wayleave_robots_txt::{HostPattern, Origin};
use wayleave_signing::create_private_dir;
use wayleave_upstream::egress::ParentProxy;

use super::super::config_file::{found_file, load_config, print_mistakes, set_key};
use super::super::terminal::unusable;

/// The longest time for which a connection to a running proxy may be silent.
const MAX_WAIT: Duration = Duration::from_hours(1);

/// The client of all captured connections, whatever address it has inside.
const CLIENT: &str = "127.0.0.1/32";

/// The state of a proxy without a configuration file.
pub(super) enum OwnState {
    /// The user's directory, for as long as its file is locked.
    Kept { _lock: File },
    /// A directory of this run, because another run uses the user's.
    Temporary { _dir: TempDir },
}

/// The configuration of the proxy that runs for a command, and its files.
pub(super) struct RunSettings {
    pub(super) config: Config,
    /// The CA's certificate, if it is that of another proxy.
    pub(super) certificate: Option<String>,
    /// Kept until the proxy has ended.
    _state: Option<OwnState>,
}

/// Returns the settings of a proxy of its own, of which all requests are those of `crawler` if one is named. `pinned` are origins,
/// each with the file that counts as its robots.txt.
///
/// # Errors
///
/// Prints the mistake, and returns the exit status.
pub(super) fn load(
    file: Option<&Path>,
    crawler: Option<&str>,
    pinned: &[(String, PathBuf)],
) -> Result<RunSettings, ExitCode> {
    let file = found_file(file);
    let own = match file {
        Some(_) => None,
        None => Some(own_state().map_err(|error| no_directory(&error))?),
    };
    let mut is_known = true;
    let config = Config::load_changed(file, |table| {
        if let Some((dir, _)) = &own {
            set_key(table, "state", "dir", dir.display().to_string());
        }
        if let Some(name) = crawler {
            is_known = make_only(table, name);
        }
        pin(table, pinned);
    });
    if !is_known {
        let name = crawler.unwrap_or_default();
        return Err(unusable(&format!("no [[crawler]] is named {name:?}")));
    }
    let config = config.map_err(|mistakes| print_mistakes(&mistakes))?;
    Ok(RunSettings { config, certificate: None, _state: own.map(|(_, state)| state) })
}

/// Returns the settings of a proxy that decides nothing, but passes all connections on to the running `proxy`. Its CA has the
/// certificate in the file `ca`, or else the one of the configuration.
///
/// # Errors
///
/// Prints the mistake, and returns the exit status.
pub(super) fn load_for_running(
    proxy: &ParentProxy,
    ca: Option<&Path>,
    file: Option<&Path>,
) -> Result<RunSettings, ExitCode> {
    let ca = match ca {
        Some(ca) => ca.to_owned(),
        None => load_config(file)?.0.https.ca_dir.join("ca.crt"),
    };
    let certificate = fs::read_to_string(&ca).map_err(|error| {
        let path = ca.display();
        unusable(&format!(
            "{path}: {error}: give the certificate of the proxy's CA (its admin listener serves it at /ca.pem) with --ca"
        ))
    })?;
    let dir = temporary_state().map_err(|error| no_directory(&error))?;
    let mut config = Config::load_changed(None, |table| {
        set_key(table, "state", "dir", dir.path().display().to_string());
        set_key(table, "upstream", "proxy", proxy.url().to_owned());
        // Connections come from the command alone; the default address may be that of the running proxy.
        set_key(table, "proxy", "listen", vec!["127.0.0.1:0"]);
        // Otherwise the running proxy would find its own name in Via, and take our connections for a loop.
        set_key(table, "proxy", "name", format!("wayleave-run-{}", std::process::id()));
        // The running proxy has the log.
        set_key(table, "log", "decisions", String::new());
    })
    .map_err(|mistakes| print_mistakes(&mistakes))?;
    // Not possible in a file, where it would switch wayleave off.
    config.https.interception.bypass = vec![HostPattern::Any];
    // The running proxy may let a request wait for its slot.
    config.proxy.connections.idle_timeout = MAX_WAIT;
    let state = Some(OwnState::Temporary { _dir: dir });
    Ok(RunSettings { config, certificate: Some(certificate), _state: state })
}

/// Adds `[[robots.pinned]]` tables to a configuration, in place of those for the same origins.
fn pin(table: &mut Table, pinned: &[(String, PathBuf)]) {
    if pinned.is_empty() {
        return;
    }
    let robots = table.entry("robots").or_insert_with(|| Value::Table(Table::new()));
    let Some(robots) = robots.as_table_mut() else {
        return;
    };
    let tables = robots.entry("pinned").or_insert_with(|| Value::Array(Vec::new()));
    if let Some(tables) = tables.as_array_mut() {
        let origin_of = |table: &Value| Origin::parse(table.get("origin")?.as_str()?).ok();
        let replaced: Vec<_> =
            pinned.iter().filter_map(|(origin, _)| Origin::parse(origin).ok()).collect();
        tables.retain(|table| origin_of(table).is_none_or(|origin| !replaced.contains(&origin)));
        tables.extend(pinned.iter().map(|(origin, file)| {
            let keys = [("origin", origin.clone()), ("file", file.display().to_string())];
            Value::Table(
                keys.map(|(key, text)| (key.to_owned(), text.into())).into_iter().collect(),
            )
        }));
    }
}

fn no_directory(error: &io::Error) -> ExitCode {
    unusable(&format!("no directory for the state can be made: {error}"))
}

/// Makes every request one of the crawler with this name: the person who runs the command decides that, and needs no password.
/// Returns whether there is one.
fn make_only(table: &mut Table, name: &str) -> bool {
    let Some(Value::Array(crawlers)) = table.get_mut("crawler") else {
        return false;
    };
    let Some(index) = crawlers
        .iter()
        .position(|crawler| crawler.get("name").and_then(Value::as_str) == Some(name))
    else {
        return false;
    };
    let mut named = crawlers.remove(index);
    if let Some(crawler) = named.as_table_mut() {
        let client = Value::Array(vec![Value::String(CLIENT.to_owned())]);
        let criteria = [("addresses".to_owned(), client)].into_iter().collect();
        crawler.insert("match".to_owned(), Value::Table(criteria));
        crawler.remove("password_hash");
    }
    // The first that matches counts.
    crawlers.insert(0, named);
    true
}

/// Returns the directory for the state: the user's (XDG Base Directory Specification), whose CA and robots.txt files then serve
/// later runs, unless another run uses it now.
fn own_state() -> io::Result<(PathBuf, OwnState)> {
    let home =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let states = home("XDG_STATE_HOME").or_else(|| Some(home("HOME")?.join(".local/state")));
    if let Some(states) = states {
        let dir = states.join("wayleave");
        if let Some(lock) = lock(&dir) {
            return Ok((dir, OwnState::Kept { _lock: lock }));
        }
    }
    let dir = temporary_state()?;
    Ok((dir.path().to_owned(), OwnState::Temporary { _dir: dir }))
}

fn temporary_state() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("wayleave-state-").tempdir()
}

/// Locks a directory, and creates it. Returns `None` if it is in use, or if that is impossible.
fn lock(dir: &Path) -> Option<File> {
    create_private_dir(dir).ok()?;
    let file = File::create(dir.join("run.lock")).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_crawler_is_that_of_all_requests() {
        let text = r#"
            [[crawler]]
            name = "first"
            tokens = ["FirstBot"]
            [[crawler]]
            name = "news"
            tokens = ["NewsBot"]
            password_hash = "secret"
            match = { username = "news" }
        "#;
        let mut table: Table = text.parse().unwrap();
        assert!(!make_only(&mut table.clone(), "other"));
        assert!(!make_only(&mut Table::new(), "news"));
        assert!(make_only(&mut table, "news"));
        let expected: Table = r#"
            [[crawler]]
            name = "news"
            tokens = ["NewsBot"]
            match = { addresses = ["127.0.0.1/32"] }
            [[crawler]]
            name = "first"
            tokens = ["FirstBot"]
        "#
        .parse()
        .unwrap();
        assert_eq!(table, expected);
    }

    #[test]
    fn a_file_of_the_command_line_takes_the_place_of_the_configured_one() {
        let mut table: Table = r#"
            [[robots.pinned]]
            origin = "https://shop.test"
            file = "configured.txt"
            [[robots.pinned]]
            origin = "https://other.test"
            file = "configured.txt"
        "#
        .parse()
        .unwrap();
        let given = ["https://SHOP.test:443", "https://new.test", "https://new.test"];
        pin(&mut table, &given.map(|origin| (origin.to_owned(), "given.txt".into())));
        let pinned = table["robots"]["pinned"].as_array().unwrap();
        let files =
            pinned.iter().map(|table| [&table["origin"], &table["file"]].map(Value::as_str));
        let expected = [
            ["https://other.test", "configured.txt"],
            ["https://SHOP.test:443", "given.txt"],
            // Given twice, it is a mistake, which the configuration reports.
            ["https://new.test", "given.txt"],
            ["https://new.test", "given.txt"],
        ];
        assert_eq!(files.collect::<Vec<_>>(), expected.map(|table| table.map(Some)));
    }

    #[test]
    fn two_runs_do_not_share_a_state() {
        let dir = tempfile::tempdir().unwrap();
        let first = lock(dir.path());
        assert!(first.is_some());
        assert!(lock(dir.path()).is_none());
        drop(first);
        assert!(lock(dir.path()).is_some());
    }
}
