//! The pages that clients were just allowed, and the style sheets and scripts that these have loaded.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use wayleave_decision::Subresource;
use wayleave_robots_txt::Target;

use crate::decision_log::DecisionId;

/// The time for which a page is the cause of requests. What its style sheets load counts from the page, too.
const MAX_AGE: Duration = Duration::from_secs(60);
/// The longest chain of style sheets and scripts from a page to what loads another one. Real ones import two or three deep.
const MAX_DEPTH: u8 = 5;
/// The most keys of one client, two for each page, style sheet and script: a hundred tabs with some forty of them each.
const MAX_KEYS_OF_HOLDER: usize = 8192;
/// The most keys of all clients. A page that finds no room is not remembered, so what it loads is judged.
const MAX_KEYS: usize = 65_536;
/// The longest URL of a page that is remembered.
const MAX_URL_BYTES: usize = 1024;
/// The time between searches for keys that are too old, while there is no room.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The client that was allowed a page: only its own requests count as caused by it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PageHolder {
    pub(super) crawler: String,
    /// Its address, or the IPv6 /64.
    pub(super) client: IpAddr,
    /// The user name that a password proved.
    pub(super) username: Option<Arc<str>>,
}

/// A page that was allowed.
#[derive(Debug)]
pub(super) struct AllowedPage {
    pub(super) url: Arc<str>,
    /// The decision that allowed it.
    pub(super) decision: DecisionId,
    allowed_at: SystemTime,
}

/// A page, or a style sheet or a script that it loaded, as the cause of a request.
#[derive(Clone, Debug)]
pub(super) struct RequestCause {
    pub(super) page: Arc<AllowedPage>,
    /// The number of style sheets and scripts between the page and the request.
    depth: u8,
}

/// A request of a crawler for which pages are remembered, and the page that causes it.
pub(super) struct PageContext {
    pub(super) holder: PageHolder,
    pub(super) load: Option<PageLoad>,
}

/// A request that a page causes.
pub(super) struct PageLoad {
    pub(super) subresource: Subresource,
    pub(super) cause: RequestCause,
}

/// The memory of allowed pages.
#[derive(Default)]
pub(crate) struct AllowedPages {
    hasher: RandomState,
    memory: Mutex<PageMemory>,
}

#[derive(Default)]
struct PageMemory {
    by_holder: HashMap<PageHolder, HolderPages>,
    keys: usize,
    swept_at: Option<SystemTime>,
}

/// The pages of one client. A key is the digest of a URL, or of an origin, of which the last one counts.
#[derive(Default)]
struct HolderPages {
    causes: HashMap<u64, (RequestCause, u64)>,
    /// The keys in the order in which they were added, each with its number.
    order: VecDeque<(u64, u64)>,
    last_number: u64,
}

impl RequestCause {
    fn is_recent(&self, now: SystemTime) -> bool {
        now.duration_since(self.page.allowed_at).is_ok_and(|age| age <= MAX_AGE)
    }
}

impl HolderPages {
    fn add(&mut self, key: u64, cause: RequestCause) {
        self.last_number += 1;
        self.causes.insert(key, (cause, self.last_number));
        self.order.push_back((key, self.last_number));
    }

    fn forget_oldest(&mut self) {
        if let Some((key, number)) = self.order.pop_front()
            // Since then it may have been added again.
            && self.causes.get(&key).is_some_and(|(_, latest)| *latest == number)
        {
            self.causes.remove(&key);
        }
    }

    /// Forgets the keys that are too old, from the oldest on.
    fn forget_old(&mut self, now: SystemTime) {
        while let Some((key, number)) = self.order.front() {
            let current = self.causes.get(key).filter(|(_, latest)| latest == number);
            if current.is_some_and(|(cause, _)| cause.is_recent(now)) {
                break;
            }
            self.forget_oldest();
        }
    }
}

impl PageMemory {
    /// Makes room for `keys` more of a client. Returns whether there is any.
    fn make_room(&mut self, holder: &PageHolder, keys: usize, now: SystemTime) -> bool {
        if let Some(pages) = self.by_holder.get_mut(holder) {
            let before = pages.order.len();
            while pages.order.len() + keys > MAX_KEYS_OF_HOLDER {
                pages.forget_oldest();
            }
            self.keys -= before - pages.order.len();
        }
        let is_due = self
            .swept_at
            .is_none_or(|at| now.duration_since(at).is_ok_and(|age| age >= SWEEP_INTERVAL));
        if self.keys + keys > MAX_KEYS && is_due {
            self.swept_at = Some(now);
            self.by_holder.retain(|_, pages| {
                pages.forget_old(now);
                !pages.order.is_empty()
            });
            self.keys = self.by_holder.values().map(|pages| pages.order.len()).sum();
        }
        self.keys + keys <= MAX_KEYS
    }
}

impl AllowedPages {
    /// Returns the cause of a request, received at `now`, whose `Referer` is `referrer`. Browsers name only the origin, with "/",
    /// to other origins: the last page there, or the last style sheet or script, is the cause then.
    pub(super) fn find(
        &self,
        holder: &PageHolder,
        referrer: &Target,
        now: SystemTime,
    ) -> Option<RequestCause> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let causes = &memory.by_holder.get(holder)?.causes;
        let recent = |key: u64| {
            let cause = causes.get(&key).map(|(cause, _)| cause);
            cause.filter(|cause| cause.is_recent(now))
        };
        let of_origin = || {
            let is_origin_alone = referrer.path().as_str() == "/";
            is_origin_alone.then(|| recent(self.origin_key(referrer))).flatten()
        };
        recent(self.url_key(referrer)).or_else(of_origin).cloned()
    }

    /// Remembers a page that was allowed.
    pub(super) fn add_page(
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
    pub(super) fn add_loader(
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
        let keys = [self.url_key(target), self.origin_key(target)];
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.make_room(holder, keys.len(), now) {
            memory.keys += keys.len();
            let pages = memory.by_holder.entry(holder.clone()).or_default();
            for key in keys {
                pages.add(key, cause.clone());
            }
        }
    }

    fn url_key(&self, target: &Target) -> u64 {
        self.hasher.hash_one(target.to_string())
    }

    fn origin_key(&self, target: &Target) -> u64 {
        // Without the slash it is not the URL of any page.
        self.hasher.hash_one(target.origin().to_string())
    }
}

impl fmt::Debug for AllowedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllowedPages").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: SystemTime = SystemTime::UNIX_EPOCH;

    fn target(url: &str) -> Target {
        Target::parse(url).unwrap()
    }

    fn holder(crawler: &str, client: u32) -> PageHolder {
        let client = std::net::Ipv4Addr::from_bits(client).into();
        PageHolder { crawler: crawler.to_owned(), client, username: None }
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
        pages.add_page(&holder("news", 1), &target(url), DecisionId::new(), at(seconds));
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
        pages.add_page(&holder("news", 1), &second, DecisionId::new(), at(1));
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
    fn the_memory_of_one_client_and_of_all_is_bounded() {
        let pages = AllowedPages::default();
        let page = |number: usize| target(&format!("https://shop.test/{number}"));
        let add = |client: u32, number: usize, seconds: u64| {
            let holder = holder("news", client);
            pages.add_page(&holder, &page(number), DecisionId::new(), at(seconds));
        };
        let knows = |client: u32, number: usize, seconds: u64| {
            pages.find(&holder("news", client), &page(number), at(seconds)).is_some()
        };
        let fits = MAX_KEYS_OF_HOLDER / 2;
        for number in 0..=fits {
            add(0, number, 0);
        }
        assert!(!knows(0, 0, 0) && knows(0, 1, 0) && knows(0, fits, 0), "the oldest is forgotten");
        let clients = u32::try_from(MAX_KEYS / MAX_KEYS_OF_HOLDER).unwrap();
        for client in 1..clients {
            for number in 0..fits {
                add(client, number, 30);
            }
        }
        add(clients, 1, 31);
        assert!(!knows(clients, 1, 31), "there is no room left");
        add(clients, 1, 61);
        assert!(knows(clients, 1, 61) && knows(1, 1, 61) && !knows(0, 1, 61), "old ones make room");
        let memory = pages.memory.lock().unwrap();
        assert_eq!(memory.keys, memory.by_holder.values().map(|it| it.order.len()).sum::<usize>());
        assert!(memory.keys <= MAX_KEYS && !memory.by_holder.contains_key(&holder("news", 0)));
    }
}
