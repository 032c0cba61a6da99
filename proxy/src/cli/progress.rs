//! The progress of long tasks: a line on standard error that vanishes when the task is done, and only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use wayleave_notation::harmless::escape_controls;

/// The number of lines between two updates.
pub(super) const LINES_PER_UPDATE: u64 = 10_000;

/// A line that shows the progress until it is dropped.
#[derive(Debug)]
pub(super) struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// Starts a task of `total` parts, each with a name.
    pub(super) fn new(total: usize) -> Self {
        Self::styled(ProgressBar::new(total as u64), "{bar:24} {pos} of {len}  {wide_msg}")
    }

    /// Starts a task with an unknown number of parts, which are called `unit`.
    pub(super) fn open_ended(unit: &str) -> Self {
        let template = format!("{{spinner}} {{human_pos}} {unit}, {{elapsed}}");
        let progress = Self::styled(ProgressBar::new_spinner(), &template);
        // Otherwise nothing is drawn before the first update.
        progress.0.tick();
        progress
    }

    /// Starts a task whose bytes are counted, with this message.
    pub(super) fn of_bytes(message: &'static str) -> Self {
        let progress = Self::styled(ProgressBar::new(1), "{bar:24} {percent:>3} %  {wide_msg}");
        progress.0.set_message(message);
        // Otherwise nothing is drawn before the first update.
        progress.0.tick();
        progress
    }

    /// Sets how many bytes are done, and the message.
    pub(super) fn set_bytes(&self, done: u64, total: u64, message: &str) {
        self.0.set_length(total.max(1));
        self.0.set_message(message.to_owned());
        self.0.set_position(done);
    }

    fn styled(bar: ProgressBar, template: &str) -> Self {
        let style = ProgressStyle::with_template(template).expect("a template of this file");
        Self(bar.with_style(style))
    }

    /// Starts the next part, which has this name.
    pub(super) fn start_part(&self, name: &str) {
        self.0.set_message(escape_controls(name).into_owned());
        self.0.inc(1);
    }

    /// Prints something else while the line is hidden.
    pub(super) fn suspend(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }

    /// Sets the number of parts that are done.
    pub(super) fn set_position(&self, count: u64) {
        self.0.set_position(count);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
