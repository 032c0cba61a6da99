//! Names with purposes that networks judge apart: a crawler, or an agent of several. A site that blocks one of the classes then
//! blocks everything under that name.

use wayleave_config::{Config, KEYS_DIR};
use wayleave_decision::Crawler;
use wayleave_signing::{KeyDiscovery, SigningAgent};
use wayleave_usage_preferences::{Purpose, PurposeClass, PurposeSet};

/// A name that stands for several classes of purposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MixedName {
    /// The number of the `[[crawler]]`, from 1; of an agent, that of its first crawler.
    pub(crate) number: usize,
    /// The key that mixes them, of that crawler: `purposes` or `agent`.
    pub(crate) key: &'static str,
    /// A sentence, without a full stop.
    pub(crate) text: String,
    /// The lines to write instead, as TOML.
    pub(crate) split: String,
}

/// Returns every such name: crawlers first.
pub(crate) fn mixed_names(config: &Config) -> Vec<MixedName> {
    let crawlers = || config.crawlers.crawlers.iter().zip(1..);
    let of_crawlers =
        crawlers().filter_map(|(crawler, number)| mixed_crawler(config, crawler, number));
    let mut found: Vec<_> = of_crawlers.collect();
    for agent in &config.signing.agents {
        let signs = |crawler: &Crawler| {
            crawler.signing_key.is_some() && crawler.agent.as_deref() == Some(agent.url())
        };
        // A crawler that mixes them itself has been found already.
        let is_mixed = |crawler: &Crawler| crawler.declaration.purposes.classes().len() > 1;
        let own = crawlers().filter(|(crawler, _)| signs(crawler) && !is_mixed(crawler));
        found.extend(mixed_agent(agent, &own.collect::<Vec<_>>()));
    }
    found
}

fn mixed_crawler(config: &Config, crawler: &Crawler, number: usize) -> Option<MixedName> {
    let classes = crawler.declaration.purposes.classes();
    if classes.len() < 2 {
        return None;
    }
    let strictest = classes.last()?;
    let agent = config.signing.agent_of(crawler);
    let mut split =
        format!("# each with the other keys of {:?}{}\n", crawler.name, other_matches(crawler));
    // Groups of robots.txt for the old name still count.
    let old_tokens: String =
        crawler.tokens.iter().map(|token| format!(", {:?}", token.as_str())).collect();
    for class in &classes {
        let suffix = suffix(*class);
        let name = format!("{}-{suffix}", crawler.name);
        let token = format!("{}-{}", crawler.tokens[0], class.as_str());
        // Purposes without a class stay with the strictest one.
        let is_own = |purpose: &Purpose| purpose.class().unwrap_or(*strictest) == *class;
        let purposes: PurposeSet = crawler.declaration.purposes.iter().filter(is_own).collect();
        split += &format!(
            "[[crawler]]\nname = {name:?}\ntokens = [{token:?}{old_tokens}]\nmatch = {{ user_agent = {token:?} }}\n\
             purposes = [{}]\n",
            purposes
                .iter()
                .map(|purpose| format!("{:?}", purpose.as_str()))
                .collect::<Vec<_>>()
                .join(", ")
        );
        if let Some(agent) = agent {
            split += &agent_lines(agent, suffix, &name);
        }
    }
    Some(MixedName {
        number,
        key: "purposes",
        text: format!(
            "{:?} is judged as {}: {CONSEQUENCE}; write one [[crawler]] for each class, and let its client send the new token in \
             User-Agent",
            crawler.name,
            in_words(&classes)
        ),
        split,
    })
}

/// Returns a phrase about the other facts by which the crawler is recognised, and which its parts should keep.
fn other_matches(crawler: &Crawler) -> String {
    let facts = [
        (!crawler.addresses.is_empty(), "addresses"),
        (crawler.certificate.is_some(), "certificate"),
        (crawler.account.is_some(), "username"),
    ];
    let kept: Vec<_> = facts.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    if kept.is_empty() { String::new() } else { format!(", in match: {}", kept.join(", ")) }
}

const CONSEQUENCE: &str = "a site that blocks one of these blocks everything under that name";

fn mixed_agent(agent: &SigningAgent, crawlers: &[(&Crawler, usize)]) -> Option<MixedName> {
    let purposes = crawlers.iter().map(|(crawler, _)| crawler.declaration.purposes);
    let classes = purposes.fold(PurposeSet::NONE, PurposeSet::union).classes();
    if classes.len() < 2 {
        return None;
    }
    let mut split = String::new();
    for (crawler, _) in crawlers {
        if let [class] = crawler.declaration.purposes.classes()[..] {
            let lines = agent_lines(agent, suffix(class), &crawler.name);
            split += &format!("# in [[crawler]] {:?}\n{lines}", crawler.name);
        }
    }
    let names: Vec<_> = crawlers.iter().map(|(it, _)| format!("{:?}", it.name)).collect();
    Some(MixedName {
        number: crawlers.first()?.1,
        key: "agent",
        text: format!(
            "{} is the agent of {}, so it is judged as {}: {CONSEQUENCE}; give each class an agent",
            agent.url(),
            names.join(", "),
            in_words(&classes)
        ),
        split,
    })
}

/// Returns the lines of a `[[crawler]]` that signs for an agent of its own.
fn agent_lines(agent: &SigningAgent, suffix: &str, crawler: &str) -> String {
    let url = match agent.discovery() {
        KeyDiscovery::Origin => format!("https://{suffix}.{}", agent.authority()),
        KeyDiscovery::Uri if agent.url() == agent.origin() => format!("{}/{suffix}", agent.url()),
        KeyDiscovery::Uri => format!("{}-{suffix}", agent.url()),
    };
    let folder = url.trim_start_matches("https://");
    format!(
        "agent = {url:?}\nsigning_key = \"{KEYS_DIR}/{folder}/{crawler}.pem\"  # wayleave keys new {crawler} --agent {url}\n"
    )
}

fn suffix(class: PurposeClass) -> &'static str {
    match class {
        PurposeClass::Search => "search",
        PurposeClass::Agent => "agent",
        PurposeClass::Training => "training",
    }
}

fn in_words(classes: &[PurposeClass]) -> String {
    let names: Vec<_> = classes.iter().map(|class| class.as_str()).collect();
    names.join(" and as ")
}

#[cfg(test)]
mod tests {
    use wayleave_signing::SigningKey;

    use super::*;

    fn crawler(name: &str, token: &str, purposes: &str) -> String {
        format!(
            "[[crawler]]\nname = {name:?}\ntokens = [{token:?}]\nmatch = {{ user_agent = {token:?} }}\n\
             purposes = {purposes}\n"
        )
    }

    fn found(text: &str) -> Vec<MixedName> {
        mixed_names(
            &Config::from_toml("t.toml", text)
                .unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{text}")),
        )
    }

    #[test]
    fn only_purposes_of_several_classes_are_mixed() {
        for (purposes, classes) in [
            (r#"["search"]"#, None),
            (r#"["train-ai", "tdm", "archive", "other"]"#, None),
            (r#"["search", "train-ai"]"#, Some("as Search and as Training:")),
            (r#"["ai-input", "search"]"#, Some("as Search and as Agent:")),
            (
                r#"["train-ai", "ai-input", "search"]"#,
                Some("as Search and as Agent and as Training:"),
            ),
        ] {
            let found = found(&crawler("news", "NewsBot", purposes));
            assert_eq!(found.len(), usize::from(classes.is_some()), "{purposes}");
            if let (Some(classes), [name]) = (classes, &found[..]) {
                assert!(name.text.contains(classes), "{}", name.text);
            }
        }
    }

    #[test]
    fn parts_of_a_name_keep_the_proofs_of_the_whole() {
        let mixed = crawler("news", "NewsBot", r#"["search", "train-ai"]"#);
        let mixed = mixed.replace(" }", ", addresses = [\"192.0.2.0/24\"] }");
        let [name] = &found(&mixed)[..] else { panic!("{mixed}") };
        let first = "# each with the other keys of \"news\", in match: addresses\n";
        assert!(name.split.starts_with(first), "{}", name.split);
    }

    /// An agent of a crawler that mixes classes is judged by its other crawlers, too.
    #[test]
    fn an_agent_is_mixed_by_crawlers_that_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut text = "[signing]\nagent = \"https://bot.test\"\n".to_owned();
        for (name, purposes) in [
            ("all", r#"["search", "train-ai"]"#),
            ("find", r#"["search"]"#),
            ("train", r#"["train-ai"]"#),
        ] {
            SigningKey::create(&dir.path().join(format!("keys/{name}.pem"))).unwrap();
            text +=
                &(crawler(name, name, purposes) + &format!("signing_key = \"keys/{name}.pem\"\n"));
        }
        let config = Config::from_toml_in(dir.path(), "t.toml", &text).unwrap();
        let names = mixed_names(&config);
        let found: Vec<_> = names.iter().map(|name| (name.number, name.key)).collect();
        assert_eq!(found, [(1, "purposes"), (2, "agent")]);
        assert!(names[1].text.contains("is the agent of \"find\", \"train\""), "{}", names[1].text);
    }

    /// The lines are a configuration that mixes nothing.
    #[test]
    fn the_printed_configuration_splits_the_name() {
        for discovery in ["origin", "uri"] {
            let signing =
                format!("[signing]\ndiscovery = {discovery:?}\nagent = \"https://bot.test\"\n");
            let mixed =
                signing.clone() + &crawler("news", "NewsBot", r#"["search", "train-ai", "tdm"]"#);
            let [name] = &found(&mixed)[..] else { panic!("{mixed}") };
            // The keys do not exist yet.
            let lines = name.split.lines().filter(|line| !line.starts_with("signing_key"));
            let split = signing + &lines.collect::<Vec<_>>().join("\n");
            assert_eq!(found(&split), [], "{split}");
            let config = Config::from_toml("t.toml", &split).unwrap();
            assert_eq!(config.crawlers.crawlers.len(), 2);
            assert_eq!(config.signing.agents.len(), 2, "{split}");
            let training = &config.crawlers.crawlers[1].declaration.purposes;
            assert!(training.contains(Purpose::Tdm) && training.contains(Purpose::TrainAi));
            assert_eq!(config.crawlers.crawlers[0].tokens[1].as_str(), "NewsBot");
            assert!(
                name.split.contains("wayleave keys new news-search --agent https://"),
                "{}",
                name.split
            );
        }
    }
}
