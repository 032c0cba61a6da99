//! Progress of long work: on standard error, gone when the work is done, and only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::observe::harmless::harmless;

/// Lines between two words about progress.
pub(super) const LINES: u64 = 10_000;

/// A line that says how far the work is, until this is dropped.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Work of so many parts, each with a name.
    pub(super) fn of(total: usize) -> Self {
        Self::styled(
            ProgressBar::new(total as u64),
            "{bar:24} {pos} of {len}  {wide_msg}",
        )
    }

    /// Work of nobody knows how many parts, which are called `unit`.
    pub(super) fn open_ended(unit: &str) -> Self {
        let template = format!("{{spinner}} {{human_pos}} {unit}, {{elapsed}}");
        let progress = Self::styled(ProgressBar::new_spinner(), &template);
        progress.0.tick();
        progress
    }

    fn styled(bar: ProgressBar, template: &str) -> Self {
        let style = ProgressStyle::with_template(template).expect("a template of this file");
        Self(bar.with_style(style))
    }

    /// The next part, which has this name, is begun.
    pub(super) fn begin(&self, name: &str) {
        self.0.set_message(harmless(name).into_owned());
        self.0.inc(1);
    }

    /// Prints something else, the line out of its way.
    pub(super) fn aside(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// So many parts are done.
    pub(super) fn reached(&self, count: u64) {
        self.0.set_position(count);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
