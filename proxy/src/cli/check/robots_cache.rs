//! A cache of the robots.txt files in a batch, so that each is parsed once.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use wayleave_robots_txt::{AccessResult, RobotsTxt};

/// What is kept of files, in bytes, before all are dropped and read anew.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A file, and what every answer about it repeats.
#[derive(Debug)]
pub(super) struct ParsedFile {
    pub(super) access: AccessResult,
    pub(super) robots: RobotsTxt,
    pub(super) sitemaps: Box<RawValue>,
}

impl ParsedFile {
    fn new(body: &[u8]) -> Self {
        let robots = RobotsTxt::parse_with_limit(body, usize::MAX);
        let sitemaps: Vec<String> = robots.sitemaps().collect();
        Self {
            access: AccessResult::Successful(robots.clone()),
            sitemaps: serde_json::value::to_raw_value(&sitemaps).expect("strings are JSON"),
            robots,
        }
    }
}

/// The files seen, by the JSON text that brought them. The last one is looked at first.
#[derive(Debug, Default)]
pub(super) struct FileCache {
    files: HashMap<Box<str>, Arc<ParsedFile>, foldhash::fast::RandomState>,
    last: Option<(Box<str>, Arc<ParsedFile>)>,
    bytes: usize,
}

impl FileCache {
    /// The file that a JSON text stands for, decoded and parsed if it is new.
    ///
    /// # Errors
    ///
    /// What `decode` says is wrong with it.
    pub(super) fn file(
        &mut self,
        text: &str,
        decode: impl FnOnce() -> Result<Vec<u8>, String>,
    ) -> Result<Arc<ParsedFile>, String> {
        if let Some((_, file)) = self.last.as_ref().filter(|(last, _)| **last == *text) {
            return Ok(Arc::clone(file));
        }
        let file = match self.files.get(text) {
            Some(file) => Arc::clone(file),
            None => self.insert(text, &decode()?),
        };
        self.last = Some((text.into(), Arc::clone(&file)));
        Ok(file)
    }

    fn insert(&mut self, text: &str, body: &[u8]) -> Arc<ParsedFile> {
        let file = Arc::new(ParsedFile::new(body));
        // Indexes come later and are at most a few times what they index.
        self.bytes += text.len() + 4 * file.robots.heap_bytes() + size_of::<ParsedFile>();
        if self.bytes > MAX_BYTES {
            self.files.clear();
            self.bytes = 0;
        }
        self.files.insert(text.into(), Arc::clone(&file));
        file
    }
}
