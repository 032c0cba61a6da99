//! Fetched documents in a file of lines, for a command that goes on where it was interrupted.
//!
//! A document is a line: its key, its record, and its body, of which the record has the digest. A line without an end was
//! being written when the command was interrupted, and is cut off.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use wayleave_evidence::{Sha256Digest, regular_file};
use wayleave_lifecycle::{
    CacheEntry, FetchEnding, FetchIdentity, FetchResult, FinishedFetch, Resource,
};

use crate::record::EntryRecord;

/// The first line.
const HEADER: &str = "wayleave: fetched documents, format 1\n";
/// The age up to which an answer counts (RFC 9309 section 2.4).
const MAX_AGE: Duration = Duration::from_hours(24);
/// The age up to which a failure counts: long enough that hosts that are down are not all waited for again.
const MAX_FAILURE_AGE: Duration = Duration::from_hours(1);

/// Documents that were fetched, in a file. They take no memory but for their places there.
#[derive(Debug)]
pub struct KeptFetches {
    file: File,
    /// The places of the lines, by the documents' keys. Held while a line is written.
    places: Mutex<HashMap<String, Range<u64>>>,
}

impl KeptFetches {
    /// Opens the file of an interrupted command, or creates one.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is of another kind (also an empty one), if another user owns or may write it, if another
    /// command uses it, or if it cannot be read or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (file, is_new) = regular_file::open_private(path)?;
        let busy = || io::Error::new(ErrorKind::ResourceBusy, "another command is using it");
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => busy(),
            TryLockError::Error(error) => error,
        })?;
        // One that had it until now may have deleted it.
        if file.metadata()?.nlink() == 0 {
            return Err(busy());
        }
        if !is_new {
            return Self::of_file(file);
        }
        let begun = Self::begin(file);
        if begun.is_err() {
            // Without its first line, it would be taken for somebody else's.
            let _ = fs::remove_file(path);
        }
        begun
    }

    /// Creates a file that nothing else can use, and that is gone with the process.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no room for temporary files.
    pub fn unnamed() -> io::Result<Self> {
        Self::begin(tempfile::tempfile()?)
    }

    fn begin(mut file: File) -> io::Result<Self> {
        file.write_all(HEADER.as_bytes())?;
        Ok(Self { file, places: Mutex::default() })
    }

    fn of_file(file: File) -> io::Result<Self> {
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        let mut begin = reader.read_until(b'\n', &mut line)? as u64;
        if line != HEADER.as_bytes() {
            let message = if line.is_empty() {
                "is empty, and not a file of this command"
            } else {
                "has something else in it than documents that this command fetched"
            };
            return Err(io::Error::new(ErrorKind::InvalidData, message));
        }
        let mut places = HashMap::new();
        loop {
            line.clear();
            let end = begin + reader.read_until(b'\n', &mut line)? as u64;
            if line.last() != Some(&b'\n') {
                break;
            }
            // Whatever else is wrong with a line is noticed when the document is wanted.
            if let Some(key) = key_of(&line) {
                places.insert(key.to_owned(), begin..end);
            }
            begin = end;
        }
        file.set_len(begin)?;
        Ok(Self { file, places: Mutex::new(places) })
    }

    /// Returns a document that was kept, if it counts for requests of `identity` and is not too old.
    pub fn get(
        &self,
        resource: &Resource,
        identity: &FetchIdentity,
        now: SystemTime,
    ) -> Option<FinishedFetch> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.get(&resource.to_string())?.clone();
        drop(places);
        let mut line = vec![0; usize::try_from(place.end - place.start).ok()?];
        self.file.read_exact_at(&mut line, place.start).ok()?;
        let finished = parse(resource, str::from_utf8(&line).ok()?)?;
        let is_failure = finished.outcome.result() == FetchResult::Unreachable;
        let max_age = if is_failure { MAX_FAILURE_AGE } else { MAX_AGE };
        // One from the future is as good as none: the clock was set back.
        let age = now.duration_since(finished.fetched_at).ok()?;
        (age <= max_age && finished.counts_for(identity)).then_some(finished)
    }

    /// Keeps a document, unless nothing was learned of its origin.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written. Those before it are kept.
    pub fn keep(&self, resource: &Resource, finished: &FinishedFetch) -> io::Result<()> {
        let Some(line) = format(resource, finished) else {
            return Ok(());
        };
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = (&self.file).seek(SeekFrom::End(0))?;
        if let Err(error) = (&self.file).write_all(line.as_bytes()) {
            // The next line must not become a part of this one.
            let _ = self.file.set_len(begin);
            return Err(error);
        }
        places.insert(resource.to_string(), begin..begin + line.len() as u64);
        Ok(())
    }
}

fn key_of(line: &[u8]) -> Option<&str> {
    str::from_utf8(line).ok()?.split(' ').next()
}

fn format(resource: &Resource, finished: &FinishedFetch) -> Option<String> {
    let entry = CacheEntry::default().after_fetch(finished.clone());
    if entry.answer.is_none() && entry.failures.is_none() {
        return None;
    }
    let record = postcard::to_stdvec(&EntryRecord::new(resource, &entry)).ok()?;
    let body = match &finished.outcome.ending {
        FetchEnding::Response(response) => &*response.body.bytes,
        _ => &[],
    };
    let encoded = [&*record, body].map(|bytes| BASE64_STANDARD.encode(bytes));
    Some(format!("{resource} {}\n", encoded.join(" ")))
}

/// Parses a line; `None` if it is damaged.
fn parse(resource: &Resource, line: &str) -> Option<FinishedFetch> {
    let mut parts = line.strip_suffix('\n')?.split(' ').skip(1);
    let record: EntryRecord =
        postcard::from_bytes(&BASE64_STANDARD.decode(parts.next()?).ok()?).ok()?;
    let body = BASE64_STANDARD.decode(parts.next()?).ok()?;
    if record.body().is_some_and(|known| known.digest != Sha256Digest::of(&body).0) {
        return None;
    }
    let entry = record.into_entry(resource, Some(body.into()));
    let last = entry.answer.or(entry.failures.map(|failing| failing.last))?;
    Some(FinishedFetch::clone(&last))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use tempfile::TempDir;
    use wayleave_lifecycle::{
        FetchErrorKind, FetchOutcome, FetchedBody, FetchedResponse, ResponseFields,
    };

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn resource(text: &str) -> Resource {
        Resource::parse(text).expect("a resource")
    }

    fn answered(resource: &Resource, status: u16, text: &str) -> FinishedFetch {
        let bytes: Arc<[u8]> = text.as_bytes().into();
        let digest = Some(Arc::new(Sha256Digest::of(&bytes).0));
        let ending = FetchEnding::Response(FetchedResponse {
            status,
            fields: ResponseFields { etag: Some("\"1\"".into()), ..ResponseFields::default() },
            body: FetchedBody { bytes, is_cut: false, digest },
        });
        let outcome = FetchOutcome { redirects: Vec::new(), uri: resource.uri(), ending };
        FinishedFetch::of_proxy(outcome, now())
    }

    fn failed(resource: &Resource, kind: FetchErrorKind) -> FinishedFetch {
        FinishedFetch::of_proxy(FetchOutcome::failed(resource.uri(), kind, "as scripted"), now())
    }

    fn get(kept: &KeptFetches, resource: &Resource, age: Duration) -> Option<FinishedFetch> {
        kept.get(resource, &FetchIdentity::proxy(), now() + age)
    }

    #[test]
    fn documents_are_found_after_an_interruption() {
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().join("list.txt.plan");
        let shop = resource("https://shop.test");
        let licence = resource("https://shop.test/licence.xml?a");
        let down = resource("http://down.test:8080");
        let documents = [
            (&shop, answered(&shop, 200, "User-agent: *\nDisallow: /x\n")),
            (&licence, answered(&licence, 404, "no such page")),
            (&down, failed(&down, FetchErrorKind::Connect)),
        ];
        {
            let kept = KeptFetches::open(&path).expect("created");
            for (resource, finished) in &documents {
                kept.keep(resource, finished).expect("written");
            }
            let busy = KeptFetches::open(&path).expect_err("in use");
            assert!(busy.to_string().contains("another command"), "{busy}");
        }
        // The next line was being written.
        let whole = fs::read(&path).expect("read");
        fs::write(&path, [&whole[..], b"https://cut.test AQ"].concat()).expect("written");
        let kept = KeptFetches::open(&path).expect("opened");
        assert_eq!(fs::read(&path).expect("read"), whole);
        let bodies = [&documents[0].1, &documents[2].1];
        for ((resource, _), finished) in [&documents[0], &documents[2]].into_iter().zip(bodies) {
            assert_eq!(get(&kept, resource, HOUR / 2).as_ref(), Some(finished));
        }
        let missing = get(&kept, &licence, HOUR / 2).expect("kept");
        assert_eq!(missing.outcome.status(), Some(404));
        assert_eq!(get(&kept, &resource("https://cut.test"), HOUR / 2), None);
        // A newer one replaces it, also in the same file.
        kept.keep(&shop, &answered(&shop, 200, "")).expect("written");
        let renewed = get(&kept, &shop, HOUR).expect("kept");
        assert_eq!(renewed.outcome.body().expect("a body").bytes.len(), 0);
    }

    #[test]
    fn documents_count_for_a_day_and_failures_for_an_hour() {
        let kept = KeptFetches::unnamed().expect("created");
        let [shop, down, local] =
            ["https://shop.test", "https://down.test", "https://local.test"].map(resource);
        kept.keep(&shop, &answered(&shop, 200, "")).expect("written");
        kept.keep(&down, &failed(&down, FetchErrorKind::Timeout)).expect("written");
        kept.keep(&local, &failed(&local, FetchErrorKind::Local)).expect("nothing to write");
        let second = Duration::from_secs(1);
        for (resource, age, is_there) in [
            (&shop, 24 * HOUR, true),
            (&shop, 24 * HOUR + second, false),
            (&down, HOUR, true),
            (&down, HOUR + second, false),
            (&local, Duration::ZERO, false),
        ] {
            assert_eq!(get(&kept, resource, age).is_some(), is_there, "{resource} {age:?}");
        }
        let earlier = now() - second;
        assert_eq!(kept.get(&shop, &FetchIdentity::proxy(), earlier), None, "from the future");
    }

    #[test]
    fn an_answer_for_another_crawler_does_not_count() {
        let kept = KeptFetches::unnamed().expect("created");
        let shop = resource("https://shop.test");
        // Perhaps it was refused to the one that asked.
        kept.keep(&shop, &answered(&shop, 403, "")).expect("written");
        let other = FetchIdentity::of_client("NewsBot/1");
        assert_eq!(kept.get(&shop, &other, now()), None);
        assert!(get(&kept, &shop, Duration::ZERO).is_some());
    }

    #[test]
    fn other_files_stay_as_they_are_and_damaged_lines_do_not_count() {
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().join("notes.txt");
        for (text, expected) in [
            ("my notes\n", "something else"),
            ("w", "something else"),
            (&HEADER[..9], "something else"),
            ("wayleave: fetched documents, format 2\n", "something else"),
            ("", "is empty"),
        ] {
            fs::write(&path, text).expect("written");
            let error = KeptFetches::open(&path).expect_err("of another kind");
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("read"), text);
        }
        assert!(KeptFetches::open(dir.path()).is_err());
        let shop = resource("https://shop.test");
        let line = format(&shop, &answered(&shop, 200, "Disallow: /")).expect("a line");
        let altered = line.replacen("RGlzYWxsb3c6IC8=", "RGlzYWxsb3c6IC9=", 1);
        assert_ne!(line, altered);
        for damaged in [&altered[..], "https://shop.test\n", "https://shop.test !! !!\n", "\n"] {
            fs::write(&path, [HEADER, damaged].concat()).expect("written");
            let kept = KeptFetches::open(&path).expect("opened");
            assert_eq!(get(&kept, &shop, Duration::ZERO), None, "{damaged:?}");
        }
        fs::write(&path, [HEADER, &line].concat()).expect("written");
        let kept = KeptFetches::open(&path).expect("opened");
        assert!(get(&kept, &shop, Duration::ZERO).is_some());
        drop(kept);
        // Somebody else's, planted where this command looks.
        let link = dir.path().join("list.txt.plan");
        symlink(&path, &link).expect("a link");
        let error = KeptFetches::open(&link).expect_err("a link");
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }
}
