//! Timings: which directives say when and how often a crawler may come.

/// What a file may say of when and how often a crawler may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    CrawlDelay,
    RequestRate,
    VisitTime,
}

impl Timing {
    /// The timing that a directive of this name states.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        const NAMES: [(Timing, [&[u8]; 3]); 3] = [
            (
                Timing::CrawlDelay,
                [b"crawl-delay", b"crawldelay", b"crawl delay"],
            ),
            (
                Timing::RequestRate,
                [b"request-rate", b"requestrate", b"request rate"],
            ),
            (
                Timing::VisitTime,
                [b"visit-time", b"visittime", b"visit time"],
            ),
        ];
        // Most directives are sitemaps.
        if let [b's' | b'S', ..] = name {
            return None;
        }
        let is_name = |known: &&[u8]| name.eq_ignore_ascii_case(known);
        let mut timings = NAMES.iter();
        let found = timings.find(|(_, names)| names.iter().any(is_name));
        found.map(|(timing, _)| *timing)
    }
}

/// Which timings a file states, for whomever.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timings(u8);

impl Timings {
    pub(super) fn insert(&mut self, timing: Timing) {
        self.0 |= 1 << timing as u8;
    }

    pub(super) fn has(self, timing: Timing) -> bool {
        self.0 & 1 << timing as u8 != 0
    }
}
