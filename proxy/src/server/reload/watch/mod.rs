//! Watches the files of the configuration, and keeps track of those that are being written: a change counts only once the
//! writer has closed or replaced the file.
//!
//! There is no thread that takes the events from the kernel, which queues them before the system call that causes them returns.
//! Reading the files first, and then the events, therefore shows each file that was being written.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use inotify::{Event, EventMask, Inotify, WatchDescriptor, WatchMask};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use wayleave_config::WatchList;

/// The events that are asked for. A file that was deleted is of no interest, whoever writes to it.
const WATCHED: WatchMask = WatchMask::CREATE
    .union(WatchMask::DELETE)
    .union(WatchMask::MOVE)
    .union(WatchMask::DELETE_SELF)
    .union(WatchMask::MOVE_SELF)
    .union(WatchMask::MODIFY)
    .union(WatchMask::CLOSE_WRITE)
    .union(WatchMask::ONLYDIR)
    .union(WatchMask::EXCL_UNLINK);

/// The events after which something else may be at a path, or nothing.
const REPLACED: EventMask = EventMask::CREATE
    .union(EventMask::DELETE)
    .union(EventMask::MOVED_FROM)
    .union(EventMask::MOVED_TO)
    .union(EventMask::DELETE_SELF)
    .union(EventMask::MOVE_SELF)
    .union(EventMask::UNMOUNT);

/// A watch on all files of the configuration. It takes one inotify instance, of which a user has 128 by default.
#[derive(Debug, Default)]
pub(super) struct ConfigWatch {
    /// `None` until there is one.
    inotify: Option<AsyncFd<Inotify>>,
    list: WatchList,
    /// The directories that are watched.
    dirs: BTreeMap<PathBuf, WatchDescriptor>,
    fault: Option<String>,
    /// The files that were written to and not closed since, or moved away. One that was cut with truncate(2) remains until it is
    /// touched.
    writing: BTreeSet<PathBuf>,
}

impl ConfigWatch {
    /// Watches for changes of the files in `list`, which is made again after a directory was added: a link may have led elsewhere
    /// before. Call it before the files are read: those that are read are then watched. Returns whether it watches anything
    /// new, of which earlier changes went unnoticed.
    pub(super) fn follow(&mut self, list: impl Fn() -> WatchList) -> bool {
        self.fault = None;
        let mut is_change = false;
        loop {
            let list = list();
            let dirs = match self.watch_dirs(&list) {
                Ok(dirs) => dirs,
                Err(error) => {
                    self.fault = Some(error.to_string());
                    return is_change;
                }
            };
            let is_same = (&list, &dirs) == (&self.list, &self.dirs);
            // In other directories nothing would show that their writers close them.
            self.writing.retain(|file| {
                let dir = file.parent().and_then(|dir| Some((dirs.get(dir)?, self.dirs.get(dir)?)));
                list.is_file(file) && dir.is_some_and(|(now, before)| now == before)
            });
            self.dirs = dirs;
            self.list = list;
            if is_same {
                return is_change;
            }
            is_change = true;
        }
    }

    /// Watches the directories of a list, and no others. One that exists and cannot be watched is a fault.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no inotify instance left.
    fn watch_dirs(&mut self, list: &WatchList) -> io::Result<BTreeMap<PathBuf, WatchDescriptor>> {
        if list.dirs().is_empty() && self.inotify.is_none() {
            return Ok(BTreeMap::new());
        }
        #[expect(
            deprecated,
            reason = "the other is unsafe, for the sake of types that lie about their descriptor"
        )]
        let inotify = match self.inotify.take() {
            Some(inotify) => inotify,
            None => AsyncFd::with_interest(Inotify::init()?, Interest::READABLE)?,
        };
        let mut watches = self.inotify.insert(inotify).get_ref().watches();
        let mut dirs = BTreeMap::new();
        for dir in list.dirs() {
            // A directory that is watched already keeps its descriptor, and another one in its place gets its own.
            match watches.add(dir, WATCHED) {
                Ok(watch) => {
                    dirs.insert(dir.clone(), watch);
                }
                Err(error) if dir.is_dir() => {
                    self.fault.get_or_insert(format!("{}: {error}", dir.display()));
                }
                Err(_) => {}
            }
        }
        let kept: Vec<_> = dirs.values().collect();
        for watch in self.dirs.values().filter(|watch| !kept.contains(watch)) {
            // The directory may be gone, and its watch with it.
            let _ = watches.remove(watch.clone());
        }
        Ok(dirs)
    }

    /// Returns why changes of some files are not noticed, as far as this was known at the last [`follow`](Self::follow).
    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Returns the files that are being written, as far as the events tell that were read.
    pub(super) fn writing(&self) -> &BTreeSet<PathBuf> {
        &self.writing
    }

    /// Waits until there are events.
    pub(super) async fn wait_for_events(&self) {
        if let Some(inotify) = &self.inotify
            && let Ok(mut ready) = inotify.readable().await
        {
            ready.clear_ready();
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Reads all events that there are, and returns whether one is a reason to look at the files.
    pub(super) fn read_events(&mut self) -> bool {
        let mut is_reason = false;
        let mut buffer = [0; 4096];
        while let Some(inotify) = &mut self.inotify {
            match inotify.get_mut().read_events(&mut buffer) {
                Ok(events) => {
                    for event in events {
                        is_reason |= self.note(&event);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    *self = Self::default();
                    return true;
                }
            }
        }
        is_reason
    }

    /// Notes an event. Returns whether it is a reason to look at the files.
    fn note(&mut self, event: &Event<&OsStr>) -> bool {
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            // One of the lost events may be that a writer closed its file.
            self.writing.clear();
            return true;
        }
        let dirs = self.dirs.iter().filter(|(_, watch)| **watch == event.wd).map(|(dir, _)| dir);
        let paths: Vec<_> =
            dirs.map(|dir| event.name.map_or_else(|| dir.clone(), |name| dir.join(name))).collect();
        let mut is_reason = false;
        for path in &paths {
            is_reason |= self.note_at(path, event.mask);
        }
        is_reason
    }

    fn note_at(&mut self, path: &Path, mask: EventMask) -> bool {
        if mask.intersects(REPLACED) {
            let count = self.writing.len();
            // Their writers close them under other names, or unseen.
            self.writing.retain(|file| !file.starts_with(path));
            let is_unwritten = mask.contains(EventMask::CREATE) && is_empty_file(path);
            self.writing.len() < count || self.list.is_on_the_way(path) && !is_unwritten
        } else if mask.contains(EventMask::CLOSE_WRITE) {
            self.writing.remove(path) || self.list.is_file(path)
        } else if mask.contains(EventMask::MODIFY) && self.list.is_file(path) {
            self.writing.insert(path.to_owned());
            true
        } else {
            false
        }
    }
}

/// Returns whether a path that was just created needs a further event, that its writer closed it. Links, directories and pipes
/// have no such writer, and neither has a file that got another name (link(2)): if somebody still writes to it, the next write
/// says so.
fn is_empty_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0)
}
