//! SVG and MathML in a page, in which any element may be self-closing.

/// The deepest nesting that is tracked. Anything deeper is parsed as HTML; browsers also stop nesting there.
const DEPTH: usize = 512;

/// The HTML elements that end foreign content (HTML, 13.2.6.5), sorted.
const BREAKING_OUT: [&str; 44] = [
    "b",
    "big",
    "blockquote",
    "body",
    "br",
    "center",
    "code",
    "dd",
    "div",
    "dl",
    "dt",
    "em",
    "embed",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "hr",
    "i",
    "img",
    "li",
    "listing",
    "menu",
    "meta",
    "nobr",
    "ol",
    "p",
    "pre",
    "ruby",
    "s",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "sup",
    "table",
    "tt",
    "u",
    "ul",
    "var",
];

/// The elements that are tracked: those that begin foreign content, then those of SVG and MathML whose content is HTML
/// (HTML, 13.2.4.2 and 13.2.6), and a template, which is not one there.
const TRACKED: [&str; 12] = [
    "svg",
    "math",
    "foreignobject",
    "desc",
    "title",
    "annotation-xml",
    "mi",
    "mo",
    "mn",
    "ms",
    "mtext",
    "template",
];
const BEGINNING_FOREIGN: std::ops::Range<usize> = 0..2;
const HOLDING_HTML: std::ops::Range<usize> = 2..11;

/// The open elements between which HTML and foreign content change.
#[derive(Debug, Default)]
pub(super) struct ForeignElements {
    /// Their indexes in [`TRACKED`].
    open: Vec<usize>,
    /// The number of them that are open, by the same index, so that an end tag without a start tag costs nothing.
    counts: [usize; TRACKED.len()],
}

impl ForeignElements {
    /// Opens an element, and returns whether it is foreign.
    pub(super) fn open(&mut self, name: &[u8], is_closed: bool) -> bool {
        let was_foreign = self.is_inside();
        if was_foreign
            && BREAKING_OUT.binary_search_by(|element| element.as_bytes().cmp(name)).is_ok()
        {
            // Such an element ends all foreign content around it, up to an element that holds HTML.
            while self.is_inside() {
                self.pop();
            }
            return false;
        }
        // In foreign content a return to HTML matters; in HTML the start of foreign content.
        let change =
            tracked(name).filter(|element| BEGINNING_FOREIGN.contains(element) != was_foreign);
        if let Some(change) = change.filter(|_| !is_closed && self.open.len() < DEPTH) {
            self.open.push(change);
            self.counts[change] += 1;
        }
        was_foreign || change.is_some()
    }

    /// Closes an element, and returns whether it was one of those that are tracked.
    pub(super) fn close(&mut self, name: &[u8]) -> bool {
        let Some(closed) = tracked(name).filter(|element| self.counts[*element] > 0) else {
            // An end tag without a start tag is ignored.
            return false;
        };
        // Elements left open inside are closed with it.
        while self.pop() != Some(closed) {}
        true
    }

    fn pop(&mut self) -> Option<usize> {
        let last = self.open.pop()?;
        self.counts[last] -= 1;
        Some(last)
    }

    fn is_inside(&self) -> bool {
        self.open.last().is_some_and(|open| !HOLDING_HTML.contains(open))
    }
}

fn tracked(name: &[u8]) -> Option<usize> {
    TRACKED.iter().position(|element| element.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Foreign elements as a plain stack of names.
    #[derive(Default)]
    struct PlainElements(Vec<&'static str>);

    impl PlainElements {
        fn is_inside(&self) -> bool {
            self.0.last().is_some_and(|open| !TRACKED[HOLDING_HTML].contains(open))
        }

        fn open(&mut self, name: &str, is_closed: bool) -> bool {
            let was_foreign = self.is_inside();
            if was_foreign && BREAKING_OUT.contains(&name) {
                while self.is_inside() {
                    self.0.pop();
                }
                return false;
            }
            let all = if was_foreign { &TRACKED[2..] } else { &TRACKED[..2] };
            let change = all.iter().find(|element| **element == name);
            self.0.extend(change.filter(|_| !is_closed && self.0.len() < DEPTH));
            was_foreign || change.is_some()
        }

        fn close(&mut self, name: &str) -> bool {
            let open = self.0.iter().rposition(|open| *open == name);
            self.0.truncate(open.unwrap_or(self.0.len()));
            open.is_some()
        }
    }

    #[test]
    fn elements_that_end_foreign_content_are_sorted() {
        assert!(BREAKING_OUT.is_sorted());
    }

    proptest! {
        #[test]
        fn elements_are_tracked_as_by_a_plain_stack(
            tags in prop::collection::vec((any::<prop::sample::Index>(), 0..4), 0..80),
        ) {
            let names = [&TRACKED[..], &["b", "sub", "var", "x", "image"]].concat();
            let mut plain = PlainElements::default();
            let mut foreign = ForeignElements::default();
            for (name, kind) in tags {
                let name = *name.get(&names);
                let (expected, found) = match kind {
                    0 => (plain.close(name), foreign.close(name.as_bytes())),
                    kind => (plain.open(name, kind == 1), foreign.open(name.as_bytes(), kind == 1)),
                };
                prop_assert_eq!(found, expected);
                prop_assert_eq!(foreign.is_inside(), plain.is_inside());
            }
        }
    }

    #[test]
    fn deep_nesting_is_tracked_up_to_a_bound() {
        let mut foreign = ForeignElements::default();
        for _ in 0..100_000 {
            foreign.open(b"svg", false);
            foreign.open(b"desc", false);
        }
        assert_eq!(foreign.open.len(), DEPTH);
        assert!(foreign.close(b"svg") && foreign.close(b"desc") && !foreign.close(b"math"));
        assert_eq!(foreign.counts.iter().sum::<usize>(), foreign.open.len());
    }
}
