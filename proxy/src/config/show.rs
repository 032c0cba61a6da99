//! Writes a configuration as TOML, for `wayleave config check` and the admin page.

use std::fmt::{self, Display};
use std::path::{Path, absolute};
use std::time::Duration;

use bytesize::ByteSize;

use super::sections::{Config, Log, Robots, State};
use crate::identity::Crawler;
use crate::observe::digest::Digest;
use crate::observe::logging::Format;
use crate::observe::traces;
use crate::politeness;
use crate::rules::{Action, Rule};

/// Every key that this version acts on, with paths made absolute; reading it back gives the same configuration.
impl Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            proxy,
            admin,
            https,
            upstream,
            dns,
            robots,
            state,
            crawlers,
            rules,
            politeness,
            log,
            traces,
        } = self;
        writeln!(f, "[proxy]")?;
        writeln!(f, "listen = {}", list(&proxy.listen))?;
        writeln!(f, "header_timeout = {}", time(proxy.header_timeout))?;
        writeln!(f, "idle_timeout = {}", time(proxy.idle_timeout))?;
        writeln!(f, "shutdown_grace = {}", time(proxy.shutdown_grace))?;
        writeln!(f, "max_connections = {}", proxy.max_connections)?;
        let per_client = proxy.max_connections_per_client;
        writeln!(f, "max_connections_per_client = {per_client}")?;
        writeln!(f, "name = {}", text(&proxy.name))?;
        writeln!(f, "require_crawler = {}", crawlers.require_crawler)?;
        writeln!(f, "mode = {}", text(crawlers.mode.as_str()))?;
        writeln!(f, "\n[admin]")?;
        writeln!(f, "listen = {}", text(admin.listen))?;
        let token = admin.token_sha256.map(|digest| text(Digest(digest)));
        writeln!(f, "token_sha256 = {}", token.unwrap_or_else(|| text("")))?;
        writeln!(f, "\n[https]")?;
        writeln!(f, "mode = {}", text(https.way.mode.as_str()))?;
        writeln!(f, "ca_dir = {}", path(&https.ca_dir))?;
        writeln!(f, "bypass = {}", list(&https.way.bypass))?;
        writeln!(f, "\n[upstream]")?;
        writeln!(f, "allow_private = {}", list(&upstream.allow_private))?;
        let extra_roots: Vec<_> = upstream
            .extra_roots
            .iter()
            .map(|file| path(&file.path))
            .collect();
        writeln!(f, "extra_roots = [{}]", extra_roots.join(", "))?;
        writeln!(f, "connect_timeout = {}", time(upstream.connect_timeout))?;
        writeln!(f, "response_timeout = {}", time(upstream.response_timeout))?;
        writeln!(f, "idle_connections = {}", upstream.idle_connections)?;
        writeln!(f, "\n[dns]")?;
        writeln!(f, "servers = {}", list(&dns.servers))?;
        writeln!(f, "\n[dns.overrides]")?;
        for entry in &dns.overrides {
            writeln!(f, "{} = {}", text(entry.key()), text(entry.value()))?;
        }
        show_robots(f, robots)?;
        show_state(f, state)?;
        crawlers
            .crawlers
            .iter()
            .try_for_each(|crawler| show_crawler(f, crawler))?;
        rules.iter().try_for_each(|rule| show_rule(f, rule))?;
        show_politeness(f, politeness)?;
        show_log(f, log)?;
        show_traces(f, traces)
    }
}

impl Config {
    /// The same for everyone to see: hashes of passwords and tokens are left out.
    pub(crate) fn without_secrets(&self) -> String {
        let text = self.to_string();
        let lines = text.lines().map(|line| match line.split_once(" = ") {
            Some((key @ ("password_hash" | "token_sha256"), value)) if value != "\"\"" => {
                format!("{key} = \"(not shown)\"\n")
            }
            _ => format!("{line}\n"),
        });
        lines.collect()
    }
}

fn show_robots(f: &mut fmt::Formatter<'_>, robots: &Robots) -> fmt::Result {
    writeln!(f, "\n[robots]")?;
    writeln!(f, "dialect = {}", text(robots.dialect))?;
    writeln!(f, "user_agent = {}", text(&robots.user_agent))?;
    writeln!(f, "fetch_timeout = {}", time(robots.fetch_timeout))?;
    writeln!(f, "max_redirects = {}", robots.max_redirects)?;
    writeln!(f, "max_size = {}", size(robots.max_size as u64))?;
    writeln!(f, "max_age = {}", time(robots.max_age))?;
    writeln!(f, "max_stale = {}", time(robots.max_stale))?;
    writeln!(f, "error_ttl = {}", time(robots.error_ttl))?;
    writeln!(f, "memory = {}", size(robots.memory as u64))
}

fn show_state(f: &mut fmt::Formatter<'_>, state: &State) -> fmt::Result {
    writeln!(f, "\n[state]\ndir = {}", path(&state.dir))?;
    writeln!(f, "max_size = {}", size(state.max_size))
}

fn show_crawler(f: &mut fmt::Formatter<'_>, crawler: &Crawler) -> fmt::Result {
    writeln!(f, "\n[[crawler]]")?;
    writeln!(f, "name = {}", text(&crawler.name))?;
    writeln!(f, "tokens = {}", list(&crawler.tokens))?;
    writeln!(f, "dialect = {}", text(crawler.dialect))?;
    writeln!(f, "mode = {}", text(crawler.mode.as_str()))?;
    let must_contain_token = crawler.user_agent_must_contain_token;
    writeln!(f, "user_agent_must_contain_token = {must_contain_token}")?;
    if let Some(user_agent) = &crawler.robots_user_agent {
        writeln!(f, "user_agent = {}", text(user_agent))?;
    }
    if let Some(delay) = crawler.default_delay {
        writeln!(f, "default_delay = {}", time(delay))?;
    }
    if let Some(account) = &crawler.username {
        writeln!(f, "password_hash = {}", text(&account.password_hash))?;
    }
    let mut conditions = Vec::new();
    if let Some(account) = &crawler.username {
        conditions.push(format!("username = {}", text(&account.username)));
    }
    if let Some(user_agent) = &crawler.user_agent {
        conditions.push(format!("user_agent = {}", text(user_agent)));
    }
    if !crawler.addresses.is_empty() {
        conditions.push(format!("addresses = {}", list(&crawler.addresses)));
    }
    writeln!(f, "match = {{ {} }}", conditions.join(", "))
}

fn show_rule(f: &mut fmt::Formatter<'_>, rule: &Rule) -> fmt::Result {
    let action = rule.action.as_str();
    writeln!(f, "\n[[rule]]\naction = \"{action}\"")?;
    if rule.action == Action::RefuseLegally {
        writeln!(f, "legal = true")?;
    }
    writeln!(f, "hosts = {}", list(&rule.hosts))?;
    let lists = [
        ("paths", &rule.paths),
        ("crawlers", &rule.crawlers),
        ("methods", &rule.methods),
    ];
    for (key, items) in lists {
        if !items.is_empty() {
            writeln!(f, "{key} = {}", list(items))?;
        }
    }
    for (key, value) in [("owner", &rule.owner), ("reason", &rule.reason)] {
        if let Some(value) = value {
            writeln!(f, "{key} = {}", text(value))?;
        }
    }
    if let Some(expires_at) = rule.expires_at {
        let date = humantime::format_rfc3339_seconds(expires_at).to_string();
        writeln!(f, "expires = {}", text(&date[..10]))?;
    }
    Ok(())
}

fn show_politeness(f: &mut fmt::Formatter<'_>, politeness: &politeness::Options) -> fmt::Result {
    writeln!(f, "\n[politeness]")?;
    writeln!(f, "crawl_delay = {}", text(politeness.crawl_delay.as_str()))?;
    writeln!(f, "max_wait = {}", time(politeness.max_wait))?;
    writeln!(f, "default_delay = {}", time(politeness.default_delay))?;
    writeln!(f, "max_delay = {}", time(politeness.max_delay))?;
    let concurrent = politeness.max_concurrent_per_origin;
    writeln!(f, "max_concurrent_per_origin = {concurrent}")
}

fn show_log(f: &mut fmt::Formatter<'_>, log: &Log) -> fmt::Result {
    let format = match log.format {
        Format::Text => "text",
        Format::Json => "json",
    };
    writeln!(f, "\n[log]\nformat = \"{format}\"")?;
    let decisions = log.decisions.as_deref().map_or(text(""), path);
    writeln!(f, "decisions = {decisions}")?;
    writeln!(f, "decisions_max_size = {}", size(log.decisions_max_size))?;
    writeln!(f, "decisions_max_age = {}", time(log.decisions_max_age))?;
    writeln!(f, "decisions_keep = {}", time(log.decisions_keep))
}

fn show_traces(f: &mut fmt::Formatter<'_>, traces: &traces::Options) -> fmt::Result {
    let endpoint = traces.otlp_endpoint.as_ref().map_or(text(""), text);
    writeln!(f, "\n[traces]\notlp_endpoint = {endpoint}")?;
    writeln!(f, "sample_ratio = {:?}", traces.sample_ratio)
}

fn text(value: impl Display) -> String {
    toml::Value::String(value.to_string()).to_string()
}

fn list(values: &[impl Display]) -> String {
    let items: Vec<_> = values.iter().map(text).collect();
    format!("[{}]", items.join(", "))
}

fn time(value: Duration) -> String {
    text(humantime::format_duration(value))
}

/// In the largest unit that keeps the number whole, since a rounded one would not be what is used.
fn size(bytes: u64) -> String {
    let units = [(ByteSize::mib(1), "MiB"), (ByteSize::kib(1), "KiB")];
    let unit = units
        .iter()
        .find(|(unit, _)| bytes.is_multiple_of(unit.as_u64()));
    match unit {
        Some((unit, name)) => text(format!("{}{name}", bytes / unit.as_u64())),
        None => text(format!("{bytes}B")),
    }
}

/// Absolute where the working directory can be known.
fn path(path: &Path) -> String {
    let absolute = absolute(path);
    text(absolute.as_deref().unwrap_or(path).display())
}
