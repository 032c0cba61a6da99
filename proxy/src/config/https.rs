//! `[https]`: interception of HTTPS.

use std::path::{Path, PathBuf};

use wayleave_robots_txt::HostPattern;

use super::file::{Node, Parsed, Section, fixed, list, path_in, tried};
use crate::decide::https_mode::{self, Mode};

/// Whether and how HTTPS is intercepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Https {
    /// The directory of `ca.crt` and `ca.key`, already joined to `state.dir`.
    pub(crate) ca_dir: PathBuf,
    /// The treatment of `CONNECT`: interception, a tunnel, or a refusal.
    pub(crate) way: https_mode::Options,
}

pub(super) fn https(section: &mut Section<'_>, state_dir: &Path) -> Https {
    let modes = [Mode::Intercept, Mode::Tunnel, Mode::Refuse];
    let modes = modes.map(|mode| (mode.as_str(), mode));
    let ca_dir = state_dir.join("ca");
    Https {
        way: https_mode::Options {
            mode: section.word("mode", Mode::Intercept, &modes),
            bypass: section.key("bypass", Vec::new(), list(bypassed)),
        },
        ca_dir: section.key(fixed("ca_dir"), ca_dir, path_in(state_dir)),
    }
}

/// Parses one host, or all hosts below one. Other patterns are refused because requests to bypassed hosts are never
/// judged: it must be obvious which hosts those are.
fn bypassed(node: &Node<'_>) -> Parsed<HostPattern> {
    let pattern = tried(node, str::parse::<HostPattern>)?;
    tried(node, |text| match &pattern {
        HostPattern::Exact(_) => Ok(pattern.clone()),
        glob if glob.below().is_some() => Ok(pattern.clone()),
        _ => Err(format!(
            "{text:?} is neither a host nor all hosts below one (\"*.example.com\")"
        )),
    })
}
