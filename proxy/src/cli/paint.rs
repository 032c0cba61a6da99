//! Colours, for terminals alone: what prints them leaves them out elsewhere, and where `NO_COLOR` or `TERM=dumb` asks for that.

use anstyle::{AnsiColor, Style};

/// What a word's colour tells.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tone {
    /// Allowed, sound, reached.
    Good,
    /// Not certain, or not yet.
    Doubtful,
    /// Disallowed, wrong, failed.
    Bad,
    /// What is looked for first.
    Heading,
    /// What repeats in every line.
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

    /// `text` in this tone. What strangers wrote is made harmless before, or a terminal obeys it, too.
    pub(super) fn paint(self, text: &str) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }
}
