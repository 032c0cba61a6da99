//! `[robots]`: fetching and caching robots.txt.

use std::collections::HashSet;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use wayleave_admission::settings::RobotsTxtSource;
use wayleave_evidence::regular_file;
use wayleave_lifecycle::LifetimeSettings;
use wayleave_robots_cache::{self as robots_cache, FetchConfig, MemoryShares, PinnedText};
use wayleave_robots_txt::{Dialect, Origin};

use super::reader::{
    Section, at_least, checked, count, duration, parse_with, path_in, positive_duration, size,
    to_usize, user_agent,
};

/// The fetching and caching of robots.txt.
#[derive(Clone, Debug, PartialEq)]
pub struct RobotsConfig {
    /// The dialect for crawlers that set none.
    pub dialect: Dialect,
    /// The source of the answer to a client's request for robots.txt.
    pub answer: RobotsTxtSource,
    /// The limits and the identity of fetches.
    pub fetch: FetchConfig,
    /// The texts that count instead of the origins' own files, in the order of the file.
    pub pinned: Vec<PinnedText>,
    /// The lifetimes and the memory of cached copies.
    pub cache: robots_cache::RobotsCacheConfig,
    /// The share of `memory` that the store on disk may use, in bytes.
    pub(super) store_memory_bytes: usize,
}

/// Reads `[robots]`. Files are relative to `dir`.
pub(super) fn read(section: &mut Section<'_>, dir: &Path) -> RobotsConfig {
    let second = Duration::from_secs(1);
    let day = Duration::from_hours(24);
    let max_age_bound = checked(positive_duration, check_max_age);
    let dialect = section.word("dialect", Dialect::Rfc9309, &dialect_words());
    let sources = [("copy", RobotsTxtSource::Copy), ("origin", RobotsTxtSource::Origin)];
    let answer = section.word("answer", RobotsTxtSource::Copy, &sources);
    // Less would not hold even one robots.txt of the largest allowed size.
    let memory = checked(size, at_least(ByteSize::mib(1)));
    let shares = MemoryShares::split(to_usize(section.key("memory", ByteSize::mib(256), memory)));
    let lifetimes = LifetimeSettings {
        max_age: section.key("max_age", day, max_age_bound),
        max_stale: section.key("max_stale", 30 * day, duration),
        error_ttl: section.key("error_ttl", 60 * second, positive_duration),
        ..LifetimeSettings::default()
    };
    let fetch = FetchConfig {
        user_agent: section.key("user_agent", "wayleave/0.1".to_owned(), user_agent),
        timeout: section.key("fetch_timeout", 10 * second, positive_duration),
        // RFC 9309 section 2.3.1.2 asks for at least five.
        max_redirects: section.key("max_redirects", 5, count(0, 20)),
        max_size_bytes: to_usize(section.key(
            "max_size",
            ByteSize::kib(500),
            checked(size, check_max_size),
        )),
        max_age: lifetimes.max_age,
        memory_bytes: shares.fetches,
    };
    check_lifetimes(section, &lifetimes);
    let pinned = read_pinned(section, dir, fetch.max_size_bytes);
    RobotsConfig {
        dialect,
        answer,
        pinned,
        cache: robots_cache::RobotsCacheConfig {
            lifetimes,
            fetch_timeout: fetch.timeout,
            memory_bytes: shares.entries,
            ..robots_cache::RobotsCacheConfig::default()
        },
        fetch,
        store_memory_bytes: shares.store,
    }
}

/// Reads all `[[robots.pinned]]` tables, and the files that they name.
fn read_pinned(section: &mut Section<'_>, dir: &Path, max_bytes: usize) -> Vec<PinnedText> {
    let mut origins = HashSet::new();
    let pinned = section.tables("pinned", |table| {
        let origin = table.required("origin", |node| parse_with(node, parse_origin));
        let file = table.required("file", path_in(dir));
        if let Some(origin) =
            origin.as_ref().filter(|origin| !origins.insert(Origin::clone(origin)))
        {
            table.report("origin", format!("{origin} has another [[robots.pinned]] already"));
        }
        let text = file.as_deref().map(|file| read_text(file, max_bytes));
        if let Some(Err(fault)) = &text {
            table.report("file", fault);
        }
        Some(PinnedText { origin: origin?, file: file?, text: text?.ok()? })
    });
    pinned.into_iter().flatten().collect()
}

fn parse_origin(text: &str) -> Result<Origin, String> {
    Origin::parse(text).map_err(|error| {
        format!(
            "{text:?} is not an origin such as \"https://shop.example\", without a path: {error}"
        )
    })
}

/// Reads a robots.txt, whatever its text.
fn read_text(file: &Path, max_bytes: usize) -> Result<Arc<[u8]>, String> {
    let fault = |error: io::Error| format!("{}: {error}", file.display());
    let mut text = Vec::new();
    let opened = regular_file::open(file).map_err(fault)?;
    // No more of a longer one: it may be as large as the disk.
    opened.take(max_bytes as u64 + 1).read_to_end(&mut text).map_err(fault)?;
    if text.len() > max_bytes {
        let limit = ByteSize::b(max_bytes as u64);
        return Err(format!(
            "{}: is longer than robots.max_size ({limit}), so crawlers would not read all of it",
            file.display()
        ));
    }
    Ok(text.into())
}

/// Returns the words of `dialect`.
pub(super) fn dialect_words() -> Vec<(&'static str, Dialect)> {
    Dialect::ALL.iter().map(|dialect| (dialect.as_str(), *dialect)).collect()
}

fn check_lifetimes(section: &Section<'_>, lifetimes: &LifetimeSettings) {
    let is_comparable = section.is_valid("max_stale") && section.is_valid("max_age");
    if is_comparable && lifetimes.max_stale < lifetimes.max_age {
        let max_age = humantime::format_duration(lifetimes.max_age);
        // At the key that the file sets: the other one has its default.
        let key = if section.has("max_stale") { "max_stale" } else { "max_age" };
        section.report(key, format!("max_stale is shorter than max_age ({max_age})"));
    }
}

/// Checks `max_size`: a crawler must read at least 500 KiB of a robots.txt (RFC 9309 section 2.5).
fn check_max_size(size: &ByteSize) -> Result<(), String> {
    if *size < ByteSize::kib(500) {
        Err("is less than 500KiB, the minimum of RFC 9309 section 2.5".to_owned())
    } else if *size > ByteSize::mib(64) {
        Err("is more than 64MiB".to_owned())
    } else {
        Ok(())
    }
}

/// Checks `max_age`: a cached robots.txt should not be used for more than 24 hours (RFC 9309 section 2.4).
fn check_max_age(value: &Duration) -> Result<(), String> {
    if *value > Duration::from_hours(24) {
        return Err("is over 24h, the maximum of RFC 9309 section 2.4".to_owned());
    }
    Ok(())
}
