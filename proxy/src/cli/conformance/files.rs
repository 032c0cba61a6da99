//! A cache of the robots.txt files in rows, so that each is parsed once.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use wayleave_robots_txt::{AccessResult, RobotsTxt};

/// The size of all files in bytes beyond which the cache is emptied.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A file, with the parts that are the same in every answer about it.
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

/// The files so far, by the JSON text that they were given as.
#[derive(Debug, Default)]
pub(super) struct FileCache {
    files: HashMap<Box<str>, Arc<ParsedFile>, foldhash::fast::RandomState>,
    last: Option<(Box<str>, Arc<ParsedFile>)>,
    bytes: usize,
}

impl FileCache {
    /// Returns the file that a JSON text stands for, decoded and parsed if it is new.
    ///
    /// # Errors
    ///
    /// Returns the error of `decode`.
    pub(super) fn file(
        &mut self,
        text: &str,
        decode: impl FnOnce() -> Result<Vec<u8>, String>,
    ) -> Result<Arc<ParsedFile>, String> {
        // Questions about the same file usually follow each other.
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
        // Four times: the indexes that decisions add later are at most a few times as large as the indexed lines.
        self.bytes += text.len() + 4 * file.robots.heap_bytes() + size_of::<ParsedFile>();
        if self.bytes > MAX_BYTES {
            self.files.clear();
            self.bytes = 0;
        }
        self.files.insert(text.into(), Arc::clone(&file));
        file
    }
}
