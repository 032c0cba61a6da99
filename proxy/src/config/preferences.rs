//! `[preferences]`: which statements about the use of content are obeyed, and how they are read.

use wayleave_policy::preferences::{MetaDialect, Reading, Source};

use super::file::{Node, Parsed, Section, boolean, filled_list, tried};
use crate::decide::settings::Preferences;

/// The families that are obeyed; the others are not yet.
const SOURCES: [Source; 5] = [
    Source::ContentUsage,
    Source::ContentSignal,
    Source::AiTrainingRule,
    Source::PolicyToken,
    Source::RobotsMeta,
];

pub(super) fn preferences(section: &mut Section<'_>) -> Preferences {
    let sources = section.key("sources", SOURCES.to_vec(), filled_list(source));
    let dialects = [("google", MetaDialect::Google), ("bing", MetaDialect::Bing)];
    Preferences {
        reading: Reading {
            sources: sources.into_iter().collect(),
            legacy_labels: section.key("legacy_labels", true, boolean),
            robots_meta: section.word("robots_meta", MetaDialect::Google, &dialects),
            ..Reading::default()
        },
        withholds: section.word("on_answer", true, &[("withhold", true), ("label", false)]),
    }
}

fn source(node: &Node<'_>) -> Parsed<Source> {
    tried(node, |name| {
        let source: Source = name.parse().map_err(|error| format!("{error}"))?;
        let is_obeyed = SOURCES.contains(&source);
        let source = is_obeyed.then_some(source);
        source.ok_or_else(|| format!("{name:?} is not supported yet"))
    })
}
