//! Metadata of a page: its `meta` and `link` elements, and licences in `script` elements.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, State, Token, Tokenizer};
use memchr::memmem;

use super::foreign_elements::ForeignElements;
use super::link::{is_licence, is_licence_type};

/// The metadata about use in a page's elements, in the page's order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PageMetadata {
    /// The name of each `meta` element, in lower case, and its content.
    pub(super) metas: Vec<(String, String)>,
    /// The base of references, if the page sets one.
    pub(super) base: Option<String>,
    /// The references of links to RSL licences.
    pub(super) licences: Vec<String>,
    /// RSL documents embedded in the page.
    pub(super) documents: Vec<String>,
}

/// Parses a page, or the beginning of one, like a client without scripts: the content of `noscript` counts; comments,
/// text, scripts and templates do not. In XHTML elements may have prefixes, and empty elements may be self-closing.
pub(super) fn read(page: &str, is_xhtml: bool) -> PageMetadata {
    let last = last_relevant_element(page, is_xhtml);
    last.map_or_else(PageMetadata::default, |last| read_up_to(page, is_xhtml, last))
}

/// Parses a page up to the element that begins at `last`, including its text.
fn read_up_to(page: &str, is_xhtml: bool, last: usize) -> PageMetadata {
    let mut metadata = PageMetadata::default();
    let mut tokenizer = Tokenizer::new_with_emitter(page, DefaultEmitter::new_with_span());
    let mut foreign = ForeignElements::default();
    let mut templates = 0_usize;
    let mut is_document = false;
    while let Some(Ok(token)) = tokenizer.next() {
        match token {
            Token::StartTag(tag) if tag.span.start > last => break,
            Token::StartTag(tag) => {
                let name = local_name(&tag.name, is_xhtml);
                let is_foreign = foreign.open(name, tag.self_closing);
                let is_closed = tag.self_closing && (is_xhtml || is_foreign);
                is_document = templates == 0 && !is_closed && is_licence_script(name, &tag);
                // Which elements contain no markup is known to the tree builder, not to the tokenizer.
                if let Some(state) = text_state(name)
                    && !is_foreign
                    && !is_closed
                {
                    tokenizer.set_state(state);
                }
                match name {
                    // Templates are inert, and may be nested. In SVG and MathML there are none (HTML, 4.12.3).
                    b"template" if !is_closed && !is_foreign => templates += 1,
                    _ if templates == 0 => metadata.add_element(name, &tag),
                    _ => {}
                }
            }
            Token::EndTag(tag) => {
                is_document = false;
                let name = local_name(&tag.name, is_xhtml);
                if !foreign.close(name) && name == b"template" {
                    templates = templates.saturating_sub(1);
                }
            }
            Token::String(text) if is_document => {
                metadata.documents.push(String::from_utf8_lossy(&text).into_owned());
            }
            _ => {}
        }
    }
    metadata
}

impl PageMetadata {
    fn add_element(&mut self, name: &[u8], tag: &StartTag<usize>) {
        match name {
            b"meta" => self.metas.extend(meta(tag)),
            // Only the first `<base>` counts (HTML, 4.2.3).
            b"base" if self.base.is_none() => self.base = attribute(tag, "href"),
            b"link" => self.licences.extend(licence(tag)),
            _ => {}
        }
    }
}

/// Returns the name of an element without the prefix that XML allows.
fn local_name(name: &[u8], is_xhtml: bool) -> &[u8] {
    let prefix = memchr::memchr(b':', name).filter(|_| is_xhtml);
    prefix.map_or(name, |colon| &name[colon + 1..])
}

/// Returns the position of the last text that looks like the start of a relevant element. Most pages have them in the
/// head only, and this search takes a sixtieth of the time to parse the rest.
fn last_relevant_element(page: &str, is_xhtml: bool) -> Option<usize> {
    let lower_case = page.to_ascii_lowercase();
    let last =
        |name: &str, before| memmem::find_iter(&lower_case.as_bytes()[..before], name).last();
    // With a prefix the match begins at the name, slightly after the element, which is harmless for an upper bound.
    let begins = |name: &str, before| {
        let prefixed = is_xhtml.then(|| last(&format!(":{name}"), before)).flatten();
        last(&format!("<{name}"), before).max(prefixed)
    };
    // The letters of "rsl" occur in any RSL script, in its type or in its root element.
    let script = last("rsl", page.len()).and_then(|start| begins("script", start));
    let others = ["meta", "link", "base"].map(|name| begins(name, page.len()));
    others.into_iter().chain([script]).flatten().max()
}

/// Returns how the tokenizer reads the text of an element that contains no markup (HTML, 13.2.6.4).
fn text_state(name: &[u8]) -> Option<State> {
    match name {
        b"title" | b"textarea" => Some(State::RcData),
        b"script" => Some(State::ScriptData),
        b"style" | b"xmp" | b"iframe" | b"noembed" | b"noframes" => Some(State::RawText),
        b"plaintext" => Some(State::PlainText),
        _ => None,
    }
}

fn attribute(tag: &StartTag<usize>, name: &str) -> Option<String> {
    let value = tag.attributes.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn meta(tag: &StartTag<usize>) -> Option<(String, String)> {
    let name = attribute(tag, "name")?.trim().to_ascii_lowercase();
    Some((name, attribute(tag, "content")?))
}

fn licence(tag: &StartTag<usize>) -> Option<String> {
    let is_licence = is_licence(&attribute(tag, "rel")?, &attribute(tag, "type")?);
    is_licence.then(|| attribute(tag, "href"))?
}

fn is_licence_script(name: &[u8], tag: &StartTag<usize>) -> bool {
    let kind = attribute(tag, "type").unwrap_or_default();
    name == b"script" && is_licence_type(&kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn metas(page: &str) -> Vec<(String, String)> {
        read(page, false).metas
    }

    #[test]
    fn only_elements_count() {
        let meta = "<meta name=ROBOTS content=noindex>";
        let noindex = ("robots".to_owned(), "noindex".to_owned());
        for element in ["<p>", "<noscript>", "<b><i>", "<head>", "<template></template>"] {
            assert_eq!(
                metas(&format!("{element}{meta}")),
                std::slice::from_ref(&noindex),
                "{element}"
            );
        }
        for text in [
            "<!--",
            "<title>",
            "<script>",
            "<style>",
            "<textarea>",
            "<template>",
            "<xmp>",
            "<noframes>",
            "<iframe>",
        ] {
            assert_eq!(metas(&format!("{text}{meta}")), [], "{text}");
        }
    }

    #[test]
    fn an_element_that_closes_itself_has_no_text_where_it_may() {
        let meta = "<meta name=robots content=noindex />";
        for (page, is_xhtml, counts) in [
            ("<script src='a.js'/>", true, true),
            ("<title/>", true, true),
            ("<style/>", true, true),
            ("<template/>", true, true),
            ("<title>", true, false),
            ("<h:title/>", true, true),
            ("<h:script>", true, false),
            ("<title/>", false, false),
            ("<script src='a.js'/>", false, false),
            ("<svg><title/></svg>", false, true),
            ("<svg><style/>", false, true),
            ("<svg><script href='a.js'/></svg>", false, true),
            ("<math><mi>x</mi><style/></math>", false, true),
            ("<svg/><title/>", false, false),
            ("<svg></svg><title/>", false, false),
            ("<svg><p><title/>", false, false),
            ("<svg><foreignObject><title/>", false, false),
            ("<svg><foreignObject></foreignObject><title/>", false, true),
            ("<svg><title>text</title></svg>", false, true),
        ] {
            let metadata = read(&format!("{page}{meta}"), is_xhtml);
            assert_eq!(metadata.metas.len(), usize::from(counts), "{page}");
        }
    }

    #[test]
    fn a_template_in_svg_or_mathml_hides_nothing() {
        let meta = "<meta name=robots content=noindex>";
        for (page, counts) in [
            ("<svg><template></svg>", true),
            ("<svg><template>", true),
            ("<math><template></template></math>", true),
            ("<svg><desc><template>", false),
            ("<svg><foreignObject><template></template>", true),
            ("<template><svg><template></template></svg>", false),
            ("<template><svg></svg></template>", true),
            ("<svg><template></svg><template>", false),
        ] {
            assert_eq!(metas(&format!("{page}{meta}")).len(), usize::from(counts), "{page}");
        }
    }

    #[test]
    fn prefixes_are_only_read_in_xhtml() {
        let page = "<h:meta name='robots' content='noindex'/><h:link rel='license' type='application/rsl+xml' href='/l'/>";
        assert_eq!(read(page, true).metas.len(), 1);
        assert_eq!(read(page, true).licences, ["/l"]);
        assert_eq!(read(page, false), PageMetadata::default());
    }

    #[test]
    fn the_first_of_two_attributes_counts() {
        let page = "<meta name=robots content=noindex content=index name=x>";
        assert_eq!(metas(page), [("robots".to_owned(), "noindex".to_owned())]);
    }

    #[test]
    fn licences_are_linked_or_embedded_in_the_page() {
        let page = "<link rel=license href=/cc><link rel=license type=application/rsl+xml href=/l.xml>\
                    <script type='application/RSL+xml; charset=utf-8'><rsl/></script><script>1</script>";
        let metadata = read(page, false);
        assert_eq!(metadata.licences, ["/l.xml"]);
        assert_eq!(metadata.documents, ["<rsl/>"]);
    }

    const PARTS: &[&str] = &[
        "<meta name=robots content=noindex>",
        "<META NAME='a>b' content=\"<meta>\">",
        "<link rel=license type=application/rsl+xml href=/l.xml>",
        "<base href=/b/>",
        "<script type='application/&#114;sl+xml'>",
        "<Script x='>' type=\"application/RSL+xml\">",
        "<rsl xmlns='https://rslstandard.org/rsl'/>",
        "</script>",
        "<h:meta name=robots content=nosnippet />",
        "<h:script type='application/rsl+xml'>",
        "<svg>",
        "</svg>",
        "<title/>",
        "<template>",
        "</template>",
        "<title>",
        "</title>",
        "<!--",
        "-->",
        "<p title=\"",
        "\">",
        "<",
        "text",
    ];

    proptest! {
        #[test]
        fn nothing_counts_after_the_last_relevant_element(parts in prop::collection::vec(prop::sample::select(PARTS), 0..12), is_xhtml: bool) {
            let page = parts.concat();
            let whole = read_up_to(&page, is_xhtml, page.len());
            let documents = |metadata: &PageMetadata| metadata.documents.iter().filter(|document| document.contains("rsl")).cloned().collect::<Vec<_>>();
            let metadata = read(&page, is_xhtml);
            prop_assert_eq!(documents(&metadata), documents(&whole));
            prop_assert_eq!((metadata.metas, metadata.base, metadata.licences), (whole.metas, whole.base, whole.licences));
        }
    }
}
