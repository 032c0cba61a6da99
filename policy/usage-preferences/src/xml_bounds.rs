//! Bounds on XML, checked before it is parsed, since parsing time is quadratic in these numbers.

/// The most attributes of one element.
const MAX_ATTRIBUTES: usize = 64;

/// The most namespaces declared in scope of one element.
const MAX_NAMESPACES: usize = 64;

/// Returns whether no element has more attributes, or more namespace declarations in scope, than any licence needs. For
/// text that is not XML the answer may be either.
pub(super) fn are_within_bounds(text: &str) -> bool {
    let mut rest = text;
    // The number of namespaces that each open element declares, and their sum.
    let mut open = Vec::new();
    let mut declared = 0;
    while let Some(begin) = rest.find('<') {
        rest = &rest[begin..];
        if let Some(after) = after_opaque_markup(rest) {
            rest = after;
            continue;
        }
        let tag = XmlTag::read(rest);
        rest = &rest[tag.length..];
        if tag.attributes > MAX_ATTRIBUTES || declared + tag.namespaces > MAX_NAMESPACES {
            return false;
        }
        if tag.is_end {
            declared -= open.pop().unwrap_or(0);
        } else if !tag.closes_itself {
            declared += tag.namespaces;
            open.push(tag.namespaces);
        }
    }
    true
}

/// Returns the text after a comment, CDATA section or processing instruction, if the text begins with one.
fn after_opaque_markup(text: &str) -> Option<&str> {
    let (begin, end) = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")]
        .into_iter()
        .find(|(begin, _)| text.starts_with(begin))?;
    let inside = &text[begin.len()..];
    Some(inside.split_once(end).map_or("", |(_, after)| after))
}

#[derive(Debug, Default)]
struct XmlTag {
    /// In bytes.
    length: usize,
    attributes: usize,
    namespaces: usize,
    is_end: bool,
    closes_itself: bool,
}

impl XmlTag {
    /// Parses the tag at the beginning of a text.
    fn read(text: &str) -> Self {
        let mut tag =
            Self { length: text.len(), is_end: text.starts_with("</"), ..Self::default() };
        // At `=`, `word` is the start of the attribute's name.
        let mut quote = None;
        let mut word = 0;
        for (at, byte) in text.bytes().enumerate().skip(1) {
            match byte {
                _ if quote == Some(byte) => quote = None,
                _ if quote.is_some() => {}
                b'"' | b'\'' => quote = Some(byte),
                b'=' => {
                    tag.attributes += 1;
                    tag.namespaces += usize::from(text[word..].starts_with("xmlns"));
                }
                b'>' => {
                    tag.length = at + 1;
                    tag.closes_itself = text[..at].ends_with('/');
                    break;
                }
                b' ' | b'\t' | b'\r' | b'\n' => {}
                _ if is_between(text.as_bytes()[at - 1]) => word = at,
                _ => {}
            }
        }
        tag
    }
}

/// Returns whether a word may begin after a byte.
fn is_between(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(count: usize) -> String {
        (0..count).map(|number| format!(" a{number} = '>'")).collect()
    }

    fn namespaces(count: usize) -> String {
        (0..count).map(|number| format!("\n\txmlns:a{number}=\"u\"")).collect()
    }

    #[test]
    fn an_element_has_no_more_attributes_than_any_licence_needs() {
        assert!(are_within_bounds(&format!("<a{}/><b{0}/>", attributes(64))));
        assert!(!are_within_bounds(&format!("<a><b{}/></a>", attributes(65))));
        let text = "a = 'b' ".repeat(100);
        for text in [
            format!("<!-- <a {text}> -->"),
            format!("<a><![CDATA[<b {text}>]]></a>"),
            format!("<?a {text}?>"),
            format!("<a>{text}</a>"),
            format!("<a b=\"{}\"/>", text.replace('"', "'")),
        ] {
            assert!(are_within_bounds(&text), "{text}");
        }
    }

    #[test]
    fn no_element_is_in_scope_of_more_namespaces() {
        let one = format!("<a{}></a>", namespaces(64));
        assert!(are_within_bounds(&one));
        assert!(are_within_bounds(&format!("<b>{one}{one}</b>")));
        assert!(are_within_bounds(&format!("<b>{}</b>", "<a xmlns='u'/>".repeat(100))));
        assert!(!are_within_bounds(&format!("<b xmlns='u'>{one}</b>")));
        assert!(!are_within_bounds(&"<a xmlns='u'>".repeat(65)));
    }
}
