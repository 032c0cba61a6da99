//! Topics of directives that are looked up for every request, so that files without them are recognised at once.

/// The name of `Content-Usage`, in lower case.
pub const CONTENT_USAGE: &str = "content-usage";
/// The name of `Content-Signal`, in lower case.
pub const CONTENT_SIGNAL: &str = "content-signal";
/// The name of `DisallowAITraining`, in lower case.
pub const DISALLOW_AI_TRAINING: &str = "disallowaitraining";
/// The name of `AllowAITraining`, in lower case.
pub const ALLOW_AI_TRAINING: &str = "allowaitraining";
/// The name of `License` (RSL), in lower case.
pub const LICENSE: &str = "license";
/// The name of `Archive-Embargo`, in lower case.
pub const EMBARGO: &str = "archive-embargo";

/// The topic of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectiveTopic {
    CrawlDelay,
    RequestRate,
    VisitTime,
    /// Usage preferences.
    Usage,
}

impl DirectiveTopic {
    /// Returns the topic of directives with a name.
    pub(super) fn of_name(name: &[u8]) -> Option<Self> {
        // With the other spellings that crawlers accept, and files have.
        const NAMES: [(DirectiveTopic, &[&str]); 4] = [
            (DirectiveTopic::CrawlDelay, &["crawl-delay", "crawldelay", "crawl delay"]),
            (DirectiveTopic::RequestRate, &["request-rate", "requestrate", "request rate"]),
            (DirectiveTopic::VisitTime, &["visit-time", "visittime", "visit time"]),
            (
                DirectiveTopic::Usage,
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
        let found = NAMES.iter().find(|(_, names)| {
            names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
        })?;
        Some(found.0)
    }
}

/// The topics of a file's directives, whichever crawlers they are for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TopicSet(u8);

impl TopicSet {
    pub(super) fn insert(&mut self, topic: DirectiveTopic) {
        self.0 |= 1 << topic as u8;
    }

    pub(super) fn contains(self, topic: DirectiveTopic) -> bool {
        self.0 & 1 << topic as u8 != 0
    }
}
