//! The files that pages load, and that somebody would be kept from.

use std::cmp::Reverse;
use std::collections::HashMap;

use wayleave_decision::SubresourceKind;
use wayleave_robots_txt::UrlPath;

use crate::tally::Traffic;

/// The most files that are remembered; beyond, those with the fewest requests are forgotten.
const MAX_FILES: usize = 4_000;
/// The most pages of one file.
const MAX_PAGES: usize = 4;
/// The most hosts whose pages are counted.
const MAX_HOSTS: usize = 1_000;
/// The longest path or host that is remembered.
const MAX_BYTES: usize = 512;

/// The files that somebody would be kept from, with pages that load them.
#[derive(Debug, Default)]
pub(crate) struct WantedFiles {
    pub(crate) files: HashMap<String, WantedFile>,
    /// The number of requests for files that pages of each host caused. Most come from the site's own pages.
    hosts: HashMap<String, u64>,
}

/// A file that pages load.
#[derive(Clone, Debug)]
pub(crate) struct WantedFile {
    pub(crate) kind: SubresourceKind,
    pub(crate) requests: Traffic,
    /// Pages that load it: host and path.
    pub(crate) pages: Vec<(String, String)>,
}

impl WantedFiles {
    /// Counts a request for a file, whoever made it.
    pub(crate) fn add(
        &mut self,
        path: &UrlPath<'_>,
        kind: SubresourceKind,
        bytes: u64,
        referer: &[u8],
    ) {
        self.add_host(referer);
        let path = path.as_str();
        if path.len() > MAX_BYTES {
            return;
        }
        // Most requests are for files that are known, and need no text of their own.
        if !self.files.contains_key(path) {
            self.make_room();
            let file = WantedFile { kind, requests: Traffic::default(), pages: Vec::new() };
            self.files.insert(path.to_owned(), file);
        }
        let file = self.files.get_mut(path).expect("it is there now");
        file.requests.add(bytes);
        if let Some((host, page)) = host_and_path(referer)
            // A style sheet loads fonts and images for a page that the log does not name.
            && SubresourceKind::of_path(&page).is_none()
        {
            file.add_page((host, page), &self.hosts);
        }
    }

    /// Counts the host of the page that loads a file.
    pub(crate) fn add_host(&mut self, referer: &[u8]) {
        let Some((host, _)) = host_and_path(referer) else {
            return;
        };
        if self.hosts.len() < MAX_HOSTS || self.hosts.contains_key(&host) {
            *self.hosts.entry(host).or_default() += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (host, count) in other.hosts {
            *self.hosts.entry(host).or_default() += count;
        }
        for (path, file) in other.files {
            match self.files.get_mut(&path) {
                Some(own) => {
                    own.requests.merge(file.requests);
                    file.pages.into_iter().for_each(|page| own.add_page(page, &self.hosts));
                }
                None => {
                    self.make_room();
                    self.files.insert(path, file);
                }
            }
        }
    }

    /// Returns the host of the site itself: a log does not say which it is, but most pages that load its files are its own.
    pub(crate) fn own_host(&self) -> Option<&str> {
        let hosts = self.hosts.iter();
        hosts.max_by_key(|(host, count)| (**count, *host)).map(|(host, _)| &**host)
    }

    /// Forgets the files with the fewest requests if there are too many.
    fn make_room(&mut self) {
        if self.files.len() < MAX_FILES {
            return;
        }
        let mut counts: Vec<_> = self.files.values().map(|file| file.requests.requests).collect();
        let middle = counts.len() / 2;
        let median = *counts.select_nth_unstable(middle).1;
        self.files.retain(|_, file| file.requests.requests > median);
    }
}

impl WantedFile {
    /// Adds a page; if there are too many, those on hosts that load the most files stay, and of one host the first by name,
    /// so that the order of the log does not matter.
    fn add_page(&mut self, page: (String, String), hosts: &HashMap<String, u64>) {
        if self.pages.contains(&page) {
            return;
        }
        self.pages.push(page);
        if self.pages.len() > MAX_PAGES {
            let rank =
                |page: &(String, String)| (hosts.get(&page.0).copied(), Reverse(page.clone()));
            self.pages.sort_by_cached_key(|page| Reverse(rank(page)));
            self.pages.truncate(MAX_PAGES);
        }
    }
}

/// Returns the host, in lower case, and the path of a URL.
fn host_and_path(url: &[u8]) -> Option<(String, String)> {
    let url = str::from_utf8(url).ok().filter(|url| url.len() <= MAX_BYTES)?;
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().filter(|host| !host.is_empty())?;
    let is_web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    let path = UrlPath::of_url(url).ok().filter(|_| is_web)?;
    Some((host.to_ascii_lowercase(), path.as_str().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(files: &mut WantedFiles, path: &str, referer: &str) {
        let path = UrlPath::parse(path).unwrap();
        files.add(&path, SubresourceKind::Style, 1, referer.as_bytes());
    }

    #[test]
    fn pages_of_the_own_site_are_kept_before_others() {
        let mut files = WantedFiles::default();
        for other in 0..50 {
            add(&mut files, "/a.css", &format!("https://thief{other}.test/"));
        }
        for page in ["/", "/news"] {
            add(&mut files, "/b.css", &format!("https://Shop.test{page}"));
            add(&mut files, "/a.css", &format!("https://shop.test{page}"));
        }
        add(&mut files, "/a.css", "https://shop.test/b.css");
        assert_eq!(files.own_host(), Some("shop.test"));
        let pages = &files.files["/a.css"].pages;
        assert_eq!(pages.len(), MAX_PAGES);
        let own: Vec<_> = pages.iter().filter(|page| page.0 == "shop.test").collect();
        assert_eq!(own.len(), 2, "{pages:?}");
        assert_eq!(files.files["/a.css"].requests.requests, 53);
    }

    #[test]
    fn invented_files_do_not_push_out_frequent_ones() {
        let mut files = WantedFiles::default();
        for index in 0..20_000 {
            add(&mut files, &format!("/{index}.css"), &format!("https://{index}.test/"));
            add(&mut files, "/a.css", "https://shop.test/");
        }
        assert!(files.files.len() <= MAX_FILES && files.hosts.len() <= MAX_HOSTS);
        assert_eq!(files.files["/a.css"].requests.requests, 20_000);
        add(&mut files, &format!("/{}.css", "a".repeat(600)), "");
        assert!(files.files.keys().all(|path| path.len() <= MAX_BYTES));
    }

    #[test]
    fn only_urls_of_the_web_have_a_host() {
        for (url, expected) in [
            ("https://Shop.test/a?b#c", Some(("shop.test", "/a?b"))),
            ("http://shop.test:8080", Some(("shop.test:8080", "/"))),
            ("android-app://com.example/", None),
            ("/a", None),
            ("", None),
            ("https://", None),
        ] {
            let found = host_and_path(url.as_bytes());
            let found = found.as_ref().map(|(host, path)| (&**host, &**path));
            assert_eq!(found, expected, "{url}");
        }
    }
}
