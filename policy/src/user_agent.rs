//! Finds the crawler's name in a `User-Agent` field.

/// What separates names from versions, comments and addresses.
const ENDS_NAME: &[char] = &[
    '/', ';', '(', ')', ',', '+', '"', '\'', '<', '>', '[', ']', '#',
];

/// The most specific name a `User-Agent` field gives, or `None` if it gives none.
///
/// Crawlers that say `Mozilla/5.0` first put their own name after `compatible;`, into another
/// part of a comment, or at the end; anyone else's name is the first product (RFC 9110 §10.1.5:
/// "in decreasing order of their significance").
pub(crate) fn crawler_name(field: &[u8]) -> Option<String> {
    let field: String = String::from_utf8_lossy(field)
        .chars()
        .map(|c| if c.is_ascii_control() { ' ' } else { c })
        .collect();
    let field = field.trim_start_matches(|c: char| c == '"' || c == '\'' || c.is_whitespace());
    let first = leading_name(field)?;
    if !first.eq_ignore_ascii_case("mozilla") {
        return Some(first.to_owned());
    }
    after_compatible(field)
        .or_else(|| that_looks_like_a_crawler(field))
        .or(Some(first))
        .map(str::to_owned)
}

/// The name that follows the first `compatible;` which is followed by one.
fn after_compatible(field: &str) -> Option<&str> {
    let folded = field.to_ascii_lowercase();
    folded.match_indices("compatible").find_map(|(at, word)| {
        let rest = field[at + word.len()..].trim_start_matches([' ', ';', ',']);
        leading_name(rest).filter(|name| !is_browser(name))
    })
}

/// The last part of the field whose name says that it is a crawler.
fn that_looks_like_a_crawler(field: &str) -> Option<&str> {
    field
        .split([' ', ';', '(', ')', ','])
        .rev()
        .filter(|part| !part.contains("://") && !part.contains('@'))
        .filter_map(leading_name)
        .find(|name| {
            let name = name.to_ascii_lowercase();
            ["bot", "crawl", "spider"]
                .iter()
                .any(|word| name.contains(word))
        })
}

fn leading_name(text: &str) -> Option<&str> {
    let end = text
        .find(|c: char| c.is_whitespace() || ENDS_NAME.contains(&c))
        .unwrap_or(text.len());
    let name = text[..end].trim_end_matches([':', '.']);
    (!name.is_empty() && !name.starts_with("http:") && !name.starts_with("https:")).then_some(name)
}

/// What old browsers put after `compatible;`.
fn is_browser(name: &str) -> bool {
    ["msie", "mozilla", "konqueror"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}
