//! Watches the configuration file, and reports a change only once the writer has closed or replaced it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// What was seen of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Whoever wrote it has closed it, or another one is in its place.
    InPlace,
    /// Somebody is writing it: it is not whole before it is closed.
    Writing,
}

/// Watches the directory of the file, since editors and orchestrators put a new file in the old one's place, and the one
/// that links lead to from there.
pub(super) struct Watch {
    file: PathBuf,
    dir: PathBuf,
    linked_dir: Option<PathBuf>,
    watcher: RecommendedWatcher,
}

impl Watch {
    /// Reports what is seen of `file` for as long as this lives.
    ///
    /// # Errors
    ///
    /// Returns an error if a directory cannot be watched.
    pub(super) fn start(
        file: &Path,
        report: impl Fn(Seen) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let file = std::path::absolute(file)?;
        let dir = file.parent().context("the file is in no directory")?;
        let mut watched = Watched::new(file.clone());
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if let Some(seen) = event.ok().and_then(|event| watched.see(&event)) {
                report(seen);
            }
        })?;
        let mut watch = Self {
            dir: dir.to_owned(),
            linked_dir: None,
            file,
            watcher,
        };
        watch
            .watcher
            .watch(&watch.dir, RecursiveMode::NonRecursive)?;
        watch.follow_links()?;
        Ok(watch)
    }

    /// Watches where links lead now. What is read afterwards is what is watched.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be watched.
    pub(super) fn follow_links(&mut self) -> notify::Result<()> {
        let real = self.file.canonicalize().ok();
        let real = real.as_deref().and_then(Path::parent);
        // A directory has one watch, by whatever name.
        let is_other = |dir: &&Path| self.dir.canonicalize().is_ok_and(|own| own != *dir);
        let linked_dir = real.filter(is_other).map(Path::to_owned);
        if linked_dir == self.linked_dir {
            return Ok(());
        }
        if let Some(dir) = self.linked_dir.take() {
            // It may be gone, and its watch with it.
            let _ = self.watcher.unwatch(&dir);
        }
        if let Some(dir) = &linked_dir {
            self.watcher.watch(dir, RecursiveMode::NonRecursive)?;
        }
        self.linked_dir = linked_dir;
        Ok(())
    }
}

/// The file, and where links lead from it.
struct Watched {
    file: PathBuf,
    leads_to: Option<PathBuf>,
}

impl Watched {
    fn new(file: PathBuf) -> Self {
        let leads_to = file.canonicalize().ok();
        Self { file, leads_to }
    }

    fn see(&mut self, event: &Event) -> Option<Seen> {
        let is_put_in_place = event.kind == PUT_IN_PLACE;
        if let Some(path) = event.paths.iter().find(|path| self.is_file(path)) {
            let leads_elsewhere = self.leads_elsewhere();
            match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(Seen::InPlace),
                EventKind::Modify(ModifyKind::Data(_)) if !leads_elsewhere => Some(Seen::Writing),
                // A new file is empty and written next; a link leads to one that is there.
                EventKind::Create(_) => path.is_symlink().then_some(Seen::InPlace),
                // Whatever it was, even that we read the file ourselves: who swaps a link meanwhile is not noticed twice.
                _ => (is_put_in_place || leads_elsewhere).then_some(Seen::InPlace),
            }
        } else {
            // Perhaps a link on the way to the file: Kubernetes swaps them for a ConfigMap, `ln -sfn` may make them anew.
            let may_be_link = is_put_in_place || event.kind.is_create();
            (may_be_link && self.leads_elsewhere()).then_some(Seen::InPlace)
        }
    }

    /// Whether it is the file, or what links lead to.
    fn is_file(&self, path: &PathBuf) -> bool {
        *path == self.file || self.leads_to.as_ref() == Some(path)
    }

    fn leads_elsewhere(&mut self) -> bool {
        let leads_to = self.file.canonicalize().ok();
        let differs = leads_to != self.leads_to;
        self.leads_to = leads_to;
        differs
    }
}

/// Something is in a place where something else may have been.
const PUT_IN_PLACE: EventKind = EventKind::Modify(ModifyKind::Name(RenameMode::To));

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// What was read last is opened by us, and that may be told after somebody swapped a link.
    #[test]
    fn a_swap_is_seen_in_whatever_is_told_first_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        for version in ["..1", "..2"] {
            fs::create_dir(real.join(version)).unwrap();
            fs::write(real.join(version).join("config.toml"), "").unwrap();
        }
        let (data, file) = (real.join("..data"), real.join("config.toml"));
        symlink("..1", &data).unwrap();
        symlink("..data/config.toml", &file).unwrap();
        let mut watched = Watched::new(file);
        let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
        let opened = Event::new(opened).add_path(real.join("..1/config.toml"));
        assert_eq!(watched.see(&opened), None);
        fs::remove_file(&data).unwrap();
        symlink("..2", &data).unwrap();
        assert_eq!(watched.see(&opened), Some(Seen::InPlace));
        let swapped = Event::new(PUT_IN_PLACE).add_path(data);
        assert_eq!(watched.see(&swapped), None);
    }
}
