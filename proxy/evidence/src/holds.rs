//! Holds: evidence that must outlive every retention, because somebody will ask for it.
//!
//! Each hold is a file below the state directory, so that a running process takes notice of it: `holds/3.json`, and the
//! files that it was found to hold in `holds/3.held.json`. A hold that was released remains, as a record.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, ensure};
use ring::signature::Ed25519KeyPair;
use serde::{Deserialize, Serialize};
use wayleave_notation::rfc3339;
use wayleave_robots_txt::HostPattern;

use crate::chain::event::EVENT_PREFIX;
use crate::chain::head::{is_signed_by, public_key, sign_line};
use crate::digest::Sha256Digest;
use crate::files::{decompressed, read_lines};
use crate::regular_file;

/// The folder of the holds in the state directory.
const DIR: &str = "holds";
/// The file with the numbers of deleted files of each log.
const DELETIONS: &str = "deletions.json";

/// A hold on the decisions about some hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The number, which names its file.
    pub id: u64,
    /// A host, a suffix such as `.example.com`, or a glob.
    pub host: String,
    /// The crawler's configured name; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crawler: Option<String>,
    #[serde(
        default,
        serialize_with = "rfc3339::serialize_some",
        deserialize_with = "rfc3339::deserialize_some",
        skip_serializing_if = "Option::is_none"
    )]
    pub since: Option<SystemTime>,
    #[serde(
        default,
        serialize_with = "rfc3339::serialize_some",
        deserialize_with = "rfc3339::deserialize_some",
        skip_serializing_if = "Option::is_none"
    )]
    pub until: Option<SystemTime>,
    pub reason: String,
    #[serde(serialize_with = "rfc3339::serialize", deserialize_with = "rfc3339::deserialize")]
    pub made_at: SystemTime,
    #[serde(
        default,
        serialize_with = "rfc3339::serialize_some",
        deserialize_with = "rfc3339::deserialize_some",
        skip_serializing_if = "Option::is_none"
    )]
    pub released_at: Option<SystemTime>,
}

/// A hold in its file.
#[derive(Clone, Debug)]
pub struct StoredHold {
    pub hold: Hold,
    /// Whether the log's key signed it as it is.
    pub is_signed: bool,
}

/// The evidence that a hold was found to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldEvidence {
    /// The number of decisions.
    pub decisions: u64,
    /// The numbers of the log's files that have them.
    pub files: BTreeSet<u64>,
    /// The robots.txt files and other documents that they rest on.
    pub bodies: BTreeSet<Sha256Digest>,
    pub configurations: BTreeSet<Sha256Digest>,
}

/// The numbers of deleted files by the path of their log.
#[derive(Serialize, Deserialize)]
struct SignedDeletions {
    logs: BTreeMap<String, BTreeSet<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
}

/// The members of a line by which it is held, and its inputs.
#[derive(Deserialize)]
struct HeldLine<'a> {
    #[serde(borrow)]
    at: Cow<'a, str>,
    #[serde(borrow)]
    crawler: Cow<'a, str>,
    #[serde(borrow, default)]
    origin: Option<Cow<'a, str>>,
    #[serde(default)]
    robots_sha256: Option<Sha256Digest>,
    #[serde(default)]
    documents: Vec<HeldDocument>,
    #[serde(default)]
    config_sha256: Option<Sha256Digest>,
}

#[derive(Deserialize)]
struct HeldDocument {
    #[serde(default)]
    sha256: Option<Sha256Digest>,
}

impl Hold {
    /// Returns whether it has not been released.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.released_at.is_none()
    }

    /// Returns whether it is about a host. A pattern that cannot be read holds everything.
    #[must_use]
    pub fn is_about(&self, host: &str) -> bool {
        self.host.parse::<HostPattern>().map_or(true, |pattern| pattern.matches(host))
    }

    fn holds(&self, line: &HeldLine<'_>) -> bool {
        let host = line.origin.as_deref().and_then(host_of);
        host.is_some_and(|host| self.is_about(host))
            && self.crawler.as_ref().is_none_or(|crawler| *crawler == line.crawler)
            && humantime::parse_rfc3339(&line.at).map_or(true, |at| {
                self.since.is_none_or(|since| at >= since)
                    && self.until.is_none_or(|until| at <= until)
            })
    }

    /// Returns whether a file of the log has a decision that is held. The rest is not read once one is found.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be read.
    pub fn holds_file(&self, path: &Path) -> io::Result<bool> {
        let mut is_held = false;
        self.each_held(&regular_file::open(path)?, |_| {
            is_held = true;
            false
        })?;
        Ok(is_held)
    }

    /// Adds the lines that it holds of a file of the log, which has just been opened.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub fn collect(&self, file: &File, number: u64, held: &mut HeldEvidence) -> io::Result<()> {
        self.each_held(file, |line| {
            held.decisions += 1;
            held.files.insert(number);
            let documents = line.documents.iter().filter_map(|document| document.sha256);
            held.bodies.extend(line.robots_sha256.into_iter().chain(documents));
            held.configurations.extend(line.config_sha256);
            true
        })
    }

    /// Passes each line that is held to `take`, until it returns false.
    fn each_held(
        &self,
        file: &File,
        mut take: impl FnMut(&HeldLine<'_>) -> bool,
    ) -> io::Result<()> {
        read_lines(decompressed(file), |line| {
            if line.starts_with(EVENT_PREFIX) {
                return true;
            }
            // A line that is no decision is nobody's.
            let parsed = serde_json::from_slice::<HeldLine<'_>>(line).ok();
            parsed.filter(|line| self.holds(line)).is_none_or(|line| take(&line))
        })
    }
}

/// Returns the host of an origin, such as `[::1]` of `https://[::1]:8443`.
fn host_of(origin: &str) -> Option<&str> {
    let authority = origin.split_once("://")?.1;
    match authority.find(']') {
        Some(end) => authority.get(..=end),
        None => authority.split(':').next(),
    }
}

impl HeldEvidence {
    /// Adds files that were found earlier, and may be missing now.
    pub fn add_earlier(&mut self, earlier: Self) {
        self.files.extend(earlier.files);
        self.bodies.extend(earlier.bodies);
        self.configurations.extend(earlier.configurations);
        self.decisions = self.decisions.max(earlier.decisions);
    }
}

/// The folder of the holds.
#[derive(Clone, Debug)]
pub struct HoldFolder(PathBuf);

impl HoldFolder {
    /// Returns the folder in a state directory. It need not exist.
    #[must_use]
    pub fn in_state_dir(state_dir: &Path) -> Self {
        Self(state_dir.join(DIR))
    }

    /// Returns all holds by their numbers, released ones, too.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them cannot be read. Nothing may be deleted then.
    pub fn read(&self) -> anyhow::Result<Vec<Hold>> {
        // Nothing is signed by nobody.
        Ok(self.read_stored("")?.into_iter().map(|stored| stored.hold).collect())
    }

    /// Returns all holds as [`Self::read`] does, and whether the key whose public half is `public` signed them.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn read_stored(&self, public: &str) -> anyhow::Result<Vec<StoredHold>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| self.0.display().to_string())?,
        };
        let mut holds = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let number = name.strip_suffix(".json").map(str::parse::<u64>);
            if let Some(Ok(_)) = number {
                let read = || -> anyhow::Result<StoredHold> {
                    let line = regular_file::read(&path)?;
                    let hold = serde_json::from_slice(&line)?;
                    Ok(StoredHold { hold, is_signed: is_signed_by(&line, public) })
                };
                holds.push(read().with_context(|| path.display().to_string())?);
            }
        }
        holds.sort_by_key(|stored| stored.hold.id);
        Ok(holds)
    }

    /// Returns the holds that are not released.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn active(&self) -> anyhow::Result<Vec<Hold>> {
        Ok(self.read()?.into_iter().filter(Hold::is_active).collect())
    }

    /// Stores a new hold, signed with the log's `key`, under the next free number, which it returns. Without a key there is no log
    /// yet, which takes over the holds that it finds when it begins.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub fn add(&self, hold: &Hold, key: Option<&Ed25519KeyPair>) -> anyhow::Result<Hold> {
        self.create()?;
        let mut id = self.read()?.last().map_or(0, |last| last.id);
        loop {
            id = id.checked_add(1).context("there is no number left for a hold")?;
            let hold = Hold { id, ..hold.clone() };
            let path = self.path(id);
            // Whole or not at all: a running process reads it at any moment. A link fails if another command took the number.
            let part = self.0.join(format!("{id}.{}.part", std::process::id()));
            write_file(&part, &signed_json(&hold, key)?)?;
            let linked = fs::hard_link(&part, &path);
            fs::remove_file(&part)?;
            match linked {
                // The next number is tried.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => {
                    linked.with_context(|| path.display().to_string())?;
                    return Ok(hold);
                }
            }
        }
    }

    /// Stores a hold that was changed, signed with the log's `key`.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub fn replace(&self, hold: &Hold, key: Option<&Ed25519KeyPair>) -> anyhow::Result<()> {
        replace_file(&self.path(hold.id), &signed_json(hold, key)?)
    }

    /// Returns the files that a hold was found to hold; none if they were not looked for yet.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be read.
    pub fn held(&self, id: u64) -> anyhow::Result<HeldEvidence> {
        let path = self.held_path(id);
        if path.exists() { read_json(&path) } else { Ok(HeldEvidence::default()) }
    }

    /// Stores the files that a hold was found to hold.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub fn save_held(&self, id: u64, held: &HeldEvidence) -> anyhow::Result<()> {
        replace_json(&self.held_path(id), held)
    }

    /// Returns the numbers of files that retention deleted from the log at `path`, as far as the log still has to say so. `public` is
    /// the public half of the log's key: otherwise anybody who adds a number would have the log say that retention deleted a file.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be read, or are not as the process with the key wrote them.
    pub fn deletions(&self, path: &Path, public: &str) -> anyhow::Result<BTreeSet<u64>> {
        Ok(self.all_deletions(public)?.remove(&*path.to_string_lossy()).unwrap_or_default())
    }

    /// Stores these numbers, signed with the log's key.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be written.
    pub fn save_deletions(
        &self,
        path: &Path,
        numbers: BTreeSet<u64>,
        key: &Ed25519KeyPair,
    ) -> anyhow::Result<()> {
        self.create()?;
        let mut logs = self.all_deletions(&public_key(key))?;
        logs.insert(path.to_string_lossy().into_owned(), numbers);
        let line = serde_json::to_vec(&SignedDeletions { logs, signature: None })?;
        replace_file(&self.0.join(DELETIONS), &sign_line(&line, key))
    }

    /// Signs with another key whatever the old key had signed.
    ///
    /// # Errors
    ///
    /// Returns an error if something cannot be read or written.
    pub fn hand_over(&self, from: &str, to: &Ed25519KeyPair) -> anyhow::Result<()> {
        for stored in self.read_stored(from)? {
            if stored.is_signed {
                self.replace(&stored.hold, Some(to))?;
            }
        }
        // Holds that neither key has signed stay as they are, and are named.
        if let Ok(logs) = self.all_deletions(from)
            && !logs.is_empty()
        {
            let line = serde_json::to_vec(&SignedDeletions { logs, signature: None })?;
            replace_file(&self.0.join(DELETIONS), &sign_line(&line, to))?;
        }
        Ok(())
    }

    fn all_deletions(&self, public: &str) -> anyhow::Result<BTreeMap<String, BTreeSet<u64>>> {
        let path = self.0.join(DELETIONS);
        let line = match regular_file::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            line => line.with_context(|| path.display().to_string())?,
        };
        ensure!(
            is_signed_by(&line, public),
            "{} was altered: the log's key has not signed it",
            path.display()
        );
        let read: serde_json::Result<SignedDeletions> = serde_json::from_slice(&line);
        Ok(read.with_context(|| path.display().to_string())?.logs)
    }

    fn create(&self) -> anyhow::Result<()> {
        if !self.0.is_dir() {
            DirBuilder::new().recursive(true).mode(0o750).create(&self.0)?;
            hand_over(&self.0)?;
        }
        Ok(())
    }

    fn path(&self, id: u64) -> PathBuf {
        self.0.join(format!("{id}.json"))
    }

    fn held_path(&self, id: u64) -> PathBuf {
        self.0.join(format!("{id}.held.json"))
    }
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> anyhow::Result<T> {
    let read = || -> anyhow::Result<T> { Ok(serde_json::from_slice(&regular_file::read(path)?)?) };
    read().with_context(|| path.display().to_string())
}

fn signed_json(hold: &Hold, key: Option<&Ed25519KeyPair>) -> anyhow::Result<Vec<u8>> {
    let line = serde_json::to_vec(hold)?;
    Ok(key.map_or_else(|| line.clone(), |key| sign_line(&line, key)))
}

fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let write = || -> anyhow::Result<()> {
        let mut file = regular_file::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o640)
            .open(path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        // One that the service cannot read would keep it from deleting anything.
        hand_over(path).inspect_err(|_| _ = fs::remove_file(path))
    };
    write().with_context(|| path.display().to_string())
}

/// Gives a file or a directory to the owner of the directory that it is in: root adds holds for a service with a user of its own.
fn hand_over(path: &Path) -> anyhow::Result<()> {
    let above = fs::metadata(path.parent().context("it is in no directory")?)?;
    let own = fs::metadata(path)?;
    if (own.uid(), own.gid()) != (above.uid(), above.gid()) {
        chown(path, Some(above.uid()), Some(above.gid())).with_context(|| {
            format!("giving it to the user and the group {}:{}", above.uid(), above.gid())
        })?;
    }
    Ok(())
}

fn replace_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    replace_file(path, &serde_json::to_vec(value)?)
}

fn replace_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let part = path.with_extension("part");
    write_file(&part, bytes)?;
    fs::rename(&part, path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(host: &str) -> Hold {
        Hold {
            id: 0,
            host: host.to_owned(),
            crawler: Some("news".to_owned()),
            since: humantime::parse_rfc3339("2026-01-01T00:00:00Z").ok(),
            until: None,
            reason: "a letter".to_owned(),
            made_at: SystemTime::UNIX_EPOCH,
            released_at: None,
        }
    }

    #[test]
    fn a_line_is_held_by_host_crawler_and_time() {
        let is_held = |host: &str, line: &str| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            fs::write(&path, format!("{{\"event\":\"start\"}}\nnot JSON\n{line}\n")).unwrap();
            hold(host).holds_file(&path).unwrap()
        };
        let line = r#"{"id":"1","at":"2026-02-01T00:00:00.000001Z","crawler":"news","origin":"https://a.shop.test:8443"}"#;
        assert!(is_held("a.shop.test", line) && is_held(".shop.test", line));
        assert!(!is_held("shop.test", line));
        assert!(!is_held(".shop.test", &line.replace("news", "images")));
        assert!(!is_held(".shop.test", &line.replace("2026", "2025")));
    }

    #[test]
    fn only_the_key_adds_to_what_was_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let folder = HoldFolder::in_state_dir(dir.path());
        let [key, other] =
            [1, 2].map(|seed| Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap());
        let log = Path::new("/log");
        let public = public_key(&key);
        assert!(folder.deletions(log, &public).unwrap().is_empty());
        folder.save_deletions(log, BTreeSet::from([3, 5]), &key).unwrap();
        folder.save_deletions(Path::new("/other"), BTreeSet::from([1]), &key).unwrap();
        assert_eq!(folder.deletions(log, &public).unwrap(), BTreeSet::from([3, 5]));
        let file = dir.path().join("holds/deletions.json");
        let text = fs::read_to_string(&file).unwrap();
        for altered in [
            text.replace("[3,5]", "[3,4,5]"),
            r#"{"logs":{"/log":[4]}}"#.to_owned(),
            r#"{"/log":[4]}"#.to_owned(),
            String::new(),
        ] {
            fs::write(&file, &altered).unwrap();
            let error = folder.deletions(log, &public).unwrap_err().to_string();
            assert!(error.ends_with("was altered: the log's key has not signed it"), "{error}");
            assert!(folder.save_deletions(log, BTreeSet::from([9]), &key).is_err());
        }
        fs::remove_file(&file).unwrap();
        folder.save_deletions(log, BTreeSet::from([4]), &other).unwrap();
        assert!(folder.deletions(log, &public).is_err());
    }

    #[test]
    fn holds_are_numbered_and_a_broken_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let folder = HoldFolder::in_state_dir(dir.path());
        assert!(folder.read().unwrap().is_empty());
        assert_eq!(
            [
                folder.add(&hold("a.test"), None).unwrap().id,
                folder.add(&hold("b.test"), None).unwrap().id
            ],
            [1, 2]
        );
        let mut released = folder.read().unwrap().remove(0);
        released.released_at = Some(SystemTime::UNIX_EPOCH);
        folder.replace(&released, None).unwrap();
        folder.save_held(2, &HeldEvidence { decisions: 3, ..HeldEvidence::default() }).unwrap();
        assert_eq!(folder.held(2).unwrap().decisions, 3);
        let active: Vec<_> = folder.active().unwrap().into_iter().map(|hold| hold.host).collect();
        assert_eq!(active, ["b.test"]);
        fs::write(dir.path().join("holds/2.json"), "{").unwrap();
        assert!(folder.active().unwrap_err().to_string().ends_with("holds/2.json"));
    }

    #[test]
    fn a_hold_that_was_changed_by_hand_is_not_signed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = HoldFolder::in_state_dir(dir.path());
        let key = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        folder.add(&hold("a.test"), Some(&key)).unwrap();
        let is_signed = || folder.read_stored(&public_key(&key)).unwrap()[0].is_signed;
        assert!(is_signed());
        let path = dir.path().join("holds/1.json");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("a.test", "b.test")).unwrap();
        assert!(!is_signed());
    }

    #[test]
    fn files_added_by_root_belong_to_the_state_directorys_owner() {
        let dir = tempfile::tempdir().unwrap();
        // Fails if we are not root; then the files are the owner's anyway.
        let _ = chown(dir.path(), Some(65534), Some(65534));
        let owner = |path: &Path| fs::metadata(path).unwrap().uid();
        let service = owner(dir.path());
        let folder = HoldFolder::in_state_dir(dir.path());
        let id = folder.add(&hold("a.test"), None).unwrap().id;
        folder.save_held(id, &HeldEvidence::default()).unwrap();
        let key = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        folder.save_deletions(Path::new("log"), BTreeSet::new(), &key).unwrap();
        let files = fs::read_dir(dir.path().join(DIR)).unwrap().map(|entry| entry.unwrap().path());
        let owners: Vec<_> = files.map(|path| owner(&path)).collect();
        assert_eq!(owners, [service; 3]);
        assert_eq!(owner(&dir.path().join(DIR)), service);
    }
}
