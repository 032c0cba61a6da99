//! Resources: robots.txt files and other documents of origins.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use wayleave_robots_txt::{InvalidUrl, Origin, Target, UrlPath};
use wayleave_usage_preferences::DocumentKind;

/// A resource to cache: an origin's robots.txt, or another document in which a site states preferences.
///
/// Its text form is the document's URL, or just the origin for a robots.txt, so that everything cached for an origin
/// sorts together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    origin: Origin,
    /// `None` for robots.txt. A single pointer, because there are millions of resources, nearly all of them robots.txt.
    path: Option<Arc<UrlPath<'static>>>,
}

impl Resource {
    /// Parses the output of [`Display`](fmt::Display), or the URL of a document other than an origin's robots.txt.
    ///
    /// # Errors
    ///
    /// Those of [`Target::parse`].
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        match Origin::parse(text) {
            // `https://host/` with a slash is the document at the root.
            Ok(origin) if !text.ends_with('/') => Ok(origin.into()),
            _ => Target::parse(text).map(Self::from),
        }
    }

    /// Returns the document at `path` on an origin.
    #[must_use]
    pub fn at(origin: &Origin, path: &'static str) -> Self {
        Self {
            origin: origin.clone(),
            path: Some(Arc::new(UrlPath::from_checked(path.to_owned()))),
        }
    }

    /// Returns the origin.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the format of the document.
    #[must_use]
    pub fn kind(&self) -> DocumentKind {
        match &self.path {
            None => DocumentKind::RobotsTxt,
            Some(path) => DocumentKind::for_path(path.as_str()),
        }
    }

    /// Returns whether it is an origin's robots.txt.
    #[must_use]
    pub fn is_robots_txt(&self) -> bool {
        self.path.is_none()
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> UrlPath<'static> {
        match &self.path {
            None => UrlPath::from_checked("/robots.txt".to_owned()),
            Some(path) => UrlPath::clone(path),
        }
    }

    /// Returns its URI.
    #[must_use]
    pub fn uri(&self) -> String {
        match &self.path {
            None => self.origin.robots_txt_uri(),
            Some(path) => format!("{}{path}", self.origin),
        }
    }

    /// Returns how many bytes it holds on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let path = self.path.as_deref().map_or(0, |it| size_of_val(it) + it.as_str().len());
        self.origin.heap_bytes() + path
    }
}

impl From<Origin> for Resource {
    fn from(origin: Origin) -> Self {
        Self { origin, path: None }
    }
}

impl From<&Origin> for Resource {
    fn from(origin: &Origin) -> Self {
        origin.clone().into()
    }
}

impl From<&Self> for Resource {
    fn from(resource: &Self) -> Self {
        resource.clone()
    }
}

/// Returns the document that a request for this target would fetch.
impl From<Target> for Resource {
    fn from(target: Target) -> Self {
        Self { origin: target.origin().clone(), path: Some(Arc::new(target.path().clone())) }
    }
}

impl Hash for Resource {
    /// Hashes a robots.txt like its origin, so that the jitter of an origin never changes.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.origin.hash(state);
        if let Some(path) = &self.path {
            path.hash(state);
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            None => write!(f, "{}", self.origin),
            Some(path) => write!(f, "{}{path}", self.origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_read_from_its_text() {
        for (text, uri, kind) in [
            ("https://a.test", "https://a.test/robots.txt", DocumentKind::RobotsTxt),
            ("http://a.test:81/.well-known/tdmrep.json", "", DocumentKind::Tdmrep),
            ("http://a.test/ai.txt", "", DocumentKind::AiTxt),
            ("https://a.test/ai.txt?x", "", DocumentKind::Rsl),
            ("https://a.test/", "", DocumentKind::Rsl),
            ("https://a.test/robots.txt", "", DocumentKind::Rsl),
        ] {
            let resource = Resource::parse(text).unwrap();
            assert_eq!(resource.to_string(), text);
            assert_eq!(resource.uri(), if uri.is_empty() { text } else { uri });
            assert_eq!(resource.kind(), kind, "{text}");
            assert_eq!(resource.is_robots_txt(), kind == DocumentKind::RobotsTxt);
        }
        assert!(Resource::parse("gopher://a.test/x").is_err());
        assert!(Resource::parse("/x").is_err());
    }

    #[test]
    fn documents_of_one_origin_are_distinct() {
        let origin = Origin::parse("https://a.test").unwrap();
        let robots = Resource::from(&origin);
        let tdmrep = Resource::at(&origin, "/.well-known/tdmrep.json");
        assert_ne!(robots, tdmrep);
        assert_eq!(tdmrep, Resource::parse(&tdmrep.to_string()).unwrap());
        assert_eq!(robots.origin(), tdmrep.origin());
    }
}
