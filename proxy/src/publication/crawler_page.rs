//! The page about a crawler, for those who find its name in their logs: who runs it, what for, and how to block it. It is plain
//! HTML without a script, so that it can be kept and read anywhere.

use std::fmt::Write as _;

use wayleave_config::Config;
use wayleave_decision::{CrawlTrigger, Crawler, EnforcementMode};
use wayleave_notation::harmless::escape_html;
use wayleave_pacing::CrawlDelayMode;
use wayleave_robots_cache::fetch_user_agent;
use wayleave_signing::SigningMode;
use wayleave_usage_preferences::{PreferenceSource, Purpose};

use super::agent_card::crawler_contacts;
use super::ip_ranges;

/// Returns the page about a crawler.
pub(super) fn page(config: &Config, crawler: &Crawler) -> String {
    let token = escape_html(crawler.tokens[0].as_str());
    let mut facts = operator_facts(config, crawler);
    facts.extend(rule_facts(config, crawler));
    facts.extend(recognition_facts(config, crawler));
    let mut list = String::new();
    for (term, description) in facts {
        writeln!(list, "<dt>{term}</dt>\n<dd>{description}</dd>")
            .expect("writing to a String cannot fail");
    }
    format!(
        "<!doctype html>\n\
         <html lang=\"en\">\n\
         <head>\n\
         <meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{token}</title>\n\
         <link rel=\"client-ranges\" href=\"../ips.json\">\n\
         <style>body {{ font: 1rem/1.5 sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem; \
         overflow-wrap: anywhere }} dt {{ font-weight: bold }}</style>\n\
         </head>\n\
         <body>\n\
         <main>\n\
         <h1>{token}</h1>\n\
         <p>{}</p>\n\
         <dl>\n{list}</dl>\n\
         <h2>How to block it</h2>\n\
         <p>{}</p>\n\
         <pre>User-agent: {token}\nDisallow: /\n</pre>\n\
         <p>To block a part, write a path such as <code>/private/</code> instead of <code>/</code>. The file is read \
         as <a href=\"https://www.rfc-editor.org/rfc/rfc9309\">RFC 9309</a> says{}, and a copy of it is used for at \
         most a day.</p>\n\
         </main>\n\
         </body>\n\
         </html>\n",
        summary(crawler),
        match crawler.mode {
            EnforcementMode::Enforce => "Put these lines into the robots.txt of your site:",
            EnforcementMode::Observe => "Once it obeys robots.txt, these lines will block it:",
        },
        match crawler.dialect.as_str() {
            "rfc9309" => String::new(),
            other => format!(", in the dialect \u{201c}{other}\u{201d}"),
        },
    )
}

fn summary(crawler: &Crawler) -> &'static str {
    match crawler.trigger {
        CrawlTrigger::Crawler => "A crawler: a program that fetches pages by itself.",
        CrawlTrigger::Fetcher => "A program that fetches a page when a person asks for it.",
    }
}

/// Returns the operator and the purposes of the crawler: terms, and their descriptions as HTML.
fn operator_facts(config: &Config, crawler: &Crawler) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(owner) = &crawler.owner {
        facts.push(("Operated by", escape_html(owner)));
    }
    let found = crawler_contacts(crawler, &config.robots.fetch.user_agent);
    if !found.is_empty() {
        let links: Vec<_> = found.iter().map(|uri| link(uri)).collect();
        facts.push(("Contact", links.join(", ")));
    }
    let purposes: Vec<_> = crawler.declaration.purposes.iter().map(purpose_in_words).collect();
    if !purposes.is_empty() {
        facts.push(("What the pages are used for", purposes.join(", ")));
    }
    facts
}

fn purpose_in_words(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Search => "search",
        Purpose::AiInput => "input to generative models while they are used",
        Purpose::TrainAi => "training of generative models",
        Purpose::Archive => "an archive",
        Purpose::Tdm => "text and data mining",
        Purpose::Other => "other uses",
    }
}

/// Returns the rules that the crawler obeys. What is only observed is not called obeyed.
fn rule_facts(config: &Config, crawler: &Crawler) -> Vec<(&'static str, String)> {
    if crawler.mode == EnforcementMode::Observe {
        let text = "The crawler is being tried out and does not obey robots.txt yet.";
        return vec![("robots.txt", text.to_owned())];
    }
    if let Some(pinned) = config.robots.pinned.first() {
        let text = format!("A file of our own counts instead at {}, for a trial.", pinned.origin);
        return vec![("robots.txt", text)];
    }
    let names: Vec<_> = crawler.tokens.iter().map(|token| code(token.as_str())).collect();
    let mut facts = vec![(
        "robots.txt",
        format!(
            "It is obeyed. The first of these names that has a group counts: {}.",
            names.join(", ")
        ),
    )];
    let mut pace = Vec::new();
    if config.politeness.crawl_delay != CrawlDelayMode::Ignore {
        pace.push(
            "A Crawl-delay in robots.txt is kept, and the crawler pauses after 429 and 503."
                .to_owned(),
        );
    }
    let floor = config.politeness.min_delay.max(crawler.min_delay);
    let delay = config.politeness.delay(crawler.default_delay, crawler.min_delay);
    if !floor.is_zero() {
        let floor = humantime::format_duration(floor);
        pace.push(format!("It never sends a site more than one request every {floor}."));
    }
    if delay > floor {
        let delay = humantime::format_duration(delay);
        pace.push(format!("A site that asks for no delay gets one request every {delay}."));
    }
    if !pace.is_empty() {
        facts.push(("Pace", pace.join(" ")));
    }
    let sources = config.preferences.reading.sources;
    let is_read = |source: &PreferenceSource| {
        sources.contains(*source) && crawler.declaration.could_be_refused_by(*source)
    };
    let read = PreferenceSource::OPTIONAL.into_iter().filter(is_read);
    let names: Vec<_> = read.map(|source| code(source.as_str())).collect();
    if !names.is_empty() {
        let text = format!("What a site says about these uses is obeyed: {}.", names.join(", "));
        facts.push(("Statements about use", text));
    }
    facts
}

/// Returns the marks by which a site can recognise the crawler's requests.
fn recognition_facts(config: &Config, crawler: &Crawler) -> Vec<(&'static str, String)> {
    let agent = fetch_user_agent(crawler, &config.robots.fetch.user_agent);
    let mut text = format!("Requests for robots.txt have {}.", code(&agent));
    if crawler.user_agent_must_contain_token {
        let names: Vec<_> = crawler.tokens.iter().map(|token| code(token.as_str())).collect();
        write!(text, " All requests have {}.", names.join(" or "))
            .expect("writing to a String cannot fail");
    }
    let mut facts = vec![("User-Agent", text)];
    let addresses: Vec<_> = ip_ranges::addresses(config, crawler)
        .iter()
        .map(|address| code(&ip_ranges::range(*address)))
        .collect();
    if !addresses.is_empty() {
        let list = addresses.join(", ");
        facts.push(("Addresses", format!("{list} (<a href=\"../ips.json\">as JSON</a>)")));
    }
    if let (Some(key), Some(agent)) = (&crawler.signing_key, config.signing.agent_of(crawler))
        && config.signing.options.mode != SigningMode::Off
    {
        let directory = link(&agent.key_set_url());
        facts.push((
            "Signatures",
            format!(
                "HTTP message signatures (Web Bot Auth) with the key {}, published at {directory}.",
                code(key)
            ),
        ));
    }
    facts
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", escape_html(text))
}

/// Returns a link to a URI, which shows a mail address as such.
fn link(uri: &str) -> String {
    let text = uri.strip_prefix("mailto:").unwrap_or(uri);
    format!("<a href=\"{}\">{}</a>", escape_html(uri), escape_html(text))
}
