//! The progress of long tasks: a line on standard error that vanishes when the task is done, and only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::observe::harmless::harmless;

/// The number of lines between two updates.
pub(super) const LINES: u64 = 10_000;

/// A line that shows the progress until it is dropped.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Starts a task of `total` parts, each with a name.
    pub(super) fn of(total: usize) -> Self {
        Self::styled(
            ProgressBar::new(total as u64),
            "{bar:24} {pos} of {len}  {wide_msg}",
        )
    }

    /// Starts a task with an unknown number of parts, which are called `unit`.
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

    /// Starts the next part, which has this name.
    pub(super) fn begin(&self, name: &str) {
        self.0.set_message(harmless(name).into_owned());
        self.0.inc(1);
    }

    /// Prints something else while the line is hidden.
    pub(super) fn aside(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// Sets the number of parts that are done.
    pub(super) fn reached(&self, count: u64) {
        self.0.set_position(count);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
