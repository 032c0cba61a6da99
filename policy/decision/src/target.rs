//! The target of a request, and how much of its origin it covers.

use wayleave_robots_txt::{InvalidUrl, Origin, Target};

/// The target that is decided about.
#[derive(Clone, Debug)]
pub struct ResolvedTarget {
    /// The origin and the path.
    pub target: Target,
    /// The part of the origin that the request is for.
    pub scope: TargetScope,
}

/// The part of an origin that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetScope {
    /// The target's path.
    Path,
    /// `/robots.txt`, to read it: always allowed (RFC 9309 section 2.2.2).
    RobotsTxt,
    /// The server as a whole: `OPTIONS` with the target `*` (RFC 9112 section 3.2.4). It is judged as the origin's root.
    Server,
    /// Every path: the requests inside a blind tunnel are not seen.
    EveryPath,
    /// Every path, without asking robots.txt: `https.bypass`.
    Bypass,
}

impl TargetScope {
    /// Every scope but a path, with its name in the log.
    const LOG_NAMES: [(&'static str, Self); 4] = [
        ("robots-txt", Self::RobotsTxt),
        ("server", Self::Server),
        ("every-path", Self::EveryPath),
        ("bypass", Self::Bypass),
    ];

    /// Returns the scope's name in the log; none for a path.
    #[must_use]
    pub fn log_name(self) -> Option<&'static str> {
        Self::LOG_NAMES.iter().find(|(_, scope)| *scope == self).map(|(name, _)| *name)
    }
}

impl ResolvedTarget {
    /// Returns the path that is sent.
    #[must_use]
    pub fn path(&self) -> &str {
        match self.scope {
            TargetScope::Server => "*",
            TargetScope::Path
            | TargetScope::RobotsTxt
            | TargetScope::EveryPath
            | TargetScope::Bypass => self.target.path().as_str(),
        }
    }

    /// Returns the target of a blind tunnel to `origin`.
    ///
    /// # Errors
    ///
    /// Returns an error if the origin cannot be part of a URI.
    pub fn blind(origin: Origin, scope: TargetScope) -> Result<Self, InvalidUrl> {
        let target = Target::new(origin, "/")?;
        Ok(Self { target, scope })
    }

    /// Returns whether the requests are not seen.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        matches!(self.scope, TargetScope::EveryPath | TargetScope::Bypass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_for_the_server_are_sent_for_an_asterisk() {
        let target = Target::parse("https://shop.test/a").unwrap();
        let sent = |scope| ResolvedTarget { target: target.clone(), scope }.path().to_owned();
        assert_eq!([TargetScope::Path, TargetScope::Server].map(sent), ["/a", "*"]);
    }
}
