//! SVG and MathML in a page, in which any element may be self-closing.

/// The deepest nesting that is tracked. Anything deeper is parsed as HTML; browsers also stop nesting there.
const DEPTH: usize = 512;

/// The HTML elements that end foreign content (HTML, 13.2.6.5).
const BREAKING_OUT: &str = "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr \
    i img li listing menu meta nobr ol p pre ruby s small span strong strike sub sup \
    table tt u ul var";

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
        if was_foreign && BREAKING_OUT.split(' ').any(|it| it.as_bytes() == name) {
            // Such an element ends all foreign content around it, up to an element that holds HTML.
            while self.is_inside() {
                self.0.pop();
            }
            return false;
        }
        // In foreign content a return to HTML matters, and a template, which is not one there; in HTML the start of
        // foreign content.
        let in_foreign = HOLDING_HTML.iter().chain(&[b"template" as &[u8]]);
        let change = if was_foreign {
            in_foreign.copied().find(|it| *it == name)
        } else {
            [b"svg" as &[u8], b"math"].into_iter().find(|it| *it == name)
        };
        if let Some(change) = change.filter(|_| !is_closed && self.0.len() < DEPTH) {
            self.0.push(change);
        }
        was_foreign || change.is_some()
    }

    /// Closes an element, and returns whether it was one of those that are tracked.
    pub(super) fn close(&mut self, name: &[u8]) -> bool {
        // Elements left open inside are closed with it, and an end tag without a start tag is ignored.
        let open = self.0.iter().rposition(|it| *it == name);
        self.0.truncate(open.unwrap_or(self.0.len()));
        open.is_some()
    }

    fn is_inside(&self) -> bool {
        self.0.last().is_some_and(|it| !HOLDING_HTML.contains(it))
    }
}
