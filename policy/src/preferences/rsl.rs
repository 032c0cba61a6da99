//! Really Simple Licensing, RSL 1.0: what a licence document says about a page.

use roxmltree::{Document, Node, ParsingOptions};

use super::{Asker, Purpose, Reading};
use crate::robots_txt::specificity;

const NAMESPACE: &str = "https://rslstandard.org/rsl";

/// The media type by which a link to a licence is told from links to other licences.
pub(super) const MEDIA_TYPE: &str = "application/rsl+xml";

/// The elements of RSL 1.0; another one in its namespace makes a document invalid (§3).
const ELEMENTS: [&str; 15] = [
    "rsl",
    "content",
    "schema",
    "alternate",
    "license",
    "permits",
    "prohibits",
    "payment",
    "standard",
    "custom",
    "amount",
    "legal",
    "copyright",
    "terms",
    "reporting",
];

/// More nodes than any licence has; what is larger is not read.
const MAX_NODES: u32 = 50_000;

const UNREADABLE: &str = "RSL 1.0 §2.2, licence unreadable";

/// What a document says to one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Allows {
        clause: &'static str,
        attribution: bool,
    },
    Refuses {
        clause: &'static str,
    },
    Nothing,
}

/// The page a document is asked about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    /// `https://example.com`, if the URL has an origin.
    pub(super) origin: Option<&'a str>,
    /// `None`: every path.
    pub(super) path: Option<&'a str>,
    /// Whether the document was named by the page itself: then an empty `url` means the page.
    pub(super) names_it: bool,
}

const fn refuses(clause: &'static str) -> Says {
    Says::Refuses { clause }
}

/// An RSL document, parsed. One that cannot be read leaves what it is named for unlicensed.
#[derive(Clone, Debug)]
pub struct Rsl(Result<Vec<Content>, &'static str>);

/// A content element: licences for what its URL covers.
#[derive(Clone, Debug)]
struct Content {
    /// Empty: the page that names the document.
    url: String,
    has_server: bool,
    licences: Vec<Licence>,
}

/// A licence element.
#[derive(Clone, Debug)]
struct Licence {
    /// The clause by which it is for nobody here: it asks for more than attribution, or limits itself by what is not known.
    asks_more: Option<&'static str>,
    asks_attribution: bool,
    usage: Lists,
    user: Lists,
    geo: Lists,
}

/// What is permitted and what is prohibited; `None` if there is no such list.
#[derive(Clone, Debug)]
struct Lists {
    permitted: Option<Vec<String>>,
    prohibited: Option<Vec<String>>,
}

/// What a document says of a page to a purpose. A document that is named but cannot be had or read leaves the page
/// unlicensed.
pub(super) fn read(
    document: Option<&Rsl>,
    page: Page<'_>,
    purpose: Purpose,
    asker: Asker<'_>,
) -> Says {
    match document {
        None => refuses("RSL 1.0 §4.3, licence unavailable"),
        Some(Rsl(Err(clause))) => refuses(clause),
        Some(Rsl(Ok(contents))) => about(contents, page, purpose, asker),
    }
}

fn about(contents: &[Content], page: Page<'_>, purpose: Purpose, asker: Asker<'_>) -> Says {
    let covering = contents.iter();
    let covering = covering.filter_map(|content| Some((content.coverage(page)?, content)));
    let covering: Vec<_> = covering.collect();
    let most = covering.iter().map(|(coverage, _)| *coverage).max();
    let narrowest = covering
        .iter()
        .filter(|(coverage, _)| Some(*coverage) == most);
    // Of several equally narrow ones the most restrictive counts.
    let says: Vec<_> = narrowest
        .map(|(_, content)| content.says(purpose, asker))
        .collect();
    let refusing = says.iter().find(|it| matches!(it, Says::Refuses { .. }));
    let allowing = says.iter().find(|it| matches!(it, Says::Allows { .. }));
    refusing.or(allowing).copied().unwrap_or(Says::Nothing)
}

impl Rsl {
    /// Reads a document.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let text = str::from_utf8(bytes).map_err(|_| UNREADABLE);
        Self(text.and_then(contents))
    }

    /// A document that cannot be read.
    #[must_use]
    pub fn unreadable() -> Self {
        Self(Err(UNREADABLE))
    }

    /// Roughly what it holds in memory beside itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let contents = self.0.iter().flatten();
        contents.map(Content::heap_bytes).sum()
    }
}

fn contents(text: &str) -> Result<Vec<Content>, &'static str> {
    // Document type definitions are refused, and with them entities that grow.
    let options = ParsingOptions {
        nodes_limit: MAX_NODES,
        ..ParsingOptions::default()
    };
    let text = text.trim_start_matches('\u{FEFF}').trim_start();
    let document = Document::parse_with_options(text, options).map_err(|_| UNREADABLE)?;
    let is_known = |node: Node<'_, '_>| {
        node.tag_name().namespace() != Some(NAMESPACE) || ELEMENTS.contains(&node.tag_name().name())
    };
    let elements = document.descendants().filter(Node::is_element);
    if !is(document.root_element(), "rsl") || !elements.into_iter().all(is_known) {
        return Err("RSL 1.0 §3, licence invalid");
    }
    let contents = children(document.root_element(), "content");
    Ok(contents.map(Content::read).collect())
}

impl Content {
    fn read(content: Node<'_, '_>) -> Self {
        let attribute = |name| content.attribute(name).unwrap_or_default().trim();
        Self {
            url: attribute("url").to_owned(),
            has_server: !attribute("server").is_empty(),
            licences: children(content, "license").map(Licence::read).collect(),
        }
    }

    /// How narrowly it covers a page: the page itself most of all, else the length of its pattern.
    fn coverage(&self, page: Page<'_>) -> Option<usize> {
        let url = self.url.as_str();
        if url.is_empty() {
            return page.names_it.then_some(usize::MAX);
        }
        let path = match url.split_once("://") {
            None => url,
            Some((scheme, rest)) => {
                let (authority, _) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let origin = format!("{scheme}://{authority}");
                if !page
                    .origin
                    .is_some_and(|it| it.eq_ignore_ascii_case(&origin))
                {
                    return None;
                }
                url[origin.len()..].trim_start()
            }
        };
        let path = if path.is_empty() { "/" } else { path };
        page.path.map_or(Some(0), |asked| specificity(path, asked))
    }

    /// What it says: its licences are offers, of which any that fits will do.
    fn says(&self, purpose: Purpose, asker: Asker<'_>) -> Says {
        if self.has_server {
            return refuses("RSL 1.0 §3.3, licence server");
        }
        let licences = self.licences.iter();
        let says: Vec<_> = licences.map(|it| it.says(purpose, asker)).collect();
        let allowing = says.iter().find(|it| matches!(it, Says::Allows { .. }));
        let refusing = says.iter().find(|it| matches!(it, Says::Refuses { .. }));
        allowing.or(refusing).copied().unwrap_or(Says::Nothing)
    }

    fn heap_bytes(&self) -> usize {
        let licences = self.licences.iter().map(|licence| {
            let lists = [&licence.usage, &licence.user, &licence.geo];
            let words = lists
                .into_iter()
                .flat_map(|it| [&it.permitted, &it.prohibited])
                .flatten()
                .flatten();
            let words: usize = words.map(|word| size_of::<String>() + word.len()).sum();
            size_of::<Licence>() + words
        });
        size_of::<Self>() + self.url.len() + licences.sum::<usize>()
    }
}

impl Licence {
    fn read(licence: Node<'_, '_>) -> Self {
        let payments = children(licence, "payment");
        let payments = payments.map(|it| it.attribute("type").unwrap_or_default().trim());
        let payments: Vec<_> = payments.collect();
        let is_free = |kind: &&str| matches!(*kind, "free" | "attribution");
        let lists = children(licence, "permits").chain(children(licence, "prohibits"));
        let mut kinds = lists.map(|it| it.attribute("type").map(str::trim));
        let is_known = |kind| matches!(kind, Some("usage" | "user" | "geo"));
        Self {
            asks_more: if !payments.iter().all(is_free) {
                Some("RSL 1.0 §3.7, payment")
            } else if children(licence, "reporting").next().is_some() {
                Some("RSL 1.0 §3.12, reporting")
            } else {
                (!kinds.all(is_known)).then_some("RSL 1.0 §3.5, a limit of an unknown kind")
            },
            asks_attribution: payments.contains(&"attribution"),
            usage: Lists::read(licence, "usage"),
            user: Lists::read(licence, "user"),
            geo: Lists::read(licence, "geo"),
        }
    }

    fn says(&self, purpose: Purpose, asker: Asker<'_>) -> Says {
        if let Some(clause) = self.asks_more {
            return refuses(clause);
        }
        let Reading {
            rsl_user, rsl_geo, ..
        } = asker.reading;
        for (lists, own, clause) in [
            (&self.user, rsl_user, "RSL 1.0 §3.5, class of user"),
            (&self.geo, rsl_geo, "RSL 1.0 §3.5, country"),
        ] {
            let is_own = |word: &String| word.eq_ignore_ascii_case(own);
            let permitted = lists.permitted.as_ref();
            let is_permitted = permitted.is_none_or(|words| words.iter().any(is_own));
            let prohibited = lists.prohibited.as_ref();
            let is_prohibited =
                prohibited.is_some_and(|words| own.is_empty() || words.iter().any(is_own));
            if !is_permitted || is_prohibited {
                return refuses(clause);
            }
        }
        self.in_usages(purpose)
    }

    /// What the usages say: what is prohibited is, and a list of what is permitted is complete (§3.5, §3.6).
    fn in_usages(&self, purpose: Purpose) -> Says {
        let means = |word: &String| usages(purpose).contains(&word.as_str());
        // A word of RSL 0.9 for what is now `ai-input`; like all that is retired it only restricts.
        let means_still =
            |word: &String| means(word) || word == "inference" && purpose == Purpose::AiInput;
        let Lists {
            permitted,
            prohibited,
        } = &self.usage;
        if prohibited
            .as_ref()
            .is_some_and(|words| words.iter().any(means_still))
        {
            return refuses("RSL 1.0 §3.6, prohibited");
        }
        match permitted {
            None => Says::Nothing,
            Some(words) if words.iter().any(means) => Says::Allows {
                clause: "RSL 1.0 §3.5, permitted",
                attribution: self.asks_attribution,
            },
            Some(_) => refuses("RSL 1.0 §3.5, not among what is permitted"),
        }
    }
}

impl Lists {
    fn read(licence: Node<'_, '_>, kind: &str) -> Self {
        Self {
            permitted: words(licence, "permits", kind),
            prohibited: words(licence, "prohibits", kind),
        }
    }
}

/// The usages that speak of a purpose. An AI system's index is taken for input to it.
fn usages(purpose: Purpose) -> &'static [&'static str] {
    match purpose {
        Purpose::Search => &["search", "all"],
        Purpose::AiInput => &["ai-input", "ai-index", "ai-all", "all"],
        Purpose::TrainAi => &["ai-train", "ai-all", "all"],
        Purpose::Archive | Purpose::Tdm | Purpose::Other => &["all"],
    }
}

/// The words of a licence's lists of one kind, together; `None` if it has no such list. RSL 0.9 parts them by commas.
fn words(licence: Node<'_, '_>, list: &str, kind: &str) -> Option<Vec<String>> {
    let lists =
        children(licence, list).filter(|it| it.attribute("type").map(str::trim) == Some(kind));
    let mut words = None;
    for list in lists {
        let text = list.text().unwrap_or_default().to_ascii_lowercase();
        let parts = text
            .split([' ', '\t', '\r', '\n', ','])
            .filter(|it| !it.is_empty());
        words
            .get_or_insert_with(Vec::new)
            .extend(parts.map(str::to_owned));
    }
    words
}

fn is(node: Node<'_, '_>, name: &str) -> bool {
    node.has_tag_name((NAMESPACE, name))
}

fn children<'a, 'input>(
    parent: Node<'a, 'input>,
    name: &str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    parent.children().filter(move |node| is(*node, name))
}
