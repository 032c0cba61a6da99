//! The group of robots.txt that gives an unknown client its pace.

use std::time::Duration;

use wayleave_decision::{Identity, group_names};
use wayleave_evidence::Sha256Digest;
use wayleave_pacing::PacingConfig;
use wayleave_robots_txt::AccessResult;

/// The longest names of a group that are kept as they are: as long as a digest in hexadecimal.
const MAX_NAME_BYTES: usize = 64;

/// Returns the names of the group, if its pace matters: a client that changes its name within a group gets no other pace by that.
/// Empty if no group is for it. An origin can write as many names as it likes, so long ones are replaced by their digest.
pub(super) fn of(
    access: &AccessResult,
    pacing: &PacingConfig,
    identity: &Identity,
    delay: Option<Duration>,
) -> String {
    // A configured crawler has the pace of its product token, whichever group it is in.
    if identity.crawler().is_some() || !pacing.needs_pace(delay) {
        return String::new();
    }
    let names = group_names(access, identity);
    if names.len() < MAX_NAME_BYTES {
        return names;
    }
    // Group names are compared without case (RFC 9309 section 2.2.1), and so are paces.
    Sha256Digest::of((names.to_ascii_lowercase() + "\n").as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use wayleave_decision::{Crawlers, CrawlersConfig, EnforcementMode};
    use wayleave_robots_txt::{Dialect, RobotsTxt};

    use super::*;

    fn group(robots_txt: &str) -> String {
        let access = AccessResult::Successful(RobotsTxt::parse(robots_txt.as_bytes()));
        let identity = Identity::Asserted {
            claim: Crawlers::new(CrawlersConfig::default()).claim(b"ExampleBot/1.0"),
            dialect: Dialect::default(),
            mode: EnforcementMode::default(),
        };
        let delay = Some(Duration::from_secs(1));
        of(&access, &PacingConfig::default(), &identity, delay)
    }

    #[test]
    fn a_group_of_many_names_has_a_digest_of_them() {
        assert_eq!(group("User-agent: ExampleBot\n"), "ExampleBot");
        let many = |last: &str| {
            let mut text = String::new();
            for number in 0..10_000 {
                writeln!(text, "User-agent: bot-{number}").unwrap();
            }
            format!("{text}User-agent: examplebot\nUser-agent: {last}\nCrawl-delay: 1\n")
        };
        assert_eq!(group(&many("a")).len(), MAX_NAME_BYTES);
        assert_eq!(group(&many("a")), group(&many("A")));
        assert_ne!(group(&many("a")), group(&many("b")));
    }
}
