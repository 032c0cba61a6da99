//! Colours for terminals. The functions that print leave them out for anything else, and if `NO_COLOR` or `TERM=dumb` is set.

use anstyle::{AnsiColor, Style};

/// The meaning of a word's colour.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tone {
    /// Allowed, valid, reachable.
    Good,
    /// Not certain, or not yet.
    Doubtful,
    /// Disallowed, wrong, failed.
    Bad,
    /// Something to find at a glance.
    Heading,
    /// Something that repeats in every line.
    Aside,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Doubtful => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Heading => Style::new().bold(),
            Self::Aside => Style::new().dimmed(),
        }
    }

    /// Returns `text` in this tone. Untrusted text must be made harmless first: escape sequences in it would reach the terminal.
    pub(super) fn paint(self, text: &str) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }
}
