//! The files that tell sites about the crawlers: keys, cards, pages and address ranges, by the host that publishes them. `wayleave
//! publish` writes them to files, and the admin listener serves them.

mod agent_card;
mod crawler_page;
mod ip_ranges;
mod mixed_names;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::ensure;
use serde_json::Value;
use wayleave_config::Config;
use wayleave_decision::Crawler;
use wayleave_signing::SigningAgent;
use wayleave_signing::directory;

use self::agent_card::CardSubject;
pub(crate) use self::agent_card::{
    CARD_PATH, PAGE_PATH, RANGES_PATH, crawler_contacts, obeys_robots_txt,
};
pub(crate) use self::ip_ranges::{addresses, warnings};
pub(crate) use self::mixed_names::mixed_names;

/// A file to publish: its path from the host's root, and its content.
pub(crate) type PublishedFile = (String, String);

/// A host, and what it publishes about the crawlers of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct PublishedHost<'c> {
    config: &'c Config,
    /// The agents whose URLs have this host. Empty: its crawlers have no agent, so nothing says which host it is.
    agents: Vec<&'c Arc<SigningAgent>>,
}

impl<'c> PublishedHost<'c> {
    /// Returns the hosts of a configuration: that of `[signing] agent` first, and last the nameless one of crawlers without an agent.
    pub(crate) fn all(config: &'c Config) -> Vec<Self> {
        let mut hosts: Vec<Self> = Vec::new();
        for agent in &config.signing.agents {
            match hosts.iter_mut().find(|host| host.authority() == Some(agent.authority())) {
                Some(host) => host.agents.push(agent),
                None => hosts.push(Self { config, agents: vec![agent] }),
            }
        }
        let is_homeless = |crawler: &Crawler| config.signing.agent_of(crawler).is_none();
        if config.crawlers.crawlers.iter().any(is_homeless) {
            hosts.push(Self { config, agents: Vec::new() });
        }
        hosts
    }

    /// Returns the host with this name.
    pub(crate) fn named(config: &'c Config, authority: &str) -> Option<Self> {
        let is_named =
            |host: &Self| host.authority().is_some_and(|own| own.eq_ignore_ascii_case(authority));
        Self::all(config).into_iter().find(is_named)
    }

    /// Returns the host's name, with its port if that is not the default.
    pub(crate) fn authority(&self) -> Option<&'c str> {
        self.agents.first().map(|agent| agent.authority())
    }

    /// Returns the folder below which `wayleave publish` writes the files: none if all crawlers are at one host.
    pub(crate) fn folder(&self) -> &'c str {
        let agents = &self.config.signing.agents;
        let has_everything = agents.iter().all(|agent| Some(agent.authority()) == self.authority());
        if has_everything { "" } else { self.authority().unwrap_or_default() }
    }

    /// Returns the crawlers whose cards and pages are at this host.
    pub(crate) fn crawlers(&self) -> impl Iterator<Item = &'c Crawler> {
        let is_here = |crawler: &&Crawler| {
            let agent = self.config.signing.agent_of(crawler).map(|agent| agent.authority());
            agent == self.authority()
        };
        self.config.crawlers.crawlers.iter().filter(is_here)
    }

    /// Returns the agent whose JWK Set is at `path`.
    pub(crate) fn agent_at(&self, path: &str) -> Option<&'c Arc<SigningAgent>> {
        self.agents.iter().copied().find(|agent| agent.key_set_path() == path)
    }

    /// Returns the card of a crawler that signs for an agent here.
    pub(crate) fn card(&self, crawler: &str) -> Option<String> {
        let mut crawlers = self.crawlers().filter(|crawler| crawler.signing_key.is_some());
        let crawler = crawlers.find(|known| known.name == crawler)?;
        let subject = CardSubject {
            agent: self.config.signing.agent_of(crawler)?,
            crawler,
            pacing: &self.config.politeness,
            sources: self.config.preferences.reading.sources,
            config: self.config,
            proxy_user_agent: &self.config.robots.fetch.user_agent,
        };
        Some(subject.card())
    }

    /// Returns the page about a crawler.
    pub(crate) fn page(&self, crawler: &str) -> Option<String> {
        let crawler = self.crawlers().find(|known| known.name == crawler)?;
        Some(crawler_page::page(self.config, crawler))
    }

    /// Returns the address ranges of the crawlers.
    pub(crate) fn ranges(&self, now: SystemTime) -> String {
        ip_ranges::file(self.config, self.crawlers(), now)
    }

    /// Returns whether a published file has the address ranges of the crawlers.
    pub(crate) fn agrees_with_ranges(&self, file: &Value) -> bool {
        ip_ranges::agrees(file, self.config, self.crawlers())
    }

    /// Returns the agents that publish keys.
    pub(crate) fn agents_with_keys(&self) -> impl Iterator<Item = &'c Arc<SigningAgent>> {
        self.agents.iter().copied().filter(|agent| !agent.keys.is_empty())
    }

    /// Returns the files that verifiers of signatures read: JWK Sets, each with the fields that sign it, and cards. The signatures
    /// expire after two days: operators who do not write the files again in time should leave out the fields that hold them.
    pub(crate) fn signature_files(&self, now: SystemTime) -> Vec<PublishedFile> {
        let mut files = Vec::new();
        for agent in self.agents_with_keys() {
            let path = agent.key_set_path();
            let body = directory::body(&agent.keys);
            let mut fields = format!("content-type: {}\n", directory::media_type(agent));
            for (name, value) in directory::signature_fields(agent, &body, now) {
                writeln!(fields, "{name}: {value}").expect("writing to a String cannot fail");
            }
            files.push((path.to_owned(), body));
            // The server has to send these fields with the directory, whose signatures they are.
            files.push((format!("{path}.headers"), fields));
        }
        let cards = self.crawlers().filter_map(|crawler| {
            Some((format!("{CARD_PATH}/{}", crawler.name), self.card(&crawler.name)?))
        });
        files.extend(cards);
        files
    }

    /// Returns all files.
    pub(crate) fn files(&self, now: SystemTime) -> Vec<PublishedFile> {
        let mut files = self.signature_files(now);
        files.push((RANGES_PATH.to_owned(), self.ranges(now)));
        let page = |it: &Crawler| (page_path(&it.name), crawler_page::page(self.config, it));
        files.extend(self.crawlers().map(page));
        files
    }
}

/// Returns the files of all hosts, each below its host's folder.
///
/// # Errors
///
/// Returns an error if two files need one path, or one file a folder where another file is.
pub(crate) fn files_of<'c>(
    hosts: &[PublishedHost<'c>],
    files: impl Fn(&PublishedHost<'c>) -> Vec<PublishedFile>,
) -> anyhow::Result<Vec<PublishedFile>> {
    let mut all: Vec<PublishedFile> = Vec::new();
    for host in hosts {
        let folder = host.folder();
        let in_folder =
            |path: String| if folder.is_empty() { path } else { format!("/{folder}{path}") };
        all.extend(files(host).into_iter().map(|(path, content)| (in_folder(path), content)));
    }
    let mut paths: Vec<_> = all.iter().map(|(path, _)| format!("{path}/")).collect();
    paths.sort();
    for pair in paths.windows(2) {
        ensure!(
            !pair[1].starts_with(&pair[0]),
            "{} and {} cannot be files of one server: give an agent another path",
            pair[0].trim_end_matches('/'),
            pair[1].trim_end_matches('/')
        );
    }
    Ok(all)
}

/// Returns the path of a crawler's page.
pub(crate) fn page_path(name: &str) -> String {
    format!("{PAGE_PATH}/{name}.html")
}

/// Returns the paths at which the agents' JWK Sets are.
pub(crate) fn key_set_paths(config: &Config) -> Vec<String> {
    config.signing.agents.iter().map(|agent| agent.key_set_path().to_owned()).collect()
}
