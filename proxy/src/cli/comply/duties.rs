//! The duties, in the order of docs/security.md: what the best practices for crawlers (draft-illyes-webbotauth-cbcp-01), Web Bot Auth
//! and the law on text and data mining ask of those who run crawlers.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use wayleave_config::Config;
use wayleave_decision::{
    Crawler, EnforcementMode, HttpsMode, PolicyRule, RuleAction, SubresourcePolicy, contacts,
};
use wayleave_gate::settings::RobotsTxtSource;
use wayleave_pacing::CrawlDelayMode;
use wayleave_robots_cache::fetch_user_agent;
use wayleave_signing::SigningMode;
use wayleave_signing::agent_card::RANGES_PATH;
use wayleave_signing::directory::{self, DIRECTORY_PATH};
use wayleave_usage_preferences::PreferenceSource;

use crate::cli::publish::{ip_ranges, page_path};

/// A duty, and whether it is fulfilled.
#[derive(Debug, Serialize)]
pub(super) struct Duty {
    /// The number in docs/security.md, from 1.
    pub(super) number: usize,
    pub(super) duty: &'static str,
    #[serde(flatten)]
    pub(super) finding: DutyFinding,
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
    let findings = [
        ("robots.txt is obeyed", obedience(config)),
        ("each crawler says who it is, with a contact", identification(config)),
        ("a pace and a back-off protect sites", pace(config)),
        ("what was fetched is cached", caching(config)),
        ("the address ranges are published", ranges(config, published)),
        ("a page describes each crawler", pages(config, published)),
        ("requests are signed, and the keys published", signatures(config, published)),
        ("reservations of text and data mining are honoured, provably", reservations(config)),
    ];
    let numbered = (1..).zip(findings);
    numbered.map(|(number, (duty, finding))| Duty { number, duty, finding }).collect()
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
    // Without a User-Agent of its own, a crawler's fetches have the contact of the one above, if not its own.
    let has_bad_agent = |it: &Crawler| it.robots_user_agent.as_deref().is_some_and(lacks_contact);
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
    let lacks_address = |it: &Crawler| ip_ranges::addresses(config, it).is_empty();
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
    let file = read(dir, RANGES_PATH).and_then(|text| serde_json::from_str::<Value>(&text).ok());
    match file {
        Some(file) if ip_ranges::agrees(&file, config) => ok(key, "as published"),
        Some(_) => missing(key, "other ranges are published: run `wayleave publish` again"),
        None => missing(key, "no ranges are published: run `wayleave publish`"),
    }
}

fn pages(config: &Config, published: Option<&Path>) -> DutyFinding {
    let key = "signing.agent";
    let has_url = |agent: &str| contacts(agent).iter().any(|uri| uri.starts_with("http"));
    let fetcher = &config.robots.fetch.user_agent;
    let has_no_page = |it: &Crawler| !has_url(&fetch_user_agent(it, fetcher));
    if config.crawlers.crawlers.is_empty() {
        return missing("crawler.name", "there is no [[crawler]] to describe");
    }
    if config.signing.options.agent.is_none()
        && let Some(names) = named(config, has_no_page)
    {
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
    match named(config, |it| read(dir, &page_path(&it.name)).is_none()) {
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
    let body = directory::body(&config.signing.keys);
    if published.is_some_and(|dir| read(dir, DIRECTORY_PATH).as_ref() != Some(&body)) {
        return missing("signing.agent", "other keys are published: run `wayleave publish` again");
    }
    ok("signing.mode", "every crawler has a key")
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

/// Returns a published file as text, if it is there.
fn read(dir: &Path, path: &str) -> Option<String> {
    fs::read_to_string(dir.join(path.trim_start_matches('/'))).ok()
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
            found[4..7]
                .iter()
                .map(|it| it.split(' ').next().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(statuses(&now), ["missing"; 3], "nothing is written yet");
        crate::cli::publish::write(&now, &out).unwrap();
        assert_eq!(statuses(&now), ["ok"; 3]);
        assert_eq!(statuses(&config(("127.0.0.7", "127.0.0.8"))), ["missing", "ok", "ok"]);
        assert_eq!(
            statuses(&config(("name = \"news\"", "name = \"other\""))),
            ["ok", "missing", "ok"]
        );
        let next = dir.path().join("next.pem");
        SigningKey::create(&next).unwrap();
        assert_eq!(statuses(&config(("KEY", next.to_str().unwrap()))), ["ok", "ok", "missing"]);
    }
}
