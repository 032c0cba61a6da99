//! The counts on disk: a small file that is replaced as a whole.

use std::collections::HashMap;
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wayleave_evidence::regular_file;

use super::usage::CrawlerUsage;

/// The counts of all crawlers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BudgetFile {
    /// The id under which this node counts in a fleet. The node's name may change with each process.
    pub(super) meter: String,
    /// The nodes of the fleet when its engine last answered.
    pub(super) nodes: u64,
    pub(super) crawlers: HashMap<String, CrawlerUsage>,
    /// The counts of other days that each crawler was on: a clock that was wrong comes back to them.
    #[serde(default)]
    pub(super) days: HashMap<String, Vec<CrawlerUsage>>,
}

impl BudgetFile {
    /// Reads the file, or begins at zero if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = match regular_file::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let meter = Uuid::now_v7().simple().to_string();
                return Ok(Self {
                    meter,
                    nodes: 1,
                    crawlers: HashMap::new(),
                    days: HashMap::new(),
                });
            }
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        serde_json::from_slice(&text).with_context(|| {
            format!(
                "{} has the counts of daily budgets, but cannot be read: delete it to count from zero",
                path.display()
            )
        })
    }

    /// Returns the counts of a crawler's day, which begin at zero on a new one.
    pub(super) fn of_day(&mut self, crawler: &str, day: u64) -> &mut CrawlerUsage {
        if !self.crawlers.contains_key(crawler) {
            self.crawlers.insert(crawler.to_owned(), CrawlerUsage::of(day));
        }
        let usage = self.crawlers.get_mut(crawler).expect("it was just inserted");
        if usage.day != day {
            let others = self.days.entry(crawler.to_owned()).or_default();
            let known = others.iter().position(|usage| usage.day == day);
            let next = known.map_or_else(|| CrawlerUsage::of(day), |at| others.swap_remove(at));
            others.push(std::mem::replace(usage, next));
        }
        usage
    }

    /// Returns the counts of a crawler's day, unless it is over.
    pub(super) fn of_current(&mut self, crawler: &str, day: u64) -> Option<&mut CrawlerUsage> {
        self.crawlers.get_mut(crawler).filter(|usage| usage.day == day)
    }

    /// Forgets the counts of all days but `current` ones and those beside them. Returns a copy of the rest.
    pub(super) fn copy_current(&mut self, current: &[u64]) -> Self {
        let is_kept =
            |usage: &CrawlerUsage| current.iter().any(|day| usage.day.abs_diff(*day) <= 1);
        self.crawlers.retain(|_, usage| is_kept(usage));
        for days in self.days.values_mut() {
            days.retain(is_kept);
        }
        self.days.retain(|_, days| !days.is_empty());
        let mut copy = self.clone();
        // The copy's references are no requests.
        let days = copy.days.values_mut().flatten();
        for usage in copy.crawlers.values_mut().chain(days) {
            usage.in_question = Arc::default();
        }
        copy
    }

    /// Returns the text of the file.
    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers serialise")
    }
}

/// Replaces the file, which the group may read. After a power cut it is the old one or the new one.
pub(super) fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut options = tempfile::Builder::new();
    let mut file = options.permissions(Permissions::from_mode(0o640)).tempfile_in(dir)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    File::open(dir)?.sync_all()
}
