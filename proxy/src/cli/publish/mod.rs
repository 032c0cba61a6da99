//! `wayleave publish`: writes the files by which sites recognise the crawlers, learn about them and block them.

mod sites;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::ensure;
use clap::Args;
use wayleave_clock::{TimeArgument, system_time};
use wayleave_config::Config;

use super::config_file::load_config;
use super::evidence::node_url::NodeUrl;
use super::keys::write_files;
use super::terminal::{CommandResult, incomplete, print, print_errors, unusable};
use crate::publication::{self, PublishedFile, PublishedHost};

#[derive(Debug, Args)]
#[command(
    after_help = "With --sites, a file for each host says what was requested of it, what was refused and why, and how to stop the \
                  crawlers. It is named by the SHA-256 of the host in hexadecimal, and signed with the first published key; \
                  index.html next to the files finds and checks them. They are derived from the decision log alone: that of the \
                  configuration, or with --nodes those of running proxies, asked with the token in WAYLEAVE_ADMIN_TOKEN.\n\
                  Exit status: 0 written, 2 usage error, or something cannot be read or written, 3 parts of a log are missing; \
                  the statements say which."
)]
pub(super) struct PublishArguments {
    /// Write the files about the crawlers below this folder, for a web server to publish; if agents have several hosts, below a
    /// folder for each
    #[arg(long, value_name = "DIR", required_unless_present = "sites")]
    out: Option<PathBuf>,
    /// Write a signed statement for each host that was requested, and a page that checks them, to this folder
    #[arg(long, value_name = "DIR")]
    sites: Option<PathBuf>,
    /// Start of the statements, from the beginning of its day in UTC: 30d, 2026-11-22 [default: the whole log]
    #[arg(long, value_name = "SPAN", requires = "sites")]
    since: Option<TimeArgument>,
    /// Derive the statements from the logs of running proxies, by their admin listeners, instead of the log of the configuration
    #[arg(long, value_name = "URL,...", value_delimiter = ',', requires = "since")]
    nodes: Vec<NodeUrl>,
}

pub(super) fn run(arguments: &PublishArguments, file: Option<&Path>) -> CommandResult {
    let (config, _) = load_config(file)?;
    let written = match &arguments.out {
        Some(out) => write_publication(&config, out)?,
        None => ExitCode::SUCCESS,
    };
    let Some(dir) = &arguments.sites else {
        return Ok(written);
    };
    let now = system_time();
    let since = arguments.since.map(|since| since.start(now));
    match sites::publish(&config, dir, since, &arguments.nodes, now) {
        Ok(missing) if missing.is_empty() => Ok(written),
        Ok(missing) => Err(incomplete(&missing)),
        Err(error) => Err(unusable(&format!("{error:#}"))),
    }
}

fn write_publication(config: &Config, out: &Path) -> CommandResult {
    let publication =
        Publication::of(config, system_time()).map_err(|error| unusable(&format!("{error:#}")))?;
    for warning in &publication.warnings {
        print_errors(&format!("wayleave: warning: {warning}\n"));
    }
    match write_files(out, &publication.files) {
        Ok(text) => Ok(print(&text)),
        Err(error) => Err(unusable(&format!("{error:#}"))),
    }
}

/// The files about the crawlers of a configuration.
struct Publication {
    files: Vec<PublishedFile>,
    /// The gaps in the files, because of what the configuration lacks.
    warnings: Vec<String>,
}

impl Publication {
    /// Describes the crawlers of a configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no crawler, or if two files need one path.
    fn of(config: &Config, now: SystemTime) -> anyhow::Result<Self> {
        let crawlers = &config.crawlers.crawlers;
        ensure!(!crawlers.is_empty(), "there is no [[crawler]] to publish anything about");
        let mut warnings = publication::warnings(config);
        let hosts = PublishedHost::all(config);
        if let Some(agent) = config.signing.agents.iter().find(|agent| agent.keys.is_empty()) {
            warnings.push(format!(
                "no keys and no cards are written for {}: there are no keys: `wayleave keys new NAME` creates one",
                agent.url()
            ));
        }
        if hosts.iter().any(|host| host.authority().is_none()) {
            warnings.push(
                "no keys and no cards are written for crawlers without an agent: signing.agent is not set, so nobody could verify \
                 the keys"
                    .to_owned(),
            );
        }
        let files = publication::files_of(&hosts, |host| host.files(now))?;
        Ok(Self { files, warnings })
    }
}

/// Writes what is published about a configuration below `dir`, for tests of those who read it.
#[cfg(test)]
pub(super) fn write(config: &Config, dir: &Path) -> anyhow::Result<()> {
    write_files(dir, &Publication::of(config, system_time())?.files).map(drop)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::{Duration, UNIX_EPOCH};

    use crate::publication::RANGES_PATH;
    use serde_json::{Value, json};
    use wayleave_signing::SigningKey;
    use wayleave_signing::directory::DIRECTORY_PATH;

    use super::*;

    const CONFIG: &str = r#"
        robots.user_agent = "wayleave (+https://bot.test)"
        upstream.source_addresses = ["127.0.0.1", "127.0.0.9"]
        politeness.min_delay = "2s"
        signing = { mode = "always", agent = "https://bot.test" }
        [[crawler]]
        name = "news"
        tokens = ["NewsBot", "OldBot"]
        match = { user_agent = "NewsBot" }
        owner = "news & <press> news@bot.test"
        trigger = "fetcher"
        user_agent = "NewsBot/1.0 (+https://bot.test/about; news@bot.test)"
        user_agent_must_contain_token = true
        source_address = "127.0.0.7"
        min_delay = "20s"
        purposes = ["search", "train-ai"]
        signing_key = "KEY"
        [[crawler]]
        name = "images"
        tokens = ["ImageBot"]
        match = { user_agent = "ImageBot" }
        mode = "observe"
    "#;
    const CARD: &str = "/.well-known/signature-agent-card/news";

    /// Returns what is published by the configuration after `change`, and the thumbprint and the public part of its key.
    fn publish(change: impl FnOnce(String) -> String) -> (Published, String, String) {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("news.pem");
        SigningKey::create(&key).unwrap();
        let text = change(CONFIG.replace("KEY", key.to_str().unwrap()));
        let config = Config::from_toml("t.toml", &text).unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let Publication { files, warnings } = Publication::of(&config, now).unwrap();
        let key = config.signing.keys().next().unwrap();
        let published = Published { files: files.into_iter().collect(), warnings };
        (published, key.thumbprint().to_owned(), key.public_base64())
    }

    struct Published {
        files: BTreeMap<String, String>,
        warnings: Vec<String>,
    }

    impl Published {
        fn json(&self, path: &str) -> Value {
            serde_json::from_str(&self.files[path]).unwrap()
        }

        #[track_caller]
        fn expect_warning(&self, part: &str) {
            assert!(
                self.warnings.iter().any(|it| it.contains(part)),
                "{part}: {:?}",
                self.warnings
            );
        }
    }

    #[test]
    fn every_file_is_written() {
        let (published, ..) = publish(|text| text);
        let paths: Vec<_> = published.files.keys().map(String::as_str).collect();
        assert_eq!(
            paths,
            [
                "/.well-known/http-message-signatures-directory",
                "/.well-known/http-message-signatures-directory.headers",
                CARD,
                "/crawlers/images.html",
                "/crawlers/news.html",
                "/ips.json",
            ]
        );
        let headers = &published.files["/.well-known/http-message-signatures-directory.headers"];
        let names: Vec<_> = headers.lines().filter_map(|it| Some(it.split_once(": ")?.0)).collect();
        assert_eq!(names, ["content-type", "content-digest", "signature-input", "signature"]);
    }

    /// The members of RFC 7517 and RFC 8037 that an Ed25519 key for signatures has.
    #[test]
    fn key_directory_has_every_member() {
        let (published, thumbprint, public) = publish(|text| text);
        let key =
            json!({ "kty": "OKP", "crv": "Ed25519", "kid": thumbprint, "x": public, "use": "sig" });
        assert_eq!(published.json(DIRECTORY_PATH), json!({ "keys": [key] }));
    }

    /// Sections 3.1 and 3.2 of draft-meunier-webbotauth-registry-04.
    #[test]
    fn card_has_every_member() {
        let (published, ..) = publish(|text| text);
        assert_eq!(
            published.json(CARD),
            json!({
                "client_id": "https://bot.test/.well-known/signature-agent-card/news",
                "client_name": "NewsBot",
                "client_uri": "https://bot.test/crawlers/news.html",
                "contacts": ["mailto:news@bot.test", "https://bot.test/about"],
                "jwks_uri": "https://bot.test/.well-known/http-message-signatures-directory",
                "web_bot_auth": {
                    "expected-user-agent": "NewsBot/1.0 (+https://bot.test/about; news@bot.test)",
                    "rfc9309-product-token": "NewsBot",
                    "rfc9309-compliance": true,
                    "trigger": "fetcher",
                    "purpose": "search, train-ai",
                    "rate-control": "Crawl-delay in robots.txt; 429 and 503 with Retry-After; RateLimit",
                    "rate-expectation": "one request to an origin every 20s",
                    "known-urls": ["/robots.txt", "/.well-known/tdmrep.json"],
                    "ips_uri": "https://bot.test/ips.json",
                },
            })
        );
    }

    #[test]
    fn card_of_an_observed_crawler_promises_nothing() {
        let (published, ..) =
            publish(|text| text.replace("trigger = \"fetcher\"", "mode = \"observe\""));
        let details = &published.json(CARD)["web_bot_auth"];
        assert_eq!(details["rfc9309-compliance"], json!(false));
        assert_eq!((details.get("rate-control"), details.get("rate-expectation")), (None, None));
        assert_eq!(details["trigger"], "crawler");
    }

    /// Section 2 of draft-illyes-webbotauth-jafar-00, and the members that earlier versions require.
    #[test]
    fn ranges_have_every_member() {
        let (published, ..) = publish(|text| text);
        let ranges = published.json(RANGES_PATH);
        let of = |range: &str, service: &str| json!({ "ipv4Prefix": range, "service": service, "services": [service] });
        assert_eq!(
            ranges,
            json!({
                "formatVersion": "1.0",
                "synctoken": ranges["synctoken"],
                "creationTime": "2027-01-15T08:00:00Z",
                "prefixes": [
                    of("127.0.0.7/32", "NewsBot"),
                    of("127.0.0.1/32", "ImageBot"),
                    of("127.0.0.9/32", "ImageBot"),
                ],
            })
        );
        assert_eq!(ranges["synctoken"].as_str().map(str::len), Some(64));
    }

    #[test]
    fn synctoken_changes_with_the_ranges_only() {
        let token = |old: &str, new: &str| {
            publish(|text| text.replace(old, new)).0.json(RANGES_PATH)["synctoken"].clone()
        };
        let before = token("20s", "20s");
        assert_eq!(token("20s", "30s"), before);
        assert_ne!(token("127.0.0.7", "127.0.0.8"), before);
        assert_ne!(token("ImageBot", "PictureBot"), before);
    }

    #[test]
    fn page_says_who_why_and_how_to_block() {
        let (published, thumbprint, _) = publish(|text| text);
        let page = &published.files["/crawlers/news.html"];
        for expected in [
            "<title>NewsBot</title>",
            "<link rel=\"client-ranges\" href=\"../ips.json\">",
            "when a person asks for it",
            "news &amp; &lt;press&gt; news@bot.test",
            "<a href=\"mailto:news@bot.test\">news@bot.test</a>",
            "search, training of generative models",
            "<code>NewsBot</code>, <code>OldBot</code>",
            "every 20s",
            "<code>content-usage</code>",
            "<code>NewsBot/1.0 (+https://bot.test/about; news@bot.test)</code>",
            "<code>127.0.0.7/32</code>",
            &thumbprint,
            "User-agent: NewsBot\nDisallow: /\n",
        ] {
            assert!(page.contains(expected), "{expected} in {page}");
        }
        let observed = &published.files["/crawlers/images.html"];
        for expected in ["does not obey robots.txt yet", "Once it obeys robots.txt"] {
            assert!(observed.contains(expected), "{observed}");
        }
        for page in [page, observed] {
            assert!(!page.contains("script") && !page.contains("src="), "{page}");
        }
    }

    #[test]
    fn missing_facts_cause_warnings() {
        let (published, ..) = publish(|text| text);
        published.expect_warning("127.0.0.7 of \"news\" is internal (loopback)");
        let agent = "mode = \"always\", agent = \"https://bot.test\"";
        let (published, ..) = publish(|text| text.replace(agent, ""));
        assert!(!published.files.contains_key(DIRECTORY_PATH));
        published.expect_warning("signing.agent is not set");
        let (published, ..) = publish(|text| text.replace("upstream.source_addresses", "#"));
        let prefixes = published.json(RANGES_PATH)["prefixes"].clone();
        assert_eq!(prefixes.as_array().map(Vec::len), Some(1));
        published.expect_warning("\"images\" has no source_address");
        let parent = "upstream.proxy = \"http://proxy.test:3128\"\n";
        let (published, ..) = publish(|text| format!("{parent}{text}"));
        assert_eq!(published.json(RANGES_PATH)["prefixes"], json!([]));
        published.expect_warning("upstream.proxy");
        assert!(Publication::of(&Config::default(), UNIX_EPOCH).is_err());
    }
}
