//! The cases of `policy/usage-preferences/tests/cases/preferences.jsonl` through the running proxy. Each has a host and a crawler of its own.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::origin::reply::Reply;
use crate::harness::{Origin, Response, Wayleave};

const CASES: &str = include_str!("../../policy/usage-preferences/tests/cases/preferences.jsonl");

/// Keys of a case's `config` that are of `[preferences]`, and of `[[crawler]]`.
const PREFERENCES: [&str; 4] = ["sources", "robots_meta", "rsl_user", "rsl_geo"];
const CRAWLER: [&str; 3] = ["purpose_tokens", "content_use", "unstated"];

/// A field of the answer that lifts what a file reserves. The proxy asks for no page whose path is reserved, so it never sees
/// the field.
const LIFTED_BY_THE_ANSWER: &str = "tdmrep-017";

struct Case {
    said: Value,
    name: String,
    agent: String,
}

impl Case {
    fn read((number, line): (usize, &str)) -> Self {
        Self {
            said: serde_json::from_str(line).unwrap(),
            name: format!("case{number}"),
            agent: format!("Case{number}-"),
        }
    }

    fn host(&self) -> String {
        format!("{}.test", self.name)
    }

    /// A text with this case's host in the place of the common one.
    fn at_home(&self, text: &str) -> String {
        text.replace("site.test", &self.host())
    }

    /// An expectation of a case, if it has one.
    fn text(&self, member: &str) -> Option<String> {
        Some(self.at_home(self.said[member].as_str()?))
    }

    fn url(&self) -> String {
        self.text("url").unwrap()
    }

    /// The keys of its `config` that are among these, as lines.
    fn keys(&self, keys: &[&str]) -> String {
        let config = self.said["config"].as_object();
        let config = config.into_iter().flatten();
        let lines = config.filter(|(key, _)| keys.contains(&key.as_str()));
        let lines = lines.map(|(key, value)| format!("{key} = {}\n", toml(value)));
        lines.collect()
    }

    /// The tables that make its crawler and its rule.
    fn tables(&self) -> String {
        let (name, agent, token) = (&self.name, &self.agent, &self.said["token"]);
        let purposes = match &self.said["purpose"] {
            Value::Array(all) => json!(all),
            one => json!([one]),
        };
        let keys = self.keys(&CRAWLER);
        let crawler = format!(
            "[[crawler]]\nname = \"{name}\"\ntokens = [{token}]\nmatch = {{ user_agent = \"{agent}\" }}\npurposes = {purposes}\n{keys}"
        );
        let rule = self.said["config"]["rule"].as_str();
        let rule = rule.map(|action| {
            let host = self.host();
            let agreed = match action {
                "allow" => "owner = \"legal\"\nreason = \"agreed\"\nexpires = \"2999-12-31\"\n",
                _ => "",
            };
            format!("[[rule]]\naction = \"{action}\"\nhosts = [\"{host}\"]\n{agreed}")
        });
        crawler + &rule.unwrap_or_default()
    }

    /// Has the origin say what the case says.
    fn serve(&self, origin: &Origin) {
        let (host, home) = (self.host(), format!("https://{}", self.host()));
        let site = origin.site(&host);
        let robots = self.text("robots");
        let robots = robots.map_or(Reply::new(404), Reply::text);
        let mut site = site.robots_reply(robots);
        for (member, path) in [("tdmrep", "/.well-known/tdmrep.json"), ("ai_txt", "/ai.txt")] {
            let file = self.text(member).map_or(Reply::new(404), Reply::text);
            site = site.page(path, file);
        }
        for path in ["/license.xml", "/none.xml"] {
            site = site.page(path, Reply::new(404));
        }
        let documents = self.said["rsl"].as_object();
        for (url, text) in documents.into_iter().flatten() {
            let url = self.at_home(url);
            let path = url.strip_prefix(&home).expect("licences are at home");
            site = site.page(path, Reply::text(self.at_home(text.as_str().unwrap())));
        }
        let url = self.url();
        site.page(url.strip_prefix(&home).unwrap(), self.page());
    }

    fn page(&self) -> Reply {
        let html = self.text("html");
        let html = html.unwrap_or_else(|| "<title>page</title>".to_owned());
        let fields = self.said["headers"].as_array();
        let fields = fields.into_iter().flatten().map(|field| {
            let text = |index: usize| field[index].as_str().unwrap();
            (text(0).to_owned(), self.at_home(text(1)))
        });
        let fields: Vec<_> = fields.collect();
        let is_typed = fields.iter().any(|(name, _)| name == "Content-Type");
        let mut page = match is_typed {
            true => Reply::text(html).without("Content-Type"),
            false => Reply::html(html),
        };
        for (name, value) in &fields {
            page = page.header(name, value);
        }
        if let Some(status) = self.said["status"].as_u64() {
            page.status = status.try_into().unwrap();
        }
        page
    }

    fn check(&self, origin: &Origin, proxy: &Wayleave) {
        let case = &self.said;
        let answer = proxy.get_as(&self.agent, &self.url());
        let is_asked = origin.seen().contains(&format!("GET {}", self.url()));
        let refuses = |stage: &Value| {
            assert_eq!(answer.status, 403, "{case}");
            let problem = answer.json();
            let at = problem["stage"].as_str().unwrap_or("before");
            // That nothing is said is known when the page has been read.
            let stage = match problem["preference"] == "unstated" {
                true => "body",
                false => stage.as_str().unwrap(),
            };
            assert_eq!(at, stage, "{case}: {problem}");
            assert_eq!(is_asked, at != "before", "{case}");
        };
        if case["id"] == LIFTED_BY_THE_ANSWER {
            return refuses(&json!("before"));
        }
        let expected = case["expect"].as_str().unwrap();
        match case["status"].as_u64() {
            // An origin that demands payment answers for itself.
            Some(status) => {
                assert_eq!(u64::from(answer.status), status, "{case}");
                assert_eq!(said(&answer), expected, "{case}");
            }
            None if expected == "refuse" => refuses(&case["stage"]),
            None => {
                assert_eq!(answer.status, 200, "{case}: {}", answer.text());
                assert_eq!(said(&answer), expected, "{case}");
            }
        }
    }
}

/// The label for all purposes together: one refusal refuses, and all must be allowed.
fn said(answer: &Response) -> &str {
    let label = answer.header("Wayleave-Preferences").unwrap_or_default();
    let each = label.split(", ").filter_map(|it| it.split_once('='));
    let each = each.map(|(_, said)| said.split(';').next().unwrap_or_default());
    let each: Vec<_> = each.collect();
    let combined = ["refuse", "unstated", "allow"].into_iter();
    let mut combined = combined.filter(|it| each.contains(it));
    combined.next().unwrap_or_default()
}

/// A value as configuration writes it.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| format!("{key} = {}", toml(value));
            let entries: Vec<_> = entries.iter().map(entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn every_case_holds_through_the_proxy() {
    let mut groups: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in CASES.lines().enumerate().map(Case::read) {
        let known = [&PREFERENCES[..], &CRAWLER[..], &["rule"]].concat();
        let config = case.said["config"].as_object();
        let mut keys = config.into_iter().flatten().map(|(key, _)| key.as_str());
        assert!(keys.all(|key| known.contains(&key)), "{}", case.said);
        groups.entry(case.keys(&PREFERENCES)).or_default().push(case);
    }
    let mut judged = 0;
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
        judged += cases.len();
    }
    assert!(judged >= 244, "{judged}");
}
