//! Watches the files of the configuration, and keeps account of those that are being written: a change counts only once the
//! writer has closed or replaced the file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use anyhow::Context;
use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use wayleave_config::{ConfigSources, WatchList};

/// A change of a file on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileChange {
    /// Its writer has closed it, or another file has replaced it.
    Complete,
    /// It is being written, and incomplete until it is closed.
    Writing,
}

/// The files that are being written, of all that are watched.
#[derive(Clone, Debug, Default)]
pub(super) struct WritingFiles(Arc<Mutex<Vec<Weak<WritingOfWatch>>>>);

impl WritingFiles {
    /// Returns whether none is.
    pub(super) fn is_empty(&self) -> bool {
        self.paths().is_empty()
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let watches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let watches = watches.iter().filter_map(Weak::upgrade);
        watches.flat_map(|watch| watch.lock().iter().cloned().collect::<Vec<_>>()).collect()
    }

    /// Adds a watch, whose files count until it is dropped.
    fn add_watch(&self) -> Arc<WritingOfWatch> {
        let mut watches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watches.retain(|watch| watch.strong_count() > 0);
        let watch = Arc::new(WritingOfWatch::default());
        watches.push(Arc::downgrade(&watch));
        watch
    }
}

/// The files of one watch that are being written. They are forgotten with it: it will not see that their writers close them.
#[derive(Debug, Default)]
struct WritingOfWatch(Mutex<HashSet<PathBuf>>);

impl WritingOfWatch {
    fn note(&self, event: &Event, change: FileChange) {
        let mut writing = self.lock();
        for path in &event.paths {
            match change {
                FileChange::Writing => writing.insert(path.clone()),
                FileChange::Complete => writing.remove(path),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A watch on the directory of the file, since editors and orchestrators replace the file rather than write to it, and on
/// the directory that links in its path lead to.
pub(super) struct FileWatch {
    file: PathBuf,
    dir: PathBuf,
    linked_dir: Option<PathBuf>,
    writing: Arc<WritingOfWatch>,
    watcher: RecommendedWatcher,
}

impl FileWatch {
    /// Starts to report changes of `file`, until the watch is dropped. While it is written, it is among those in `writing`.
    ///
    /// # Errors
    ///
    /// Returns an error if a directory cannot be watched.
    pub(super) fn start(
        file: &Path,
        writing: &WritingFiles,
        report: impl Fn() + Send + 'static,
    ) -> anyhow::Result<Self> {
        let writing = writing.add_watch();
        let noted = Arc::downgrade(&writing);
        let file = std::path::absolute(file)?;
        let dir = file.parent().context("the file is in no directory")?;
        let mut watched = WatchedPath::new(file.clone());
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else {
                return;
            };
            if let (Some(change), Some(writing)) = (watched.classify(&event), noted.upgrade()) {
                writing.note(&event, change);
                report();
            }
        })?;
        let mut watch = Self { dir: dir.to_owned(), linked_dir: None, file, writing, watcher };
        watch.watcher.watch(&watch.dir, RecursiveMode::NonRecursive)?;
        watch.follow_links()?;
        Ok(watch)
    }

    /// Watches the directory that links lead to now. Call it before each read, so that the file read is the one watched.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be watched.
    pub(super) fn follow_links(&mut self) -> notify::Result<()> {
        let target = self.file.canonicalize();
        let target_dir = target.as_deref().ok().and_then(Path::parent);
        // inotify has one watch per directory, whatever the path: removing the second would remove the first.
        let linked_dir = target_dir
            .filter(|dir| self.dir.canonicalize().is_ok_and(|own| own != *dir))
            .map(Path::to_owned);
        if linked_dir == self.linked_dir {
            return Ok(());
        }
        if let Some(dir) = self.linked_dir.take() {
            // It may be gone, and its watch with it.
            let _ = self.watcher.unwatch(&dir);
            self.writing.lock().retain(|path| path.parent() != Some(&dir));
        }
        if let Some(dir) = &linked_dir {
            self.watcher.watch(dir, RecursiveMode::NonRecursive)?;
        }
        self.linked_dir = linked_dir;
        Ok(())
    }
}

/// A watch on the directories in which included files are or may appear.
pub(super) struct IncludeWatch {
    list: WatchList,
    _writing: Arc<WritingOfWatch>,
    /// Watches until it is dropped.
    _watcher: RecommendedWatcher,
}

impl IncludeWatch {
    /// Starts to report changes of the files that `sources` include, and of their number, as [`FileWatch::start`] does.
    ///
    /// # Errors
    ///
    /// Returns an error if a directory cannot be watched.
    pub(super) fn start(
        sources: &ConfigSources,
        writing: &WritingFiles,
        report: impl Fn() + Send + 'static,
    ) -> anyhow::Result<Self> {
        let writing = writing.add_watch();
        let noted = Arc::downgrade(&writing);
        let list = sources.watch_list();
        let watched = list.clone();
        let each = move |event: notify::Result<Event>| {
            let Ok(event) = event else {
                return;
            };
            let change = classify_included(&watched, &event);
            if let (Some(change), Some(writing)) = (change, noted.upgrade()) {
                writing.note(&event, change);
                report();
            }
        };
        // As patterns do below `**`.
        let options = notify::Config::default().with_follow_symlinks(false);
        let mut watcher = RecommendedWatcher::new(each, options)?;
        for (dir, is_deep) in &list.dirs {
            let mode =
                if *is_deep { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            watcher.watch(dir, mode)?;
        }
        Ok(Self { list, _writing: writing, _watcher: watcher })
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
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
            is_included.then_some(FileChange::Complete)
        }
        // A new file is still empty, and a write follows.
        EventKind::Create(CreateKind::File) if is_included => {
            event.paths.iter().any(|path| is_no_file(path)).then_some(FileChange::Complete)
        }
        // Directories and links may come and go as well, and files with them.
        EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => {
            Some(FileChange::Complete)
        }
        _ => None,
    }
}

/// The file's path, and the path it resolves to.
struct WatchedPath {
    file: PathBuf,
    target: Option<PathBuf>,
}

impl WatchedPath {
    fn new(file: PathBuf) -> Self {
        let target = file.canonicalize().ok();
        Self { file, target }
    }

    /// Returns the change that `event` means for the file, if any.
    fn classify(&mut self, event: &Event) -> Option<FileChange> {
        let is_put_in_place = event.kind == MOVED_INTO_PLACE;
        if let Some(path) = event.paths.iter().find(|path| self.is_file(path)) {
            let leads_elsewhere = self.has_new_target();
            match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
                    Some(FileChange::Complete)
                }
                EventKind::Modify(ModifyKind::Data(_)) if !leads_elsewhere => {
                    Some(FileChange::Writing)
                }
                // A new file is still empty, and a write follows, which nothing else has: links, directories, pipes.
                EventKind::Create(_) => is_no_file(path).then_some(FileChange::Complete),
                // What replaced it may be there by now, so that the path leads to the same place.
                EventKind::Remove(_) => Some(FileChange::Complete),
                // Any event may be the first after a link was swapped, even our own reading of the file.
                _ => (is_put_in_place || leads_elsewhere).then_some(FileChange::Complete),
            }
        } else {
            // It may be a link in the file's path: Kubernetes swaps one for each new ConfigMap, and `ln -sfn` recreates it.
            let may_be_link = is_put_in_place || event.kind.is_create();
            (may_be_link && self.has_new_target()).then_some(FileChange::Complete)
        }
    }

    /// Returns whether `path` is the file, or the path that it resolves to.
    fn is_file(&self, path: &PathBuf) -> bool {
        *path == self.file || self.target.as_ref() == Some(path)
    }

    fn has_new_target(&mut self) -> bool {
        let leads_to = self.file.canonicalize().ok();
        let differs = leads_to != self.target;
        self.target = leads_to;
        differs
    }
}

/// Returns whether the path is taken by something else than a regular file.
fn is_no_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file())
}

/// The event of a file that was renamed to a watched name, which it may have replaced.
const MOVED_INTO_PLACE: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::To));

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use notify::event::RemoveKind;

    use super::*;

    /// A watch that is replaced does not see that the writer closes the file.
    #[test]
    fn files_that_are_being_written_are_forgotten_with_their_watch() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.toml");
        let files = WritingFiles::default();
        let (reported, events) = std::sync::mpsc::channel();
        let report = move || {
            // More events may come after the first, when the test is over.
            let _ = reported.send(());
        };
        let watch = FileWatch::start(&file, &files, report).unwrap();
        let mut writing = fs::File::create(&file).unwrap();
        std::io::Write::write_all(&mut writing, b"half").unwrap();
        events.recv().unwrap();
        assert_eq!(files.paths(), [file]);
        drop(watch);
        // Until its thread has ended, which may be noting another event.
        while events.recv().is_ok() {}
        assert!(files.is_empty());
    }

    /// When its events arrive, the file may have been replaced for long.
    #[test]
    fn a_file_that_is_replaced_counts_whatever_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().canonicalize().unwrap().join("config.toml");
        fs::write(&file, "").unwrap();
        let mut watched = WatchedPath::new(file.clone());
        let of_file = |kind| Event::new(kind).add_path(file.clone());
        let created = of_file(EventKind::Create(CreateKind::File));
        assert_eq!(watched.classify(&created), None, "its writer has not closed it");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        let removed = of_file(EventKind::Remove(RemoveKind::File));
        assert_eq!(watched.classify(&removed), Some(FileChange::Complete));
        assert_eq!(watched.classify(&created), Some(FileChange::Complete));
    }

    /// The event of our own read may arrive after a link was swapped.
    #[test]
    fn any_event_after_a_link_swap_reports_it_once() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        for version in ["..1", "..2"] {
            fs::create_dir(real.join(version)).unwrap();
            fs::write(real.join(version).join("config.toml"), "").unwrap();
        }
        let data = real.join("..data");
        let file = real.join("config.toml");
        symlink("..1", &data).unwrap();
        symlink("..data/config.toml", &file).unwrap();
        let mut watched = WatchedPath::new(file);
        let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
        let opened = Event::new(opened).add_path(real.join("..1/config.toml"));
        assert_eq!(watched.classify(&opened), None);
        fs::remove_file(&data).unwrap();
        symlink("..2", &data).unwrap();
        assert_eq!(watched.classify(&opened), Some(FileChange::Complete));
        let swapped = Event::new(MOVED_INTO_PLACE).add_path(data);
        assert_eq!(watched.classify(&swapped), None);
    }
}
