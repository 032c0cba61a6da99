//! What a page says of itself: `meta` and `link` elements, and licences in `script` elements.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, State, Token, Tokenizer};
use memchr::memmem;

use super::link::is_licence;
use super::rsl::MEDIA_TYPE;

/// What the elements of a page say about its use, in its order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// The name of each `meta` element, in lower case, and its content.
    pub(super) metas: Vec<(String, String)>,
    /// Where references start from, if the page says so.
    pub(super) base: Option<String>,
    /// The references of links to RSL licences.
    pub(super) licences: Vec<String>,
    /// RSL documents that stand in the page.
    pub(super) documents: Vec<String>,
}

/// Reads a page, or the beginning of one, as a client without scripts does: what stands in `noscript` counts; comments, text,
/// scripts and templates do not.
pub(super) fn read(page: &str) -> Said {
    last_that_may_count(page).map_or_else(Said::default, |last| read_up_to(page, last))
}

/// Reads a page as far as the element that begins at `last`, with the text in it.
fn read_up_to(page: &str, last: usize) -> Said {
    let mut said = Said::default();
    let mut tokenizer = Tokenizer::new_with_emitter(page, DefaultEmitter::new_with_span());
    let mut templates = 0_usize;
    let mut is_document = false;
    while let Some(Ok(token)) = tokenizer.next() {
        match token {
            Token::StartTag(tag) if tag.span.start > last => break,
            Token::StartTag(tag) => {
                is_document = templates == 0 && is_licence_script(&tag);
                if let Some(state) = text_state(&tag.name) {
                    tokenizer.set_state(state);
                }
                match &**tag.name {
                    b"template" => templates += 1,
                    b"meta" if templates == 0 => said.metas.extend(meta(&tag)),
                    b"base" if templates == 0 && said.base.is_none() => {
                        said.base = attribute(&tag, "href");
                    }
                    b"link" if templates == 0 => said.licences.extend(licence(&tag)),
                    _ => {}
                }
            }
            Token::EndTag(tag) => {
                is_document = false;
                if &**tag.name == b"template" {
                    templates = templates.saturating_sub(1);
                }
            }
            Token::String(text) if is_document => {
                said.documents
                    .push(String::from_utf8_lossy(&text).into_owned());
            }
            _ => {}
        }
    }
    said
}

/// Where the last element begins that may say something, or what only looks like one. Most pages have theirs in the head, and to search
/// the rest takes a sixtieth of the time to read it.
fn last_that_may_count(page: &str) -> Option<usize> {
    let page = page.to_ascii_lowercase();
    let last = |name: &str, before| memmem::find_iter(&page.as_bytes()[..before], name).last();
    // An RSL document has these letters, if not in its type then in its root element.
    let script = last("rsl", page.len()).and_then(|it| last("<script", it));
    let others = ["<meta", "<link", "<base"].map(|name| last(name, page.len()));
    others.into_iter().chain([script]).flatten().max()
}

/// How the text in an element is read where it is not markup (HTML, 13.2.6.4).
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

fn is_licence_script(tag: &StartTag<usize>) -> bool {
    let kind = attribute(tag, "type").unwrap_or_default();
    &**tag.name == b"script" && kind.trim().eq_ignore_ascii_case(MEDIA_TYPE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn metas(page: &str) -> Vec<(String, String)> {
        read(page).metas
    }

    #[test]
    fn only_elements_count() {
        let meta = "<meta name=ROBOTS content=noindex>";
        let noindex = ("robots".to_owned(), "noindex".to_owned());
        for element in [
            "<p>",
            "<noscript>",
            "<b><i>",
            "<head>",
            "<template></template>",
        ] {
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
    fn the_first_of_two_attributes_counts() {
        let page = "<meta name=robots content=noindex content=index name=x>";
        assert_eq!(metas(page), [("robots".to_owned(), "noindex".to_owned())]);
    }

    #[test]
    fn licences_are_linked_to_or_stand_in_the_page() {
        let page = "<link rel=license href=/cc><link rel=license type=application/rsl+xml href=/l.xml>\
                    <script type='application/rsl+xml'><rsl/></script><script>1</script>";
        let said = read(page);
        assert_eq!(said.licences, ["/l.xml"]);
        assert_eq!(said.documents, ["<rsl/>"]);
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
        fn nothing_is_said_behind_the_last_that_may_count(parts in prop::collection::vec(prop::sample::select(PARTS), 0..12)) {
            let page = parts.concat();
            let whole = read_up_to(&page, page.len());
            let documents = |said: &Said| said.documents.iter().filter(|it| it.contains("rsl")).cloned().collect::<Vec<_>>();
            let said = read(&page);
            prop_assert_eq!(documents(&said), documents(&whole));
            prop_assert_eq!((said.metas, said.base, said.licences), (whole.metas, whole.base, whole.licences));
        }
    }
}
