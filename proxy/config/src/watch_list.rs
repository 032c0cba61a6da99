//! The files of a configuration that may change, and the directories in which such changes are visible.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

/// Shell rules: `*` matches within one directory, and no hidden files such as the temporary ones of editors.
pub(super) const MATCH_OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// The most links on the way to a file, as in path_resolution(7).
const MAX_LINKS: usize = 40;

/// The files to watch, which may not exist yet, and the directories to watch for them. Paths are as in events: without links
/// among their directories.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WatchList {
    dirs: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
    /// The links on the way to files and to directories of `include`, and where they end.
    names: BTreeSet<PathBuf>,
    /// The directories in which files, links or directories may appear that are included.
    include_dirs: BTreeSet<PathBuf>,
    patterns: Vec<Pattern>,
}

impl WatchList {
    /// Adds the file at `path`, and the way that leads there: editors and orchestrators replace the file, or a link or directory
    /// in its path, rather than write to it.
    pub(super) fn add_file(&mut self, path: &Path) {
        let end = self.add_way(path);
        self.files.extend(end);
    }

    /// Adds the files that `below`, a part of a pattern, matches in `dir`.
    pub(super) fn add_include(&mut self, dir: &Path, below: &Path) {
        if let Some(real) = self.add_include_dir(dir) {
            let whole = Path::new(&Pattern::escape(&real.to_string_lossy())).join(below);
            self.patterns.extend(Pattern::new(&whole.to_string_lossy()));
        }
    }

    /// Adds a directory in which files, links or directories may appear that are included, and returns it without links.
    pub(super) fn add_include_dir(&mut self, dir: &Path) -> Option<PathBuf> {
        let end = self.add_way(dir)?;
        // It may end in "..", which is in no event.
        let real = end.canonicalize().unwrap_or(end);
        self.add_dir(&real);
        self.include_dirs.insert(real.clone());
        Some(real)
    }

    /// Adds the links on the way to `path`, and returns where they end.
    fn add_way(&mut self, path: &Path) -> Option<PathBuf> {
        let names = names_on_the_way(path);
        for dir in names.iter().filter_map(|name| name.parent()) {
            self.add_dir(dir);
        }
        let end = names.last().cloned();
        self.names.extend(names);
        end
    }

    /// Adds `dir`, or the nearest directory above it that exists, and the one above if it can be read: the directory may itself be
    /// replaced.
    fn add_dir(&mut self, dir: &Path) {
        let Some(there) = dir.ancestors().find(|dir| dir.is_dir()) else {
            return;
        };
        let above = there.parent().filter(|above| fs::read_dir(above).is_ok());
        // One directory has one watch, whatever its names.
        let real = [Some(there), above].into_iter().flatten().flat_map(Path::canonicalize);
        self.dirs.extend(real);
    }

    /// Returns the directories to watch, without those below them.
    pub fn dirs(&self) -> &BTreeSet<PathBuf> {
        &self.dirs
    }

    /// Returns whether `path` is one of the files, or would be included.
    pub fn is_file(&self, path: &Path) -> bool {
        self.files.contains(path)
            || self.patterns.iter().any(|pattern| pattern.matches_path_with(path, MATCH_OPTIONS))
    }

    /// Returns whether the way to a file may be another one if something else is at `path`, or whether files may be included then.
    pub fn is_on_the_way(&self, path: &Path) -> bool {
        self.names.iter().any(|name| name.starts_with(path))
            || path.parent().is_some_and(|dir| self.include_dirs.contains(dir))
    }
}

/// Returns the links on the way to a file, and last the path that they lead to.
fn names_on_the_way(file: &Path) -> Vec<PathBuf> {
    let mut names = Vec::new();
    let mut path = file.to_owned();
    while names.len() < MAX_LINKS {
        let parts: Vec<_> = path.ancestors().collect();
        let link = parts.into_iter().rev().find(|part| part.is_symlink());
        let Some((link, target)) = link.and_then(|link| Some((link, link.read_link().ok()?)))
        else {
            break;
        };
        names.push(with_real_dir(link));
        // Joining nothing would add a slash.
        let below = path.strip_prefix(link).ok().filter(|below| *below != Path::new(""));
        let target = link.parent().unwrap_or(link).join(target);
        path = below.map_or(target.clone(), |below| target.join(below));
    }
    names.push(with_real_dir(&path));
    names
}

/// Returns a path without links among its directories, as far as these exist.
fn with_real_dir(path: &Path) -> PathBuf {
    let mut dirs = path.ancestors().skip(1);
    let real =
        dirs.find_map(|dir| Some(dir.canonicalize().ok()?.join(path.strip_prefix(dir).ok()?)));
    real.unwrap_or(path.to_owned())
}
