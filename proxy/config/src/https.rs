//! `[https]`: interception of HTTPS.

use std::path::{Path, PathBuf};

use wayleave_decision::{HttpsMode, InterceptionSettings};
use wayleave_robots_txt::HostPattern;

use super::reader::{ParseResult, Section, ValueNode, fixed, list, parse_with, path_in};

/// The interception of HTTPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpsConfig {
    /// The directory of `ca.crt` and `ca.key`, already joined to `state.dir`.
    pub ca_dir: PathBuf,
    /// The treatment of `CONNECT`: interception, a tunnel, or a refusal.
    pub interception: InterceptionSettings,
}

pub(super) fn read(section: &mut Section<'_>, state_dir: &Path) -> HttpsConfig {
    let modes = [HttpsMode::Intercept, HttpsMode::Tunnel, HttpsMode::Refuse];
    let words = modes.map(|mode| (mode.as_str(), mode));
    let ca_dir = state_dir.join("ca");
    HttpsConfig {
        interception: InterceptionSettings {
            mode: section.word("mode", HttpsMode::Intercept, &words),
            bypass: section.key("bypass", Vec::new(), list(parse_bypass)),
        },
        ca_dir: section.key(fixed("ca_dir"), ca_dir, path_in(state_dir)),
    }
}

/// Parses one host, or all hosts below one. Other patterns are refused because requests to bypassed hosts are never
/// judged: it must be obvious which hosts those are.
fn parse_bypass(node: &ValueNode<'_>) -> ParseResult<HostPattern> {
    let pattern = parse_with(node, str::parse::<HostPattern>)?;
    parse_with(node, |text| match &pattern {
        HostPattern::Exact(_) => Ok(pattern.clone()),
        glob if glob.wildcard_parent().is_some() => Ok(pattern.clone()),
        _ => Err(format!("{text:?} is neither a host nor a wildcard such as \"*.example.com\"")),
    })
}
