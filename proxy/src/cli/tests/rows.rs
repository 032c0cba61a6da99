//! The rows of other tests: statements about use, targets and spellings that try to get past the proxy.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::sites::{FileAnswer, Sites};
use super::world::CrawlRequest;

const PREFERENCES: &str =
    include_str!("../../../../policy/usage-preferences/tests/cases/preferences.jsonl");
const TARGETS: &str = include_str!("../../../../tests/security/targets.jsonl");
const SPELLINGS: &str = include_str!("../../../../tests/security/spellings.json");

pub(super) const DIALECTS: [&str; 5] = ["rfc9309", "google", "koster1996", "selfhtml", "strictest"];

/// Keys of a case's `config` that are of `[preferences]`, and of `[[crawler]]`.
const PREFERENCE_KEYS: [&str; 3] = ["sources", "rsl_user", "rsl_geo"];
const CRAWLER_KEYS: [&str; 3] = ["purpose_tokens", "content_use", "unstated"];

/// A configuration, the files of origins, and requests with the status that must come of them, if that is known.
pub(super) struct RowWorld {
    pub(super) configuration: String,
    pub(super) sites: Sites,
    pub(super) requests: Vec<(CrawlRequest, Option<u16>)>,
}

/// The cases about usage preferences, each with a host and a crawler of its own: one world for each reading of statements.
pub(super) fn preferences() -> Vec<RowWorld> {
    let mut worlds: BTreeMap<String, RowWorld> = BTreeMap::new();
    for (number, line) in PREFERENCES.lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        let reading = keys(&case, &PREFERENCE_KEYS);
        let world = worlds.entry(reading.clone()).or_insert_with(|| RowWorld {
            configuration: format!("[preferences]\n{reading}"),
            sites: Sites::default(),
            requests: Vec::new(),
        });
        add_preference_case(world, &case, number);
    }
    worlds.into_values().collect()
}

fn add_preference_case(world: &mut RowWorld, case: &Value, number: usize) {
    let host = format!("case{number}.test");
    let at_home = |text: &str| text.replace("site.test", &host);
    let purposes = match &case["purpose"] {
        Value::Array(all) => json!(all),
        one => json!([one]),
    };
    world.configuration += &format!(
        "[[crawler]]\nname = \"case{number}\"\ntokens = [{}]\nmatch = {{ user_agent = \"Case{number}-\" }}\npurposes = {purposes}\n{}",
        case["token"],
        keys(case, &CRAWLER_KEYS),
    );
    if let Some(action) = case["config"]["rule"].as_str() {
        world.configuration += &format!("[[rule]]\naction = \"{action}\"\nhosts = [\"{host}\"]\n");
        if action == "allow" {
            world.configuration +=
                "owner = \"legal\"\nreason = \"agreed\"\nexpires = \"2999-12-31\"\n";
        }
    }
    for (member, path) in [("robots", "/robots.txt"), ("tdmrep", "/.well-known/tdmrep.json")] {
        if let Some(text) = case[member].as_str() {
            let text = FileAnswer::Text(at_home(text));
            world.sites.serve(&format!("https://{host}{path}"), text);
        }
    }
    for (url, text) in case["rsl"].as_object().into_iter().flatten() {
        let text = FileAnswer::Text(at_home(text.as_str().unwrap()));
        world.sites.serve(&at_home(url), text);
    }
    let url = at_home(case["url"].as_str().unwrap());
    let request = CrawlRequest::get(&url, &format!("Case{number}-"));
    world.requests.push((request, preference_status(case)));
}

/// Returns the status that a case has before the request is sent; none where a refusal for lack of a statement has to wait for
/// the response.
fn preference_status(case: &Value) -> Option<u16> {
    if case["config"]["unstated"] == "refuse" {
        return None;
    }
    let is_refused = case["expect"] == "refuse" && case["stage"] == "before";
    // The response would lift what a file reserves, but such a request is not sent.
    let is_lifted_too_late = case["id"] == "tdmrep-017";
    Some(if is_refused || is_lifted_too_late { 403 } else { 200 })
}

/// Returns the keys of a case's `config` that are among these, as lines.
fn keys(case: &Value, keys: &[&str]) -> String {
    let config = case["config"].as_object().into_iter().flatten();
    let lines = config.filter(|(key, _)| keys.contains(&key.as_str()));
    lines.map(|(key, value)| format!("{key} = {}\n", toml(value))).collect()
}

fn toml(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key} = {}", toml(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Serves rules that take too long to match with the returned URL.
pub(super) fn serve_costly(sites: &Sites) -> String {
    let slow = (0..8_000).map(|number| format!("Allow: /*ab*ba*c{number}\n"));
    let slow = FileAnswer::Text(format!("User-agent: *\n{}", slow.collect::<String>()));
    sites.serve("http://costly.test/robots.txt", slow);
    format!("http://costly.test/{}", "ab".repeat(8_000))
}

/// Targets, and the status of the proxy's answer where a decision gives it.
pub(super) fn targets() -> RowWorld {
    #[derive(Deserialize)]
    struct Row {
        target: String,
        status: u16,
    }
    let sites = Sites::default();
    let robots = "User-agent: *\nDisallow: /private\nDisallow: /*.cgi$\nAllow: /private/open\n";
    for host in ["shop.test", "xn--bcher-kva.test"] {
        let url = format!("http://{host}/robots.txt");
        sites.serve(&url, FileAnswer::Text(robots.to_owned()));
    }
    let shut = FileAnswer::Text("User-agent: *\nDisallow: /\n".to_owned());
    sites.serve("http://shut.test/robots.txt", shut);
    // What no test there has.
    let costly = serve_costly(&sites);
    let requests = TARGETS.lines().map(|line| {
        let row: Row = serde_json::from_str(line).unwrap();
        let status = matches!(row.status, 200 | 403).then_some(row.status);
        (CrawlRequest::get(&row.target, "ExampleBot/1.0"), status)
    });
    let requests = requests.chain([(CrawlRequest::get(&costly, "ExampleBot/1.0"), Some(403))]);
    RowWorld { configuration: String::new(), requests: requests.collect(), sites }
}

/// Requests by a crawler for each dialect, to origins whose robots.txt allows a part, does not exist or cannot be fetched.
pub(super) fn one_crawler_for_each_dialect() -> RowWorld {
    let sites = Sites::default();
    let robots = FileAnswer::Text("User-agent: *\nDisallow: /private\n".to_owned());
    let answers =
        [("copy", robots), ("none", FileAnswer::Status(404)), ("down", FileAnswer::Status(500))];
    for (host, answer) in answers {
        sites.serve(&format!("http://{host}.test/robots.txt"), answer);
    }
    let crawler = |dialect: &str| {
        format!(
            "[[crawler]]\nname = \"{dialect}\"\ntokens = [\"ExampleBot\"]\n\
             match = {{ user_agent = \"{dialect}\" }}\ndialect = \"{dialect}\"\n"
        )
    };
    let requests = DIALECTS.iter().flat_map(|dialect| {
        let paths = ["copy.test/open", "copy.test/private", "none.test/", "down.test/"];
        paths.map(|path| (CrawlRequest::get(&format!("http://{path}"), dialect), None))
    });
    RowWorld {
        configuration: DIALECTS.iter().copied().map(crawler).collect(),
        requests: requests.collect(),
        sites,
    }
}

/// Spellings of disallowed paths, judged by robots.txt in each dialect, and by a rule.
pub(super) fn spellings() -> Vec<RowWorld> {
    #[derive(Deserialize)]
    struct Spellings {
        before: Vec<String>,
        folders: Vec<String>,
        pages: Vec<String>,
        indexes: Vec<String>,
    }
    let Spellings { before, folders, pages, indexes } = serde_json::from_str(SPELLINGS).unwrap();
    let before = before.into_iter().map(|line| line + "private/page.txt");
    let folders = folders.into_iter().map(|folder| format!("/{folder}/page.txt"));
    let spellings: Vec<_> = before.chain(folders).chain(pages).chain(indexes).collect();
    let by_dialect = DIALECTS.map(|dialect| format!("[robots]\ndialect = \"{dialect}\"\n"));
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\npaths = [\"/private\", \"/deep/page.txt\"]\n";
    let configurations = by_dialect.into_iter().chain([rule.to_owned()]);
    let world = |configuration| {
        let sites = Sites::default();
        let robots = "User-agent: *\nDisallow: /private\nDisallow: /deep/page.txt\n";
        sites.serve("http://server.test/robots.txt", FileAnswer::Text(robots.to_owned()));
        let requests = spellings.iter().map(|spelling| {
            let url = format!("http://server.test{spelling}");
            (CrawlRequest::get(&url, "Bot-example/1.0"), None)
        });
        RowWorld { configuration, requests: requests.collect(), sites }
    };
    configurations.map(world).collect()
}
