//! The cases of `policy/usage-preferences/tests/cases` through the running proxy, each with its own host and crawler.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::crawler::{crawler, toml};
use crate::harness::origin::reply::Reply;
use crate::harness::{Origin, Response, Wayleave};

const CASES: [&str; 2] = [
    include_str!("../../policy/usage-preferences/tests/cases/preferences.jsonl"),
    include_str!("../../policy/usage-preferences/tests/cases/robots_tag.jsonl"),
];

/// The keys of a case's `config` that belong to `[preferences]`, and to `[[crawler]]`.
const PREFERENCES: [&str; 3] = ["sources", "rsl_user", "rsl_geo"];
const CRAWLER: [&str; 3] = ["purpose_tokens", "content_use", "unstated"];

/// A case where a field of the response lifts what a file reserves. The proxy requests no page whose path is reserved, so it never
/// receives the field.
const LIFTED_BY_RESPONSE: &str = "tdmrep-017";

struct Case {
    json: Value,
    name: String,
    agent: String,
}

impl Case {
    fn read((number, line): (usize, &str)) -> Self {
        Self {
            json: serde_json::from_str(line).unwrap(),
            name: format!("case{number}"),
            agent: format!("Case{number}-"),
        }
    }

    fn host(&self) -> String {
        format!("{}.test", self.name)
    }

    /// Replaces the common host in a text by this case's.
    fn with_own_host(&self, text: &str) -> String {
        text.replace("site.test", &self.host())
    }

    /// Returns a member of the case, if it has it.
    fn text(&self, member: &str) -> Option<String> {
        Some(self.with_own_host(self.json[member].as_str()?))
    }

    fn url(&self) -> String {
        self.text("url").unwrap()
    }

    /// Returns the entries of its `config` with these keys.
    fn entries<'a>(&'a self, keys: &'a [&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let config = self.json["config"].as_object();
        config.into_iter().flatten().filter(|(key, _)| keys.contains(&key.as_str()))
    }

    /// Returns its preferences, as lines of TOML.
    fn preferences(&self) -> String {
        let entries = self.entries(&PREFERENCES);
        entries.map(|(key, value)| format!("{key} = {}\n", toml(value))).collect()
    }

    /// Returns the tables of its crawler and its rule.
    fn tables(&self) -> String {
        let purposes = match &self.json["purpose"] {
            Value::Array(all) => json!(all),
            one => json!([one]),
        };
        let crawler = crawler(&self.name, &self.agent)
            .set("tokens", json!([self.json["token"]]))
            .set("purposes", purposes);
        let crawler = self
            .entries(&CRAWLER)
            .fold(crawler, |crawler, (key, value)| crawler.set(key, value.clone()));
        let rule = self.json["config"]["rule"].as_str();
        let rule = rule.map(|action| {
            let host = self.host();
            let reason = match action {
                "allow" => "owner = \"legal\"\nreason = \"agreed\"\nexpires = \"2999-12-31\"\n",
                _ => "",
            };
            format!("[[rule]]\naction = \"{action}\"\nhosts = [\"{host}\"]\n{reason}")
        });
        crawler.into_toml() + &rule.unwrap_or_default()
    }

    /// Has the origin serve the files and the page of the case.
    fn serve(&self, origin: &Origin) {
        let (host, home) = (self.host(), format!("https://{}", self.host()));
        let site = origin.site(&host);
        let robots = self.text("robots");
        let robots = robots.map_or(Reply::new(404), Reply::text);
        let mut site = site.robots_reply(robots);
        let tdmrep = self.text("tdmrep").map_or(Reply::new(404), Reply::text);
        site = site.page("/.well-known/tdmrep.json", tdmrep);
        for path in ["/license.xml", "/none.xml"] {
            site = site.page(path, Reply::new(404));
        }
        let documents = self.json["rsl"].as_object();
        for (url, text) in documents.into_iter().flatten() {
            let url = self.with_own_host(url);
            let path = url.strip_prefix(&home).expect("licences are on the case's host");
            site = site.page(path, Reply::text(self.with_own_host(text.as_str().unwrap())));
        }
        let url = self.url();
        site.page(url.strip_prefix(&home).unwrap(), self.page());
    }

    fn page(&self) -> Reply {
        let html = self.text("html");
        let html = html.unwrap_or_else(|| "<title>page</title>".to_owned());
        let fields = self.json["headers"].as_array();
        let fields = fields.into_iter().flatten().map(|field| {
            let text = |index: usize| field[index].as_str().unwrap();
            (text(0).to_owned(), self.with_own_host(text(1)))
        });
        let fields: Vec<_> = fields.collect();
        let mut page = if fields.iter().any(|(name, _)| name == "Content-Type") {
            Reply::text(html).without("Content-Type")
        } else {
            Reply::html(html)
        };
        for (name, value) in &fields {
            page = page.header(name, value);
        }
        if let Some(status) = self.json["status"].as_u64() {
            page.status = status.try_into().unwrap();
        }
        page
    }

    fn check(&self, origin: &Origin, proxy: &Wayleave) {
        let case = &self.json;
        let answer = proxy.get_as(&self.agent, &self.url());
        let is_requested = origin.seen().contains(&format!("GET {}", self.url()));
        let refuses = |stage: &Value| {
            assert_eq!(answer.status, 403, "{case}");
            let problem = answer.json();
            let at = problem["stage"].as_str().unwrap_or("before");
            // Only the page itself shows that nothing is stated.
            let is_unstated = problem["preference"] == "unstated";
            let stage = if is_unstated { "body" } else { stage.as_str().unwrap() };
            assert_eq!(at, stage, "{case}: {problem}");
            assert_eq!(is_requested, at != "before", "{case}");
        };
        if case["id"] == LIFTED_BY_RESPONSE {
            return refuses(&json!("before"));
        }
        let expected = case["expect"].as_str().unwrap();
        match case["status"].as_u64() {
            // A demand for payment passes as the origin sent it.
            Some(status) => {
                assert_eq!(u64::from(answer.status), status, "{case}");
                assert_eq!(combined_label(&answer), expected, "{case}");
            }
            None if expected == "refuse" => refuses(&case["stage"]),
            None => {
                assert_eq!(answer.status, 200, "{case}: {}", answer.text());
                assert_eq!(combined_label(&answer), expected, "{case}");
            }
        }
    }
}

/// Returns the label for all purposes together: one refusal refuses, and all must be allowed.
fn combined_label(answer: &Response) -> &str {
    let label = answer.header("Wayleave-Preferences").unwrap_or_default();
    let values = label.split(", ").filter_map(|part| part.split_once('='));
    let values = values.map(|(_, value)| value.split(';').next().unwrap_or_default());
    let values: Vec<_> = values.collect();
    let mut combined = ["refuse", "unstated", "allow"].into_iter();
    combined.find(|value| values.contains(value)).unwrap_or_default()
}

#[test]
fn every_case_holds_through_the_proxy() {
    let mut groups: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in CASES.iter().flat_map(|file| file.lines()).enumerate().map(Case::read) {
        let known = [&PREFERENCES[..], &CRAWLER[..], &["rule"]].concat();
        let config = case.json["config"].as_object();
        let mut keys = config.into_iter().flatten().map(|(key, _)| key.as_str());
        assert!(keys.all(|key| known.contains(&key)), "{}", case.json);
        groups.entry(case.preferences()).or_default().push(case);
    }
    let mut checked = 0;
    for (preferences, cases) in groups {
        let origin = Origin::start();
        let tables: String = cases.iter().map(Case::tables).collect();
        let table = format!("[preferences]\n{preferences}{tables}");
        for case in &cases {
            case.serve(&origin);
        }
        let proxy = Wayleave::start_with(&origin, |settings| settings.table(&table));
        for case in &cases {
            case.check(&origin, &proxy);
        }
        checked += cases.len();
    }
    assert!(checked >= 244, "{checked}");
}
