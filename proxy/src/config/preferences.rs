//! `[preferences]`: which statements about the use of content are obeyed, and how they are read.

use bytesize::ByteSize;
use wayleave_policy::preferences::{MetaDialect, Reading, Source};

use super::file::{Node, Parsed, Section, boolean, checked, filled_list, size_or_zero, tried};
use super::robots::bytes;
use crate::decide::settings::Preferences;

/// The families that are obeyed; the others are not yet.
const SOURCES: [Source; 6] = [
    Source::ContentUsage,
    Source::ContentSignal,
    Source::AiTrainingRule,
    Source::PolicyToken,
    Source::Tdmrep,
    Source::RobotsMeta,
];

/// That much of each page may be in memory several times.
const MAX_META_SCAN: ByteSize = ByteSize::mib(1);

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
        meta_scan_bytes: bytes(section.key(
            "meta_scan",
            ByteSize::kib(64),
            checked(size_or_zero, meta_scan),
        )),
        withholds: section.word("on_answer", true, &[("withhold", true), ("label", false)]),
    }
}

fn meta_scan(size: &ByteSize) -> Result<(), String> {
    match *size > MAX_META_SCAN {
        true => Err("is more than 1MiB".to_owned()),
        false => Ok(()),
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
