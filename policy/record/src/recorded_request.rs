//! The request behind a decision, as far as its line in the log says.

use wayleave_decision::{ResolvedTarget, Subresource, TargetScope};
use wayleave_robots_txt::{Origin, ProductToken, Target};

use super::decision_record::DecisionRecord;

/// The crawler's name in the line of a request that the proxy itself makes.
pub const WAYLEAVE: &str = "wayleave";

impl DecisionRecord {
    /// Returns whether the request was understood, so that it was decided about.
    pub fn is_decided(&self) -> bool {
        self.origin.is_some() || self.policy.is_some() || self.finding.is_some()
    }

    /// Returns whether the proxy itself made the request: for a robots.txt that was redirected, or for another document.
    pub fn is_own_request(&self) -> bool {
        // A crawler may be configured under the same name, but not without tokens.
        self.crawler == WAYLEAVE && self.tokens.is_empty()
    }

    /// Returns the target of the recorded URL.
    ///
    /// # Errors
    ///
    /// Returns an error if the line has no URL, or only the beginning of one.
    pub fn target(&self) -> Result<Target, String> {
        if self.url_bytes.is_some() {
            return Err("url: only the beginning is recorded".to_owned());
        }
        Target::parse(&self.url).map_err(|error| format!("url: {error}"))
    }

    /// Returns the target that was decided about.
    ///
    /// # Errors
    ///
    /// Returns an error if the line does not name one.
    pub fn resolved(&self) -> Result<ResolvedTarget, String> {
        let scope = self.scope()?;
        let target = match (scope, &self.origin) {
            // The URL of a tunnel is a host and a port.
            (TargetScope::EveryPath | TargetScope::Bypass, Some(origin)) => {
                let origin = Origin::parse(origin).map_err(|error| format!("origin: {error}"))?;
                Target::new(origin, "/")
            }
            _ => return Ok(ResolvedTarget { target: self.target()?, scope }),
        };
        let target = target.map_err(|error| format!("origin: {error}"))?;
        Ok(ResolvedTarget { target, scope })
    }

    /// Returns the subresource as which the request passed robots.txt, if it did.
    ///
    /// # Errors
    ///
    /// Returns an error if its kind is not known to this version.
    pub fn passed_subresource(&self) -> Result<Option<Subresource>, String> {
        let Some(subresource) = &self.subresource else {
            return Ok(None);
        };
        let kind = subresource.kind.known().ok_or_else(|| {
            format!("subresource kind {:?} is not known to this version", subresource.kind)
        })?;
        Ok(Some(Subresource { kind, page: subresource.page.as_str().into() }))
    }

    fn scope(&self) -> Result<TargetScope, String> {
        let Some(word) = &self.scope else {
            return Ok(TargetScope::Path);
        };
        word.known().ok_or_else(|| format!("scope {word:?} is not known to this version"))
    }

    /// Returns the product tokens that were looked for in robots.txt.
    ///
    /// # Errors
    ///
    /// Returns an error if one of them cannot be one.
    pub fn product_tokens(&self) -> Result<Vec<ProductToken>, String> {
        let tokens = self.tokens.iter().map(|token| ProductToken::new(token));
        let tokens = tokens.collect::<Result<_, _>>();
        tokens.map_err(|error| format!("tokens: {error}"))
    }
}
