//! Finds the crawler's name in a `User-Agent` field.

#[cfg(test)]
mod tests;
mod words;

use words::{is_crawler_like, is_environment, is_generic, is_language, is_library};

/// The characters that separate names from versions, comments and addresses.
const NAME_DELIMITERS: &[char] =
    &['/', ';', '(', ')', ',', '+', '"', '\'', '<', '>', '[', ']', '#'];

/// The characters that separate the parts of a field.
const PART_DELIMITERS: &[char] = &[';', ',', '(', ')'];

/// Returns the most specific name that a `User-Agent` field gives, or `None` if it gives none.
///
/// The first product is the name (RFC 9110 §10.1.5: "in decreasing order of their significance"), unless it is a
/// browser's, a device's or a library's. Crawlers that put one of these first give their own name after `compatible;`,
/// as the last product, or in another part of a comment.
pub(crate) fn crawler_name(field: &[u8]) -> Option<String> {
    // Control characters separate words, so that none gets into a name and from there into a log.
    let text = String::from_utf8_lossy(field).replace(|c: char| c.is_ascii_control(), " ");
    // Some clients send the quotes of their configuration.
    let field = text.trim_start_matches(|c: char| c == '"' || c == '\'' || c.is_whitespace());
    let first = leading_name(field).or_else(|| leading_name(after_link(field)?))?;
    let is_own = own_name(field).is_some() && !is_generic(first);
    let name = if is_own && is_crawler_like(first) {
        None
    } else if is_own && !is_library(first) {
        after_compatible(field)
    } else if is_library(first) {
        after_compatible(field)
            .or_else(|| last_crawler_like_part(field))
            .or_else(|| part_of_comment(field, true))
    } else {
        after_compatible(field)
            .or_else(|| last_crawler_like_part(field).filter(|name| !is_generic(name)))
            .or_else(|| last_product(field))
            .or_else(|| part_of_comment(field, false))
            .or_else(|| last_crawler_like_part(field))
    };
    Some(name.unwrap_or(first).to_owned())
}

/// Returns the text after a link at the start, if a browser's product follows.
fn after_link(field: &str) -> Option<&str> {
    let (link, rest) = field.split_once(' ')?;
    let is_browser = rest.get(.."mozilla/".len())?.eq_ignore_ascii_case("mozilla/");
    (is_link(link) && is_browser).then_some(rest)
}

/// Returns the first own name after `compatible`, within the same comment.
fn after_compatible(field: &str) -> Option<&str> {
    const COMPATIBLE: &str = "compatible";
    let mut is_after = false;
    for piece in field.split_inclusive(PART_DELIMITERS) {
        let part = trim_part(piece.trim_end_matches(PART_DELIMITERS));
        let start = part.get(..COMPATIBLE.len()).unwrap_or_default();
        let rest = if start.eq_ignore_ascii_case(COMPATIBLE) {
            is_after = true;
            trim_part(&part[COMPATIBLE.len()..])
        } else {
            part
        };
        if is_after && let Some(name) = own_name(rest).filter(|name| !is_library(name)) {
            return Some(name);
        }
        is_after &= !piece.ends_with(')');
    }
    None
}

/// Returns the last part of the field whose name looks like a crawler's.
fn last_crawler_like_part(field: &str) -> Option<&str> {
    field
        .split([' ', ';', '(', ')', ','])
        // The last part wins: names of devices, which may look like crawlers, come first.
        .rev()
        // Links and addresses often contain `bot` without being the crawler's name.
        .filter(|part| !is_link(part))
        .filter_map(leading_name)
        .find(|name| is_crawler_like(name))
}

/// Returns the first word of the last products outside comments that are not a browser's.
fn last_product(field: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let mut name = None;
    let mut is_continued = false;
    for piece in field.split_inclusive([' ', ';', ',', '(', ')']) {
        let word = piece.trim_end_matches([' ', ';', ',', '(', ')']);
        if depth == 0 && !word.is_empty() && !matches!(word, "-" | "|") {
            let own = own_name(word).filter(|name| !is_library(name));
            // `Sucuri Integrity Monitor/2.4` and `James BOT` are one name each.
            if !is_continued {
                name = own.filter(|name| !is_generic(name)).or(name);
            }
            is_continued = own.is_some();
        }
        if piece.ends_with('(') {
            depth += 1;
            is_continued = false;
        } else if piece.ends_with(')') {
            depth = depth.saturating_sub(1);
        }
    }
    name
}

/// Returns the first own name in a comment. In comments about mobile devices, and after a library, only a name with a
/// version counts: nothing else distinguishes crawlers from models of devices.
fn part_of_comment(field: &str, is_after_library: bool) -> Option<&str> {
    let comments = field.split('(').skip(1).filter_map(|text| text.split(')').next());
    comments
        .flat_map(|comment| {
            let folded = comment.to_ascii_lowercase();
            let devices = ["android", "iphone", "ipad", "mobile", "phone"];
            let needs_version =
                is_after_library || devices.iter().any(|device| folded.contains(device));
            comment.split([';', ',']).map(move |part| (trim_part(part), needs_version))
        })
        .filter(|(part, needs_version)| !needs_version || has_version(part))
        .find_map(|(part, _)| own_name(part).filter(|name| !is_library(name)))
}

/// Returns whether a part begins with a name and its version.
fn has_version(part: &str) -> bool {
    let rest = leading_name(part).and_then(|name| part.strip_prefix(name)?.strip_prefix('/'));
    rest.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit() || c == 'v'))
}

/// Returns the name that a part begins with, unless it belongs to a browser, a device or a platform.
fn own_name(part: &str) -> Option<&str> {
    let word = part.split_whitespace().next().unwrap_or_default();
    let name = leading_name(part).filter(|_| !is_link(word))?;
    (!is_environment(name) && (word != name || !is_language(name))).then_some(name)
}

fn leading_name(text: &str) -> Option<&str> {
    let start = text.trim_start_matches('+');
    if start.starts_with("http://") || start.starts_with("https://") {
        return None;
    }
    // The one well-known crawler whose owner's name comes before its own.
    let start = start.strip_prefix("Yahoo! ").unwrap_or(start);
    // A colon or dot at the end belongs to the sentence, one inside to names such as `archive.org_bot`.
    let name = start
        .split(|c: char| c.is_whitespace() || NAME_DELIMITERS.contains(&c))
        .next()?
        .trim_end_matches([':', '.']);
    (!name.is_empty()).then_some(name)
}

/// Returns whether a word is a link or an address for mail.
fn is_link(word: &str) -> bool {
    let start = word.split('/').next().unwrap_or_default();
    word.contains("://") || start.contains('@') || start.starts_with("mailto:")
}

fn trim_part(part: &str) -> &str {
    part.trim_matches([' ', '+'])
}
