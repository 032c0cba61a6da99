//! SVG and MathML in a page, in which any element may be self-closing.

/// The deepest nesting that is tracked. Anything deeper is parsed as HTML; browsers also stop nesting there.
const DEPTH: usize = 512;

/// The HTML elements that end foreign content (HTML, 13.2.6.5).
const BREAKING_OUT: [&[u8]; 44] = [
    b"b",
    b"big",
    b"blockquote",
    b"body",
    b"br",
    b"center",
    b"code",
    b"dd",
    b"div",
    b"dl",
    b"dt",
    b"em",
    b"embed",
    b"h1",
    b"h2",
    b"h3",
    b"h4",
    b"h5",
    b"h6",
    b"head",
    b"hr",
    b"i",
    b"img",
    b"li",
    b"listing",
    b"menu",
    b"meta",
    b"nobr",
    b"ol",
    b"p",
    b"pre",
    b"ruby",
    b"s",
    b"small",
    b"span",
    b"strong",
    b"strike",
    b"sub",
    b"sup",
    b"table",
    b"tt",
    b"u",
    b"ul",
    b"var",
];

/// The elements of SVG and MathML whose content is HTML (HTML, 13.2.4.2 and 13.2.6).
const HOLDING_HTML: [&[u8]; 9] =
    [b"foreignobject", b"desc", b"title", b"annotation-xml", b"mi", b"mo", b"mn", b"ms", b"mtext"];

/// The open elements between which HTML and foreign content change.
#[derive(Debug, Default)]
pub(super) struct ForeignElements(Vec<&'static [u8]>);

impl ForeignElements {
    /// Opens an element, and returns whether it is foreign.
    pub(super) fn open(&mut self, name: &[u8], is_closed: bool) -> bool {
        let was_foreign = self.is_inside();
        if was_foreign && BREAKING_OUT.contains(&name) {
            // Such an element ends all foreign content around it.
            while self.is_inside() {
                self.0.pop();
            }
            return false;
        }
        let changes: &[&'static [u8]] =
            if was_foreign { &HOLDING_HTML } else { &[b"svg", b"math"] };
        let change = changes.iter().find(|it| **it == name);
        if let Some(change) = change.filter(|_| !is_closed && self.0.len() < DEPTH) {
            self.0.push(change);
        }
        was_foreign || change.is_some()
    }

    /// Closes an element.
    pub(super) fn close(&mut self, name: &[u8]) {
        if let Some(at) = self.0.iter().rposition(|it| *it == name) {
            self.0.truncate(at);
        }
    }

    fn is_inside(&self) -> bool {
        let last = self.0.last();
        last.is_some_and(|it| !HOLDING_HTML.contains(it))
    }
}
