//! `[preferences]`: the statements about the use of content that are obeyed, and how they are read.

use bytesize::ByteSize;
use wayleave_admission::settings::{PreferencesConfig, RefusedResponse};
use wayleave_usage_preferences::{PreferenceSettings, PreferenceSource};

use super::reader::{
    ParseResult, Section, ValueNode, checked, non_empty_list, parse_with, size_or_zero, to_usize,
};

/// The upper bound of `meta_scan`: that much of a page can be in memory several times at once.
const MAX_META_SCAN: ByteSize = ByteSize::mib(1);

pub(super) fn read(section: &mut Section<'_>) -> PreferencesConfig {
    let default = PreferenceSource::OPTIONAL.to_vec();
    let sources = section.key("sources", default, non_empty_list(parse_source));
    let treatments = [("withhold", RefusedResponse::Withhold), ("label", RefusedResponse::Label)];
    PreferencesConfig {
        reading: PreferenceSettings {
            sources: sources.into_iter().collect(),
            rsl_user: section.key("rsl_user", String::new(), parse_rsl_word),
            rsl_geo: section.key("rsl_geo", String::new(), parse_country),
        },
        meta_scan_bytes: to_usize(section.key(
            "meta_scan",
            ByteSize::kib(64),
            checked(size_or_zero, check_meta_scan),
        )),
        refused_response: section.word("on_answer", RefusedResponse::Withhold, &treatments),
    }
}

fn check_meta_scan(size: &ByteSize) -> Result<(), String> {
    if *size > MAX_META_SCAN { Err("is more than 1MiB".to_owned()) } else { Ok(()) }
}

fn parse_source(node: &ValueNode<'_>) -> ParseResult<PreferenceSource> {
    parse_with(node, str::parse)
}

/// Parses a word that can occur in the lists of RSL, where spaces separate words; an empty string means none.
fn parse_rsl_word(node: &ValueNode<'_>) -> ParseResult<String> {
    parse_with(node, |word| {
        if word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            Ok(word.to_owned())
        } else {
            Err("is not a word of letters, digits and \"-\"")
        }
    })
}

/// Parses a country code as used in RSL's lists (ISO 3166-1 alpha-2); an empty string means none. The name of a country is a
/// mistake: it would never match the codes that a licence excludes.
fn parse_country(node: &ValueNode<'_>) -> ParseResult<String> {
    parse_with(node, |code| {
        let is_code = code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_alphabetic());
        if code.is_empty() || is_code {
            Ok(code.to_owned())
        } else {
            Err("is not a two-letter country code, such as \"DE\"")
        }
    })
}
