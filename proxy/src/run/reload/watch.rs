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

/// Reports what is seen of `file` for as long as the watcher lives. Watches its directory, since editors and orchestrators put
/// a new file in the old one's place.
///
/// # Errors
///
/// Returns an error if the directory cannot be watched.
pub(super) fn watch(
    file: &Path,
    report: impl Fn(Seen) + Send + 'static,
) -> anyhow::Result<RecommendedWatcher> {
    let file = std::path::absolute(file)?;
    let dir = file.parent().context("the file is in no directory")?;
    let mut watched = Watched::new(file.clone());
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if let Some(seen) = event.ok().and_then(|event| watched.see(&event)) {
            report(seen);
        }
    })?;
    watcher.watch(dir, RecursiveMode::NonRecursive)?;
    Ok(watcher)
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
            let _known_from_now_on = self.leads_elsewhere();
            match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => Some(Seen::InPlace),
                EventKind::Modify(ModifyKind::Data(_)) => Some(Seen::Writing),
                // A new file is empty and written next; a link leads to one that is there.
                EventKind::Create(_) => path.is_symlink().then_some(Seen::InPlace),
                _ => is_put_in_place.then_some(Seen::InPlace),
            }
        } else {
            // Perhaps a link on the way to the file: Kubernetes swaps them for a ConfigMap, `ln -sfn` may make them anew.
            let may_be_link = is_put_in_place || event.kind.is_create();
            (may_be_link && self.leads_elsewhere()).then_some(Seen::InPlace)
        }
    }

    /// Whether it is the file, or what a link leads to in the same directory.
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
