//! Changes of robots.txt files: whether they open or close URLs that crawlers asked for.

use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use wayleave_decision::{TargetScope, decide_in_dialect};
use wayleave_decision_log::{AskedUrl, DecisionLog};
use wayleave_record::Word;
use wayleave_robots_cache::RobotsChange;
use wayleave_robots_txt::{
    AccessReason, AccessResult, AccessVerdict, Dialect, ProductToken, Target, UrlPath,
};
use wayleave_telemetry::metrics::Metrics;

/// The most URLs that are named as examples.
const MAX_EXAMPLES: usize = 10;
/// The number of URLs that may be too costly to judge before the rest is left out.
const MAX_COSTLY: usize = 3;

/// The URLs on which two versions of a robots.txt disagree, among those that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedUrls {
    /// The number of URLs that were compared.
    pub(crate) asked: usize,
    /// The number of those that the later version allows and the earlier one does not.
    pub(crate) opened: usize,
    pub(crate) closed: usize,
    /// The first of them, in alphabetical order.
    pub(crate) opened_urls: Vec<String>,
    pub(crate) closed_urls: Vec<String>,
}

impl ChangedUrls {
    /// Compares two versions by the URLs of their origin that were asked for.
    pub(crate) fn between<'a>(
        before: &AccessResult,
        after: &AccessResult,
        asked: impl Iterator<Item = &'a AskedUrl>,
    ) -> Self {
        let mut changed = Self::default();
        // In one order, so that the same question has the same answer.
        let mut asked: Vec<_> = asked.collect();
        asked.sort_unstable();
        let mut costly = 0;
        for asked in asked {
            match verdicts(before, after, asked) {
                None => continue,
                Some(verdicts) if verdicts.contains(&UrlVerdict::TooCostly) => {
                    // A file that is made to be slow would be so for each of the others.
                    costly += 1;
                    if costly > MAX_COSTLY {
                        break;
                    }
                    continue;
                }
                Some([UrlVerdict::Disallow, UrlVerdict::Allow]) => {
                    changed.opened_urls.push(asked.url.clone());
                }
                Some([UrlVerdict::Allow, UrlVerdict::Disallow]) => {
                    changed.closed_urls.push(asked.url.clone());
                }
                Some(_) => {}
            }
            changed.asked += 1;
        }
        (changed.opened, changed.closed) = (changed.opened_urls.len(), changed.closed_urls.len());
        for urls in [&mut changed.opened_urls, &mut changed.closed_urls] {
            urls.sort_unstable();
            // Two crawlers may have asked for one URL.
            urls.dedup();
            urls.truncate(MAX_EXAMPLES);
        }
        changed
    }

    /// Returns the effect as a word: `opens`, `closes`, `both` or `neutral`.
    pub(crate) fn effect(&self) -> &'static str {
        match (self.opened > 0, self.closed > 0) {
            (true, false) => "opens",
            (false, true) => "closes",
            (true, true) => "both",
            (false, false) => NEUTRAL,
        }
    }
}

const NEUTRAL: &str = "neutral";

/// The verdict of a version about a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UrlVerdict {
    Allow,
    Disallow,
    /// Disallowed, because finding the rule takes too long.
    TooCostly,
}

/// Returns the verdict of each version on a URL; none if the request was not for a URL that robots.txt is about.
fn verdicts(
    before: &AccessResult,
    after: &AccessResult,
    asked: &AskedUrl,
) -> Option<[UrlVerdict; 2]> {
    let scope = match &asked.scope {
        None => TargetScope::Path,
        Some(word) => word.known()?,
    };
    // The others are allowed whatever the file says.
    if matches!(scope, TargetScope::RobotsTxt | TargetScope::Bypass) {
        return None;
    }
    let target = match scope {
        // A tunnel is logged by its host and port.
        TargetScope::EveryPath => None,
        _ => Some(Target::parse(&asked.url).ok()?),
    };
    let root = UrlPath::ROOT;
    let path = target.as_ref().map_or(&root, Target::path);
    let tokens: Vec<_> =
        asked.tokens.iter().filter_map(|token| ProductToken::new(token).ok()).collect();
    let dialect = asked.dialect.as_ref().and_then(Word::known);
    let dialect: Dialect = dialect.unwrap_or_default();
    let verdict = |access: &AccessResult| {
        let decision = decide_in_dialect(scope, access, dialect, &tokens, path);
        match (decision.verdict(), decision.reason()) {
            (_, AccessReason::TooCostly) => UrlVerdict::TooCostly,
            (AccessVerdict::Allow, _) => UrlVerdict::Allow,
            (AccessVerdict::Disallow, _) => UrlVerdict::Disallow,
        }
    };
    Some([verdict(before), verdict(after)])
}

/// Counts changes by their effect, until the cache ends.
pub(crate) async fn count(
    mut changes: Receiver<RobotsChange>,
    decisions: Arc<DecisionLog>,
    metrics: Arc<Metrics>,
) {
    loop {
        let mut batch = match changes.recv().await {
            Ok(change) => vec![change],
            // Counted all the same, but their records are gone.
            Err(RecvError::Lagged(missed)) => {
                metrics.robots_changes(NEUTRAL, missed);
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        // The decisions are read once for all changes that came meanwhile.
        while let Ok(change) = changes.try_recv() {
            batch.push(change);
        }
        let decisions = Arc::clone(&decisions);
        let metrics = Arc::clone(&metrics);
        let counting = tokio::task::spawn_blocking(move || {
            let asked =
                decisions.asked_recently(batch.iter().map(|change| change.origin.to_string()));
            for change in &batch {
                let before = change.before.access();
                let after = change.after.access();
                let origin = change.origin.to_string();
                let changed = ChangedUrls::between(&before, &after, asked.at(&origin));
                metrics.robots_changes(changed.effect(), 1);
            }
        });
        // A panic is reported by the hook of the process.
        let _ = counting.await;
    }
}

#[cfg(test)]
mod tests {
    use wayleave_robots_txt::RobotsTxt;

    use super::*;

    fn asked(url: &str, token: &str, scope: Option<&str>) -> AskedUrl {
        AskedUrl {
            url: url.to_owned(),
            tokens: vec![token.to_owned()],
            dialect: Some(Dialect::Rfc9309.into()),
            scope: scope.map(Word::from),
        }
    }

    fn file(text: &str) -> AccessResult {
        AccessResult::Successful(RobotsTxt::parse(text.as_bytes()))
    }

    #[test]
    fn a_change_opens_or_closes_what_was_asked_for() {
        let urls = [
            asked("https://shop.test/a", "NewsBot", None),
            asked("https://shop.test//b/1", "NewsBot", None),
            asked("https://shop.test/a", "ImageBot", None),
            asked("https://shop.test/robots.txt", "NewsBot", Some("robots-txt")),
        ];
        let all = file("");
        let none = AccessResult::Unavailable { status: 404 };
        let a = file("User-agent: *\nDisallow: /a\n");
        let news = file("User-agent: NewsBot\nDisallow: /a\n");
        let b = file("User-agent: *\nDisallow: /b\n");
        for (before, after, effect, opened, closed) in [
            (&all, &a, "closes", 0, 2),
            (&a, &none, "opens", 2, 0),
            (&a, &b, "both", 2, 1),
            (&all, &none, "neutral", 0, 0),
            (&a, &news, "opens", 1, 0),
            (&all, &file("User-agent: *\nDisallow: /c\n"), "neutral", 0, 0),
        ] {
            let changed = ChangedUrls::between(before, after, urls.iter());
            assert_eq!(changed.effect(), effect, "{changed:?}");
            assert_eq!((changed.opened, changed.closed, changed.asked), (opened, closed, 3));
        }
        let changed = ChangedUrls::between(&a, &b, urls.iter());
        assert_eq!(changed.opened_urls, ["https://shop.test/a"]);
        assert_eq!(changed.closed_urls, ["https://shop.test//b/1"]);
    }

    #[test]
    fn a_file_made_to_be_slow_is_not_matched_again_and_again() {
        let rules = (0..20_000).map(|number| format!("Allow: /*ab*ba*c{number}\n"));
        let slow = file(&format!("User-agent: *\n{}", rules.collect::<String>()));
        let long = format!("https://shop.test/{}", "ab".repeat(7_000));
        let urls = ["a", "b"].map(|end| asked(&format!("{long}{end}"), "NewsBot", None));
        let changed = ChangedUrls::between(&file(""), &slow, urls.iter());
        assert_eq!(changed, ChangedUrls::default());
    }

    #[test]
    fn a_tunnel_closes_with_any_path() {
        let tunnel = [asked("shop.test:443", "NewsBot", Some("every-path"))];
        let after = file("User-agent: *\nDisallow: /a\n");
        let changed = ChangedUrls::between(&file(""), &after, tunnel.iter());
        assert_eq!((changed.effect(), changed.asked), ("closes", 1));
    }

    #[test]
    fn a_costly_url_hides_no_other_and_the_order_is_the_same() {
        let rules: String = (0..20_000).map(|n| format!("Disallow: /*ab*ba*c{n}\n")).collect();
        let after = file(&format!("User-agent: *\nDisallow: /a\n{rules}"));
        let costly = format!("https://shop.test/{}", "ab".repeat(2_000));
        let mut urls = vec![asked(&costly, "NewsBot", None)];
        urls.extend((0..9).map(|n| asked(&format!("https://shop.test/a{n}"), "NewsBot", None)));
        let one = urls.iter();
        let other = urls.iter().rev();
        let before = file("");
        let changed = ChangedUrls::between(&before, &after, one);
        assert_eq!((changed.effect(), changed.closed), ("closes", 9), "{changed:?}");
        assert_eq!(ChangedUrls::between(&before, &after, other), changed);
    }
}
