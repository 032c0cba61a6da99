//! The pages that clients were just allowed, and the style sheets and scripts that these have loaded.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use wayleave_decision::Subresource;
use wayleave_decision_log::DecisionId;
use wayleave_fairness::{Holder, SharedMap};
use wayleave_robots_txt::Target;

use super::request::AskingGateway;

/// The time for which a page is the cause of requests. Files that its style sheets load count from the page, too.
const MAX_AGE: Duration = Duration::from_secs(60);
/// The longest chain of style sheets and scripts from a page to one that loads another. Real ones import two or three deep.
const MAX_DEPTH: u8 = 5;
/// The most keys of all clients, two for each page, style sheet and script. Each file of a forgotten page is judged by
/// itself.
const MAX_KEYS: usize = 65_536;
/// The longest URL of a page that is remembered.
const MAX_URL_BYTES: usize = 1024;
/// The client that was allowed a page: only its own requests count as caused by it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PageHolder {
    pub crawler: String,
    pub client: Holder,
    /// The user name that a password proved.
    pub username: Option<Arc<str>>,
    /// The gateway that showed it, if the proxy did not forward it: another one may not show what the page loads.
    pub gateway: Option<AskingGateway>,
}

/// A page that was allowed.
#[derive(Debug)]
pub struct AllowedPage {
    pub url: Arc<str>,
    /// The decision that allowed it.
    pub decision: DecisionId,
    allowed_at: SystemTime,
}

/// A page, or a style sheet or a script that it loaded, as the cause of a request.
#[derive(Clone, Debug)]
pub struct RequestCause {
    pub page: Arc<AllowedPage>,
    /// The number of style sheets and scripts between the page and the request.
    depth: u8,
}

/// A request of a crawler for which pages are remembered, and the page that causes it.
pub(crate) struct PageContext {
    pub holder: PageHolder,
    pub load: Option<PageLoad>,
}

/// A request that a page causes.
pub(crate) struct PageLoad {
    pub subresource: Subresource,
    pub cause: RequestCause,
}

/// The memory of allowed pages. A key is the digest of a client and a URL, or an origin, of which the last page counts.
pub struct AllowedPages {
    hasher: RandomState,
    causes: Mutex<SharedMap<u64, RequestCause>>,
}

impl RequestCause {
    fn is_recent(&self, now: SystemTime) -> bool {
        now.duration_since(self.page.allowed_at).is_ok_and(|age| age <= MAX_AGE)
    }
}

impl Default for AllowedPages {
    fn default() -> Self {
        Self { hasher: RandomState::new(), causes: Mutex::new(SharedMap::new(MAX_KEYS)) }
    }
}

impl AllowedPages {
    /// Returns the cause of a request, received at `now`, whose `Referer` is `referrer`. Browsers name only the origin, with "/",
    /// to other origins: the last page there, or the last style sheet or script, is the cause then.
    pub fn find(
        &self,
        holder: &PageHolder,
        referrer: &Target,
        now: SystemTime,
    ) -> Option<RequestCause> {
        let causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = |key: u64| causes.get(&key).filter(|cause| cause.is_recent(now));
        let [url, origin] = self.keys(holder, referrer);
        let of_origin = || {
            let is_origin_alone = referrer.path().as_str() == "/";
            is_origin_alone.then(|| recent(origin)).flatten()
        };
        recent(url).or_else(of_origin).cloned()
    }

    /// Remembers a page that was allowed.
    pub fn add_page(
        &self,
        holder: &PageHolder,
        page: &Target,
        decision: DecisionId,
        now: SystemTime,
    ) {
        let url = page.to_string();
        if url.len() <= MAX_URL_BYTES {
            let allowed = AllowedPage { url: url.into(), decision, allowed_at: now };
            self.add(holder, page, &RequestCause { page: allowed.into(), depth: 0 }, now);
        }
    }

    /// Remembers a style sheet, or a script, that was loaded because of `cause`.
    pub(crate) fn add_loader(
        &self,
        holder: &PageHolder,
        loader: &Target,
        cause: &RequestCause,
        now: SystemTime,
    ) {
        if cause.depth < MAX_DEPTH {
            let page = Arc::clone(&cause.page);
            self.add(holder, loader, &RequestCause { page, depth: cause.depth + 1 }, now);
        }
    }

    fn add(&self, holder: &PageHolder, target: &Target, cause: &RequestCause, now: SystemTime) {
        let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        for key in self.keys(holder, target) {
            // Removed first, or it would remain as old as its first page.
            causes.remove(&key);
            causes.insert(holder.client, key, cause.clone(), |other| !other.is_recent(now));
        }
    }

    /// Returns the keys of a URL and of its origin, which is without the slash not the URL of any page.
    fn keys(&self, holder: &PageHolder, target: &Target) -> [u64; 2] {
        [target.to_string(), target.origin().to_string()]
            .map(|text| self.hasher.hash_one((holder, text)))
    }
}

impl fmt::Debug for AllowedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllowedPages").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use wayleave_decision_log::new_decision_id;

    use super::*;

    const START: SystemTime = SystemTime::UNIX_EPOCH;

    fn target(url: &str) -> Target {
        Target::parse(url).unwrap()
    }

    fn holder(crawler: &str, client: u32) -> PageHolder {
        let client = Holder::of_client(std::net::Ipv4Addr::from_bits(client).into());
        PageHolder { crawler: crawler.to_owned(), client, username: None, gateway: None }
    }

    fn at(seconds: u64) -> SystemTime {
        START + Duration::from_secs(seconds)
    }

    /// Returns the page that the memory names as the cause.
    fn cause(pages: &AllowedPages, referrer: &str, seconds: u64) -> Option<String> {
        let found = pages.find(&holder("news", 1), &target(referrer), at(seconds));
        found.map(|cause| cause.page.url.as_ref().to_owned())
    }

    fn with_page(url: &str, seconds: u64) -> AllowedPages {
        let pages = AllowedPages::default();
        pages.add_page(&holder("news", 1), &target(url), new_decision_id(), at(seconds));
        pages
    }

    #[test]
    fn a_page_is_a_cause_for_a_minute() {
        let pages = with_page("https://shop.test/a", 100);
        for (seconds, is_cause) in [(99, false), (100, true), (160, true), (161, false)] {
            for referrer in ["https://shop.test/a", "https://shop.test/"] {
                let found = cause(&pages, referrer, seconds);
                assert_eq!(found.is_some(), is_cause, "{referrer} at {seconds}");
            }
        }
    }

    #[test]
    fn only_its_url_or_its_origin_names_a_page() {
        let pages = with_page("https://shop.test/a?b", 0);
        for (referrer, is_cause) in [
            ("https://shop.test/a?b", true),
            ("https://SHOP.test:443/a?b", true),
            ("https://shop.test/", true),
            ("https://shop.test/a", false),
            ("https://shop.test/a?c", false),
            ("http://shop.test/", false),
            ("https://shop.test:8443/", false),
            ("https://www.shop.test/", false),
        ] {
            assert_eq!(cause(&pages, referrer, 1).is_some(), is_cause, "{referrer}");
        }
    }

    #[test]
    fn a_page_counts_for_its_own_client_only() {
        let pages = with_page("https://shop.test/a", 0);
        let referrer = target("https://shop.test/a");
        let mut named = holder("news", 1);
        named.username = Some("ann".into());
        for other in [holder("images", 1), holder("news", 2), named] {
            assert!(pages.find(&other, &referrer, at(1)).is_none(), "{other:?}");
        }
    }

    #[test]
    fn of_an_origin_the_last_page_counts() {
        let pages = with_page("https://shop.test/a", 0);
        let second = target("https://shop.test/b");
        pages.add_page(&holder("news", 1), &second, new_decision_id(), at(1));
        assert_eq!(cause(&pages, "https://shop.test/", 2).unwrap(), "https://shop.test/b");
        assert_eq!(cause(&pages, "https://shop.test/a", 2).unwrap(), "https://shop.test/a");
    }

    #[test]
    fn what_a_page_loads_causes_more_but_not_for_longer_or_without_end() {
        let pages = with_page("https://shop.test/a", 0);
        let holder = holder("news", 1);
        let mut referrer = "https://shop.test/a".to_owned();
        for depth in 1..=MAX_DEPTH + 1 {
            let found = pages.find(&holder, &target(&referrer), at(50)).unwrap();
            assert_eq!(&*found.page.url, "https://shop.test/a");
            referrer = format!("https://cdn.test/{depth}.css");
            pages.add_loader(&holder, &target(&referrer), &found, at(50));
        }
        assert_eq!(cause(&pages, &referrer, 50), None, "one too deep");
        assert!(cause(&pages, "https://cdn.test/1.css", 60).is_some());
        assert!(cause(&pages, "https://cdn.test/", 60).is_some());
        assert_eq!(cause(&pages, "https://cdn.test/1.css", 61), None, "older than its page may be");
    }

    #[test]
    fn the_client_with_the_most_pages_gives_way() {
        let pages = AllowedPages::default();
        let page = |number: usize| target(&format!("https://{number}.shop.test/a"));
        let add = |client: u32, number: usize| {
            pages.add_page(&holder("news", client), &page(number), new_decision_id(), at(0));
        };
        let knows = |client: u32, number: usize| {
            pages.find(&holder("news", client), &page(number), at(1)).is_some()
        };
        for number in 0..100 {
            add(1, number);
        }
        for number in 0..MAX_KEYS {
            add(2, number);
        }
        assert!((0..100).all(|number| knows(1, number)), "another client's");
        assert!(!knows(2, 0) && knows(2, MAX_KEYS - 1), "its own oldest are forgotten");
        assert_eq!(pages.causes.lock().unwrap().len(), MAX_KEYS);
    }
}
