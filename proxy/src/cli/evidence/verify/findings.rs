//! What is wrong with an export, and where.

/// So many are named; all are counted.
const NAMED: usize = 20;

/// What was found, in the order of the check.
#[derive(Debug, Default)]
pub(super) struct Findings {
    named: Vec<String>,
    altered: u64,
    different: u64,
}

/// The worst of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worst {
    Nothing,
    Different,
    Altered,
}

impl Findings {
    /// Something is not as it was written.
    pub(super) fn altered(&mut self, place: &str, what: &str) {
        self.altered += 1;
        self.name(place, "altered", what);
    }

    /// A decision comes out differently, or cannot be derived.
    pub(super) fn differs(&mut self, place: &str, what: &str) {
        self.different += 1;
        self.name(place, "differs", what);
    }

    fn name(&mut self, place: &str, kind: &str, what: &str) {
        if self.named.len() < NAMED {
            self.named.push(format!("{place}: {kind}: {what}\n"));
        }
    }

    pub(super) fn worst(&self) -> Worst {
        match (self.altered, self.different) {
            (0, 0) => Worst::Nothing,
            (0, _) => Worst::Different,
            _ => Worst::Altered,
        }
    }

    /// A line for each that is named.
    pub(super) fn text(&self) -> String {
        let mut text: String = self.named.concat();
        let all = self.altered + self.different;
        let more = all - self.named.len() as u64;
        if more > 0 {
            text += &format!("and {more} more\n");
        }
        text
    }
}
