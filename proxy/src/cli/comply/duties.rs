//! The duties, in the order of docs/security.md: what the best practices for crawlers (draft-illyes-webbotauth-cbcp-01), Web Bot Auth
//! and the law on text and data mining ask of those who run crawlers.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use wayleave_admission::settings::RobotsTxtSource;
use wayleave_config::Config;
use wayleave_decision::{
    Crawler, EnforcementMode, HttpsMode, PolicyRule, RuleAction, SubresourcePolicy, contacts,
};
use wayleave_pacing::CrawlDelayMode;
use wayleave_robots_cache::fetch_user_agent;
use wayleave_signing::SigningMode;
use wayleave_signing::directory;
use wayleave_usage_preferences::PreferenceSource;

use super::lacks::{self, Lack};
use crate::publication::{
    self, CARD_PATH, PublishedHost, RANGES_PATH, crawler_contacts, mixed_names, page_path,
};

/// The duty whose finding comes with lines to write.
const ONE_CLASS: &str = "one name serves purposes of one class";

/// A duty, and whether it is fulfilled.
#[derive(Debug, Serialize)]
pub(super) struct Duty {
    /// The number in docs/security.md, from 1.
    pub(super) number: usize,
    pub(super) duty: &'static str,
    #[serde(flatten)]
    pub(super) finding: DutyFinding,
    /// The crawlers that lack something for it, and the value to set.
    pub(super) crawlers: Vec<Lack>,
    /// The lines to write, as TOML.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) write: String,
}

/// The status of a duty, and why it has that.
#[derive(Debug, Serialize)]
pub(super) struct DutyFinding {
    pub(super) status: DutyStatus,
    /// The key that decides; of a `[[crawler]]` as `crawler.key`.
    pub(super) key: &'static str,
    /// A few words that explain it.
    pub(super) detail: String,
}

/// Whether a duty is fulfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DutyStatus {
    Ok,
    Missing,
    /// The configuration does not decide it.
    Unknown,
}

impl DutyStatus {
    /// Returns the word in the output.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

/// Returns all duties. `published` is a folder that `wayleave publish` wrote.
pub(super) fn check(config: &Config, published: Option<&Path>) -> Vec<Duty> {
    let findings: [(_, _, lacks::Of); 11] = [
        ("robots.txt is obeyed", obedience(config), lacks::obedience),
        ("each crawler says who it is, with a contact", identification(config), lacks::identity),
        ("a pace and a back-off protect sites", pace(config), lacks::pace),
        ("what was fetched is cached", caching(config), lacks::nothing),
        ("the address ranges are published", ranges(config, published), lacks::address),
        ("a page describes each crawler", pages(config, published), lacks::page),
        ("requests are signed, and the keys published", signatures(config, published), lacks::key),
        (
            "reservations of text and data mining are honoured, provably",
            reservations(config),
            lacks::purposes,
        ),
        ("a card describes each crawler to programs", cards(config, published), lacks::key),
        (ONE_CLASS, names(config), lacks::nothing),
        ("each crawler has a contact", crawlers_contacts(config), lacks::contact),
    ];
    let mut duties: Vec<_> = (1..)
        .zip(findings)
        .map(|(number, (duty, finding, lacks))| {
            let crawlers = lacks::of_all(config, lacks);
            Duty { number, duty, finding, crawlers, write: String::new() }
        })
        .collect();
    for duty in duties.iter_mut().filter(|duty| duty.duty == ONE_CLASS) {
        duty.write = mixed_names(config).into_iter().map(|name| name.split).collect();
    }
    duties
}

fn ok(key: &'static str, detail: impl Into<String>) -> DutyFinding {
    DutyFinding { status: DutyStatus::Ok, key, detail: detail.into() }
}

fn missing(key: &'static str, detail: impl Into<String>) -> DutyFinding {
    DutyFinding { status: DutyStatus::Missing, key, detail: detail.into() }
}

fn unknown(key: &'static str, detail: impl Into<String>) -> DutyFinding {
    DutyFinding { status: DutyStatus::Unknown, key, detail: detail.into() }
}

/// Returns the names of all crawlers of which something is true, if there are any.
fn named(config: &Config, is_so: impl Fn(&Crawler) -> bool) -> Option<String> {
    let crawlers = config.crawlers.crawlers.iter().filter(|crawler| is_so(crawler));
    let names: Vec<_> = crawlers.map(|crawler| format!("{:?}", crawler.name)).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn obedience(config: &Config) -> DutyFinding {
    if config.crawlers.mode == EnforcementMode::Observe {
        let observed = named(config, |it| it.mode == EnforcementMode::Observe);
        let observed = observed.map(|names| format!("{names} and ")).unwrap_or_default();
        let detail = format!(
            "\"observe\" forwards what robots.txt disallows: {observed}unnamed requests; set \"enforce\""
        );
        return missing("proxy.mode", detail);
    }
    if let Some(names) = named(config, |it| it.mode == EnforcementMode::Observe) {
        return missing("crawler.mode", format!("only observed: {names}; set \"enforce\""));
    }
    if let Some(names) = named(config, |it| it.subresources == SubresourcePolicy::Page) {
        let detail = format!("what pages load passes robots.txt: {names}; set \"judge\"");
        return missing("crawler.subresources", detail);
    }
    if let Some(pinned) = config.robots.pinned.first() {
        let detail =
            format!("{} is judged by a file of yours, not by its own robots.txt", pinned.origin);
        return missing("robots.pinned", detail);
    }
    let is_for_all = |rule: &PolicyRule| rule.hosts.iter().any(|host| host.to_string() == "*");
    let numbered = config.rules.iter().zip(1..);
    let mut exceptions = numbered.filter(|(rule, _)| rule.action == RuleAction::Allow);
    if let Some((_, number)) = exceptions.clone().find(|(rule, _)| is_for_all(rule)) {
        return missing("rule.action", format!("[[rule]] {number} is an exception for all hosts"));
    }
    if let Some((_, number)) = exceptions.next() {
        return unknown(
            "rule.action",
            format!("[[rule]] {number} is an exception: only its owner knows why"),
        );
    }
    if !config.https.interception.bypass.is_empty() {
        return unknown("https.bypass", "what goes to these hosts is not judged");
    }
    let enforced = named(config, |_| true).map(|names| format!("{names} and ")).unwrap_or_default();
    ok("proxy.mode", format!("\"enforce\" for {enforced}unnamed requests"))
}

fn identification(config: &Config) -> DutyFinding {
    let lacks_contact = |agent: &str| contacts(agent).is_empty();
    if lacks_contact(&config.robots.fetch.user_agent) {
        let detail =
            "has neither a URL nor a mail address: add one, such as (+https://example.com/bot)";
        return missing("robots.user_agent", detail);
    }
    let has_bad_agent =
        |it: &Crawler| lacks_contact(&fetch_user_agent(it, &config.robots.fetch.user_agent));
    if let Some(names) = named(config, has_bad_agent) {
        let detail =
            format!("no URL or mail address: {names}; add one, such as (+https://example.com/bot)");
        return missing("crawler.user_agent", detail);
    }
    let key = "crawler.user_agent_must_contain_token";
    if let Some(names) = named(config, |it| !it.user_agent_must_contain_token) {
        return missing(key, format!("may send any User-Agent: {names}; set true"));
    }
    if config.crawlers.crawlers.is_empty() {
        return unknown(key, "there is no [[crawler]], so clients send what they like");
    }
    ok("crawler.user_agent", "a contact in each, and each request names its crawler")
}

fn pace(config: &Config) -> DutyFinding {
    let pacing = &config.politeness;
    if pacing.crawl_delay == CrawlDelayMode::Ignore {
        let detail = "\"ignore\" keeps no Crawl-delay, and leaves no origin alone that asks for it";
        return missing("politeness.crawl_delay", detail);
    }
    let has_no_delay = |it: &Crawler| pacing.delay(it.default_delay, it.min_delay).is_zero();
    if let Some(names) = named(config, has_no_delay) {
        let detail =
            format!("no delay where a site asks for none: {names}; set a time, such as \"1s\"");
        return missing("politeness.min_delay", detail);
    }
    let has_others = config.crawlers.crawlers.is_empty() || !config.crawlers.require_crawler;
    if has_others && pacing.min_delay.max(pacing.default_delay).is_zero() {
        let detail = "requests that match no [[crawler]] have no delay where a site asks for none: \
                      set a time, such as \"1s\"";
        return missing("politeness.min_delay", detail);
    }
    if !pacing.adaptive {
        let detail = "a site that slows down is asked as fast as before";
        return missing("politeness.adaptive", detail);
    }
    let detail = "delays are kept, and slow origins and those that answer 429 or 503 are spared";
    ok("politeness.crawl_delay", detail)
}

fn caching(config: &Config) -> DutyFinding {
    if config.robots.answer == RobotsTxtSource::Origin {
        return missing("robots.answer", "each crawler's own request for robots.txt is forwarded");
    }
    let detail =
        "robots.txt is answered from the copy; whether crawlers cache pages is theirs to say";
    unknown("robots.answer", detail)
}

fn ranges(config: &Config, published: Option<&Path>) -> DutyFinding {
    if config.upstream.egress.parent.is_some() {
        return unknown("upstream.proxy", "sites see the addresses of the parent proxy");
    }
    let key = "upstream.source_addresses";
    let crawlers = &config.crawlers.crawlers;
    let lacks_address = |it: &Crawler| publication::addresses(config, it).is_empty();
    if let Some(names) = named(config, lacks_address) {
        let detail =
            format!("the system chooses the address: {names}; list yours, or set source_address");
        return missing(key, detail);
    }
    if crawlers.is_empty() && config.upstream.egress.source_addresses.is_empty() {
        return missing(key, "the system chooses the address");
    }
    let Some(dir) = published else {
        return unknown(key, "`wayleave publish` writes them, --published DIR compares them");
    };
    for host in PublishedHost::all(config) {
        let file = read(dir, &host, RANGES_PATH);
        match file.and_then(|text| serde_json::from_str::<Value>(&text).ok()) {
            Some(file) if host.agrees_with_ranges(&file) => {}
            Some(_) => {
                return missing(key, "other ranges are published: run `wayleave publish` again");
            }
            None => return missing(key, "no ranges are published: run `wayleave publish`"),
        }
    }
    ok(key, "as published")
}

fn pages(config: &Config, published: Option<&Path>) -> DutyFinding {
    let key = "signing.agent";
    let has_url = |agent: &str| contacts(agent).iter().any(|uri| uri.starts_with("http"));
    let fetcher = &config.robots.fetch.user_agent;
    let has_no_page = |it: &Crawler| !has_url(&fetch_user_agent(it, fetcher));
    if config.crawlers.crawlers.is_empty() {
        return missing("crawler.name", "there is no [[crawler]] to describe");
    }
    let is_nowhere = |it: &Crawler| config.signing.agent_of(it).is_none() && has_no_page(it);
    if let Some(names) = named(config, is_nowhere) {
        let detail =
            format!("no URL of a page: {names}; add one, such as (+https://example.com/bot)");
        return missing("crawler.user_agent", detail);
    }
    let Some(dir) = published else {
        return unknown(
            key,
            "`wayleave publish` writes pages; whether sites reach them is not checked",
        );
    };
    let is_missing =
        |host: &PublishedHost<'_>, it: &Crawler| read(dir, host, &page_path(&it.name)).is_none();
    match named_at_hosts(config, is_missing) {
        Some(names) => missing(key, format!("no page: {names}; run `wayleave publish`")),
        None => ok(key, "written; whether sites reach it is not checked"),
    }
}

fn signatures(config: &Config, published: Option<&Path>) -> DutyFinding {
    if config.signing.options.mode == SigningMode::Off {
        return missing("signing.mode", "\"off\": set \"on-request\" or \"always\"");
    }
    if config.crawlers.crawlers.is_empty() {
        return missing("crawler.signing_key", "there is no [[crawler]]");
    }
    if let Some(names) = named(config, |it| it.signing_key.is_none()) {
        let detail = format!("none: {names}; `wayleave keys new NAME`, then \"keys/NAME.pem\"");
        return missing("crawler.signing_key", detail);
    }
    if config.https.interception.mode == HttpsMode::Tunnel {
        return missing("https.mode", "\"tunnel\": what is not inspected cannot be signed");
    }
    for host in published.iter().flat_map(|_| PublishedHost::all(config)) {
        for agent in host.agents_with_keys() {
            let file = published.and_then(|dir| read(dir, &host, agent.key_set_path()));
            if file != Some(directory::body(&agent.keys)) {
                let detail = format!(
                    "other keys are published for {}: run `wayleave publish` again",
                    agent.url()
                );
                return missing("signing.agent", detail);
            }
        }
    }
    ok("signing.mode", "every crawler has a key")
}

fn cards(config: &Config, published: Option<&Path>) -> DutyFinding {
    if config.crawlers.crawlers.is_empty() {
        return missing("crawler.signing_key", "there is no [[crawler]]");
    }
    if let Some(names) = named(config, |it| config.signing.agent_of(it).is_none()) {
        let detail = format!("nothing says where cards are: {names}; set your bot's URL");
        return missing("signing.agent", detail);
    }
    if let Some(names) = named(config, |it| it.signing_key.is_none()) {
        let detail =
            format!("a card leads to keys, and there are none: {names}; `wayleave keys new NAME`");
        return missing("crawler.signing_key", detail);
    }
    let key = "signing.agent";
    let Some(dir) = published else {
        return unknown(key, "`wayleave publish` writes them, --published DIR compares them");
    };
    let differs = |host: &PublishedHost<'_>, it: &Crawler| {
        read(dir, host, &format!("{CARD_PATH}/{}", it.name)) != host.card(&it.name)
    };
    match named_at_hosts(config, differs) {
        Some(names) => missing(key, format!("no or another card: {names}; run `wayleave publish`")),
        None => ok(key, "as published"),
    }
}

fn names(config: &Config) -> DutyFinding {
    let mixed = mixed_names(config);
    if let Some(first) = mixed.first() {
        let key = if first.key == "agent" { "crawler.agent" } else { "crawler.purposes" };
        let texts: Vec<_> = mixed.iter().map(|name| name.text.as_str()).collect();
        return missing(key, texts.join(". "));
    }
    let states_none = |it: &Crawler| it.declaration.purposes.is_empty();
    if config.crawlers.crawlers.iter().all(states_none) {
        return unknown("crawler.purposes", "no crawler says what it is for");
    }
    ok("crawler.purposes", "no name mixes search, agents and training")
}

fn crawlers_contacts(config: &Config) -> DutyFinding {
    if config.crawlers.crawlers.is_empty() {
        return unknown("crawler.contact", "there is no [[crawler]]");
    }
    let user_agent = &config.robots.fetch.user_agent;
    match named(config, |it| crawler_contacts(it, user_agent).is_empty()) {
        Some(names) => {
            let detail = format!("neither a URL nor a mail address: {names}; set one");
            missing("crawler.contact", detail)
        }
        None => ok("crawler.contact", "each has a URL or a mail address"),
    }
}

fn reservations(config: &Config) -> DutyFinding {
    let lacks_purpose = |it: &Crawler| it.declaration.purposes.is_empty();
    if config.crawlers.crawlers.is_empty() {
        return missing("crawler.purposes", "there is no [[crawler]]");
    }
    if let Some(names) = named(config, lacks_purpose) {
        let detail = format!(
            "none, so no preference is obeyed: {names}; set what pages are for, such as [\"search\"]"
        );
        return missing("crawler.purposes", detail);
    }
    let read = config.preferences.reading.sources;
    let is_skipped = |source: &PreferenceSource| !read.contains(*source);
    if let Some(source) = PreferenceSource::OPTIONAL.into_iter().find(is_skipped) {
        return missing("preferences.sources", format!("{:?} is not read", source.as_str()));
    }
    if config.log.decisions.is_none() {
        return missing("log.decisions", "without a decision log nothing can be shown");
    }
    if config.https.interception.mode == HttpsMode::Tunnel {
        return unknown("https.mode", "\"tunnel\": what responses say is not seen");
    }
    ok("crawler.purposes", "declared by every crawler; each decision is signed")
}

/// Returns the names of all crawlers of which something is true at the host that publishes them.
fn named_at_hosts(
    config: &Config,
    is_so: impl Fn(&PublishedHost<'_>, &Crawler) -> bool,
) -> Option<String> {
    let hosts = PublishedHost::all(config);
    named(config, |crawler| {
        hosts
            .iter()
            .any(|host| host.crawlers().any(|it| it.name == crawler.name) && is_so(host, crawler))
    })
}

/// Returns a file that a host publishes as text, if it is there.
fn read(dir: &Path, host: &PublishedHost<'_>, path: &str) -> Option<String> {
    fs::read_to_string(dir.join(host.folder()).join(path.trim_start_matches('/'))).ok()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use wayleave_config::DEFAULT_FILE;
    use wayleave_signing::SigningKey;

    use super::*;

    #[derive(Deserialize)]
    struct CaseFile {
        case: Vec<Case>,
    }

    /// A configuration, and each duty as `STATUS KEY`.
    #[derive(Deserialize)]
    struct Case {
        name: String,
        file: String,
        duties: Vec<String>,
    }

    fn cases() -> Vec<Case> {
        let file: CaseFile = toml::from_str(include_str!("cases.toml")).unwrap();
        file.case
    }

    /// Returns the configuration of a case, whose keys are in `dir`.
    fn config(dir: &Path, file: &str) -> Config {
        let key = dir.join("news.pem");
        if !key.exists() {
            SigningKey::create(&key).unwrap();
        }
        let text = file.replace("KEY", key.to_str().unwrap());
        Config::from_toml("t.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}"))
    }

    fn found(config: &Config, published: Option<&Path>) -> Vec<String> {
        let duties = check(config, published);
        let word = |it: Duty| format!("{} {}", it.finding.status.as_str(), it.finding.key);
        duties.into_iter().map(word).collect()
    }

    #[test]
    fn every_crawler_that_lacks_a_duty_is_named() {
        let crawler = |name: &str| {
            format!(
                "[[crawler]]\nname = {name:?}\ntokens = [\"Bot\"]\nmatch = {{ user_agent = {name:?} }}\n"
            )
        };
        let text = format!("{}{}{}", crawler("news"), crawler("images"), crawler("prices"));
        let config = Config::from_toml("t.toml", &text).unwrap();
        let duties = check(&config, None);
        let missing = duties.iter().filter(|duty| duty.finding.status == DutyStatus::Missing);
        let details = missing.map(|duty| &*duty.finding.detail);
        let named: Vec<_> = details.filter(|it| it.contains("\"news\"")).collect();
        assert!(named.len() >= 4, "{named:?}");
        for detail in named {
            assert!(detail.contains("\"news\", \"images\", \"prices\"; "), "{detail}");
        }
    }

    /// Whatever a crawler lacks is listed with the key and a value, also behind the first reason of its duty.
    #[test]
    fn every_crawler_is_told_what_to_set() {
        let text = "[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = { user_agent = \"NewsBot\" }\nmode = \"observe\"\n\
             [[crawler]]\nname = \"shots\"\ntokens = [\"ShotBot\"]\nsubresources = \"page\"\nuser_agent = \"ShotBot/1\"\n";
        let config = Config::from_toml("t.toml", text).unwrap();
        let duties = check(&config, None);
        let lacks = |number: usize| -> Vec<String> {
            let lacks = duties[number - 1].crawlers.iter();
            lacks.map(|it| format!("{} {} = {}", it.crawler, it.key, it.set)).collect()
        };
        assert_eq!(
            lacks(1),
            ["news crawler.mode = \"enforce\"", "shots crawler.subresources = \"judge\""]
        );
        let contact = "crawler.contact = \"https://example.com/bot\"";
        let token = "crawler.user_agent_must_contain_token = true";
        assert_eq!(
            lacks(2),
            ["news", "shots"]
                .map(|name| [format!("{name} {contact}"), format!("{name} {token}")])
                .concat()
        );
        assert_eq!(lacks(3)[1], "shots crawler.min_delay = \"1s\"");
        assert_eq!(lacks(7)[0], "news crawler.agent = \"https://bot.example\"");
        assert_eq!(lacks(7)[1], "news crawler.signing_key = \"keys/news.pem\"");
        assert_eq!(lacks(8)[0], "news crawler.purposes = [\"search\"]");
        assert_eq!(lacks(11), ["news", "shots"].map(|name| format!("{name} {contact}")));
        for Case { name, file, .. } in cases() {
            let dir = tempfile::tempdir().unwrap();
            for duty in check(&self::config(dir.path(), &file), None) {
                let is_missing = duty.finding.status == DutyStatus::Missing;
                assert!(duty.crawlers.is_empty() || is_missing, "{name}: {duty:?}");
            }
        }
    }

    #[test]
    fn each_duty_of_each_configuration_is_right() {
        let dir = tempfile::tempdir().unwrap();
        let cases = cases();
        assert!(cases.len() >= 10, "{}", cases.len());
        for Case { name, file, duties } in cases {
            assert_eq!(found(&config(dir.path(), &file), None), duties, "{name}");
        }
    }

    /// Every status that a configuration alone can give occurs, for every duty, and so does every key.
    #[test]
    fn cases_have_every_status_of_every_duty() {
        let cases = cases();
        for (number, statuses) in [
            &["ok", "missing", "unknown"][..],
            &["ok", "missing", "unknown"],
            &["ok", "missing"],
            &["unknown"],
            &["missing", "unknown"],
            &["missing", "unknown"],
            &["ok", "missing"],
            &["ok", "missing", "unknown"],
            &["missing", "unknown"],
            &["ok", "missing", "unknown"],
            &["ok", "missing", "unknown"],
        ]
        .into_iter()
        .enumerate()
        {
            for status in statuses {
                let has = cases.iter().any(|case| case.duties[number].starts_with(status));
                assert!(has, "no case has duty {} {status}", number + 1);
            }
        }
    }

    #[test]
    fn every_key_exists_and_is_documented() {
        let security = include_str!("../../../../docs/security.md");
        let duties = check(&Config::default(), None);
        for duty in &duties {
            let row = format!("| {} | {} |", duty.number, duty.duty);
            assert!(security.contains(&row), "{row} is missing in docs/security.md");
        }
        for case in cases() {
            for (duty, found) in duties.iter().zip(&case.duties) {
                let (_, key) = found.split_once(' ').unwrap();
                let (_, name) = key.rsplit_once('.').unwrap();
                let mut words = DEFAULT_FILE.split([' ', '\n', '{']);
                assert!(words.any(|word| word == name), "{key} is no key");
                let row = format!("| {} | {} |", duty.number, duty.duty);
                let row = security.lines().find(|line| line.starts_with(&row)).unwrap();
                assert!(row.contains(&format!("`{key}`")), "{key} is missing in {row}");
            }
        }
    }

    #[test]
    fn obedience_names_the_crawlers_that_it_speaks_of() {
        let dir = tempfile::tempdir().unwrap();
        let two = |mode: &str| {
            format!(
                "proxy.mode = {mode:?}\n[[crawler]]\nname = \"a\"\ntokens = [\"A\"]\nmatch = {{ user_agent = \"A\" }}\nmode = \"enforce\"\n\
                 [[crawler]]\nname = \"b\"\ntokens = [\"B\"]\nmatch = {{ user_agent = \"B\" }}\n"
            )
        };
        for (file, expected) in [
            (two("enforce"), r#""enforce" for "a", "b" and unnamed requests"#),
            (
                two("observe"),
                r#""observe" forwards what robots.txt disallows: "b" and unnamed requests; set "enforce""#,
            ),
            (String::new(), r#""enforce" for unnamed requests"#),
        ] {
            assert_eq!(obedience(&config(dir.path(), &file)).detail, expected);
        }
    }

    #[test]
    fn published_files_are_compared() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("public");
        let complete = &cases()[1].file;
        let config =
            |change: (&str, &str)| config(dir.path(), &complete.replace(change.0, change.1));
        let now = config(("", ""));
        let statuses = |config: &Config| {
            let found = found(config, Some(&out));
            [4, 5, 6, 8]
                .map(|index: usize| &found[index])
                .iter()
                .map(|it| it.split(' ').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(statuses(&now), ["missing"; 4], "nothing is written yet");
        crate::cli::publish::write(&now, &out).unwrap();
        assert_eq!(statuses(&now), ["ok"; 4]);
        assert_eq!(statuses(&config(("127.0.0.7", "127.0.0.8"))), ["missing", "ok", "ok", "ok"]);
        assert_eq!(statuses(&config(("\"tdm\"", "\"other\""))), ["ok", "ok", "ok", "missing"]);
        assert_eq!(
            statuses(&config(("name = \"news\"", "name = \"other\""))),
            ["ok", "missing", "ok", "missing"]
        );
        let next = dir.path().join("next.pem");
        SigningKey::create(&next).unwrap();
        assert_eq!(
            statuses(&config(("KEY", next.to_str().unwrap()))),
            ["ok", "ok", "missing", "ok"]
        );
    }
}
