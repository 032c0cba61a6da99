//! The files of a configuration: the main file, and the files that its key `include` names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use glob::Pattern;
use toml::de::DeTable;
use walkdir::WalkDir;
use wayleave_evidence::regular_file;

use super::reader::{ConfigMistake, ConfigPlaces};
use super::watch_list::{MATCH_OPTIONS, WatchList};

/// The largest size of a file: all of them are parsed at each reload, which takes several times their size.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// One file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SourceFile {
    /// The path as mistakes show it.
    name: String,
    path: PathBuf,
    /// The bytes, or why there are none.
    content: Result<Vec<u8>, String>,
}

/// All files of a configuration, read at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSources {
    main: SourceFile,
    /// The directory that `include` is relative to.
    dir: PathBuf,
    /// The included files, in the order of their paths.
    included: Vec<SourceFile>,
    /// The items of `include`.
    patterns: Vec<String>,
    /// Items of `include` that cannot be followed, and why.
    faults: Vec<(String, String)>,
}

impl ConfigSources {
    /// Reads the file at `path`, and all that it includes. A file that cannot be read is reported when the configuration is
    /// checked.
    pub fn read(path: &Path) -> Self {
        let name = path.display().to_string();
        let content = read_file(path);
        Self::of_main(SourceFile { name, path: path.to_owned(), content }, parent_dir(path))
    }

    /// Takes `text` for the main file, and reads the files that it includes, relative to `dir`.
    pub fn of_text(name: &str, text: &str, dir: &Path) -> Self {
        let content = Ok(text.as_bytes().to_vec());
        let main = SourceFile { name: name.to_owned(), path: name.into(), content };
        Self::of_main(main, dir.to_owned())
    }

    fn of_main(main: SourceFile, dir: PathBuf) -> Self {
        let patterns = main.text().map_or_else(|_| Vec::new(), included_patterns);
        let mut sources = Self { main, dir, included: Vec::new(), patterns, faults: Vec::new() };
        let mut paths = BTreeSet::new();
        for pattern in &sources.patterns {
            match sources.matches(pattern) {
                Ok(found) => paths.extend(found),
                Err(fault) => sources.faults.push((pattern.clone(), fault)),
            }
        }
        // Once each, whatever patterns match and whatever links and `..` lead there.
        let mut seen = HashSet::new();
        let once = paths
            .into_iter()
            .filter(|path| seen.insert(path.canonicalize().unwrap_or(path.clone())));
        sources.included = once.map(|path| sources.read_included(path)).collect();
        sources
    }

    /// Returns the paths of the files that an item of `include` names.
    fn matches(&self, pattern: &str) -> Result<Vec<PathBuf>, String> {
        if !is_glob(pattern) {
            let path = clean(&self.dir.join(pattern));
            return match fs::metadata(&path) {
                Ok(found) if found.is_file() => self.check_not_main(vec![path]),
                Ok(_) => Err("is not a file".to_owned()),
                Err(error) => Err(format!("cannot be read: {error}")),
            };
        }
        let whole = Pattern::new(&self.absolute(pattern)).map_err(|error| error.to_string())?;
        let mut paths = Vec::new();
        for found in self.walk(pattern) {
            let path = match found {
                Ok(found) => found.into_path(),
                Err(error) if is_dangling_link(&error) => {
                    error.path().unwrap_or(&self.dir).to_owned()
                }
                // A link that leads back to a directory above, which is walked already.
                Err(error) if error.loop_ancestor().is_some() => continue,
                Err(error) => return Err(format!("cannot be read: {error}")),
            };
            // Directories, pipes and the like are not meant. A link that leads nowhere is: a file is missing.
            if whole.matches_path_with(&path, MATCH_OPTIONS)
                && fs::metadata(&path).map_or(true, |found| found.is_file())
            {
                paths.push(path);
            }
        }
        self.check_not_main(paths)
    }

    /// Walks through all that could match a pattern.
    fn walk(&self, pattern: &str) -> impl Iterator<Item = walkdir::Result<walkdir::DirEntry>> {
        let (base, below) = split_literal(pattern);
        let base = clean(&self.dir.join(base));
        let depth = if is_deep(pattern) { usize::MAX } else { below.components().count() };
        // Through links there may be exponentially many ways to one file, so `**` does not follow them.
        let walk =
            WalkDir::new(&base).min_depth(1).max_depth(depth).follow_links(!is_deep(pattern));
        base.is_dir().then_some(walk).into_iter().flatten()
    }

    fn check_not_main(&self, paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
        let own = self.main.path.canonicalize().ok();
        if paths.iter().any(|path| own.is_some() && path.canonicalize().ok() == own) {
            Err("includes this file itself".to_owned())
        } else {
            Ok(paths)
        }
    }

    /// Returns a pattern with its directory, whose own characters stand for themselves.
    fn absolute(&self, pattern: &str) -> String {
        let dir = Pattern::escape(&self.dir.to_string_lossy());
        clean(&Path::new(&dir).join(pattern)).to_string_lossy().into_owned()
    }

    fn read_included(&self, path: PathBuf) -> SourceFile {
        let content = read_included_file(&path);
        // Named as the main file is: relative if that is.
        let below = path.strip_prefix(&self.dir).unwrap_or(&path);
        let shown_dir = Path::new(&self.main.name).parent().unwrap_or(Path::new(""));
        SourceFile { name: shown_dir.join(below).display().to_string(), path, content }
    }

    /// Returns the path of the main file.
    pub fn main_path(&self) -> &Path {
        &self.main.path
    }

    /// Returns the directory that relative paths are relative to, those in included files, too.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the name and the text of the main file.
    ///
    /// # Errors
    ///
    /// Returns the mistake if it cannot be read.
    pub(super) fn main(&self) -> Result<(&str, &str), ConfigMistake> {
        self.main.text().map(|text| (&*self.main.name, text))
    }

    /// Returns the name and the text of each included file, or the mistake if it cannot be read.
    pub(super) fn included(&self) -> impl Iterator<Item = (&str, Result<&str, ConfigMistake>)> {
        self.included.iter().map(|file| (&*file.name, file.text()))
    }

    /// Returns the places of keys in the files that can be read.
    pub fn places(&self) -> ConfigPlaces<'_> {
        let files = std::iter::once(&self.main).chain(&self.included);
        ConfigPlaces::parse(files.filter_map(|file| Some((&*file.name, file.text().ok()?))))
    }

    /// Returns why an item of `include` cannot be followed.
    pub(super) fn fault(&self, pattern: &str) -> Option<&str> {
        let mut faults = self.faults.iter();
        faults.find(|(faulty, _)| faulty == pattern).map(|(_, fault)| &**fault)
    }

    /// Returns the items of `include` that no file matches.
    pub fn unmatched(&self) -> Vec<String> {
        let is_unmatched =
            |pattern: &&String| self.matches(pattern).is_ok_and(|found| found.is_empty());
        self.patterns.iter().filter(is_unmatched).cloned().collect()
    }

    /// Returns whether the main file has no content but comments, if any.
    pub fn has_only_comments(&self) -> bool {
        let text = self.main.content.as_deref().unwrap_or_default();
        let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        lines.all(|line| line.is_empty() || line.starts_with(b"#"))
    }

    /// Returns whether the main file has nothing at all, which a writer leaves that has just begun, or found the disk full.
    pub fn is_main_blank(&self) -> bool {
        self.main.content.as_ref().is_ok_and(|text| text.trim_ascii().is_empty())
    }

    /// Returns the name of a file that is different in `later`, which was read after this.
    pub fn first_change(&self, later: &Self) -> Option<String> {
        let files = |sources: &Self| {
            let files = std::iter::once(&sources.main).chain(&sources.included);
            files.map(|file| (file.name.clone(), file.content.clone())).collect::<BTreeMap<_, _>>()
        };
        let earlier = files(self);
        let later = files(later);
        let mut names = earlier.keys().chain(later.keys());
        names.find(|name| earlier.get(*name) != later.get(*name)).cloned()
    }

    /// Returns the list for watching all these files, and `others`, for changes.
    pub fn watch_list<'a>(&'a self, others: impl Iterator<Item = &'a Path>) -> WatchList {
        let mut list = WatchList::default();
        for path in self.included.iter().map(|file| &*file.path).chain(others) {
            // Relative paths would have no parent in the end.
            list.add_file(&std::path::absolute(path).unwrap_or(path.to_owned()));
        }
        for pattern in &self.patterns {
            let (base, below) = split_literal(pattern);
            list.add_include(&self.dir.join(base), &below);
            let parts: Vec<_> = below.iter().collect();
            let dirs = self.walk(pattern).flatten().filter(|found| found.file_type().is_dir());
            for dir in dirs {
                if is_deep(pattern) {
                    // No link leads there, so that the pattern matches events as it is.
                    list.add_include_dir(dir.path());
                } else if dir.depth() < parts.len() {
                    let (first, rest) = parts.split_at(dir.depth());
                    if ends_in(dir.path(), first) {
                        list.add_include(dir.path(), &rest.iter().collect::<PathBuf>());
                    }
                }
            }
        }
        list
    }
}

impl SourceFile {
    fn text(&self) -> Result<&str, ConfigMistake> {
        let bytes = self
            .content
            .as_ref()
            .map_err(|fault| ConfigMistake::in_file(&self.name, fault.clone()))?;
        // TOML is UTF-8. The parser is not even started, so the line has to be found here.
        str::from_utf8(bytes).map_err(|error| {
            let valid = &bytes[..error.valid_up_to()];
            let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
            ConfigMistake::in_line(&self.name, line, "", "is not UTF-8")
        })
    }
}

/// Returns the directory that relative paths in a file are resolved against.
pub fn parent_dir(file: &Path) -> PathBuf {
    let absolute = std::path::absolute(file);
    absolute.as_deref().unwrap_or(file).parent().unwrap_or(Path::new("")).to_owned()
}

/// Returns the items of `include` in a main file. Mistakes in the key are found when the configuration is checked.
fn included_patterns(text: &str) -> Vec<String> {
    let (table, _) = DeTable::parse_recoverable(text);
    let items = table.get_ref().get("include").and_then(|node| node.get_ref().as_array());
    let strings = items.into_iter().flatten().filter_map(|item| item.get_ref().as_str());
    strings.filter(|item| !item.trim().is_empty()).map(str::to_owned).collect()
}

/// Splits a pattern into the directories before the first part with a wildcard, and the rest, which is never empty.
fn split_literal(pattern: &str) -> (PathBuf, PathBuf) {
    let parts: Vec<_> = Path::new(pattern).components().collect();
    let literal = parts
        .iter()
        .take_while(|part| !is_glob(&part.as_os_str().to_string_lossy()))
        .count()
        .min(parts.len() - 1);
    let (base, below) = parts.split_at(literal);
    (base.iter().collect(), below.iter().collect())
}

/// Returns whether a walk that follows links found one that leads nowhere.
fn is_dangling_link(error: &walkdir::Error) -> bool {
    let is_missing = error.io_error().is_some_and(|error| error.kind() == ErrorKind::NotFound);
    is_missing && error.path().is_some_and(Path::is_symlink)
}

/// Returns the bytes of the main file, or why there are none. It may be a pipe: the operator named it.
fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    read_open(fs::File::open(path))
}

fn read_included_file(path: &Path) -> Result<Vec<u8>, String> {
    read_open(regular_file::open(path))
}

fn read_open(file: io::Result<fs::File>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("is larger than {}", bytesize::ByteSize::b(MAX_FILE_BYTES)));
    }
    Ok(bytes)
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

fn is_deep(pattern: &str) -> bool {
    pattern.contains("**")
}

/// Returns whether the last parts of a path match these parts of a pattern.
fn ends_in(path: &Path, parts: &[&OsStr]) -> bool {
    path.iter().rev().zip(parts.iter().rev()).all(|(name, part)| {
        Pattern::new(&part.to_string_lossy())
            .is_ok_and(|part| part.matches_with(&name.to_string_lossy(), MATCH_OPTIONS))
    })
}

/// Returns a path without `.`, so that two ways to write it are one.
fn clean(path: &Path) -> PathBuf {
    path.components().collect()
}
