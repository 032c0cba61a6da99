//! Compares an origin's record of a crawl with what Protego allows.

use std::collections::{BTreeMap, BTreeSet};

use super::samples::{judge, samples};
use super::{Crawl, PlannedRequest};

/// The requests that reached the origin, except for robots.txt: URL and `User-Agent`.
type Arrived = BTreeMap<String, String>;

impl Crawl {
    /// Checks what reached the origin, apart from URLs for which the client itself changed the plan.
    #[track_caller]
    pub fn check_origin(&self, except: &BTreeSet<String>) {
        let (arrived, robots) = self.sort_requests();
        let planned: Vec<_> =
            self.planned.iter().filter(|request| !except.contains(&request.url)).collect();
        for request in &planned {
            assert_eq!(
                arrived.contains_key(&request.url),
                request.allowed,
                "{} as {}",
                request.url,
                request.user_agent
            );
        }
        let allowed = planned.iter().filter(|request| request.allowed).count();
        let disallowed = planned.len() - allowed;
        assert!(
            allowed > 300 && disallowed > 300,
            "{allowed} allowed and {disallowed} disallowed URLs show little"
        );
        for (url, times) in &robots {
            assert_eq!(*times, 1, "{url} was fetched more than once");
        }
        for request in planned {
            let url = format!("{}/robots.txt", origin_of(&request.url));
            assert!(robots.contains_key(&url), "{url} was never fetched");
        }
        self.check_extras(arrived);
    }

    /// Returns the pages that arrived, and how often each robots.txt was fetched.
    fn sort_requests(&self) -> (Arrived, BTreeMap<String, usize>) {
        let mut arrived = Arrived::new();
        let mut robots = BTreeMap::new();
        for request in self.origin.requests() {
            let url = format!("{}://{}{}", request.scheme, request.authority, request.target);
            if request.target == "/robots.txt" {
                *robots.entry(url).or_default() += 1;
            } else {
                arrived.insert(url, request.header("user-agent").unwrap_or_default().to_owned());
            }
        }
        (arrived, robots)
    }

    /// Checks that requests beyond the plan (a browser's favicon) were allowed to the crawler that sent them.
    #[track_caller]
    fn check_extras(&self, mut arrived: Arrived) {
        for PlannedRequest { url, .. } in &self.planned {
            arrived.remove(url);
        }
        let questions: Vec<_> = arrived
            .iter()
            .map(|(url, user_agent)| {
                let origin = origin_of(url);
                let of_host = |host: &str| origin.ends_with(&format!("//{host}"));
                let sample = samples().iter().find(|sample| of_host(&sample.host));
                let sample = sample.unwrap_or_else(|| panic!("{url} is of no sample"));
                let token = token_of(user_agent).to_owned();
                (sample.file.clone(), token, vec![url[origin.len()..].to_owned()])
            })
            .collect();
        for ((url, user_agent), verdict) in arrived.iter().zip(judge(&questions)) {
            assert_eq!(
                verdict,
                [true],
                "{url} arrived unplanned and is disallowed to {user_agent}"
            );
        }
    }
}

/// Returns the product token in `user_agent`; a browser requests favicons with its own, or with that of the page before.
fn token_of(user_agent: &str) -> &str {
    let agents = samples().iter().map(|sample| sample.agent.as_str());
    let named = agents.filter(|agent| user_agent.contains(agent));
    named.max_by_key(|agent| agent.len()).unwrap_or("Mozilla")
}

/// Returns `scheme://authority` of a URL.
fn origin_of(url: &str) -> &str {
    let authority_at = url.find("://").expect("an absolute URL") + 3;
    url[authority_at..].find('/').map_or(url, |path_at| &url[..authority_at + path_at])
}
