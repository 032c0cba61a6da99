//! The `[[crawler]]` tables that the page offers for unnamed requests: pasting one must not end a refusal without a word.

use std::sync::Arc;
use std::time::SystemTime;

use wayleave_admission::offline::InputSource;
use wayleave_admission::preview::Question;
use wayleave_config::Config;
use wayleave_decision::{Crawlers, DocumentResult, PolicyRules, RequestOutcome, RobotsCopy};
use wayleave_lifecycle::Resource;
use wayleave_robots_txt::{AccessResult, Origin, ProductToken, RobotsTxt};

use crate::admin::crawler_naming::{CrawlerNaming, UnnamedSender};
use crate::admin::preview::Preview;
use crate::cli::check::verdict::ProxySettings;

const ROBOTS: &str = "\
User-agent: *\nDisallow: /all\n
User-agent: AcmeBot\nDisallow: /acme\n
User-agent: AcmeBot-News\nUser-agent: NotAcmeBot\nUser-agent: EvilBot\nDisallow: /\n
User-agent: Mozilla\nUser-agent: HeadlessChrome\nUser-agent: python-requests\nDisallow: /all\nDisallow: /acme\n";

const URLS: [&str; 4] =
    ["http://shop.test/", "http://shop.test/all", "http://shop.test/acme", "http://ruled.test/"];

/// Tables of which each configuration has one.
const TABLES: [&str; 5] = [
    "",
    "[[crawler]]\nname = \"tried\"\ntokens = [\"TriedBot\"]\nmode = \"observe\"\nmatch = { user_agent = \"TriedBot\" }\n",
    "[[crawler]]\nname = \"acmebot\"\ntokens = [\"AcmeBot\"]\nmode = \"enforce\"\nmatch = { user_agent = \"AcmeBot\", addresses = [\"192.0.2.0/24\"] }\n",
    "[[rule]]\naction = \"refuse\"\nhosts = [\"ruled.test\"]\ncrawlers = [\"asserted\"]\n",
    "[[crawler]]\nname = \"strict\"\ntokens = [\"StrictBot\"]\nmode = \"enforce\"\nuser_agent_must_contain_token = true\n\
     match = { addresses = [\"198.51.100.1\"] }\n[[rule]]\naction = \"refuse\"\nhosts = [\"ruled.test\"]\n",
];

/// Names that only one crawler sends.
const OWN_NAMES: [&str; 12] = [
    "AcmeBot",
    "AcmeBot/1.0",
    "AcmeBot/1.0 (+https://acme.example/bot)",
    "AcmeBot/2.0 (+https://acme.example/bot)",
    "AcmeBot-News/1.0",
    "NotAcmeBot/1.0",
    "Mozilla/5.0 (compatible; AcmeBot/1.0; +https://acme.example/bot)",
    "Mozilla/5.0 (compatible; AcmeBot/2.0; +https://acme.example/bot)",
    "Mozilla/5.0 (compatible; AcmeBot-News/1.0; +https://acme.example/bot)",
    "EvilBot/1.0 Mozilla/5.0 (compatible; AcmeBot/1.0; +https://acme.example/bot)",
    "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; StrictBot/1.0) Chrome/142.0.0.0 Safari/537.36",
    "Visitor \"quoted\" \\ 'bot'/1.0",
];

/// Names of browsers and libraries, and those of other owners.
const SHARED_NAMES: [&str; 18] = [
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0",
    "Opera/9.80",
    "axios/1.7.2",
    "node",
    "undici",
    "python-requests/2.32.3",
    "python-httpx/0.28.1",
    "Python/3.12 aiohttp/3.10.5",
    "Scrapy/2.12.0 (+https://scrapy.org)",
    "curl/8.14.1",
    "Wget/1.25.0",
    "Go-http-client/2.0",
    "okhttp/4.12.0",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "GPTBot/1.2",
];

/// The robots.txt of every origin.
struct OneFile(Arc<AccessResult>);

impl InputSource for OneFile {
    fn robots_txt(&mut self, _: &Origin) -> RobotsCopy {
        RobotsCopy::Archived {
            access: Arc::clone(&self.0),
            error_kind: None,
            at: SystemTime::UNIX_EPOCH,
        }
    }

    fn document(&mut self, _: &Resource) -> DocumentResult {
        DocumentResult::Archived(None)
    }
}

/// A configuration, and the verdicts that it gives.
struct Proxy {
    text: String,
    config: Config,
    settings: ProxySettings,
    file: OneFile,
}

impl Proxy {
    fn new(text: String) -> Self {
        let config = Config::from_toml("config.toml", &text)
            .unwrap_or_else(|mistakes| panic!("{mistakes:?} in {text}"));
        let robots = RobotsTxt::parse(ROBOTS.as_bytes());
        Self {
            settings: ProxySettings::new(&config),
            file: OneFile(Arc::new(AccessResult::Successful(robots))),
            config,
            text,
        }
    }

    /// Returns the verdicts on every User-Agent at every URL, from two clients.
    fn verdicts(&mut self) -> Vec<(&'static str, Preview)> {
        let mut verdicts = Vec::new();
        for user_agent in OWN_NAMES.into_iter().chain(SHARED_NAMES) {
            for (url, client) in
                URLS.into_iter().zip(["127.0.0.1", "203.0.113.7"].into_iter().cycle())
            {
                let question = Question {
                    url: url.to_owned(),
                    user_agent: user_agent.to_owned(),
                    client: Some(client.to_owned()),
                    ..Question::default()
                };
                let verdict = self.settings.decide(&question, &[], &mut self.file);
                verdicts.push((user_agent, verdict.expect("a sound question")));
            }
        }
        verdicts
    }

    /// Returns the naming that the page offers.
    fn naming(&self, user_agent: &str, address: Option<&str>) -> CrawlerNaming {
        let crawlers = Crawlers::new(self.config.crawlers.clone());
        let rules = PolicyRules::new(self.config.rules.clone());
        UnnamedSender { user_agent, address }.naming(&crawlers, &rules)
    }
}

/// Returns the name of the crawler in a verdict.
fn crawler_of(verdict: &Preview) -> String {
    let members = serde_json::to_value(verdict).expect("it serialises");
    members["crawler"].as_str().unwrap_or_default().to_owned()
}

/// Returns whether the advice says that a request which was refused `before` will not be.
fn is_told(naming: &CrawlerNaming, named: &str, user_agent: &str, before: &Preview) -> bool {
    let says = |words: &str| naming.advice.iter().any(|advice| advice.contains(words));
    match before.reason() {
        "unidentified" => says("proxy.require_crawler refuses these requests now"),
        "policy-rule" => says("[[rule]] 1 refuses unnamed requests"),
        // The table is for one name, and says that it takes requests with others, too.
        _ => {
            let token = |field: &str| ProductToken::from_user_agent(field.as_bytes());
            says("whatever other names are in it") && token(user_agent) != token(named)
        }
    }
}

#[test]
fn no_offered_table_ends_a_refusal_without_a_word() {
    let mut offered = 0;
    for index in 0..20 {
        let [mode, require] = [["enforce", "observe"][index % 2], ["false", "true"][index / 2 % 2]];
        let table = TABLES[index / 4];
        let mut proxy = Proxy::new(format!(
            "proxy = {{ mode = \"{mode}\", require_crawler = {require} }}\n{table}"
        ));
        let before = proxy.verdicts();
        for named in OWN_NAMES {
            for address in [None, Some("203.0.113.7")] {
                let naming = proxy.naming(named, address);
                let Some(table) = &naming.table else { panic!("no table for {named}: {naming:?}") };
                assert!(!table.contains("mode"), "{table}");
                let mut pasted = Proxy::new(format!("{}{table}", proxy.text));
                let new =
                    pasted.config.crawlers.crawlers.last().expect("the pasted one").name.clone();
                for ((user_agent, before), (_, after)) in before.iter().zip(pasted.verdicts()) {
                    let is_named = crawler_of(&after) == new;
                    assert!(
                        is_named || after.reason() == before.reason(),
                        "{user_agent} in {}",
                        pasted.text
                    );
                    let is_lost = before.outcome() == RequestOutcome::Refused
                        && after.outcome() != RequestOutcome::Refused;
                    assert!(
                        !is_lost || is_named && is_told(&naming, named, user_agent, before),
                        "{user_agent} is {:?} instead of {:?} with {}\n{:?}",
                        after.outcome(),
                        before.reason(),
                        pasted.text,
                        naming.advice
                    );
                    // It names the requests that it is for.
                    let is_own = *user_agent == named && address.is_none();
                    assert!(!is_own || is_named, "{named} in {}", pasted.text);
                }
                offered += 1;
            }
        }
    }
    assert_eq!(offered, 20 * OWN_NAMES.len() * 2);
}

#[test]
fn names_that_programs_share_are_not_offered() {
    let proxy = Proxy::new(String::new());
    // The page offers nothing to senders of the last two, whose names have other owners.
    for shared in &SHARED_NAMES[..16] {
        let naming = proxy.naming(shared, None);
        assert_eq!(naming.table, None, "{shared}");
        assert!(naming.advice[0].contains("give the crawler one of its own"), "{naming:?}");
    }
}

#[test]
fn a_version_is_not_part_of_what_is_matched() {
    let proxy = Proxy::new(String::new());
    let table = |user_agent| proxy.naming(user_agent, None).table.expect("a table");
    let newer = table("Mozilla/5.0 (compatible; AcmeBot/2.0; +https://acme.example/bot)");
    assert_eq!(newer, table("Mozilla/5.0 (compatible; AcmeBot/1.0)"));
    assert!(newer.contains("\"Mozilla/5.0 (compatible; AcmeBot/\""), "{newer}");
    let whole = table("AcmeBot/1.0 (+https://acme.example/bot)");
    assert!(whole.contains("user_agent = \"AcmeBot/1.0 (+https://acme.example/bot)\""), "{whole}");
}
