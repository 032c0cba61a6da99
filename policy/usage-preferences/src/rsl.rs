//! Really Simple Licensing, RSL 1.0: the verdict of a licence document about a page.

use std::sync::Arc;

use roxmltree::{Document, Node, ParsingOptions};
use wayleave_robots_txt::Origin;
use wayleave_robots_txt::internal::{
    PathReading, PreferenceMatcher, PreferenceSelection, TooCostly,
};

use super::{LicencePrice, PreferenceQuery, PreferenceSettings, Purpose, xml_bounds};

const NAMESPACE: &str = "https://rslstandard.org/rsl";

/// The media type that distinguishes links to RSL licences from links to other licences.
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

/// The most XML nodes of a document, far more than any licence has; a larger document is not read.
const MAX_NODES: u32 = 50_000;

const PROHIBITED: &str = "RSL 1.0 §3.6, prohibited";
const UNREADABLE: &str = "RSL 1.0 §2.2, licence unreadable";

/// The verdict of a document for one purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LicenceVerdict {
    Allows {
        clause: &'static str,
        attribution: bool,
    },
    /// `price`: the sum that the licence asks for, if it states one.
    Refuses {
        clause: &'static str,
        price: Option<Arc<LicencePrice>>,
    },
    Nothing,
}

impl LicenceVerdict {
    const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refuses { .. })
    }
}

/// The content elements of a document that cover a page.
#[derive(Clone, Debug, Default)]
pub(super) struct CoveredContent {
    /// The elements for each reading of the page's path.
    readings: Vec<PathReading>,
    /// The elements that cover the page whatever its path: those for the page that names the document, and those that
    /// cannot be read.
    always: Vec<(ContentCoverage, usize)>,
}

/// The verdict of a document that cannot be fetched.
pub(super) const UNAVAILABLE: LicenceVerdict = refuses("RSL 1.0 §4.3, licence unavailable");

const fn refuses(clause: &'static str) -> LicenceVerdict {
    LicenceVerdict::Refuses { clause, price: None }
}

/// A parsed RSL document. One that cannot be read leaves the pages that name it unlicensed.
#[derive(Clone, Debug)]
pub struct RslLicence(Result<Box<[RslContent]>, &'static str>);

/// A content element: licences for the pages that its URL covers.
#[derive(Clone, Debug)]
struct RslContent {
    scope: ContentScope,
    has_server: bool,
    licences: Box<[LicenceElement]>,
}

/// The narrowness with which a content element covers a page; wider is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ContentCoverage {
    /// Its URL cannot be read, so any page may be meant. Such an element only restricts.
    Unclear,
    /// It covers the page by a pattern of this length.
    Pattern(usize),
    /// It names the page itself.
    Page,
}

/// The pages that a content element covers.
#[derive(Clone, Debug)]
enum ContentScope {
    /// A page, whatever its path.
    Always(ContentCoverage),
    /// The paths that match a pattern, on one origin or on the one that the document is read for.
    Paths(Option<Origin>, Box<str>),
}

impl ContentScope {
    fn read(url: &str) -> Self {
        if url.is_empty() {
            return Self::Always(ContentCoverage::Page);
        }
        let (origin, path) = match url.split_once("://") {
            // A URL that begins with a slash is a path, whatever it contains.
            Some((scheme, rest)) if !url.starts_with('/') => {
                let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
                let Ok(origin) = Origin::parse(&format!("{scheme}://{authority}")) else {
                    return Self::Always(ContentCoverage::Unclear);
                };
                (Some(origin), path.trim_start())
            }
            _ => (None, url),
        };
        let path = if path.is_empty() { "/" } else { path };
        Self::Paths(origin, path.into())
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Self::Always(_) => 0,
            Self::Paths(origin, path) => path.len() + origin.as_ref().map_or(0, Origin::heap_bytes),
        }
    }
}

/// A licence element.
#[derive(Clone, Debug)]
struct LicenceElement {
    /// The clause that excludes everyone here: it asks for more than attribution, or restricts itself by an unknown
    /// criterion.
    excluding_clause: Option<&'static str>,
    requires_attribution: bool,
    /// The price of the first way to pay that states one.
    price: Option<Arc<LicencePrice>>,
    usage: LimitLists,
    user: LimitLists,
    geo: LimitLists,
}

/// The permitted and the prohibited words of one kind; `None` if there is no such list.
#[derive(Clone, Debug)]
struct LimitLists {
    permitted: Option<Words>,
    prohibited: Option<Words>,
}

/// Words in lower case, separated by spaces: a document may have a hundred thousand lists.
#[derive(Clone, Debug)]
struct Words(Box<str>);

impl Words {
    fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split_ascii_whitespace()
    }
}

/// Returns the verdict of a document about a page, which may name it or not, for a purpose. An unreadable document
/// leaves the page unlicensed.
pub(super) fn evaluate(
    RslLicence(contents): &RslLicence,
    covered: &CoveredContent,
    names_page: bool,
    purpose: Purpose,
    query: PreferenceQuery<'_>,
) -> LicenceVerdict {
    let contents = match contents {
        Ok(contents) => contents,
        Err(clause) => return refuses(clause),
    };
    let always = covered
        .always
        .iter()
        .filter(|(coverage, _)| names_page || *coverage != ContentCoverage::Page)
        .map(|(coverage, index)| (*coverage, &contents[*index]));
    let verdict = |reading: Option<&PathReading>| {
        let matched = reading.into_iter().flat_map(|reading| &reading.matched).map(|matched| {
            (ContentCoverage::Pattern(matched.specificity), &contents[matched.index])
        });
        narrowest_verdict(matched.chain(always.clone()), purpose, query)
    };
    let as_received = verdict(covered.readings.iter().find(|reading| !reading.only_restricts));
    if as_received.is_refusal() {
        return as_received;
    }
    // Another spelling of the path restricts and never permits.
    let others = covered.readings.iter().filter(|reading| reading.only_restricts);
    others
        .map(|reading| verdict(Some(reading)))
        .find(LicenceVerdict::is_refusal)
        .unwrap_or(as_received)
}

/// Returns the verdict of the narrowest elements that cover a page and mention the purpose (§3.1.2); among equally
/// narrow ones the most restrictive wins.
fn narrowest_verdict<'a>(
    covering: impl Iterator<Item = (ContentCoverage, &'a RslContent)>,
    purpose: Purpose,
    query: PreferenceQuery<'_>,
) -> LicenceVerdict {
    let verdicts: Vec<_> = covering
        .map(|(coverage, content)| (coverage, content.evaluate(purpose, query)))
        .filter(|(coverage, verdict)| match verdict {
            LicenceVerdict::Refuses { .. } => true,
            LicenceVerdict::Allows { .. } => *coverage > ContentCoverage::Unclear,
            // A narrower element hides a wider one only for the usages that it mentions.
            LicenceVerdict::Nothing => false,
        })
        .collect();
    // An element that cannot be read may be the narrowest one.
    let unclear = verdicts.iter().find(|(it, _)| *it == ContentCoverage::Unclear);
    let most = verdicts.iter().map(|(coverage, _)| *coverage).max();
    let mut narrowest = verdicts.iter().filter(|(coverage, _)| Some(*coverage) == most);
    let refusing = narrowest.clone().chain(unclear).find(|(_, verdict)| verdict.is_refusal());
    let deciding = refusing.or_else(|| narrowest.next());
    deciding.map_or(LicenceVerdict::Nothing, |(_, verdict)| verdict.clone())
}

impl RslLicence {
    /// Parses a document.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let text = str::from_utf8(bytes).map_err(|_| UNREADABLE);
        Self(text.and_then(contents))
    }

    /// Returns a document that cannot be read.
    #[must_use]
    pub fn unreadable() -> Self {
        Self(Err(UNREADABLE))
    }

    /// Returns the part of it that covers a path of an origin.
    pub(super) fn covered_content(
        &self,
        origin: Option<&Origin>,
        matcher: &mut PreferenceMatcher,
    ) -> Result<CoveredContent, TooCostly> {
        let Self(Ok(contents)) = self else {
            return Ok(CoveredContent::default());
        };
        let mut indices = Vec::new();
        let mut patterns = Vec::new();
        let mut always = Vec::new();
        for (index, content) in contents.iter().enumerate() {
            match &content.scope {
                ContentScope::Always(coverage) => always.push((*coverage, index)),
                ContentScope::Paths(of, pattern) if of.is_none() || of.as_ref() == origin => {
                    indices.push(index);
                    patterns.push(pattern.as_bytes());
                }
                ContentScope::Paths(..) => {}
            }
        }
        // Spent even on elements of other origins, since a document may have thousands.
        matcher.context.budget.spend(contents.len());
        let mut readings = matcher.readings(patterns, PreferenceSelection::All)?;
        if matcher.path().is_none() {
            // Without a path all elements apply, including those that permit.
            readings.iter_mut().for_each(|reading| reading.only_restricts = false);
        }
        for matched in readings.iter_mut().flat_map(|reading| &mut reading.matched) {
            matched.index = indices[matched.index];
            // Each element is evaluated once for each purpose.
            if !matcher.context.budget.spend_on_reading(contents[matched.index].heap_bytes() / 16) {
                return Err(TooCostly);
            }
        }
        Ok(CoveredContent { readings, always })
    }

    /// Returns roughly how many bytes it holds on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.0.iter().flat_map(|contents| contents.iter()).map(RslContent::heap_bytes).sum()
    }
}

fn contents(text: &str) -> Result<Box<[RslContent]>, &'static str> {
    // The parser refuses document type definitions, and with them entities that grow.
    let options = ParsingOptions { nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let xml = text.trim_start_matches('\u{FEFF}').trim_start();
    // The parser is quadratic in attributes and namespaces, so they are bounded first.
    if !xml_bounds::are_within_bounds(xml) {
        return Err(UNREADABLE);
    }
    let document = Document::parse_with_options(xml, options).map_err(|_| UNREADABLE)?;
    let root = document.root_element();
    let mut elements = document.descendants().filter(Node::is_element);
    let has_unknown = elements.any(|element| {
        let name = element.tag_name();
        name.namespace() == Some(NAMESPACE) && !ELEMENTS.contains(&name.name())
    });
    if has_unknown || !has_name(root, "rsl") {
        return Err("RSL 1.0 §3, licence invalid");
    }
    Ok(children(root, "content").map(RslContent::read).collect())
}

impl RslContent {
    fn read(content: Node<'_, '_>) -> Self {
        let attribute = |name| content.attribute(name).unwrap_or_default().trim();
        Self {
            scope: ContentScope::read(attribute("url")),
            has_server: !attribute("server").is_empty(),
            licences: children(content, "license").map(LicenceElement::read).collect(),
        }
    }

    /// Returns its verdict: its licences are offers, any of which suffices, but a use that one of them prohibits is not
    /// on offer.
    fn evaluate(&self, purpose: Purpose, query: PreferenceQuery<'_>) -> LicenceVerdict {
        // A licence server would have to be asked for a token, which wayleave does not do.
        if self.has_server {
            let price = self.licences.iter().find_map(|licence| licence.price.clone());
            return LicenceVerdict::Refuses { clause: "RSL 1.0 §3.3, licence server", price };
        }
        if self.licences.iter().any(|licence| licence.prohibits(purpose, query)) {
            return refuses(PROHIBITED);
        }
        let verdicts: Vec<_> =
            self.licences.iter().map(|licence| licence.evaluate(purpose, query)).collect();
        // Any one offer suffices, whatever the others ask for.
        let allowing =
            verdicts.iter().find(|verdict| matches!(verdict, LicenceVerdict::Allows { .. }));
        let refusing = verdicts.iter().find(|verdict| verdict.is_refusal());
        allowing.or(refusing).cloned().unwrap_or(LicenceVerdict::Nothing)
    }

    fn heap_bytes(&self) -> usize {
        let licences = self.licences.iter().map(|licence| {
            let words = [&licence.usage, &licence.user, &licence.geo]
                .into_iter()
                .flat_map(|lists| [&lists.permitted, &lists.prohibited])
                .flatten();
            size_of::<LicenceElement>() + words.map(|Words(words)| words.len()).sum::<usize>()
        });
        size_of::<Self>() + self.scope.heap_bytes() + licences.sum::<usize>()
    }
}

impl LicenceElement {
    fn read(licence: Node<'_, '_>) -> Self {
        let payments: Vec<_> = children(licence, "payment")
            .map(|child| child.attribute("type").unwrap_or_default().trim())
            .collect();
        // A payment of a missing or unknown type may ask for money.
        let lists = children(licence, "permits").chain(children(licence, "prohibits"));
        // A list of an unknown kind limits the licence in a way that cannot be checked.
        let mut kinds = lists.map(|list| list.attribute("type").map(str::trim));
        Self {
            excluding_clause: if !payments
                .iter()
                .all(|kind| matches!(*kind, "free" | "attribution"))
            {
                Some("RSL 1.0 §3.7, payment")
            } else if children(licence, "reporting").next().is_some() {
                Some("RSL 1.0 §3.12, reporting")
            } else {
                (!kinds.all(|kind| matches!(kind, Some("usage" | "user" | "geo"))))
                    .then_some("RSL 1.0 §3.5, a limit of an unknown kind")
            },
            requires_attribution: payments.contains(&"attribution"),
            price: children(licence, "payment")
                .flat_map(|payment| children(payment, "amount"))
                .find_map(|child| {
                    let currency = child.attribute("currency").unwrap_or_default();
                    LicencePrice::read(child.text().unwrap_or_default(), currency)
                })
                .map(Arc::new),
            usage: LimitLists::read(licence, "usage"),
            user: LimitLists::read(licence, "user"),
            geo: LimitLists::read(licence, "geo"),
        }
    }

    fn evaluate(&self, purpose: Purpose, query: PreferenceQuery<'_>) -> LicenceVerdict {
        if let Some(clause) = self.excluding_clause {
            return LicenceVerdict::Refuses { clause, price: self.price.clone() };
        }
        for (lists, own, clause) in self.limits(query.settings) {
            if !lists.permits(own) || lists.may_prohibit(own) {
                return refuses(clause);
            }
        }
        self.evaluate_usages(purpose)
    }

    /// Returns the limits by class of user and by country: the lists, our own value, and the clause.
    fn limits<'a>(
        &'a self,
        settings: &'a PreferenceSettings,
    ) -> [(&'a LimitLists, &'a str, &'static str); 2] {
        [
            (&self.user, &settings.rsl_user, "RSL 1.0 §3.5, class of user"),
            (&self.geo, &settings.rsl_geo, "RSL 1.0 §3.5, country"),
        ]
    }

    /// Returns whether it prohibits a purpose to us, whatever else it asks for. A licence that is evidently for others
    /// does not.
    fn prohibits(&self, purpose: Purpose, query: PreferenceQuery<'_>) -> bool {
        let for_others = self.limits(query.settings).into_iter().any(|(lists, own, _)| {
            !own.is_empty() && (!lists.permits(own) || lists.may_prohibit(own))
        });
        !for_others && self.evaluate_usages(purpose) == refuses(PROHIBITED)
    }

    /// Returns the verdict of the usage lists: a prohibition refuses, and a list of permitted usages is exhaustive
    /// (§3.5, §3.6).
    fn evaluate_usages(&self, purpose: Purpose) -> LicenceVerdict {
        let means = |word: &str| usages(purpose).contains(&word);
        // A word of RSL 0.9 for the present `ai-input`; like all retired words it only restricts.
        let means_still =
            |word: &str| means(word) || word == "inference" && purpose == Purpose::AiInput;
        let LimitLists { permitted, prohibited } = &self.usage;
        if prohibited.as_ref().is_some_and(|words| words.iter().any(means_still)) {
            return refuses(PROHIBITED);
        }
        match permitted {
            None => LicenceVerdict::Nothing,
            Some(words) if words.iter().any(means) => LicenceVerdict::Allows {
                clause: "RSL 1.0 §3.5, permitted",
                attribution: self.requires_attribution,
            },
            Some(_) => refuses("RSL 1.0 §3.5, not among what is permitted"),
        }
    }
}

impl LimitLists {
    fn permits(&self, own: &str) -> bool {
        self.permitted
            .as_ref()
            .is_none_or(|words| words.iter().any(|word| word.eq_ignore_ascii_case(own)))
    }

    /// Returns whether it prohibits our own value, or might if that is unspecified.
    fn may_prohibit(&self, own: &str) -> bool {
        let is_own = |word: &str| word.eq_ignore_ascii_case(own);
        self.prohibited.as_ref().is_some_and(|words| own.is_empty() || words.iter().any(is_own))
    }

    fn read(licence: Node<'_, '_>, kind: &str) -> Self {
        Self {
            permitted: words(licence, "permits", kind),
            prohibited: words(licence, "prohibits", kind),
        }
    }
}

/// Returns the usages that include a purpose. An AI system's index counts as input to it.
fn usages(purpose: Purpose) -> &'static [&'static str] {
    match purpose {
        Purpose::Search => &["search", "all"],
        Purpose::AiInput => &["ai-input", "ai-index", "ai-all", "all"],
        Purpose::TrainAi => &["ai-train", "ai-all", "all"],
        Purpose::Archive | Purpose::Tdm | Purpose::Other => &["all"],
    }
}

/// Returns the words of all of a licence's lists of one kind; `None` if it has none. RSL 0.9 separates them by commas.
fn words(licence: Node<'_, '_>, list: &str, kind: &str) -> Option<Words> {
    let mut words: Option<String> = None;
    for list in children(licence, list) {
        if list.attribute("type").map(str::trim) != Some(kind) {
            continue;
        }
        let words = words.get_or_insert_default();
        // A comment splits the text node, but not the word.
        words.extend(list.children().filter(Node::is_text).filter_map(|node| node.text()));
        words.push(' ');
    }
    words.map(|words| Words(words.trim().replace(',', " ").to_ascii_lowercase().into()))
}

fn has_name(node: Node<'_, '_>, name: &str) -> bool {
    node.has_tag_name((NAMESPACE, name))
}

fn children<'a, 'input>(
    parent: Node<'a, 'input>,
    name: &str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    parent.children().filter(move |node| has_name(*node, name))
}
