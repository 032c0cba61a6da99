//! Resources: robots.txt files and other documents of origins.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use wayleave_robots_txt::{InvalidUrl, Origin, Target, UrlPath};
use wayleave_usage_preferences::DocumentKind;

/// Between a document and its holder: no URL that is cached has a fragment.
const HOLDER_MARK: &str = "#as=";

/// A resource to cache: an origin's robots.txt, or another document in which a site states preferences.
///
/// Its text form is the document's URL, or just the origin for a robots.txt, so that everything cached for an origin
/// sorts together. An answer may count only for the one that fetched it, so that others need a copy of their own: that is
/// a resource as well, with the name of its holder (`#as=HOLDER` in the text form).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    origin: Origin,
    /// `None` for the shared robots.txt. A single pointer, because there are millions of resources, nearly all of them
    /// shared robots.txt files.
    special: Option<Arc<SpecialResource>>,
}

/// The parts of a resource that is not an origin's shared robots.txt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct SpecialResource {
    /// `None` for robots.txt.
    path: Option<UrlPath<'static>>,
    /// The holder of the copy, if it is not shared.
    holder: Option<Box<str>>,
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

    /// Parses the output of [`Display`](fmt::Display), also of a copy with a holder. Not for text from outside: a URL with
    /// a fragment must not name such a copy.
    ///
    /// # Errors
    ///
    /// Those of [`Target::parse`].
    pub fn parse_key(key: &str) -> Result<Self, InvalidUrl> {
        match key.split_once(HOLDER_MARK) {
            Some((shared, holder)) => Ok(Self::parse(shared)?.held_by(holder)),
            None => Self::parse(key),
        }
    }

    /// Returns the document at `path` on an origin.
    #[must_use]
    pub fn at(origin: &Origin, path: &'static str) -> Self {
        Self::with_path(origin.clone(), UrlPath::from_checked(path.to_owned()))
    }

    fn with_path(origin: Origin, path: UrlPath<'static>) -> Self {
        let special = SpecialResource { path: Some(path), holder: None };
        Self { origin, special: Some(Arc::new(special)) }
    }

    /// Returns the copy of the same document that `holder` holds alone.
    #[must_use]
    pub fn held_by(&self, holder: &str) -> Self {
        let holder = Some(holder.into());
        let special = SpecialResource { path: self.special_path().cloned(), holder };
        Self { origin: self.origin.clone(), special: Some(Arc::new(special)) }
    }

    /// Returns the copy of the same document that is shared.
    #[must_use]
    pub fn shared(&self) -> Self {
        match self.special_path() {
            None => self.origin.clone().into(),
            Some(path) => Self::with_path(self.origin.clone(), path.clone()),
        }
    }

    /// Returns the holder of the copy; `None` if it is shared.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.special.as_ref()?.holder.as_deref()
    }

    /// Returns whether the copy may be anybody's for whom the host was chosen by the same party.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.holder().is_none_or(|holder| holder.starts_with('+'))
    }

    /// Returns whether it is an origin's robots.txt, in the copy that is shared.
    #[must_use]
    pub fn is_shared_robots_txt(&self) -> bool {
        self.special.is_none()
    }

    fn special_path(&self) -> Option<&UrlPath<'static>> {
        self.special.as_ref()?.path.as_ref()
    }

    /// Returns the origin.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the format of the document.
    #[must_use]
    pub fn kind(&self) -> DocumentKind {
        match self.special_path() {
            None => DocumentKind::RobotsTxt,
            Some(path) => DocumentKind::for_path(path.as_str()),
        }
    }

    /// Returns whether it is an origin's robots.txt.
    #[must_use]
    pub fn is_robots_txt(&self) -> bool {
        self.special_path().is_none()
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> UrlPath<'static> {
        match self.special_path() {
            None => UrlPath::from_checked("/robots.txt".to_owned()),
            Some(path) => path.clone(),
        }
    }

    /// Returns its URI.
    #[must_use]
    pub fn uri(&self) -> String {
        match self.special_path() {
            None => self.origin.robots_txt_uri(),
            Some(path) => format!("{}{path}", self.origin),
        }
    }

    /// Returns how many bytes it holds on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let special = self.special.as_deref().map_or(0, |special| {
            let path = special.path.as_ref().map_or(0, |path| path.as_str().len());
            size_of_val(special) + path + special.holder.as_ref().map_or(0, |holder| holder.len())
        });
        self.origin.heap_bytes() + special
    }
}

impl From<Origin> for Resource {
    fn from(origin: Origin) -> Self {
        Self { origin, special: None }
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
        Self::with_path(target.origin().clone(), target.path().clone())
    }
}

impl Hash for Resource {
    /// Hashes a shared robots.txt like its origin, so that the jitter of an origin never changes.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.origin.hash(state);
        if let Some(special) = &self.special {
            special.hash(state);
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if let Some(path) = self.special_path() {
            write!(f, "{path}")?;
        }
        match self.holder() {
            Some(holder) => write!(f, "{HOLDER_MARK}{holder}"),
            None => Ok(()),
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
            ("https://a.test/licence.xml?x", "", DocumentKind::Rsl),
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

    #[test]
    fn own_copies_are_named_by_keys_only() {
        for shared in ["https://a.test", "https://a.test:8443/licence.xml?x"] {
            let shared = Resource::parse(shared).unwrap();
            let own = shared.held_by("news+public");
            assert_eq!(own.to_string(), format!("{shared}#as=news+public"));
            assert_eq!(Resource::parse_key(&own.to_string()).unwrap(), own);
            assert_eq!(Resource::parse_key(&shared.to_string()).unwrap(), shared);
            assert_eq!(
                (own.shared(), own.uri(), own.kind()),
                (shared.clone(), shared.uri(), shared.kind())
            );
            assert!(own != shared && own.holder().is_some() && shared.holder().is_none());
            // Text from outside names no copy.
            let outside = Resource::parse(&own.to_string());
            assert!(outside.is_err() || outside.is_ok_and(|resource| resource.holder().is_none()));
        }
    }
}
