//! Watches the files of the configuration, and keeps track of those that are being written: a change counts only once the
//! writer has closed or replaced the file.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use wayleave_config::{ConfigSources, WatchList};

/// The most links on the way to a file, as in path_resolution(7).
const MAX_LINKS: usize = 40;

/// A change of a file on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileChange {
    /// Its writer has closed it, or another file has replaced it.
    Complete,
    /// It is being written, and incomplete until it is closed.
    Writing,
}

/// The files that are being written, among all watched files.
#[derive(Clone, Debug, Default)]
pub(super) struct WritingFiles(Arc<Mutex<Vec<Weak<Mutex<WatchState>>>>>);

impl WritingFiles {
    /// Returns whether no file is being written.
    pub(super) fn is_empty(&self) -> bool {
        self.paths().is_empty()
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let watches = lock(&self.0);
        let watches = watches.iter().filter_map(Weak::upgrade);
        watches.flat_map(|watch| lock(&watch).writing.iter().cloned().collect::<Vec<_>>()).collect()
    }

    /// Adds a watch, whose files count until it is dropped.
    fn add_watch(&self) -> Arc<Mutex<WatchState>> {
        let mut watches = lock(&self.0);
        watches.retain(|watch| watch.strong_count() > 0);
        let watch = Arc::default();
        watches.push(Arc::downgrade(&watch));
        watch
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of one watch, as events change it.
#[derive(Debug, Default)]
struct WatchState {
    /// The files that are being written. Dropped with the watch, which could no longer see them being closed.
    writing: HashSet<PathBuf>,
    /// The directories that are watched, and whether those below them are, too; without those that may have been replaced since.
    dirs: BTreeMap<PathBuf, bool>,
}

impl WatchState {
    /// Notes an event, which means `change` for the watched files. Returns whether it is a reason to look at them.
    fn note(&mut self, event: &Event, change: Option<FileChange>) -> bool {
        let mut is_reason = change.is_some();
        for path in &event.paths {
            if is_change_of_place(event.kind) {
                // A watch stays with a directory that is moved, and so do those on the directories below it.
                let watched = self.dirs.len();
                self.dirs.retain(|dir, _| !dir.starts_with(path));
                is_reason |= self.dirs.len() < watched;
                // Their writers close them under other names, or unseen.
                let writing = self.writing.len();
                self.writing.retain(|file| !file.starts_with(path));
                is_reason |= self.writing.len() < writing;
            } else if change == Some(FileChange::Writing) {
                self.writing.insert(path.clone());
            } else if change.is_some() || is_closed_by_writer(event.kind) {
                // Also if it is no longer watched, because a link leads elsewhere now.
                is_reason |= self.writing.remove(path);
            }
        }
        is_reason
    }

    /// Forgets what events have told, since some were lost.
    fn forget_all(&mut self) {
        self.writing.clear();
        self.dirs.clear();
    }
}

/// A watch on directories, which may be replaced.
struct DirWatch {
    state: Arc<Mutex<WatchState>>,
    /// The directories that `watcher` was told to watch.
    dirs: BTreeMap<PathBuf, bool>,
    /// Watches until it is dropped.
    watcher: RecommendedWatcher,
}

impl DirWatch {
    /// Creates a watch on no directory yet. It reports events that are a change according to `classify`, and until it is dropped,
    /// a file that is being written is listed in `writing`.
    ///
    /// # Errors
    ///
    /// Returns an error if the system's limit of watches is reached.
    fn new(
        writing: &WritingFiles,
        mut classify: impl FnMut(&Event) -> Option<FileChange> + Send + 'static,
        report: impl Fn() + Send + 'static,
    ) -> notify::Result<Self> {
        let state = writing.add_watch();
        let noted = Arc::downgrade(&state);
        let each = move |event: notify::Result<Event>| {
            let Some(state) = noted.upgrade() else {
                return;
            };
            let is_reason = match event {
                Ok(event) if !event.need_rescan() => {
                    let change = classify(&event);
                    lock(&state).note(&event, change)
                }
                _ => {
                    lock(&state).forget_all();
                    true
                }
            };
            if is_reason {
                report();
            }
        };
        // As `**` in patterns: links are not followed.
        let options = notify::Config::default().with_follow_symlinks(false);
        let watcher = RecommendedWatcher::new(each, options)?;
        Ok(Self { state, dirs: BTreeMap::new(), watcher })
    }

    /// Watches `dirs`, each with those below it or without, and no others. Returns whether it watched others before, or one of
    /// them may have been replaced.
    ///
    /// # Errors
    ///
    /// Returns an error if a directory that exists cannot be watched.
    fn follow(&mut self, dirs: &BTreeMap<PathBuf, bool>) -> notify::Result<bool> {
        let mut kept = lock(&self.state).dirs.clone();
        kept.retain(|dir, is_deep| dirs.get(dir) == Some(is_deep));
        let is_change = kept != self.dirs || kept != *dirs;
        for dir in self.dirs.keys().filter(|dir| !kept.contains_key(*dir)) {
            // It may be gone, and its watch with it.
            let _ = self.watcher.unwatch(dir);
        }
        // Now that no event of the others can follow.
        let is_within = |file: &Path, dir: &Path, is_deep: bool| {
            file.parent() == Some(dir) || is_deep && file.starts_with(dir)
        };
        let mut state = lock(&self.state);
        state.writing.retain(|file| kept.iter().any(|(dir, deep)| is_within(file, dir, *deep)));
        state.dirs.retain(|dir, _| kept.contains_key(dir));
        drop(state);
        self.dirs.clone_from(dirs);
        for (dir, is_deep) in dirs.iter().filter(|(dir, _)| !kept.contains_key(*dir)) {
            // Before the watch begins, whose first event may be that the directory is gone.
            lock(&self.state).dirs.insert(dir.clone(), *is_deep);
            let mode =
                if *is_deep { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            if let Err(error) = self.watcher.watch(dir, mode) {
                lock(&self.state).dirs.remove(dir);
                if dir.is_dir() {
                    return Err(error);
                }
            }
        }
        Ok(is_change)
    }
}

/// A watch on the directories on the way to a file, since editors and orchestrators replace the file, or a link or directory in
/// its path, rather than write to it.
pub(super) struct FileWatch {
    path: Arc<Mutex<WatchedPath>>,
    watch: DirWatch,
}

impl FileWatch {
    /// Starts to report changes of `file`, until the watch is dropped. While being written, the file is listed in `writing`.
    ///
    /// # Errors
    ///
    /// Returns an error if a directory cannot be watched.
    pub(super) fn start(
        file: &Path,
        writing: &WritingFiles,
        report: impl Fn() + Send + 'static,
    ) -> anyhow::Result<Self> {
        let path = Arc::new(Mutex::new(WatchedPath::new(std::path::absolute(file)?)));
        let watched = Arc::clone(&path);
        let classify = move |event: &Event| lock(&watched).classify(event);
        let mut watch = Self { path, watch: DirWatch::new(writing, classify, report)? };
        watch.follow()?;
        Ok(watch)
    }

    /// Watches the directories that the path currently leads through. Call it before each read, so that the file read is the one
    /// watched.
    ///
    /// # Errors
    ///
    /// Returns an error if a directory cannot be watched.
    pub(super) fn follow(&mut self) -> notify::Result<()> {
        // Again after a change: the path may have led elsewhere before the watch began.
        loop {
            let mut list = WatchList::default();
            let mut path = lock(&self.path);
            path.has_new_names();
            for dir in path.names.iter().filter_map(|name| name.parent()) {
                list.add(dir, false);
            }
            drop(path);
            if !self.watch.follow(&list.dirs)? {
                return Ok(());
            }
        }
    }
}

/// A watch on the directories in which included files are or may appear.
pub(super) struct IncludeWatch {
    list: WatchList,
    watch: DirWatch,
}

impl IncludeWatch {
    /// Starts to report changes of the files that `sources` include, and of which files match, as [`FileWatch::start`] does.
    ///
    /// # Errors
    ///
    /// Returns an error if a directory cannot be watched.
    pub(super) fn start(
        sources: &ConfigSources,
        writing: &WritingFiles,
        report: impl Fn() + Send + 'static,
    ) -> anyhow::Result<Self> {
        let list = sources.watch_list();
        let watched = list.clone();
        let classify = move |event: &Event| classify_included(&watched, event);
        let mut watch = Self { list, watch: DirWatch::new(writing, classify, report)? };
        watch.follow()?;
        Ok(watch)
    }

    /// Watches the directories again that have been replaced. Call it before each read.
    ///
    /// # Errors
    ///
    /// Returns an error if a directory cannot be watched.
    pub(super) fn follow(&mut self) -> notify::Result<()> {
        self.watch.follow(&self.list.dirs)?;
        Ok(())
    }

    /// Returns whether it watches for all that `sources` may include.
    pub(super) fn covers(&self, sources: &ConfigSources) -> bool {
        self.list == sources.watch_list()
    }
}

/// Returns the change that `event` means for included files, if any.
fn classify_included(list: &WatchList, event: &Event) -> Option<FileChange> {
    let is_included = event.paths.iter().any(|path| list.is_included(path));
    match event.kind {
        EventKind::Modify(ModifyKind::Data(_)) => is_included.then_some(FileChange::Writing),
        kind if is_closed_by_writer(kind) => is_included.then_some(FileChange::Complete),
        EventKind::Create(CreateKind::File) if is_included => {
            event.paths.iter().any(|path| is_born_complete(path)).then_some(FileChange::Complete)
        }
        // Directories and links may come and go as well, and files with them.
        kind if is_change_of_place(kind) => Some(FileChange::Complete),
        _ => None,
    }
}

/// A file's path, and the way that it leads.
struct WatchedPath {
    file: PathBuf,
    /// The links on the way, and last the file, which may not exist. As in events, there are no links in their directories.
    names: Vec<PathBuf>,
}

impl WatchedPath {
    fn new(file: PathBuf) -> Self {
        let names = names_on_the_way(&file);
        Self { file, names }
    }

    /// Returns the change that `event` means for the file, if any.
    fn classify(&mut self, event: &Event) -> Option<FileChange> {
        let is_on_the_way = |path: &PathBuf| self.names.iter().any(|name| name.starts_with(path));
        if !event.paths.iter().any(is_on_the_way) {
            return None;
        }
        // Any event may be the first after a link was swapped, even our own reading of the file.
        let leads_elsewhere = self.has_new_names();
        let change = leads_elsewhere.then_some(FileChange::Complete);
        let Some(path) = event.paths.iter().find(|path| self.names.last() == Some(path)) else {
            // Kubernetes swaps a link for each new ConfigMap, and `ln -sfn` recreates it. A directory may be back with the file.
            let is_link = event.paths.iter().all(|path| self.names.contains(path));
            let is_dir_change = !is_link && is_change_of_place(event.kind);
            return change.or(is_dir_change.then_some(FileChange::Complete));
        };
        match event.kind {
            EventKind::Modify(ModifyKind::Data(_)) => Some(FileChange::Writing),
            EventKind::Create(_) => is_born_complete(path).then_some(FileChange::Complete),
            // Its replacement may already exist, so that the path leads to the same place.
            kind if is_change_of_place(kind) || is_closed_by_writer(kind) => {
                Some(FileChange::Complete)
            }
            _ => change,
        }
    }

    /// Finds the way again, and returns whether it is another one.
    fn has_new_names(&mut self) -> bool {
        let names = names_on_the_way(&self.file);
        let differs = names != self.names;
        self.names = names;
        differs
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

/// Returns whether a path that was just created needs no further event. A new regular file is still empty; its write follows.
/// Links, directories and pipes have no such write, and neither has a file that got another name (link(2)): if somebody still
/// writes to it, the next write says so.
fn is_born_complete(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file() || metadata.len() > 0)
}

fn is_closed_by_writer(kind: EventKind) -> bool {
    kind == EventKind::Access(AccessKind::Close(AccessMode::Write))
}

/// Returns whether something else may be at the path now, or nothing.
fn is_change_of_place(kind: EventKind) -> bool {
    kind.is_create() || kind.is_remove() || matches!(kind, EventKind::Modify(ModifyKind::Name(_)))
}
