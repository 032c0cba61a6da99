//! Topics of directives that are looked up for every request, so that files without them are recognised at once.

/// The names of directives about use, in lower case.
pub(crate) const CONTENT_USAGE: &str = "content-usage";
pub(crate) const CONTENT_SIGNAL: &str = "content-signal";
pub(crate) const DISALLOW_AI_TRAINING: &str = "disallowaitraining";
pub(crate) const ALLOW_AI_TRAINING: &str = "allowaitraining";
pub(crate) const LICENSE: &str = "license";
pub(crate) const EMBARGO: &str = "archive-embargo";

/// The topic of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    CrawlDelay,
    RequestRate,
    VisitTime,
    /// Usage preferences.
    Use,
}

impl Topic {
    /// Returns the topic of directives with a name.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        const NAMES: [(Topic, &[&str]); 4] = [
            (
                Topic::CrawlDelay,
                &["crawl-delay", "crawldelay", "crawl delay"],
            ),
            (
                Topic::RequestRate,
                &["request-rate", "requestrate", "request rate"],
            ),
            (Topic::VisitTime, &["visit-time", "visittime", "visit time"]),
            (
                Topic::Use,
                &[
                    CONTENT_USAGE,
                    CONTENT_SIGNAL,
                    DISALLOW_AI_TRAINING,
                    ALLOW_AI_TRAINING,
                    LICENSE,
                    EMBARGO,
                ],
            ),
        ];
        // Most directives are sitemaps, so they are ruled out first.
        if let [b's' | b'S', ..] = name {
            return None;
        }
        let is_name = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
        let mut topics = NAMES.iter();
        let found = topics.find(|(_, names)| names.iter().any(is_name));
        found.map(|(topic, _)| *topic)
    }
}

/// The topics of a file's directives, whichever crawlers they are for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Topics(u8);

impl Topics {
    pub(super) fn insert(&mut self, topic: Topic) {
        self.0 |= 1 << topic as u8;
    }

    pub(super) fn has(self, topic: Topic) -> bool {
        self.0 & 1 << topic as u8 != 0
    }
}
